"""The installed oracle: the int8 rule by hand, the tests' own oracle, and what it catches."""

from __future__ import annotations

import numpy as np
import pytest

import oracle as reference
from onnxruntime_ep_mlas.parity import (
    compare,
    matmul_nbits_oracle,
    quantize_activations,
    unpack_fields,
)


def random_weights(rng, n, k, block, zero_points="none"):
    k_blocks = -(-k // block)
    codes = rng.integers(0, 256, (n, k_blocks, block // 4), dtype=np.uint8)
    scales = rng.uniform(0.01, 0.1, (n, k_blocks)).astype(np.float32)
    zeros = None
    if zero_points == "packed":
        zeros = rng.integers(0, 256, (n, -(-k_blocks // 4)), dtype=np.uint8)
    elif zero_points == "float":
        zeros = rng.uniform(0, 3, (n, k_blocks)).astype(np.float32)
    return codes, scales, zeros


def test_int8_rule_rounds_half_to_even():
    a = np.zeros((1, 16), np.float32)
    a[0, :5] = [127.0, 0.5, 1.5, -2.5, 3.25]
    found = quantize_activations(a, 16)
    assert found.scales.tolist() == [[1.0]]
    assert found.q[0, :5].tolist() == [127, 0, 2, -2, 3]
    assert not found.fp32_rows.any()


def test_int8_rule_leaves_rows_that_it_would_spoil():
    a = np.ones((4, 32), np.float32)
    a[0, 3] = np.nan
    a[1, 20] = np.inf
    a[2, :16] = 1e-39  # 127 / amax overflows
    assert quantize_activations(a, 16).fp32_rows.tolist() == [True, True, True, False]


def test_unpack_fields_takes_low_bits_first():
    packed = np.array([[0b11_10_01_00, 0b00_00_00_11]], np.uint8)
    assert unpack_fields(packed, 5, 2).tolist() == [[0, 1, 2, 3, 3]]
    assert unpack_fields(np.array([0x21], np.uint8), 2, 4).tolist() == [1, 2]


@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("zero_points", ["none", "packed", "float"])
@pytest.mark.parametrize(("k", "block"), [(64, 16), (100, 32), (20, 64)])
def test_agrees_with_the_tests_own_oracle(compute, zero_points, k, block):
    rng = np.random.default_rng(k + block)
    codes, scales, zeros = random_weights(rng, 5, k, block, zero_points)
    a = rng.standard_normal((4, k)).astype(np.float32)
    a[1, 2] = np.nan
    a[2, 3] = -np.inf
    bias = rng.standard_normal(5).astype(np.float32)
    found = matmul_nbits_oracle(
        a, codes, scales, zeros, k=k, block_size=block, bias=bias, compute=compute
    )
    weights = reference.Weights(codes, scales, zeros, k, block)
    expected = reference.matmul(a, weights, bias, compute=compute)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12, atol=1e-13)
    finite = np.isfinite(expected.value)
    assert (found.tolerance[finite] <= 2 * expected.bound[finite]).all()


@pytest.mark.parametrize("compute", ["int8", "fp32"])
def test_g_idx_agrees_with_the_tests_own_oracle(compute):
    rng = np.random.default_rng(7)
    k, block = 96, 32
    codes, scales, zeros = random_weights(rng, 3, k, block, "packed")
    g_idx = rng.permutation(np.arange(k) // block).astype(np.int32)
    g_idx[:5] = 1  # uneven groups: one is longer than a block
    a = rng.standard_normal((2, k)).astype(np.float32)
    found = matmul_nbits_oracle(
        a, codes, scales, zeros, k=k, block_size=block, g_idx=g_idx, compute=compute
    )
    weights = reference.Weights(codes, scales, zeros, k, block)
    expected = reference.matmul(a, weights, compute=compute, g_idx=g_idx)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("k", [32, 1024, 4096])
def test_one_wrong_code_is_caught(compute, k):
    rng = np.random.default_rng(k)
    block = 32
    codes, scales, _ = random_weights(rng, 8, k, block)
    a = rng.standard_normal((4, k)).astype(np.float32)
    right = matmul_nbits_oracle(a, codes, scales, k=k, block_size=block, compute=compute)
    assert compare(right.value.astype(np.float32), right).passed

    # The code that meets the largest activation of row 0, changed by one.
    place = int(np.abs(a[0]).argmax())
    damaged = codes.copy()
    damaged[3, place // block, place % block // 4] ^= np.uint8(1 << 2 * (place % 4))
    wrong = matmul_nbits_oracle(a, damaged, scales, k=k, block_size=block, compute=compute)
    parity = compare(wrong.value.astype(np.float32), right)
    assert not parity.passed
    assert parity.worst > 1
    assert 1 <= parity.wrong <= 4


def test_nan_and_inf_must_meet_their_like():
    codes, scales, _ = random_weights(np.random.default_rng(0), 3, 32, 32)
    a = np.ones((2, 32), np.float32)
    oracle = matmul_nbits_oracle(a, codes, scales, k=32, block_size=32)
    for value in (np.nan, np.inf, -np.inf):
        result = oracle.value.astype(np.float32)
        result[1, 1] = value
        parity = compare(result, oracle)
        assert parity.wrong == 1
        assert parity.worst == np.inf

    a[0, 0] = np.nan
    expected = matmul_nbits_oracle(a, codes, scales, k=32, block_size=32)
    assert np.isnan(expected.value[0]).all()
    assert compare(expected.value.astype(np.float32), expected).passed
    swallowed = expected.value.astype(np.float32)
    swallowed[0] = 0
    assert compare(swallowed, expected).wrong == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.ones((1, 31), np.float32)}, r"A must be \[M, 32\]"),
        ({"codes": np.zeros((2, 1, 4), np.uint8)}, "codes hold 8 bytes"),
        ({"g_idx": np.full(32, 1)}, "g_idx must lie in 0..0"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    arguments = {
        "a": np.ones((1, 32), np.float32),
        "codes": np.zeros((2, 1, 8), np.uint8),
        "scales": np.ones((2, 1), np.float32),
        **change,
    }
    with pytest.raises(ValueError, match=message):
        matmul_nbits_oracle(**arguments, k=32, block_size=32)
