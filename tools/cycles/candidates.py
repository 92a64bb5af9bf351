"""Models the candidate loops of the ARM64 study (bench/studies/arm64-w2/).

    python tools/cycles/candidates.py --loops 'quad_r4|matrix_quad_r4' --core neoverse-n2
    python tools/cycles/candidates.py --check            compares each with plain loops, emulated

Their block length is fixed when they are compiled, so that the block loop is all there is.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cycles import blocks, cores, execution, mca, model, program
from cycles.cores import Core
from cycles.model import Estimate
from cycles.program import CyclesError
from cycles.rows import Loop, Weights

SOURCES = program.PROJECT / "bench/studies/arm64-w2"
FLAGS = ("-mcpu=generic+dotprod+i8mm",)


@dataclass(frozen=True)
class Candidate:
    name: str
    rows: int
    columns: int
    block_len: int
    blocks: int  # of one run


@cache
def binary() -> execution.Binary:
    # The loops alone have the flags of a kernel: Zig builds its C++ runtime anew for every CPU.
    loops = program.compile_object("candidates.o", SOURCES / "candidates.cpp", FLAGS)
    sources = [loops, SOURCES / "check.cpp", SOURCES / "formats.cpp"]
    return execution.Binary(program.compile_program("candidates", sources, ()))


@cache
def candidates() -> tuple[Candidate, ...]:
    listed = json.loads(program.run(binary().path, "list"))
    return tuple(Candidate(**entry) for entry in listed)


@cache
def loop(candidate: Candidate) -> Loop:
    entry = binary().function_named(candidate.name).address
    functions = binary().with_callees(entry)
    executed = execution.executed(binary().path, ["run", candidate.name], functions)
    passage = blocks.steady_passage(executed, candidate.blocks, candidate.blocks)
    macs = candidate.rows * candidate.columns * candidate.block_len
    duplicated = 2 if candidate.name.startswith("matrix") and candidate.rows == 1 else 1
    blocks.check_products(passage, macs, duplicated, binary().instruction)
    body = tuple(execution.assembly(binary(), passage.addresses))
    return Loop(candidate.name, body, macs * passage.blocks)


def check() -> str:
    """Runs every candidate against plain loops.

    Raises:
        CyclesError: one of them differs.
    """
    return program.run(binary().path, "check")


def estimates(loops: str, on: Sequence[Core]) -> Iterator[Estimate | str]:
    """An estimate, or the reason why there is none, of every loop that `loops` matches."""
    for candidate in candidates():
        if not re.search(loops, candidate.name):
            continue
        for core in on:
            try:
                yield model.estimate_loop(loop(candidate), Weights(candidate.block_len), core)
            except mca.UnmodelledError as reason:
                yield f"{candidate.name}: {reason}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loops", default="", help="regular expression on names")
    names = [core.name for core in cores.CORES]
    parser.add_argument("--core", action="append", choices=names, help="default: all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", type=Path, help="also write the estimates there")
    options = parser.parse_args()
    try:
        if options.check:
            print(check(), end="")
            return 0
        on = [cores.core_named(name) for name in options.core or names]
        table = list(estimates(options.loops, on))
        if not table:
            raise CyclesError(f"no candidate matches '{options.loops}'")
    except CyclesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(model.markdown(table))
    if options.json:
        model.write_estimates(options.json, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
