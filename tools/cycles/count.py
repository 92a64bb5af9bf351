"""Counts the instructions that kernel rows execute, exactly, per multiply-add (MAC).

    python tools/cycles/count.py --rows 'fused_r1' -m 1 -n 16 -k 1024 --block-len 64

Counted are the kernel and, in the panel path, the unpacking; not the driver, nor the rounding of
A to int8, which is done once for all columns. A count says nothing of time.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cycles import execution, model, rows
from cycles.program import CyclesError
from cycles.rows import Row, Weights


@dataclass(frozen=True)
class Shape:
    m: int
    n: int
    k: int
    weights: Weights

    @property
    def macs(self) -> int:
        return self.m * self.n * self.k


@dataclass(frozen=True)
class Count:
    """Instructions executed for one shape; `row` does every whole tile, shorter rows the rest."""

    row: str
    shape: Shape
    kernel: int
    unpacking: int

    @property
    def per_mac(self) -> float:
        return (self.kernel + self.unpacking) / self.shape.macs


def count(row: Row, shape: Shape) -> Count:
    """Raises CyclesError where the row can't run the shape."""
    binary = rows.probe()
    # The driver finishes with shorter tiles of the same ISA, format and path.
    alike = [
        other
        for other in rows.rows()
        if (other.isa, other.format, other.compute, other.path)
        == (row.isa, row.format, row.compute, row.path)
        and other.rows <= row.rows
    ]
    kernel = {f for other in alike for f in binary.with_callees(other.entry)}
    unpacking = set(binary.with_callees(row.unpack)) if row.unpack else set()
    if kernel & unpacking:
        names = ", ".join(function.name for function in kernel & unpacking)
        raise CyclesError(f"{row.name}: kernel and unpacking both call {names}")
    arguments = rows.run_arguments(row, shape.m, shape.n, shape.k, shape.weights)
    addresses = execution.executed(binary.path, arguments, kernel | unpacking)
    of_unpacking = sum(1 for a in addresses if any(f.holds(a) for f in unpacking))
    return Count(row.name, shape, len(addresses) - of_unpacking, of_unpacking)


def counts(chosen: Sequence[Row], shapes: Sequence[Shape]) -> Iterator[Count]:
    for row, shape in itertools.product(chosen, shapes):
        yield count(row, shape)


def markdown(table: Sequence[Count]) -> str:
    lines = [
        "| row | M | N | K | weights | kernel | unpacking | per 1000 MAC |",
        "| --- | --: | --: | --: | --- | --: | --: | --: |",
    ]
    for entry in table:
        s = entry.shape
        lines.append(
            f"| {entry.row} | {s.m} | {s.n} | {s.k} | {s.weights} "
            f"| {entry.kernel} | {entry.unpacking} | {1000 * entry.per_mac:.1f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", help="regular expression on row names")
    for name, default in (("m", 1), ("n", 16), ("k", 1024)):
        parser.add_argument(f"-{name}", type=int, action="append", help=f"default: {default}")
    parser.add_argument("--block-len", type=int, action="append", help="default: 64")
    parser.add_argument("--zero-points", default="uniform", choices=model.ZERO_POINTS)
    parser.add_argument("--scales", default="fp16", choices=model.SCALES)
    parser.add_argument("--json", type=Path, help="also write the counts there")
    options = parser.parse_args()
    shapes = [
        Shape(m, n, k, Weights(block_len, options.zero_points, options.scales))
        for m, n, k, block_len in itertools.product(
            options.m or [1], options.n or [16], options.k or [1024], options.block_len or [64]
        )
    ]
    try:
        chosen = [row for row in rows.rows() if re.search(options.rows, row.name)]
        if not chosen:
            raise CyclesError(f"no row matches '{options.rows}'")
        table = list(counts(chosen, shapes))
    except CyclesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(markdown(table))
    if options.json:
        model.write_json(
            options.json, [{**asdict(entry), "per_mac": entry.per_mac} for entry in table]
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
