"""NaN, infinities, denormals, huge values and signed zeros in A."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import isa_support
import oracle
from cases import ZERO_POINT_CASES, ZeroPointCase, random_activations, random_weights
from isa_support import KernelRow
from native_calls import pack, pack_for, run_row, with_row_gap
from onnxruntime_ep_mlas import _native

every_row = pytest.mark.parametrize(
    "row", isa_support.executable_kernel_rows(family="qnbit"), ids=repr
)
SMALLEST_DENORMAL = np.float32(1e-45)


def smallest_amax_with_reciprocal() -> np.float32:
    """The smallest float32 by which 127 can be divided without overflow."""
    with np.errstate(over="ignore"):
        amax = np.float32(127 / oracle.FLOAT32_MAX)
        while np.isfinite(np.float32(127) / amax):
            amax = np.nextafter(amax, np.float32(0))
        while np.isinf(np.float32(127) / amax):
            amax = np.nextafter(amax, np.float32(1))
    return amax


SMALLEST_WITH_RECIPROCAL = smallest_amax_with_reciprocal()
LARGEST_WITHOUT_RECIPROCAL = np.nextafter(SMALLEST_WITH_RECIPROCAL, np.float32(0))


@every_row
@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_values_give_what_ieee_says(
    row: KernelRow, zero_points: ZeroPointCase, value: float
) -> None:
    rng = np.random.default_rng(2)
    weights = random_weights(rng, 35, 75, 32, bits=row["bits"], zero_points=zero_points)
    packed = pack_for(row, weights)
    clean = random_activations(rng, 2 * row["tile_rows"] + 1, 75)
    usual = run_row(row, clean, packed)
    for place in (0, 31, 40, 74):
        a = clean.copy()
        affected = [0, row["tile_rows"]]
        a[affected, place] = value
        c = run_row(row, a, packed)
        oracle.assert_matches(c, oracle.matmul(a, weights, compute=row["compute"]), row.name)
        untouched = np.delete(np.arange(len(a)), affected)
        np.testing.assert_array_equal(c[untouched], usual[untouched])


@every_row
def test_infinities_that_cancel(row: KernelRow) -> None:
    rng = np.random.default_rng(4)
    weights = random_weights(rng, 20, 64, 16, bits=row["bits"], zero_points="per_block")
    a = random_activations(rng, row["tile_rows"], 64)
    a[:, 3], a[:, 50] = np.inf, -np.inf
    c = run_row(row, a, pack_for(row, weights))
    expected = oracle.matmul(a, weights, compute=row["compute"])
    assert np.isnan(expected.value).any()
    oracle.assert_matches(c, expected, row.name)


@every_row
def test_what_lies_past_k_is_not_read(row: KernelRow) -> None:
    rng = np.random.default_rng(5)
    weights = random_weights(rng, 20, 41, 16, bits=row["bits"])
    a = random_activations(rng, 2 * row["tile_rows"] + 1, 41)
    expected = run_row(row, a, pack_for(row, weights))
    for junk in (np.nan, np.inf, 3e38):
        c = run_row(row, with_row_gap(a, 20, junk), pack_for(row, weights))
        np.testing.assert_array_equal(c, expected)


@every_row
@pytest.mark.parametrize("magnitude", [SMALLEST_DENORMAL, 1e-42, 1e-39, 2e-38, 1e-36, 1e-30])
def test_tiny_values(row: KernelRow, magnitude: float) -> None:
    rng = np.random.default_rng(6)
    weights = random_weights(rng, 18, 48, 16, bits=row["bits"], zero_points="float")
    a = (rng.uniform(-1, 1, (row["tile_rows"] + 1, 48)) * magnitude).astype(np.float32)
    a[0] = random_activations(rng, 1, 48)
    a[-1, :16] = random_activations(rng, 1, 16)
    c = run_row(row, a, pack_for(row, weights))
    oracle.assert_matches(c, oracle.matmul(a, weights, compute=row["compute"]), row.name)


@every_row
def test_denormal_block_keeps_its_product(row: KernelRow) -> None:
    bits = row["bits"]
    one_above = np.full((1, 1, 16), 2 ** (bits - 1) + 1, np.uint8)
    weights = oracle.Weights(
        codes=oracle.pack_fields(one_above, bits),
        scales=np.ones((1, 1), np.float32),
        zero_points=None,
        k=16,
        block_size=16,
        bits=bits,
    )
    a = np.full((row["tile_rows"], 16), 1e-40, np.float32)
    c = run_row(row, a, pack_for(row, weights))
    np.testing.assert_array_equal(c, a.astype(np.float64).sum(axis=1)[:, None].astype(np.float32))
    assert c.all()


@every_row
def test_huge_values(row: KernelRow) -> None:
    rng = np.random.default_rng(7)
    weights = random_weights(rng, 20, 64, 32, bits=row["bits"], zero_points="per_block")
    scales = (
        (weights.scales * np.float32(2.0 ** (-7 - row["bits"])))
        .astype(np.float16)
        .astype(np.float32)
    )
    weights = replace(weights, scales=scales)
    a = rng.choice([3e38, -3e38, 3.4028235e38, 1.0], (row["tile_rows"] + 1, 64)).astype(np.float32)
    c = run_row(row, a, pack_for(row, weights))
    expected = oracle.matmul(a, weights, compute=row["compute"])
    assert (expected.magnitude < oracle.FLOAT32_MAX).any()
    oracle.assert_matches(c, expected, row.name)


@every_row
def test_zeros_of_either_sign(row: KernelRow) -> None:
    weights = random_weights(
        *(np.random.default_rng(8), 20, 40, 16), bits=row["bits"], zero_points="float"
    )
    bias = np.arange(20, dtype=np.float32)
    for zero in (0.0, -0.0):
        a = np.full((row["tile_rows"] + 1, 40), zero, np.float32)
        assert not run_row(row, a, pack_for(row, weights)).any()
        c = run_row(row, a, pack_for(row, weights), bias=bias)
        np.testing.assert_array_equal(c, np.tile(bias, (len(a), 1)))


@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_rows_that_int8_leaves_to_fp32_are_those_of_fp32(isa: str) -> None:
    """Bit by bit, and whatever rows surround them."""
    rng = np.random.default_rng(9)
    for zero_points in ZERO_POINT_CASES:
        weights = random_weights(rng, 83, 100, 32, zero_points=zero_points)
        packed, bias = pack(weights), rng.standard_normal(83).astype(np.float32)
        a = random_activations(rng, 40, 100)
        a[3, 7] = np.inf
        a[4, 99] = np.nan
        a[17, 32:64] = 1e-40
        a[39, 96:] = LARGEST_WITHOUT_RECIPROCAL
        rows = [3, 4, 17, 39]
        int8 = _native.matmul_nbits(a, packed, bias=bias, isa=isa, compute="int8")
        fp32 = _native.matmul_nbits(a, packed, bias=bias, isa=isa, compute="fp32")
        np.testing.assert_array_equal(int8[rows], fp32[rows])
        others = np.delete(np.arange(40), rows)
        assert (int8[others] != fp32[others]).any()


@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_bound_below_which_the_reciprocal_overflows(isa: str) -> None:
    a = np.full((4, 32), 1.0, np.float32)
    a[0, :16] = LARGEST_WITHOUT_RECIPROCAL
    a[1, :16] = SMALLEST_WITH_RECIPROCAL
    a[2, :16] = -LARGEST_WITHOUT_RECIPROCAL
    a[3, :16] = 0.0
    q, scales, sums, fp32_rows = _native.quantize_activations(a, 16, isa=isa)
    assert fp32_rows.tolist() == [1, 0, 1, 0]
    assert (q[1, :16] == 127).all()
    assert scales[1, 0] == SMALLEST_WITH_RECIPROCAL / np.float32(127)
    assert sums[1].tolist() == [127 * 16, 127 * 16]
    assert scales[3, 0] == 0
    assert not q[3, :16].any()
