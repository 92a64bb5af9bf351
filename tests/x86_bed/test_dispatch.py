"""Which kernels the library chooses on CPUs and under operating systems unlike the host's."""

from __future__ import annotations

import json
import platform
import shutil
from types import ModuleType
from typing import Any

import pytest

import oracle
from emulated_cases import decode, product_cases

CPUS = (
    "penryn",
    "sandy-bridge",
    "haswell",
    "ryzen",
    "skylake-x",
    "icelake",
    "arrow-lake",
    "sapphire-rapids",
    "icelake-os-without-avx512",
    "icelake-os-without-avx",
    "icelake-os-without-xsave",
)
# The library's order of preference, least first.
PREFERENCE = ("portable", "avx2", "avxvnni", "avx512bw", "avx512vnni")
# Dot product instructions and the CPUs that must not have them, with and without the state.
MISSING = (
    ("avx512_vnni", "skylake-x"),
    ("avx512_vnni", "icelake-os-without-avx512"),
    ("avx512bw", "arrow-lake"),
    ("avx_vnni", "icelake"),
    ("avx_vnni", "penryn"),
)
PRESENT = (
    ("avx512_vnni", "icelake"),
    ("avx512_vnni_vl", "icelake"),
    ("avx512bw", "skylake-x"),
    ("avx_vnni", "arrow-lake"),
)


@pytest.fixture(scope="module")
def bed() -> ModuleType:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        pytest.skip("the x86 bed runs on x86-64 Linux")
    if shutil.which("apt-get") is None:
        pytest.skip("the x86 bed takes Bochs from Debian's packages; this system has no apt-get")
    import bed as module

    module.build()
    return module


def features(bed: ModuleType, cpu: str, **environment: str) -> dict[str, Any]:
    outcome = bed.run_program(
        bed.cpu_named(cpu), bed.RUNNER, ["features"], environment=environment
    ).check()
    found: dict[str, Any] = json.loads(outcome.stdout)
    return found


def test_every_cpu_of_the_bed_is_tested(bed: ModuleType) -> None:
    assert tuple(cpu.name for cpu in bed.CPUS) == CPUS


@pytest.mark.parametrize("name", CPUS)
def test_the_fastest_usable_isa_is_chosen_and_computes_right(bed: ModuleType, name: str) -> None:
    cpu = bed.cpu_named(name)
    found = features(bed, name)
    usable = [isa for isa, reason in found["unavailable"].items() if not reason]
    assert sorted(usable) == sorted(cpu.isas)
    assert found["selected"] == max(cpu.isas, key=PREFERENCE.index)

    # The same machine computes with it, and refuses the ISAs that it lacks instead of faulting.
    cases = product_cases()[:6]
    stdin = b"".join(case.encode(PREFERENCE) for case in cases)
    outcome = bed.run_program(cpu, bed.RUNNER, ["cases"], stdin=stdin).check()
    for case, answers in zip(
        cases, decode(outcome.stdout, cases, [PREFERENCE] * len(cases)), strict=True
    ):
        reference = oracle.matmul(case.a, case.weights, case.bias, compute=case.compute)
        for isa in PREFERENCE:
            if isa in cpu.isas:
                assert not answers[isa].error
                assert answers[isa].c is not None
                oracle.assert_matches(answers[isa].c, reference, f"{isa} on {name}, {case}")
            else:
                assert f"ISA {isa} can't run here" in answers[isa].error


@pytest.mark.parametrize("isa", PREFERENCE)
@pytest.mark.parametrize("name", ["haswell", "sapphire-rapids"])
def test_the_environment_variable_forces_an_isa(bed: ModuleType, name: str, isa: str) -> None:
    found = features(bed, name, ORT_MLAS_ISA=isa)
    if isa in bed.cpu_named(name).isas:
        assert found["selected"] == isa
    else:
        assert found["selected"] is None
        assert f"ORT_MLAS_ISA={isa} can't run here" in found["error"]


def test_state_that_the_operating_system_does_not_save_is_the_reason(bed: ModuleType) -> None:
    found = features(bed, "icelake-os-without-avx512")
    assert "AVX-512 state" in found["unavailable"]["avx512vnni"]
    found = features(bed, "icelake-os-without-avx")
    assert "does not save AVX registers" in found["unavailable"]["avx2"]


@pytest.mark.parametrize(("instruction", "name"), MISSING)
def test_the_bed_faults_on_what_the_cpu_lacks(bed: ModuleType, instruction: str, name: str) -> None:
    """Else a kernel with a wrong instruction would pass unnoticed."""
    outcome = bed.run_program(bed.cpu_named(name), bed.RUNNER, ["instruction", instruction])
    assert outcome.fault is not None
    assert "illegal instruction in the program" in str(outcome.fault)


@pytest.mark.parametrize(("instruction", "name"), PRESENT)
def test_the_bed_executes_what_the_cpu_has(bed: ModuleType, instruction: str, name: str) -> None:
    bed.run_program(bed.cpu_named(name), bed.RUNNER, ["instruction", instruction]).check()
