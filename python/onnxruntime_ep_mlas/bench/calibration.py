"""What the machine can do at most: which instruction's peak a kernel is measured against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import _native
from ..parity import Compute

__all__ = ["Peak", "Peaks", "best_peak", "peaks_for"]

# Per ISA: instructions whose peak stands for the ISA, the first that can run here is taken. VEX and
# EVEX forms of VPDPBUSD have the same peak; a machine may have either.
_INT8: dict[str, tuple[str, ...]] = {
    "avx2": ("vpmaddubsw_sequence_ymm",),
    "avxvnni": ("vpdpbusd_ymm_vex", "vpdpbusd_ymm_evex"),
    "avx512bw": ("vpmaddubsw_sequence_zmm",),
    "avx512vnni": ("vpdpbusd_zmm",),
    "neon": ("smlal",),
    "neon_dotprod": ("sdot",),
    "neon_i8mm": ("smmla",),
}
_FP32: dict[str, tuple[str, ...]] = {
    "avx2": ("fma_ymm",),
    "avxvnni": ("fma_ymm",),
    "avx512bw": ("fma_zmm",),
    "avx512vnni": ("fma_zmm",),
    "neon": ("fmla",),
    "neon_dotprod": ("fmla",),
    "neon_i8mm": ("fmla",),
}
# Without VNNI a kernel may add several 16-bit products before widening them, and so pass the peak
# of the three-instruction sequence, but not that of the multiplication and one 16-bit addition.
_CEILING: dict[str, str] = {
    "vpmaddubsw_sequence_ymm": "vpmaddubsw_int16_ymm",
    "vpmaddubsw_sequence_zmm": "vpmaddubsw_int16_zmm",
}


@dataclass(frozen=True)
class Peak:
    """Operations per second of one core. Nothing may be faster than `ceiling_ops`."""

    instruction: str
    ops: float
    ceiling_instruction: str
    ceiling_ops: float


@dataclass(frozen=True)
class Peaks:
    """Chooses an ISA's peak. `measure` gives an instruction's operations per second."""

    available: frozenset[str]
    measure: Callable[[str], float]

    @classmethod
    def of_this_machine(cls) -> Peaks:
        rows = _native.peak_instructions()
        names = frozenset(str(row["name"]) for row in rows if not row["unavailable_reason"])
        return cls(names, _native.peak_ops)

    def instruction(self, isa: str, compute: Compute) -> str | None:
        """The instruction that stands for the ISA, or None where no peak is defined."""
        table = _INT8 if compute == "int8" else _FP32
        return next((name for name in table.get(isa, ()) if name in self.available), None)

    def peak(self, isa: str, compute: Compute) -> Peak | None:
        """Measures now. RuntimeError when the machine is too disturbed for a plausible peak."""
        instruction = self.instruction(isa, compute)
        if instruction is None:
            return None
        ops = self.measure(instruction)
        ceiling = _CEILING.get(instruction)
        if ceiling is None:
            return Peak(instruction, ops, instruction, ops)
        return Peak(instruction, ops, ceiling, self.measure(ceiling))


def best_peak(peaks: Sequence[Peak]) -> Peak:
    """The highest of several measurements of one instruction: disturbances only lower a peak."""
    return Peak(
        peaks[0].instruction,
        max(peak.ops for peak in peaks),
        peaks[0].ceiling_instruction,
        max(peak.ceiling_ops for peak in peaks),
    )


def peaks_for(
    peaks: Peaks, wanted: Sequence[tuple[str, Compute]]
) -> dict[tuple[str, Compute], Peak]:
    """Measures each distinct (ISA, compute type) that has a peak."""
    found = {}
    for isa, compute in dict.fromkeys(wanted):
        peak = peaks.peak(isa, compute)
        if peak is not None:
            found[isa, compute] = peak
    return found
