"""Models a kernel row: cycles of one block of one tile, by LLVM's scheduling models.

    python tools/cycles/model.py --rows 'neon_i8mm_fused' --block-len 64 --core neoverse-n2

Prints multiply-adds (MAC) per cycle of the whole block loop, the ceilings and what bounds it. These
are figures of a model with perfect caches, never times.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cycles import blocks, cores, execution, mca, program
from cycles.cores import Core
from cycles.program import CyclesError

STRIP_COLUMNS = 16
# Of A's rows, for the share of unpacking in the panel path.
PANEL_ROWS = 64
_SPILL = re.compile(r"^(ldr|str|ldp|stp|ldur|stur)\s.*\[sp")


@dataclass(frozen=True)
class Row:
    """A kernel of the registry; `entry` and `unpack` are addresses in the probe."""

    name: str
    isa: str
    format: str
    compute: str
    path: str
    rows: int
    columns: int
    entry: int
    unpack: int


@dataclass(frozen=True)
class Estimate:
    """What a model says of one loop on one core, for one tile (or a panel of PANEL_ROWS rows)."""

    loop: str
    block_len: int
    zero_points: str
    core: str
    mac_per_cycle: float
    dot_ceiling: float  # MAC per cycle if nothing but the dot instructions took time
    vector_ceiling: float  # if nothing but the vector pipes did
    dispatch_ceiling: float  # if nothing but the dispatch width did
    bottleneck: str
    instructions: int  # of one block
    stack_accesses: int
    substitutions: tuple[str, ...]

    @property
    def dot_percent(self) -> float:
        return 100 * self.mac_per_cycle / self.dot_ceiling


@dataclass(frozen=True)
class Loop:
    """A block loop's body, and the multiply-adds that one passage does."""

    name: str
    body: tuple[str, ...]
    macs: int


@cache
def probe() -> execution.Binary:
    """The program that runs kernel rows."""
    return execution.Binary(program.build_probe())


@cache
def rows() -> tuple[Row, ...]:
    """Every row of the ARM64 ISAs."""
    listed = json.loads(program.run(probe().path, "rows"))
    return tuple(Row(**row) for row in listed if row["isa"] != "portable")


def _blocks_traced(row: Row, block_len: int) -> int:
    """Enough to have a steady state, few enough for one panel of the driver's (24 KiB)."""
    return 16 if row.path == "fused" or block_len <= 64 else 1024 // block_len


def run_arguments(row: Row, m: int, n: int, k: int, block_len: int, zero_points: str) -> list[str]:
    return ["run", row.name, str(m), str(n), str(k), str(block_len), zero_points]


@cache
def tile_loop(row: Row, block_len: int, zero_points: str = "uniform") -> Loop:
    """The loop over the blocks of one whole tile."""
    count = _blocks_traced(row, block_len)
    arguments = run_arguments(
        row, row.rows, STRIP_COLUMNS, count * block_len, block_len, zero_points
    )
    binary = probe()
    executed = execution.executed(binary.path, arguments, binary.with_callees(row.entry))
    tiles = STRIP_COLUMNS // row.columns
    passage = blocks.steady_passage(executed, count * tiles, count)
    macs = row.rows * row.columns * block_len
    duplicated = 2 if row.isa == "neon_i8mm" and row.rows == 1 else 1
    blocks.check_products(passage, macs, duplicated, binary.instruction)
    body = tuple(execution.assembly(binary, passage.addresses))
    return Loop(f"{row.name}", body, macs * passage.blocks)


@cache
def unpack_loop(row: Row, block_len: int, zero_points: str = "uniform") -> Loop:
    """The loop that unpacks a strip's blocks to a panel; `macs` are those of one row of A."""
    count = _blocks_traced(row, block_len)
    arguments = run_arguments(row, 1, STRIP_COLUMNS, count * block_len, block_len, zero_points)
    binary = probe()
    executed = execution.executed(binary.path, arguments, binary.with_callees(row.unpack))
    passage = blocks.steady_passage(executed, count, count)
    body = tuple(execution.assembly(binary, passage.addresses))
    return Loop(f"{row.name} unpacking", body, STRIP_COLUMNS * block_len * passage.blocks)


def _dots(body: Sequence[str]) -> list[str]:
    return [line for line in body if line.split()[0] in blocks.PRODUCTS]


def estimate_loop(loop: Loop, block_len: int, zero_points: str, core: Core) -> Estimate:
    """Raises mca.UnmodelledError where the core has no price for the loop."""
    price = mca.price(core, loop.body)
    dots = mca.price(core, _dots(loop.body))
    return Estimate(
        loop.name,
        block_len,
        zero_points,
        core.name,
        loop.macs / price.cycles,
        loop.macs / dots.block_cycles,
        loop.macs / price.vector_cycles,
        loop.macs / price.dispatch_cycles,
        price.bottleneck,
        len(loop.body),
        sum(1 for line in loop.body if _SPILL.match(line)),
        price.substitutions,
    )


