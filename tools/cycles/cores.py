"""The cores that are modelled, and what stands in for instructions that a model lacks."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Substitution:
    """An instruction without a schedule, priced as another of the same pipes and latency."""

    pattern: re.Pattern[str]
    replacement: str
    reason: str


@dataclass(frozen=True)
class Core:
    """A core that LLVM has a scheduling model of its own for."""

    name: str  # argument of -mcpu
    found_in: str
    vector_units: re.Pattern[str]  # names of the vector pipes among the model's resources
    substitutions: tuple[Substitution, ...] = ()


_ORYON_SUBSTITUTIONS = (
    Substitution(
        re.compile(r"^(u?s?u?dot\s+v\d+\.4s, v\d+\.16b, v\d+)\.4b\[\d\]$"),
        r"\1.16b",
        "dot by element as the dot of whole vectors, as in every model that has both",
    ),
    Substitution(
        re.compile(r"^[us]cvtf(\s+v\d+\.4s, v\d+)\.4s$"),
        r"fcvtl\1.4h",
        "vector SCVTF as FCVTL: all vector conversions that the model has take any pipe, 3 cycles",
    ),
    Substitution(
        re.compile(r"^ldu?r[bh]?\s+[wx](\d+), \[(x\d+|sp)(?:, #-?\d+)?\]$"),
        r"ldur x\1, [\2]",
        "loads of general registers as LDUR of 64 bits, the one that the model has",
    ),
)

CORES = (
    Core("oryon-1", "Snapdragon X", re.compile(r"^ORYONP1[2-5]FP\d$"), _ORYON_SUBSTITUTIONS),
    Core("neoverse-n1", "Graviton 2, Ampere Altra; like Cortex-A76", re.compile(r"^N1UnitV\d$")),
    Core("neoverse-n2", "Azure Cobalt 100", re.compile(r"^N2UnitV\d$")),
    Core("neoverse-v1", "Graviton 3", re.compile(r"^V1UnitV\d$")),
    Core("neoverse-v2", "Graviton 4, Grace, Axion", re.compile(r"^V2UnitV\d$")),
    Core("neoverse-v3", "Graviton 5, Cobalt 200", re.compile(r"^V3UnitV\d$")),
    Core("cortex-a55", "small core of phones, in order", re.compile(r"^CortexA55UnitFP")),
    Core("cortex-a510", "small core of phones, in order", re.compile(r"^CortexA510UnitVALU\d$")),
)


def core_named(name: str) -> Core:
    for core in CORES:
        if core.name == name:
            return core
    raise ValueError(f"no core '{name}'; the names are {', '.join(core.name for core in CORES)}")
