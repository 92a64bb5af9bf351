"""The kernel library on numpy arrays, kernel by kernel.

Every argument is checked before memory is touched: a wrong dtype, shape, layout or value raises
ValueError with a sentence that names the argument, and so does a packed buffer that is damaged or
foreign. The GIL is released while the library works; arrays must not change meanwhile.

Dims: M rows of A, N columns of the weights, K their rows, k_blocks = ceil(K / block_size).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

def cpu_features() -> dict[str, bool | str]:
    """What the CPU offers and the OS lets a program use, by name; "brand" is the CPU's own name,
    "core" the micro-architecture of an ARM64 core ("unknown" elsewhere)."""

def isas() -> list[dict[str, str]]:
    """All ISAs, slowest first: name, instructions, unavailable_reason ("" = usable)."""

def select_isa(requested: str | None = None, m: int = 1) -> str:
    """The ISA whose kernels run a product of M rows: `requested`, else environment variable
    ORT_MLAS_ISA, else the one that `isa_choice` gives for M.

    Raises:
        ValueError: an ISA that doesn't exist or this machine can't run.
    """

def isa_choice(requested: str | None = None) -> dict[str, Any]:
    """Which ISA runs how many rows: one_row (M = 1), few_rows (2 <= M < many_from), many_rows
    (M >= many_from), many_from. A requested ISA, or one forced by ORT_MLAS_ISA, runs them all.

    Raises:
        ValueError: as for `select_isa`.
    """

def default_isas(fastest: str, core: str) -> dict[str, Any]:
    """`isa_choice` of a machine whose fastest usable ISA and kind of core these are; it need not be
    this machine.

    Raises:
        ValueError: an ISA or a core that doesn't exist.
    """

def kernels() -> list[dict[str, Any]]:
    """Every kernel row of this build: name, family, isa, format, bits, compute ("int8", "fp32"),
    path ("fused", "panel"), tile_rows, tile_columns, block_lengths, unavailable_reason ("" =
    usable)."""

def pack(
    codes: npt.NDArray[np.uint8],
    scales: npt.NDArray[np.float32],
    zero_points: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None = None,
    *,
    k: int,
    block_size: int,
    bits: int = 2,
    threads: int = 1,
    general: bool = False,
    format: str = "quad",  # noqa: A002
) -> npt.NDArray[np.uint8]:
    """Packs weights in MatMulNBits' layout into a buffer that every kernel of its format reads.

    Args:
        codes: uint8 [N, k_blocks, block_size * bits / 8], least significant bits first.
        scales: float32 [N, k_blocks].
        zero_points: uint8 [N, ceil(k_blocks * bits / 8)], packed, or float32 [N, k_blocks]; None
            means 2^(bits-1).
        general: take fp32 scales and the given kind of zero point without looking for a smaller
            representation.
        format: "quad", or "column", the baseline that quad kernels are measured against.

    Returns:
        uint8 [bytes], 64-byte aligned.
    """

def packed_info(packed: npt.NDArray[np.uint8], verify_checksum: bool = True) -> dict[str, Any]:
    """What a packed buffer holds: n, k, bits, block_size, scale_type ("fp16", "fp32"),
    zero_point_kind ("uniform", "per_block", "float"), uniform_zero_point, format, bytes."""

def unpack(
    packed: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Codes as `pack` takes them with zeros past K, scales, and zero points as float32
    [N, k_blocks]. The checksum is verified."""

def regroup(
    codes: npt.NDArray[np.uint8],
    scales: npt.NDArray[np.float32],
    zero_points: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None,
    g_idx: npt.NDArray[np.int32],
    *,
    k: int,
    block_size: int,
    bits: int = 2,
) -> tuple[
    npt.NDArray[np.uint8],
    npt.NDArray[np.float32],
    npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None,
    npt.NDArray[np.int32] | None,
]:
    """Brings weights whose scale groups, g_idx int32 [K], are scattered over K into blocks.

    Returns:
        codes, scales and zero points of a matrix with K' = len(gather), and gather int32 [K']: the
        column of A that each k reads, -1 for padding. With gather None the weights are the given
        ones, as every k lies in its own block already.
    """