def estimate(row: Row, block_len: int, zero_points: str, core: Core) -> Estimate:
    """A fused row's tile; of a panel row, the tile and its share of unpacking for PANEL_ROWS rows.

    Raises:
        mca.UnmodelledError: the core lacks an instruction or a price for it.
        CyclesError: the loop can't be found.
    """
    tile = estimate_loop(tile_loop(row, block_len, zero_points), block_len, zero_points, core)
    if row.path == "fused":
        return tile
    unpack = unpack_loop(row, block_len, zero_points)
    price = mca.price(core, unpack.body)

    # Per multiply-add: every row of A shares the unpacking.
    def with_unpacking(ceiling: float, cycles: float) -> float:
        return 1 / (1 / ceiling + cycles / (unpack.macs * PANEL_ROWS))

    return Estimate(
        f"{row.name}, M = {PANEL_ROWS}",
        block_len,
        zero_points,
        core.name,
        with_unpacking(tile.mac_per_cycle, price.cycles),
        tile.dot_ceiling,
        with_unpacking(tile.vector_ceiling, price.vector_cycles),
        with_unpacking(tile.dispatch_ceiling, price.dispatch_cycles),
        tile.bottleneck,
        tile.instructions,
        tile.stack_accesses,
        tuple(dict.fromkeys((*tile.substitutions, *price.substitutions))),
    )


def estimates(
    chosen: Sequence[Row], block_lens: Sequence[int], zero_points: str, on: Sequence[Core]
) -> Iterator[Estimate | str]:
    """An estimate, or the reason why there is none, for every combination."""
    for row in chosen:
        for block_len in block_lens:
            for core in on:
                try:
                    yield estimate(row, block_len, zero_points, core)
                except mca.UnmodelledError as reason:
                    yield f"{row.name}, BlkLen {block_len}: {reason}"


def markdown(table: Sequence[Estimate | str]) -> str:
    """The estimates as a table, followed by what has none and by the substitutions."""
    lines = [
        "| loop | BlkLen | core | MAC/cycle | of dot ports | vector pipes allow | dispatch allows "
        "| instructions | on the stack | bound by |",
        "| --- | --: | --- | --: | --: | --: | --: | --: | --: | --- |",
    ]
    notes: dict[str, None] = {}
    for entry in table:
        if isinstance(entry, str):
            notes[f"No figure: {entry}."] = None
            continue
        lines.append(
            f"| {entry.loop} | {entry.block_len} | {entry.core}"
            f"{' *' if entry.substitutions else ''} | {entry.mac_per_cycle:.1f} "
            f"| {entry.dot_percent:.0f} % | {entry.vector_ceiling:.1f} "
            f"| {entry.dispatch_ceiling:.1f} | {entry.instructions} | {entry.stack_accesses} "
            f"| {entry.bottleneck} |"
        )
        for reason in entry.substitutions:
            notes[f"\\* {entry.core}: {reason}."] = None
    return "\n".join([*lines, "", *notes])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", help="regular expression on names of int8 rows")
    parser.add_argument("--block-len", type=int, action="append", help="default: 64")
    parser.add_argument(
        "--zero-points", default="uniform", choices=("uniform", "per_block", "float")
    )
    names = [core.name for core in cores.CORES]
    parser.add_argument("--core", action="append", choices=names, help="default: all")
    parser.add_argument("--json", type=Path, help="also write the estimates there")
    parser.add_argument("--body", action="store_true", help="print the loops' instructions")
    options = parser.parse_args()
    try:
        on = [cores.core_named(name) for name in options.core or names]
        chosen = [
            row for row in rows() if row.compute == "int8" and re.search(options.rows, row.name)
        ]
        if not chosen:
            known = "\n  ".join(row.name for row in rows())
            raise CyclesError(f"no int8 row matches '{options.rows}'; there are\n  {known}")
        lens = options.block_len or [64]
        if options.body:
            for row in chosen:
                print(f"# {row.name}", *tile_loop(row, lens[0], options.zero_points).body, sep="\n")
            return 0
        table = list(estimates(chosen, lens, options.zero_points, on))
    except CyclesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(markdown(table))
    if options.json:
        entries = [asdict(entry) for entry in table if isinstance(entry, Estimate)]
        part = options.json.with_suffix(".part")
        part.write_text(json.dumps(entries, indent=1) + "\n")
        part.rename(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
