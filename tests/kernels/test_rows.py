"""Every kernel row by name against the oracle, on both sides of each boundary that a row has.

Each product is checked twice: random values within the oracle's error bound, and values for which
every partial sum is exact in float32, where a single wrong code would change the result.
"""

from __future__ import annotations

import numpy as np
import pytest

import isa_support
import oracle
from cases import (
    SCALE_CASES,
    ZERO_POINT_CASES,
    ScaleCase,
    ZeroPointCase,
    exact_activations,
    random_activations,
    random_weights,
)
from isa_support import KernelRow
from native_calls import pack, pack_for, run_row, with_row_gap
from onnxruntime_ep_mlas import _native

BLOCK_LENGTHS = (16, 32, 64, 128, 256)
# One that is stored in parts, where the operator allows it.
LONG_BLOCK = 512


def block_lengths(row: KernelRow) -> tuple[int, ...]:
    assert set(BLOCK_LENGTHS) <= set(row["block_lengths"])
    return (*BLOCK_LENGTHS, LONG_BLOCK) if LONG_BLOCK in row["block_lengths"] else BLOCK_LENGTHS


every_row = pytest.mark.parametrize(
    "row", isa_support.executable_kernel_rows(family="qnbit"), ids=repr
)


def check_product(
    row: KernelRow,
    m: int,
    n: int,
    k: int,
    block: int,
    *,
    zero_points: ZeroPointCase = "none",
    scales: ScaleCase = "fp16",
    bias: bool = False,
    general: bool = False,
    lda_gap: int = 0,
    ldc_gap: int = 0,
) -> None:
    rng = np.random.default_rng([m, n, k, block])
    context = f"{row.name}: M={m} N={n} K={k} block={block} {zero_points}/{scales} bias={bias}"
    for exact in (False, True):
        weights = random_weights(
            *(rng, n, k, block),
            bits=row["bits"],
            zero_points=zero_points,
            scales="power_of_two" if exact else scales,
        )
        if exact:
            a = exact_activations(rng, m, k, block, row["bits"])
        else:
            a = random_activations(rng, m, k)
        if lda_gap:
            a = with_row_gap(a, lda_gap)
        added = rng.integers(-8, 9, n).astype(np.float32) if bias else None
        out = with_row_gap(np.full((m, n), np.nan, np.float32), ldc_gap) if ldc_gap else None
        c = run_row(row, a, pack_for(row, weights, general=general), bias=added, out=out)
        expected = oracle.matmul(a, weights, added, compute=row["compute"])
        if exact:
            np.testing.assert_array_equal(c, expected.value, err_msg=context)
        else:
            oracle.assert_matches(c, expected, context)


@every_row
@pytest.mark.parametrize("zero_points", ["none", "per_block", "float"])
def test_rows_of_a_around_tile_boundaries(row: KernelRow, zero_points: ZeroPointCase) -> None:
    height = row["tile_rows"]
    for m in sorted(
        {0, 1, 2, 3, height - 1, height, height + 1, 2 * height, 2 * height + 1, 3 * height - 1}
    ):
        check_product(row, m, 19, 77, 32, zero_points=zero_points)


@every_row
@pytest.mark.parametrize("zero_points", ["none", "per_block", "float"])
def test_columns_around_strip_and_tile_boundaries(
    row: KernelRow, zero_points: ZeroPointCase
) -> None:
    width = row["tile_columns"]
    for n in sorted(
        {*range(1, 18), 31, 32, 33, 47, 48, 49, width - 1, width, width + 1, 2 * width + 1} - {0}
    ):
        check_product(row, row["tile_rows"] + 1, n, 48, 16, zero_points=zero_points)


