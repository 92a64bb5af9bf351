"""All figures of the ARM64 study: models and counts over its grid, as JSON and Markdown.

    python tools/cycles/report.py --output build/cycles/report

Writes models.json, candidates.json, counts.json and report.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cycles import candidates, count, model, rows
from cycles.cores import CORES
from cycles.count import Count, Shape
from cycles.model import Estimate
from cycles.program import PROJECT, CyclesError
from cycles.rows import Row, Weights

# The cores of which figures were wanted, for the parts of the grid that would be long on all.
_FOUR = tuple(
    core for core in CORES if core.name in ("oryon-1", "neoverse-n1", "neoverse-n2", "neoverse-v2")
)
# Those that the rule of choice may take, for the parts that would be long for every row.
_CHOSEN = re.compile(
    r"quad_neon_(fused_r(1c16|4c8)|panel_r4c8|dotprod_fused_r(1c(8|16)|[248]c[48])"
    r"|dotprod_panel_r4c8|i8mm_fused_r(1c8|[248]c8)|i8mm_panel_r[48]c[48])$"
)


def _int8_rows() -> list[Row]:
    return [row for row in rows.rows() if row.compute == "int8"]


def models() -> Iterator[Estimate | str]:
    """Every row at BlkLen 64; those of the rule with other weights too."""
    chosen = [row for row in _int8_rows() if _CHOSEN.search(row.name)]
    yield from model.estimates(_int8_rows(), [Weights(64)], CORES)
    lengths = [Weights(length) for length in (16, 32, 128)]
    kinds = [Weights(64, "per_block"), Weights(64, "float"), Weights(64, "uniform", "fp32")]
    yield from model.estimates(chosen, [*lengths, *kinds], _FOUR)


def counts() -> list[Count]:
    """The grid of M, N and K at BlkLen 64 for the rows of the rule; fewer shapes for the rest."""
    chosen = [row for row in _int8_rows() if _CHOSEN.search(row.name) and row.path == "fused"]
    grid = [
        Shape(m, n, k, Weights(64))
        for m in (1, 2, 4, 8)
        for n in (4, 8, 16)
        for k in (512, 1024, 2048)
    ]
    table = [count.count(row, shape) for row in chosen for shape in grid if shape.m >= row.rows]
    lengths = [Shape(8, 16, 1024, Weights(length)) for length in (16, 32, 64, 128)]
    table += count.counts(_int8_rows(), lengths)
    panels = [row for row in _int8_rows() if row.path == "panel"]
    table += count.counts(panels, [Shape(64, 16, 1024, Weights(64))])
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=PROJECT / "build/cycles/report")
    options = parser.parse_args()
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    try:
        modelled = list(models())
        model.write_estimates(output / "models.json", modelled)
        of_candidates = list(candidates.estimates("", CORES))
        model.write_estimates(output / "candidates.json", of_candidates)
        counted = counts()
        model.write_json(
            output / "counts.json", [{**asdict(c), "per_mac": c.per_mac} for c in counted]
        )
    except CyclesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = "\n\n".join(
        [
            "# Models of kernel rows",
            model.markdown(modelled),
            "# Models of candidate loops",
            model.markdown(of_candidates),
            "# Executed instructions",
            count.markdown(counted),
        ]
    )
    part = output / "report.part"
    part.write_text(text + "\n")
    part.rename(output / "report.md")
    print(f"wrote {output}/report.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
