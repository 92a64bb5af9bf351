"""Traces, counts and models of the kernels themselves."""

from __future__ import annotations

import pytest
from cycles import candidates, count, model, rows
from cycles.cores import core_named
from cycles.count import Shape
from cycles.program import CyclesError
from cycles.rows import Row, Weights


def row_named(name: str) -> Row:
    (row,) = (row for row in rows.rows() if row.name == f"qnbit_int8_w2_{name}")
    return row


def test_candidates_compute_what_plain_loops_do() -> None:
    assert candidates.check().endswith(" 0 wrong\n")


def test_counts_grow_by_the_same_for_every_block() -> None:
    row = row_named("quad_neon_dotprod_fused_r1c8")
    of_512, of_1024, of_1536 = (
        count.count(row, Shape(1, 16, k, Weights(64))) for k in (512, 1024, 1536)
    )
    assert of_1536.kernel - of_1024.kernel == of_1024.kernel - of_512.kernel
    body = len(rows.tile_loop(row, Weights(64)).body)
    # Two tiles of 8 columns, 8 more blocks.
    assert of_1024.kernel - of_512.kernel == 2 * 8 * body
    assert of_512.unpacking == 0


def test_unpacking_is_counted_once_for_all_rows() -> None:
    row = row_named("quad_neon_dotprod_panel_r4c8")
    few, many, split = (count.count(row, Shape(m, 16, 1024, Weights(64))) for m in (4, 32, 64))
    assert few.unpacking == many.unpacking > 0
    assert many.kernel == 8 * few.kernel
    # The driver makes two tasks of 64 rows of so narrow a matrix, and each unpacks for itself.
    assert split.unpacking == 2 * many.unpacking


@pytest.mark.parametrize("tile", ["r1c16", "r4c8"])
def test_armv8_0_takes_at_most_two_and_a_half_times_the_instructions(tile: str) -> None:
    shape = Shape(int(tile[1]), 16, 1024, Weights(64))
    without, with_dotprod = (
        count.count(row_named(f"quad_{isa}_fused_{tile}"), shape)
        for isa in ("neon", "neon_dotprod")
    )
    assert without.per_mac < 2.5 * with_dotprod.per_mac


# MAC per cycle by the models; what a change of a kernel or of the compiler must not lose unnoticed.
@pytest.mark.parametrize(
    ("name", "core", "at_least"),
    [
        ("quad_neon_dotprod_fused_r1c16", "oryon-1", 26.0),
        ("quad_neon_dotprod_fused_r1c16", "neoverse-n1", 12.4),
        ("quad_neon_dotprod_fused_r4c8", "oryon-1", 39.0),
        ("quad_neon_dotprod_fused_r4c8", "neoverse-n1", 18.5),
        ("quad_neon_i8mm_fused_r4c8", "neoverse-v2", 50.0),
        ("quad_neon_dotprod_panel_r4c8", "oryon-1", 50.0),
        ("quad_neon_i8mm_panel_r4c8", "neoverse-n2", 38.0),
        ("quad_neon_i8mm_panel_r4c8", "neoverse-v2", 60.0),
    ],
)
def test_modelled_throughput(name: str, core: str, at_least: float) -> None:
    estimate = model.estimate(row_named(name), Weights(64), core_named(core))
    assert estimate.mac_per_cycle >= at_least
    assert estimate.mac_per_cycle <= 1.01 * min(estimate.dot_ceiling, estimate.vector_ceiling)


def test_a_shape_that_a_row_cannot_run() -> None:
    with pytest.raises(CyclesError, match="block length"):
        count.count(row_named("quad_neon_dotprod_fused_r1c8"), Shape(1, 16, 512, Weights(48)))