@every_row
@pytest.mark.parametrize("block", [*BLOCK_LENGTHS, LONG_BLOCK])
def test_depths_around_block_boundaries(row: KernelRow, block: int) -> None:
    if block not in block_lengths(row):
        return
    depths = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, block - 1, block, block + 1}
    depths |= {block // 2 + 1, 255, 257} if block == LONG_BLOCK else {2 * block - 1, 2 * block + 3}
    for k in sorted(depths):
        zero_points = ZERO_POINT_CASES[k % len(ZERO_POINT_CASES)]
        check_product(row, row["tile_rows"] + 1, 21, k, block, zero_points=zero_points)


@every_row
@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
def test_kinds_of_weights(row: KernelRow, zero_points: ZeroPointCase) -> None:
    for block in block_lengths(row):
        for scales in SCALE_CASES:
            for general in (False, True):
                check_product(
                    row,
                    row["tile_rows"] + 1,
                    35,
                    block + 9,
                    block,
                    zero_points=zero_points,
                    scales=scales,
                    general=general,
                    bias=(block // 16 + general) % 2 == 0,
                )


@every_row
def test_row_strides(row: KernelRow) -> None:
    for m in (1, row["tile_rows"], 2 * row["tile_rows"] + 1):
        for gap in (1, 3, 16):
            check_product(
                row, m, 33, 70, 32, bias=True, lda_gap=gap, ldc_gap=gap, zero_points="float"
            )


@every_row
def test_gather(row: KernelRow) -> None:
    rng = np.random.default_rng(5)
    for m in (1, row["tile_rows"], row["tile_rows"] + 1):
        weights = random_weights(rng, 21, 96, 32, bits=row["bits"], zero_points="per_block")
        a = random_activations(rng, m, 130)
        gather = rng.integers(-1, 130, 96).astype(np.int32)
        gather[:3] = (-1, 0, 129)
        c = run_row(row, a, pack_for(row, weights), gather=gather)
        plain = oracle.gather_columns(a, gather)
        oracle.assert_matches(c, oracle.matmul(plain, weights, compute=row["compute"]), row.name)
        # Gathering first is the same product, bit by bit.
        np.testing.assert_array_equal(c, run_row(row, plain, pack_for(row, weights)))


@every_row
@pytest.mark.parametrize("zero_points", ["none", "per_block", "float"])
def test_large_dims_cross_the_drivers_blocks(row: KernelRow, zero_points: ZeroPointCase) -> None:
    rng = np.random.default_rng(11)
    m, n, k, block = row["tile_rows"] * 2 + 1, 289, 4128 + 7, 32
    weights = random_weights(rng, n, k, block, bits=row["bits"], zero_points=zero_points)
    a, bias = random_activations(rng, m, k), rng.standard_normal(n).astype(np.float32)
    c = run_row(row, a, pack_for(row, weights), bias=bias)
    oracle.assert_matches(c, oracle.matmul(a, weights, bias, compute=row["compute"]), row.name)


@every_row
def test_extreme_codes_and_activations(row: KernelRow) -> None:
    """Sums as large as they can be, in blocks and in every part of an accumulator's lane."""
    bits = row["bits"]
    top = 2**bits - 1
    for block in block_lengths(row):
        k = 2 * block + 16 if block < LONG_BLOCK else block
        m, n = row["tile_rows"], row["tile_columns"] + 1
        k_blocks = oracle.ceil_div(k, block)
        for code, zero_point in ((0, top), (top, 0), (top, top), (0, 0)):
            codes = oracle.pack_fields(np.full((n, k_blocks, block), code, np.uint8), bits)
            zero_points = oracle.pack_fields(np.full((n, k_blocks), zero_point, np.uint8), bits)
            scales = np.ones((n, k_blocks), np.float32)
            weights = oracle.Weights(codes, scales, zero_points, k, block, bits)
            for value in (127.0, -127.0):
                a = np.full((m, k), value, np.float32)
                c = run_row(row, a, pack_for(row, weights))
                expected = oracle.matmul(a, weights, compute=row["compute"])
                oracle.assert_matches(c, expected, f"{row.name} {block} {code} - {zero_point}")


@pytest.mark.parametrize("isa", isa_support.usable_isas())
@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_chosen_by_m(isa: str, compute: str, bits: int) -> None:
    rng = np.random.default_rng(3)
    weights = random_weights(rng, 65, 200, 64, bits=bits, zero_points="per_block")
    packed = pack(weights)
    known = {row.name: row for row in isa_support.kernel_rows()}
    for m in (1, 2, 3, 4, 7, 8, 9, 16, 31, 64, 130):
        names = _native.kernels_for(m, packed, compute=compute, isa=isa)
        assert names, f"no kernel for M={m}"
        assert {known[name]["isa"] for name in names} == {isa_support.isa_of_rows(isa, compute)}
        assert {(known[name]["compute"], known[name]["bits"]) for name in names} == {
            (compute, bits)
        }
        a = random_activations(rng, m, 200)
        c = _native.matmul_nbits(a, packed, compute=compute, isa=isa)
        oracle.assert_matches(
            c, oracle.matmul(a, weights, compute=compute), f"{isa} {compute} M={m}"
        )


@pytest.mark.parametrize("isa", isa_support.usable_isas())
@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
@pytest.mark.parametrize("general", [False, True])
def test_int8_is_the_stated_sequence_of_float_operations(
    isa: str, zero_points: ZeroPointCase, general: bool
) -> None:
    """Bit by bit, so that a model gives the same numbers on every ISA."""
    fractional = zero_points == "float" or (general and zero_points == "float_integers")
    rng = np.random.default_rng(7)
    widths = [(bits, block) for bits in (2, 4, 8) for block in BLOCK_LENGTHS]
    for bits, block in [*widths, (4, LONG_BLOCK), (8, LONG_BLOCK)]:
        for scales in ("fp16", "fp32"):
            k = 3 * block + 5 if block < LONG_BLOCK else block + 300
            weights = random_weights(
                rng, 37, k, block, bits=bits, zero_points=zero_points, scales=scales
            )
            a = random_activations(rng, 9, weights.k)
            bias = rng.standard_normal(37).astype(np.float32)
            expected, stated = oracle.matmul_int8_float32(a, weights, bias, fractional=fractional)
            assert stated.all()
            c = _native.matmul_nbits(a, pack(weights, general=general), bias=bias, isa=isa)
            np.testing.assert_array_equal(c, expected)
