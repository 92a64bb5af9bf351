"""Products of any shape, by whatever kernel is asked for."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

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
from native_calls import pack_for, run_row, with_row_gap

block_lengths = st.sampled_from([16, 32, 64, 128, 256])
rows = st.sampled_from(isa_support.executable_kernel_rows(family="qnbit"))
seeds = st.integers(0, 2**32 - 1)


@given(
    row=rows,
    m=st.integers(0, 40),
    n=st.integers(1, 140),
    k=st.integers(1, 700),
    block=block_lengths,
    zero_points=st.sampled_from(ZERO_POINT_CASES),
    scales=st.sampled_from(SCALE_CASES),
    general=st.booleans(),
    with_bias=st.booleans(),
    lda_gap=st.integers(0, 20),
    ldc_gap=st.integers(0, 20),
    threads=st.sampled_from([1, 2, 4]),
    seed=seeds,
)
@settings(max_examples=min(300, 3 * settings.default.max_examples))
def test_any_shape(
    row: isa_support.KernelRow,
    m: int,
    n: int,
    k: int,
    block: int,
    zero_points: ZeroPointCase,
    scales: ScaleCase,
    general: bool,
    with_bias: bool,
    lda_gap: int,
    ldc_gap: int,
    threads: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    weights = random_weights(
        rng, n, k, block, bits=row["bits"], zero_points=zero_points, scales=scales
    )
    a = with_row_gap(random_activations(rng, m, k), lda_gap)
    bias = rng.standard_normal(n).astype(np.float32) if with_bias else None
    out = with_row_gap(np.zeros((m, n), np.float32), ldc_gap, fill=7)
    packed = pack_for(row, weights, general=general)
    c = run_row(row, a, packed, bias=bias, out=out, threads=threads)
    oracle.assert_matches(c, oracle.matmul(a, weights, bias, compute=row["compute"]), row.name)
    if ldc_gap and m:
        assert out.base is not None
        assert (out.base[:, n:] == 7).all()


@given(
    row=rows,
    m=st.integers(1, 20),
    n=st.integers(1, 70),
    k=st.integers(1, 500),
    block=block_lengths,
    zero_points=st.sampled_from(ZERO_POINT_CASES),
    seed=seeds,
)
@settings(max_examples=min(300, 3 * settings.default.max_examples))
def test_any_shape_exactly(
    row: isa_support.KernelRow,
    m: int,
    n: int,
    k: int,
    block: int,
    zero_points: ZeroPointCase,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    weights = random_weights(
        *(rng, n, k, block), bits=row["bits"], zero_points=zero_points, scales="power_of_two"
    )
    a = exact_activations(rng, m, k, block, row["bits"])
    bias = rng.integers(-100, 100, n).astype(np.float32)
    c = run_row(row, a, pack_for(row, weights), bias=bias)
    np.testing.assert_array_equal(c, oracle.matmul(a, weights, bias, compute=row["compute"]).value)


@given(row=rows, n=st.integers(1, 40), k=st.integers(1, 300), block=block_lengths, seed=seeds)
def test_scaling_a_by_a_power_of_two_scales_the_product(
    row: isa_support.KernelRow, n: int, k: int, block: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, n, k, block, bits=row["bits"], zero_points="float")
    packed = pack_for(row, weights)
    a = random_activations(rng, 3, k)
    np.testing.assert_array_equal(run_row(row, a * 8, packed), run_row(row, a, packed) * 8)


@given(row=rows, n=st.integers(2, 80), k=st.integers(1, 200), block=block_lengths, seed=seeds)
def test_columns_are_independent(
    row: isa_support.KernelRow, n: int, k: int, block: int, seed: int
) -> None:
    """Permuting the columns of the weights permutes those of the product, bit by bit."""
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, n, k, block, bits=row["bits"], zero_points="per_block")
    order = rng.permutation(n)
    assert weights.zero_points is not None
    permuted = oracle.Weights(
        *(weights.codes[order], weights.scales[order], weights.zero_points[order]),
        *(k, block, row["bits"]),
    )
    a = random_activations(rng, 4, k)
    np.testing.assert_array_equal(
        run_row(row, a, pack_for(row, permuted)), run_row(row, a, pack_for(row, weights))[:, order]
    )
