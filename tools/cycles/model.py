"""Models a kernel row: cycles of one block of one tile, by LLVM's scheduling models.

    python tools/cycles/model.py --rows 'neon_i8mm_fused' --block-len 64 --core neoverse-n2

Prints multiply-adds (MAC) per cycle of the whole block loop, the ceilings and what bounds it. These
are figures of a model with perfect caches, never times.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cycles import blocks, cores, mca, rows
from cycles.cores import Core
from cycles.program import CyclesError
from cycles.rows import Loop, Row, Weights

ZERO_POINTS = ("uniform", "per_block", "float")
SCALES = ("fp16", "fp32")
# Rows of A that share the unpacking of a panel.
PANEL_ROWS = 64
_SPILL = re.compile(r"^(ldr|str|ldp|stp|ldur|stur)\s.*\[sp")


@dataclass(frozen=True)
class Estimate:
    """What a model says of one loop on one core."""

    loop: str
    weights: Weights
    core: str
    mac_per_cycle: float
    dot_ceiling: float  # MAC per cycle if nothing but the dot instructions took time
    vector_ceiling: float  # if nothing but the vector pipes did
    dispatch_ceiling: float  # if nothing but the dispatch width did
    bottleneck: str
    instructions: int  # of one passage through the block loop
    stack_accesses: int
    substitutions: tuple[str, ...]

    @property
    def dot_percent(self) -> float:
        return 100 * self.mac_per_cycle / self.dot_ceiling


@cache
def _price(core: Core, body: tuple[str, ...]) -> mca.Price:
    return mca.price(core, body)


def _dot_cycles(core: Core, body: Sequence[str]) -> float:
    """Cycles of `body`'s dot instructions when nothing else competes for their pipes."""
    total = 0.0
    for name, number in Counter(line.split()[0] for line in body).items():
        if name in blocks.PRODUCTS:
            example = next(line for line in body if line.split()[0] == name)
            # llvm-mca prints one decimal place of this bound.
            alone = (re.sub(r"\bv\d+", "v0", example),) * 40
            total += number * _price(core, alone).block_cycles / len(alone)
    return total


def estimate_loop(loop: Loop, weights: Weights, core: Core) -> Estimate:
    """Raises mca.UnmodelledError where the core has no price for the loop."""
    price = _price(core, loop.body)
    return Estimate(
        loop=loop.name,
        weights=weights,
        core=core.name,
        mac_per_cycle=loop.macs / price.cycles,
        dot_ceiling=loop.macs / _dot_cycles(core, loop.body),
        vector_ceiling=loop.macs / price.vector_cycles,
        dispatch_ceiling=loop.macs / price.dispatch_cycles,
        bottleneck=price.bottleneck,
        instructions=len(loop.body),
        stack_accesses=sum(1 for line in loop.body if _SPILL.match(line)),
        substitutions=price.substitutions,
    )


def estimate(row: Row, weights: Weights, core: Core, panel_rows: int = PANEL_ROWS) -> Estimate:
    """Of a fused row its tile; of a panel row the tile and the unpacking for `panel_rows` rows.

    Raises:
        mca.UnmodelledError: the core lacks an instruction or a price for it.
        CyclesError: the loop can't be found.
    """
    tile = estimate_loop(rows.tile_loop(row, weights), weights, core)
    if row.path == "fused":
        return tile
    unpack = rows.unpack_loop(row, weights)
    price = _price(core, unpack.body)

    # Cycles per multiply-add add up, and every row of A has its share of the unpacking.
    def with_unpacking(mac_per_cycle: float, cycles: float) -> float:
        return 1 / (1 / mac_per_cycle + cycles / (unpack.macs * panel_rows))

    return Estimate(
        loop=f"{row.name}, M = {panel_rows}",
        weights=weights,
        core=core.name,
        mac_per_cycle=with_unpacking(tile.mac_per_cycle, price.cycles),
        dot_ceiling=tile.dot_ceiling,
        vector_ceiling=with_unpacking(tile.vector_ceiling, price.vector_cycles),
        dispatch_ceiling=with_unpacking(tile.dispatch_ceiling, price.dispatch_cycles),
        bottleneck=tile.bottleneck,
        instructions=tile.instructions,
        stack_accesses=tile.stack_accesses,
        substitutions=tuple(dict.fromkeys((*tile.substitutions, *price.substitutions))),
    )


def estimates(
    chosen: Sequence[Row],
    weights: Sequence[Weights],
    on: Sequence[Core],
    panel_rows: int = PANEL_ROWS,
) -> Iterator[Estimate | str]:
    """An estimate, or the reason why there is none, for every combination."""
    for row, of, core in itertools.product(chosen, weights, on):
        try:
            yield estimate(row, of, core, panel_rows)
        except mca.UnmodelledError as reason:
            yield f"{row.name}, weights {of}: {reason}"


def markdown(table: Sequence[Estimate | str]) -> str:
    """The estimates as a table, followed by what has none and by the substitutions."""
    lines = [
        "| loop | weights | core | MAC/cycle | of dot ports | vector pipes allow "
        "| dispatch allows | instructions | on the stack | bound by |",
        "| --- | --- | --- | --: | --: | --: | --: | --: | --: | --- |",
    ]
    notes: dict[str, None] = {}
    for entry in table:
        if isinstance(entry, str):
            notes[f"No figure: {entry}."] = None
            continue
        lines.append(
            f"| {entry.loop} | {entry.weights} | {entry.core}"
            f"{' *' if entry.substitutions else ''} | {entry.mac_per_cycle:.1f} "
            f"| {entry.dot_percent:.0f} % | {entry.vector_ceiling:.1f} "
            f"| {entry.dispatch_ceiling:.1f} | {entry.instructions} | {entry.stack_accesses} "
            f"| {entry.bottleneck} |"
        )
        for reason in entry.substitutions:
            notes[f"\\* {entry.core}: {reason}."] = None
    return "\n".join([*lines, "", *notes])


def write_json(path: Path, value: object) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.rename(path)


def write_estimates(path: Path, table: Sequence[Estimate | str]) -> None:
    write_json(path, [asdict(entry) for entry in table if isinstance(entry, Estimate)])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", help="regular expression on names of int8 rows")
    parser.add_argument("--block-len", type=int, action="append", help="default: 64")
    parser.add_argument("--zero-points", default="uniform", choices=ZERO_POINTS)
    parser.add_argument("--scales", default="fp16", choices=SCALES)
    names = [core.name for core in cores.CORES]
    parser.add_argument("--core", action="append", choices=names, help="default: all")
    parser.add_argument("-m", type=int, default=PANEL_ROWS, help="rows that share a panel")
    parser.add_argument("--json", type=Path, help="also write the estimates there")
    parser.add_argument("--body", action="store_true", help="print the loops' instructions")
    options = parser.parse_args()
    weights = [
        Weights(length, options.zero_points, options.scales) for length in options.block_len or [64]
    ]
    try:
        on = [cores.core_named(name) for name in options.core or names]
        listed = [row for row in rows.rows() if row.compute == "int8"]
        chosen = [row for row in listed if re.search(options.rows, row.name)]
        if not chosen:
            known = "\n  ".join(row.name for row in listed)
            raise CyclesError(f"no int8 row matches '{options.rows}'; there are\n  {known}")
        if options.body:
            for row in chosen:
                print(f"# {row.name}", *rows.tile_loop(row, weights[0]).body, sep="\n")
            return 0
        table = list(estimates(chosen, weights, on, options.m))
    except CyclesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(markdown(table))
    if options.json:
        write_estimates(options.json, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
