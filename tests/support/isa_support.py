"""Which kernel rows and ISAs tests may run here, which they must, and which they did.

A row that the machine can't execute never becomes a test, so it can't be counted as passed; the
terminal summary lists it as not executed. ORT_MLAS_REQUIRED_ISAS turns "can't be executed here"
into a failure for the ISAs it names.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

REQUIRED_ISAS_VARIABLE = "ORT_MLAS_REQUIRED_ISAS"

# The flags by which the Linux kernel reports each ISA. It masks those whose registers it doesn't
# save, and it knows nothing of the detector under test.
_CPUINFO_FLAGS = {
    "portable": frozenset[str](),
    "avx2": frozenset({"avx2", "fma", "f16c"}),
    "avxvnni": frozenset({"avx2", "fma", "f16c", "avx_vnni"}),
    "avx512bw": frozenset({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"}),
    "avx512vnni": frozenset(
        {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}
    ),
    "neon": frozenset({"asimd"}),
    "neon_dotprod": frozenset({"asimd", "asimddp"}),
    "neon_i8mm": frozenset({"asimd", "asimddp", "i8mm"}),
}

_executed: set[str] = set()


class KernelRow(dict[str, Any]):
    """A row of _native.kernels() with a readable pytest id."""

    @property
    def name(self) -> str:
        return str(self["name"])

    def __repr__(self) -> str:
        return self.name


def isas_by_cpuinfo(cpuinfo: str) -> frozenset[str]:
    """ISAs that the text of a /proc/cpuinfo reports."""
    flags: set[str] = set()
    for line in cpuinfo.splitlines():
        if line.split(":")[0].strip() in ("flags", "Features"):  # x86-64, ARM64
            flags.update(line.partition(":")[2].split())
            break
    return frozenset(isa for isa, needed in _CPUINFO_FLAGS.items() if needed <= flags)


def parse_required(value: str, cpuinfo: str) -> frozenset[str]:
    """ISAs that a value of ORT_MLAS_REQUIRED_ISAS names.

    Raises:
        ValueError: a name that no build of the project knows.
    """
    required: set[str] = set()
    for name in filter(None, (part.strip() for part in value.split(","))):
        if name == "host":
            required |= isas_by_cpuinfo(cpuinfo)
        elif name in _CPUINFO_FLAGS:
            required.add(name)
        else:
            known = ", ".join(["host", *_CPUINFO_FLAGS])
            raise ValueError(f"{REQUIRED_ISAS_VARIABLE}: unknown ISA '{name}' (known: {known})")
    return frozenset(required)


@functools.cache
def required_isas() -> frozenset[str]:
    """ISAs that this run must execute; empty when it declares none."""
    value = os.environ.get(REQUIRED_ISAS_VARIABLE, "")
    cpuinfo = Path("/proc/cpuinfo")
    return parse_required(value, cpuinfo.read_text() if cpuinfo.exists() else "")


@functools.cache
def kernel_rows() -> tuple[KernelRow, ...]:
    """Every kernel row of the build under test."""
    from onnxruntime_ep_mlas import _native

    return tuple(KernelRow(row) for row in _native.kernels())


def executable_kernel_rows(**fields: object) -> list[KernelRow]:
    """Rows that can run here and whose fields equal `fields`, e.g. compute="int8".

    As a pytest parameter, a row counts as executed once a test that has it as parameter passes;
    a test that loops over rows itself says so with `record_executed`.
    """
    return [
        row
        for row in kernel_rows()
        if not row["unavailable_reason"]
        and all(row[field] == wanted for field, wanted in fields.items())
    ]


@functools.cache
def isa_unavailable_reasons() -> dict[str, str]:
    """Reason by ISA name, empty for those that can run here."""
    from onnxruntime_ep_mlas import _native

    return {isa["name"]: isa["unavailable_reason"] for isa in _native.isas()}


def isas_of_this_build() -> list[str]:
    """Names of the ISAs that the build has kernels of, usable or not, slowest first."""
    with_rows = {row["isa"] for row in kernel_rows()}
    return [name for name in isa_unavailable_reasons() if name in with_rows]


def usable_isas() -> list[str]:
    """Names of the ISAs that can run here, slowest first."""
    return [name for name, reason in isa_unavailable_reasons().items() if not reason]


def isa_of_rows(isa: str, compute: str) -> str:
    """The ISA of the rows that `isa` runs: on ARM64 no later ISA has anything for fp32."""
    return "neon" if compute == "fp32" and isa.startswith("neon") else isa


def need_isa(name: str) -> None:
    """Skips the calling test when `name` can't run here, or fails it when the run requires it."""
    reason = isa_unavailable_reasons().get(name, "this build doesn't know it")
    if not reason:
        return
    if name in required_isas():
        pytest.fail(f"{REQUIRED_ISAS_VARIABLE} requires ISA {name}, but {reason}")
    pytest.skip(f"ISA {name}: {reason}")


def record_executed(row_names: str | Iterable[str]) -> None:
    """Notes that the named rows ran in the calling test."""
    _executed.update([row_names] if isinstance(row_names, str) else row_names)


def executed_rows() -> frozenset[str]:
    return frozenset(_executed)


def missing_executions() -> list[str]:
    """A sentence per required ISA of which no kernel row was executed in this session."""
    ran = {row["isa"] for row in kernel_rows() if row.name in _executed}
    return [
        f"no kernel test executed a row of ISA {isa}: "
        + (isa_unavailable_reasons().get(isa, "this build doesn't know it") or "none was collected")
        for isa in sorted(required_isas() - ran)
    ]
