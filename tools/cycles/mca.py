"""Prices a loop body on a core by llvm-mca, which has every load hit and every branch foreseen."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import llvm
from cycles.cores import Core
from cycles.program import CyclesError

# The difference of two runs leaves out how the pipeline fills and drains.
_SHORT, _LONG = 50, 150
# A bound that makes up this share of the cycles is called the bottleneck.
_REACHED = 0.93


class UnmodelledError(CyclesError):
    """The core lacks the instruction, or its model has no schedule for it."""


@dataclass(frozen=True)
class Price:
    """Of one passage through a loop body that repeats."""

    cycles: float
    micro_ops: float
    dispatch_width: int  # micro-ops per cycle
    block_cycles: float  # that the busiest resource, or dispatch, needs at least
    vector_cycles: float  # that the vector pipes need at least
    bottleneck: str
    substitutions: tuple[str, ...]  # reasons of those used

    @property
    def dispatch_cycles(self) -> float:
        return self.micro_ops / self.dispatch_width


def substitute(core: Core, body: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """`body` with the core's substitutions applied, and the reasons of those that were."""
    lines, reasons = [], []
    for line in body:
        for substitution in core.substitutions:
            if substitution.pattern.match(line):
                line = substitution.pattern.sub(substitution.replacement, line)
                if substitution.reason not in reasons:
                    reasons.append(substitution.reason)
        lines.append(line)
    return lines, tuple(reasons)


def _analyse(core: Core, lines: Sequence[str], iterations: int, *options: str) -> str:
    done = llvm.run(
        "llvm-mca",
        "-mtriple=aarch64",
        f"-mcpu={core.name}",
        f"-iterations={iterations}",
        "-instruction-info=false",
        *options,
        text="\n".join(lines) + "\n",
    )
    if done.returncode == 0:
        return done.stdout
    # An instruction of a feature that the core lacks doesn't assemble for it; one that has no
    # schedule is named in a note.
    needs = set(re.findall(r"instruction requires: (.*)", done.stderr))
    if needs:
        raise UnmodelledError(f"{core.name} has no {' '.join(sorted(needs))}")
    note = re.search(r"note: instruction:\s*(.*)", done.stderr)
    if note:
        raise UnmodelledError(
            f"the model of {core.name} has no schedule for '{' '.join(note[1].split())}', and "
            f"cores.py declares no substitution for it"
        )
    raise CyclesError(f"llvm-mca for {core.name}: {done.stderr.strip()[:2000]}")


def _number(name: str, report: str) -> float:
    match = re.search(rf"^{re.escape(name)}:\s+([\d.]+)", report, re.MULTILINE)
    if match is None:
        raise CyclesError(f"llvm-mca reports no '{name}'")
    return float(match[1])


def _pressure(report: str) -> list[tuple[str, float]]:
    """(resource name, cycles per iteration) of every pipe."""
    section = report.partition("\nResources:\n")[2]
    names = re.findall(r"^\[[\d.]+\]\s+- (\S+)$", section, re.MULTILINE)
    table = section.partition("Resource pressure per iteration:\n")[2].splitlines()
    cells = table[1].split() if len(table) > 1 else []
    if not names or len(cells) != len(names):
        raise CyclesError("can't read llvm-mca's table of resource pressure")
    return [
        (name, 0.0 if cell == "-" else float(cell)) for name, cell in zip(names, cells, strict=True)
    ]


def _bottleneck(report: str, cycles: float, dispatch_cycles: float, vector_cycles: float) -> str:
    """What bounds the loop: a bound that is all but reached, else what llvm-mca blames."""
    if vector_cycles > _REACHED * cycles and vector_cycles >= dispatch_cycles:
        return "vector pipes"
    if dispatch_cycles > _REACHED * cycles:
        return "dispatch width"
    blamed = re.findall(
        r"^  (Resource Pressure|Data Dependencies:)\s+\[ ([\d.]+)% \]", report, re.M
    )
    units = re.findall(r"^  - (\S+)\s+\[ ([\d.]+)% \]", report, re.MULTILINE)
    if not blamed:
        return "none found"
    parts = [f"{name.strip(':').lower()} {float(share):.0f} %" for name, share in blamed]
    busiest = max(units, key=lambda unit: float(unit[1]), default=None)
    if busiest is not None:
        parts.append(f"most on {busiest[0]}")
    return ", ".join(parts)


def price(core: Core, body: Sequence[str]) -> Price:
    """Prices `body`, assembly lines without labels, when repeated without end.

    Raises:
        UnmodelledError: an instruction has no schedule and no substitution, or the core lacks it.
        CyclesError: llvm-mca failed otherwise.
    """
    llvm.fetch()
    lines, reasons = substitute(core, body)
    short = _analyse(core, lines, _SHORT)
    long = _analyse(core, lines, _LONG, "-bottleneck-analysis")
    passages = _LONG - _SHORT
    cycles = (_number("Total Cycles", long) - _number("Total Cycles", short)) / passages
    micro_ops = _number("Total uOps", long) / _LONG
    width = int(_number("Dispatch Width", long))
    loads = [cycles for name, cycles in _pressure(long) if core.vector_units.match(name)]
    if not loads:
        raise CyclesError(f"the model of {core.name} has no pipe that matches its vector_units")
    vector_cycles = sum(loads) / len(loads)
    bottleneck = _bottleneck(long, cycles, micro_ops / width, vector_cycles)
    return Price(
        cycles=cycles,
        micro_ops=micro_ops,
        dispatch_width=width,
        block_cycles=_number("Block RThroughput", long),
        vector_cycles=vector_cycles,
        bottleneck=bottleneck,
        substitutions=reasons,
    )
