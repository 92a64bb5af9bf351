"""Instructions of the aarch64 objects stay where the dispatcher expects them.

The same rules as for x86-64 (tests/packaging/test_isa_isolation.py), read by LLVM's objdump, since
the host's own knows no ARM64.
"""

from __future__ import annotations

import collections
import re
from pathlib import Path
from types import ModuleType

import pytest

import binaries
from binaries import TranslationUnit

# Mnemonics that a machine without the extension doesn't execute (Arm ARM, A2.2 and C7.2).
DOTPROD = {"sdot", "udot"}
I8MM = {"smmla", "ummla", "usmmla", "usdot", "sudot"}
OTHERS = {"bfdot", "bfmmla", "bfmlalb", "bfmlalt", "bfcvtn", "fmlal", "fmlal2", "smopa", "fmopa"}
# Atomics of Armv8.1, which a compiler may use outright when it is told of a newer machine.
ATOMICS = re.compile(r"(ldadd|ldclr|ldset|swp|cas)(a|l|al)?[bh]?")

# May hold, and what must be among it, by ISA.
PERMITTED = {
    "neon": (set[str](), set[str]()),
    "neon_dotprod": (DOTPROD, {"sdot"}),
    "neon_i8mm": (DOTPROD | I8MM, set[str]()),
}
# Measures the machine's peak rates with inline assembly, each loop behind its own feature check.
INLINE_ASSEMBLY = {"calibrate_arm64.cpp"}


@pytest.fixture(scope="module")
def units(wheel: Path) -> tuple[TranslationUnit, ...]:
    assert wheel.exists()
    from release import build_wheels

    folder = build_wheels.build_folder(build_wheels.target_of("aarch64"))
    return binaries.translation_units(folder)


@pytest.fixture(scope="module")
def llvm() -> ModuleType:
    import llvm as module

    module.fetch()
    return module


def mnemonics(llvm: ModuleType, object_file: Path) -> collections.Counter[str]:
    done = llvm.run("llvm-objdump", "-d", "--mattr=+all", "--no-show-raw-insn", str(object_file))
    assert done.returncode == 0, done.stderr
    found: collections.Counter[str] = collections.Counter()
    for line in done.stdout.splitlines():
        if match := re.match(r"\s*[0-9a-f]+:\s+(\S+)", line):
            found[match[1].partition(".")[0]] += 1
    assert found, f"llvm-objdump found no code in {object_file}"
    return found


def extensions(found: collections.Counter[str]) -> set[str]:
    vector = {name for name in found if name in DOTPROD | I8MM | OTHERS}
    return vector | {name for name in found if ATOMICS.fullmatch(name)}


def test_only_the_isa_translation_units_have_machine_flags(
    units: tuple[TranslationUnit, ...],
) -> None:
    flags = {unit.source.name: unit.machine_flags for unit in units if unit.machine_flags}
    assert set(flags) == {"kernels_neon_dotprod.cpp", "kernels_neon_i8mm.cpp"}
    assert all("dotprod" in " ".join(words) for words in flags.values())
    assert "i8mm" not in " ".join(flags["kernels_neon_dotprod.cpp"])


def test_baseline_objects_hold_no_extension(
    units: tuple[TranslationUnit, ...], llvm: ModuleType
) -> None:
    baseline = [
        unit for unit in units if not unit.machine_flags and unit.source.name not in INLINE_ASSEMBLY
    ]
    names = {unit.source.name for unit in baseline}
    assert {"cpu.cpp", "kernels.cpp", "kernels_portable.cpp", "gemm.cpp", "native.cpp"} <= names
    assert "kernels_neon.cpp" in names
    for unit in baseline:
        found = extensions(mnemonics(llvm, unit.object_file))
        assert not found, f"{unit.source.name}: {found}"


@pytest.mark.parametrize("isa", PERMITTED)
def test_isa_objects(isa: str, units: tuple[TranslationUnit, ...], llvm: ModuleType) -> None:
    (unit,) = [unit for unit in units if unit.source.name == f"kernels_{isa}.cpp"]
    found = mnemonics(llvm, unit.object_file)
    permitted, needed = PERMITTED[isa]
    assert extensions(found) <= permitted
    assert needed <= set(found)
    if isa == "neon_i8mm":
        assert found["smmla"] + found["usmmla"] > 0


def test_no_function_is_shared_between_objects_of_different_isas(
    units: tuple[TranslationUnit, ...], llvm: ModuleType
) -> None:
    """An inline function compiled for two ISAs under one name: the linker keeps either of them."""
    owners: dict[str, set[tuple[str, ...]]] = collections.defaultdict(set)
    for unit in units:
        done = llvm.run("llvm-nm", "--defined-only", str(unit.object_file))
        assert done.returncode == 0, done.stderr
        for line in done.stdout.splitlines():
            kind, name = line.split()[-2:]
            if kind in "Ww":
                owners[name].add(unit.machine_flags)
    assert owners
    assert not [name for name, flags in owners.items() if len(flags) > 1]
