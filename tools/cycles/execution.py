"""Which instructions a function executes, in order, from QEMU's log of executed blocks.

With one instruction per block the log has a line per executed instruction; it is exact and the same
every time.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import llvm
from cycles import program
from cycles.program import CyclesError

_LOG_LINE = re.compile(r"^Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
_TARGET = re.compile(r"(0x[0-9a-f]+) <[^>]*>$")


@dataclass(frozen=True)
class Function:
    name: str
    address: int
    size: int

    def holds(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


class Binary:
    """Functions and instructions of a static program at fixed addresses."""

    def __init__(self, path: Path) -> None:
        llvm.fetch()
        self.path = path
        self._functions = self._read_functions()
        self._instructions: dict[int, str] = {}  # of the functions disassembled so far
        self._disassembled: set[int] = set()

    def _read_functions(self) -> list[Function]:
        done = llvm.run("llvm-nm", "-C", "-S", "--defined-only", str(self.path))
        functions = []
        for line in done.stdout.splitlines():
            words = line.split(maxsplit=3)
            if len(words) == 4 and words[2] in "tTwW" and int(words[1], 16):
                functions.append(Function(words[3], int(words[0], 16), int(words[1], 16)))
        if not functions:
            raise CyclesError(f"{self.path} has no symbols: {done.stderr.strip()}")
        return functions

    def function_at(self, address: int) -> Function:
        for function in self._functions:
            if function.holds(address):
                return function
        raise CyclesError(f"{self.path.name} has no function at {address:#x}")

    def function_named(self, name: str) -> Function:
        for function in self._functions:
            if function.name == name:
                return function
        raise CyclesError(f"{self.path.name} has no function '{name}'")

    def _disassemble(self, function: Function) -> None:
        if function.address in self._disassembled:
            return
        self._disassembled.add(function.address)
        done = llvm.run(
            "llvm-objdump",
            "-d",
            "--no-show-raw-insn",
            "--no-print-imm-hex",
            "--mattr=+all",
            f"--start-address={function.address:#x}",
            f"--stop-address={function.address + function.size:#x}",
            str(self.path),
        )
        for line in done.stdout.splitlines():
            if match := _INSTRUCTION.match(line):
                self._instructions[int(match[1], 16)] = " ".join(match[2].split())

    def instruction(self, address: int) -> str:
        """Assembly of one instruction, e.g. 'b.ne 0x201c40 <name+0x40>'."""
        if address not in self._instructions:
            self._disassemble(self.function_at(address))
        return self._instructions[address]

    def with_callees(self, entry: int) -> list[Function]:
        """The function at `entry` and every function that it may call or jump to directly."""
        found: dict[int, Function] = {}
        waiting = [entry]
        while waiting:
            function = self.function_at(waiting.pop())
            if function.address in found:
                continue
            found[function.address] = function
            self._disassemble(function)
            for address in range(function.address, function.address + function.size, 4):
                words = self._instructions.get(address, "").split()
                if not words or not (words[0] in ("b", "bl") or words[0].startswith("b.")):
                    continue
                target = int(words[1], 16)
                if not function.holds(target):
                    waiting.append(target)
        return list(found.values())


def executed(path: Path, arguments: Sequence[str], functions: Iterable[Function]) -> list[int]:
    """Addresses of the instructions of `functions` that a run executes, in order.

    Raises:
        CyclesError: the program failed or executed none of them.
    """
    ranges = ",".join(f"{f.address:#x}+{f.size:#x}" for f in functions)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        options = ("-one-insn-per-tb", "-d", "exec,nochain", "-dfilter", ranges, "-D", str(log))
        program.run(path, *arguments, options=options)
        text = log.read_text() if log.exists() else ""
    addresses = [int(address, 16) for address in _LOG_LINE.findall(text)]
    if not addresses:
        raise CyclesError(f"{path.name} {' '.join(arguments)} executed nothing of {ranges}")
    return addresses


def assembly(binary: Binary, addresses: Iterable[int]) -> list[str]:
    """The instructions at `addresses` as straight-line code that assembles anywhere.

    Branches keep their registers and lose their targets, which no cost depends on.

    Raises:
        CyclesError: one of them is a call.
    """
    lines = []
    for address in addresses:
        text = binary.instruction(address)
        name = text.split()[0]
        if name in ("bl", "blr"):
            raise CyclesError(f"a call in the loop: '{text}' at {address:#x}")
        if name in ("adr", "adrp"):
            text = _TARGET.sub("0", text)
        lines.append(_TARGET.sub("4", text))
    return lines
