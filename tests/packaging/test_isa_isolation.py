"""Instructions stay where the dispatcher expects them.

Code that runs before an ISA is chosen must not hold an instruction that the machine may lack, and
an ISA's object must not hold instructions of a wider one.
"""

from __future__ import annotations

import collections
import platform
import re
from pathlib import Path

import pytest

import binaries
from binaries import Instruction, TranslationUnit

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="reads x86-64 machine code; this machine is another"
)

# Measures the machine's peak rates with inline assembly, each loop behind its own feature check.
INLINE_ASSEMBLY = {"calibrate_arm64.cpp", "calibrate_x86.cpp"}


@pytest.fixture(scope="module")
def units() -> tuple[TranslationUnit, ...]:
    return binaries.translation_units(binaries.build_folder())


def kernels_of(units: tuple[TranslationUnit, ...], isa: str) -> list[Instruction]:
    (unit,) = [unit for unit in units if unit.source.name == f"kernels_{isa}.cpp"]
    return binaries.disassemble(unit.object_file)


def dots(instructions: list[Instruction]) -> list[Instruction]:
    return [one for one in instructions if "vpdpbusd" in one.text]


@pytest.mark.parametrize(
    ("code", "encoding"),
    [
        ("c5fdfec1", "vex"),  # vpaddd %ymm1,%ymm0,%ymm0
        ("c4e27550c2", "vex"),  # {vex} vpdpbusd %ymm2,%ymm1,%ymm0
        ("62f2752850c2", "evex"),  # vpdpbusd %ymm2,%ymm1,%ymm0
        ("64c5fa6f00", "vex"),  # vmovdqu %fs:(%rax),%xmm0
        ("660ffec1", "legacy"),  # paddd %xmm1,%xmm0
        ("0f01d0", "legacy"),  # xgetbv
    ],
)
def test_encodings_are_told_apart(code: str, encoding: str) -> None:
    assert binaries.encoding_of(bytes.fromhex(code)) == encoding


def test_only_the_isa_translation_units_have_machine_flags(
    units: tuple[TranslationUnit, ...],
) -> None:
    flagged = {unit.source.name for unit in units if unit.machine_flags}
    assert flagged == {
        f"kernels_{isa}.cpp" for isa in ("avx2", "avxvnni", "avx512bw", "avx512vnni")
    }
    for unit in units:
        assert not [flag for flag in unit.machine_flags if flag.startswith("-march")], unit


def test_baseline_objects_hold_no_vector_extension(units: tuple[TranslationUnit, ...]) -> None:
    baseline = [
        unit for unit in units if not unit.machine_flags and unit.source.name not in INLINE_ASSEMBLY
    ]
    names = {unit.source.name for unit in baseline}
    assert {"cpu.cpp", "kernels.cpp", "kernels_portable.cpp", "gemm.cpp", "native.cpp"} <= names
    for unit in baseline:
        instructions = binaries.disassemble(unit.object_file)
        assert instructions, f"objdump found no code in {unit.object_file}"
        wide = [one.text for one in instructions if one.encoding != "legacy"]
        assert not wide, f"{unit.source.name}: {wide[:5]}"


def test_avx2_object(units: tuple[TranslationUnit, ...]) -> None:
    instructions = kernels_of(units, "avx2")
    assert any(one.encoding == "vex" and "%ymm" in one.text for one in instructions)
    assert not [one.text for one in instructions if one.encoding == "evex"]
    assert not dots(instructions)


def test_avxvnni_object(units: tuple[TranslationUnit, ...]) -> None:
    instructions = kernels_of(units, "avxvnni")
    assert {one.encoding for one in dots(instructions)} == {"vex"}
    assert not [one.text for one in instructions if one.encoding == "evex"]


def test_avx512bw_object(units: tuple[TranslationUnit, ...]) -> None:
    instructions = kernels_of(units, "avx512bw")
    assert any(one.encoding == "evex" and "%zmm" in one.text for one in instructions)
    assert not [one.text for one in instructions if re.search(r"vpdp(bu|ws)s", one.text)]


def test_avx512vnni_object(units: tuple[TranslationUnit, ...]) -> None:
    instructions = dots(kernels_of(units, "avx512vnni"))
    assert any(one.encoding == "evex" and "%zmm" in one.text for one in instructions)


def test_no_function_is_shared_between_objects_of_different_isas(
    units: tuple[TranslationUnit, ...],
) -> None:
    """An inline function compiled for two ISAs under one name: the linker keeps either of them."""
    owners: dict[str, dict[tuple[str, ...], list[str]]] = collections.defaultdict(dict)
    for unit in units:
        for name in binaries.weak_functions(unit.object_file):
            owners[name].setdefault(unit.machine_flags, []).append(unit.source.name)
    clashes = {
        name: sorted({source for sources in by_flags.values() for source in sources})
        for name, by_flags in owners.items()
        if len(by_flags) > 1
    }
    assert not clashes


def test_build_folder_is_the_one_of_this_checkout(units: tuple[TranslationUnit, ...]) -> None:
    sources = {unit.source.resolve() for unit in units}
    kernels: Path = binaries.REPOSITORY / "onnxruntime_mlas" / "qnbit" / "kernels.cpp"
    assert kernels in sources
