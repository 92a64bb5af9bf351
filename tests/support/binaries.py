"""Reads what compilers and linkers produced: compile commands, disassembly, symbols."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_FOLDER_VARIABLE = "ORT_MLAS_BUILD_DIR"

# Prefixes that may precede a VEX or EVEX prefix (segment override, address size).
_LEADING_PREFIXES = {0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x67}


@dataclass(frozen=True)
class TranslationUnit:
    """A source, the object made of it, and the instruction-set flags (-m...) that made it."""

    source: Path
    object_file: Path
    machine_flags: tuple[str, ...]


@dataclass(frozen=True)
class Instruction:
    encoding: str  # "legacy", "vex" or "evex"
    text: str  # as objdump prints it, e.g. "{vex} vpdpbusd (%rax),%ymm1,%ymm0"


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def build_folder() -> Path:
    """Folder of the CMake build under test: ORT_MLAS_BUILD_DIR, else where `make` builds.

    Skips the calling test when there is none, but fails it when the variable names one.
    """
    named = os.environ.get(BUILD_FOLDER_VARIABLE)
    folder = REPOSITORY / (named or "build/wheel")
    if not (folder / "compile_commands.json").is_file():
        message = f"{folder} has no compile_commands.json"
        if named:
            pytest.fail(f"{BUILD_FOLDER_VARIABLE}: {message}")
        pytest.skip(f"{message}; `make test` builds there")
    return folder


@functools.cache
def translation_units(folder: Path) -> tuple[TranslationUnit, ...]:
    units = []
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        arguments = shlex.split(entry["command"])
        output = arguments[arguments.index("-o") + 1]
        # -m64 and -mtune choose no instructions.
        flags = [a for a in arguments if a.startswith("-m") and not re.match(r"-m(64$|tune=)", a)]
        units.append(
            TranslationUnit(Path(entry["file"]), Path(entry["directory"]) / output, tuple(flags))
        )
    return tuple(units)


def encoding_of(code: bytes) -> str:
    """Kind of encoding of one 64-bit-mode instruction, where C4, C5 and 62 are always prefixes."""
    first = next((byte for byte in code if byte not in _LEADING_PREFIXES), 0)
    return {0xC4: "vex", 0xC5: "vex", 0x62: "evex"}.get(first, "legacy")


def disassemble(object_file: Path) -> list[Instruction]:
    """All instructions of an object's code sections."""
    instructions = []
    # Continuation lines of long instructions have bytes but no text; -w keeps one line each.
    for line in run("objdump", "-d", "-w", object_file).splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and re.fullmatch(r"\s*[0-9a-f]+:", fields[0]):
            instructions.append(Instruction(encoding_of(bytes.fromhex(fields[1])), fields[2]))
    return instructions


def weak_functions(object_file: Path) -> set[str]:
    """Mangled names of functions that the linker may take from any object that defines them."""
    names = set()
    for line in run("nm", "--defined-only", object_file).splitlines():
        _, kind, name = line.split(maxsplit=2)
        if kind in "Ww":
            names.add(name)
    return names