def matmul_nbits(
    a: npt.NDArray[Any],
    packed: npt.NDArray[np.uint8],
    *,
    bias: npt.NDArray[np.float32] | None = None,
    compute: str = "int8",
    isa: str | None = None,
    kernel: str | None = None,
    threads: int = 1,
    gather: npt.NDArray[np.int32] | None = None,
    out: npt.NDArray[Any] | None = None,
    workspace: npt.NDArray[np.uint8] | None = None,
) -> npt.NDArray[Any]:
    """a @ dequantised(packed).T + bias.

    The packed buffer's header is checked, its checksum is not: call `packed_info` once for that.

    Args:
        a: float32, float16 or (of the package ml_dtypes) bfloat16 [M, >= K]; rows may be strided,
            columns past K are not read. Sums are float32 for each.
        packed: as from `pack`, 64-byte aligned.
        bias: float32 [N].
        compute: "int8" (accuracy_level 4) or "fp32" (every other level).
        isa: as for `select_isa`.
        kernel: name of the row that does all whole tiles; it brings its own ISA and must read the
            format of `packed`.
        threads: 1 to 256.
        gather: int32 [K] as from `regroup`: the column of `a` that each k reads, or -1.
        out: [M, N] of a's dtype to write to; rows may be strided. May overlap no input.
        workspace: uint8, 64-byte aligned, at least `workspace_bytes` long.

    Returns:
        `out`, or a new array [M, N] of a's dtype.
    """

def workspace_bytes(
    m: int,
    packed: npt.NDArray[np.uint8],
    *,
    compute: str = "int8",
    isa: str | None = None,
    kernel: str | None = None,
    gather: bool = False,
    type: str = "float32",  # noqa: A002
) -> int:
    """Bytes of workspace that `matmul_nbits` needs for M rows of that dtype's name."""

def kernels_for(
    m: int, packed: npt.NDArray[np.uint8], *, compute: str = "int8", isa: str | None = None
) -> list[str]:
    """Names of the rows that `matmul_nbits` uses for M rows, main tile first.

    An ISA that has no int8 rows for the format of `packed` uses the portable ones.
    """

def quantize_activations(
    a: npt.NDArray[np.float32], block_size: int, isa: str | None = None
) -> tuple[
    npt.NDArray[np.int8],
    npt.NDArray[np.float32],
    npt.NDArray[np.int32],
    npt.NDArray[np.uint8],
]:
    """A rounded to int8 per row and block, as compute "int8" does it.

    Args:
        a: float32 [M, K]; rows may be strided.

    Returns:
        q int8 [M, k_blocks * block_size], scales float32 [M, k_blocks], sums of q int32
        [M, k_blocks], and uint8 [M]: 1 for rows that run as "fp32" instead, because they hold a
        non-finite value or a block so small that 127 / amax overflows. The first three mean nothing
        in such a row.
    """

def time_matmul(
    a: npt.NDArray[Any],
    packed: npt.NDArray[np.uint8] | Sequence[npt.NDArray[np.uint8]],
    *,
    compute: str,
    isa: str | None = None,
    kernel: str | None = None,
    threads: int = 1,
    calls: int,
    bias: npt.NDArray[np.float32] | None = None,
    gather: npt.NDArray[np.int32] | None = None,
) -> list[float]:
    """Seconds that each of `calls` products took, timed in C++ with everything prepared.

    Several packed matrices of one N are used in turn, so that they stay out of the cache.
    """

def clock_hz() -> float:
    """Clock rate of this core under load, measured."""

def peak_instructions() -> list[dict[str, str | int]]:
    """Instructions whose peak can be measured: name, description, ops, unavailable_reason."""

def peak_ops(instruction: str) -> float:
    """Operations per second of one core from registers; a multiply-add counts as two.

    Raises:
        ValueError: an instruction that is not in `peak_instructions`.
        RuntimeError: it can't run here, or the result is implausible.
    """

def check_peak(instruction: str, ops_per_second: float, clock_hz: float) -> None:
    """Raises RuntimeError when a measured peak can't be right at that clock rate."""

def read_bandwidth(bytes: int) -> float:  # noqa: A002
    """Bytes per second that one core reads from a working set of that size."""
