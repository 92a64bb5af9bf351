"""The installed oracle: the int8 rule by hand, the tests' own oracle, and what it catches."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import oracle as reference
from onnxruntime_ep_mlas.parity import (
    compare,
    matmul_nbits_oracle,
    quantize_activations,
    unpack_fields,
)


def random_weights(rng, n, k, block, zero_points="none", bits=2):
    k_blocks = -(-k // block)
    codes = rng.integers(0, 256, (n, k_blocks, block * bits // 8), dtype=np.uint8)
    scales = rng.uniform(0.01, 0.1, (n, k_blocks)).astype(np.float32)
    zeros = None
    if zero_points == "packed":
        zeros = rng.integers(0, 256, (n, -(-k_blocks * bits // 8)), dtype=np.uint8)
    elif zero_points == "float":
        zeros = rng.uniform(0, 2**bits - 1, (n, k_blocks)).astype(np.float32)
    elif zero_points == "whole floats":
        zeros = rng.integers(0, 2**bits, (n, k_blocks)).astype(np.float32)
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
@pytest.mark.parametrize("zero_points", ["none", "packed", "float", "whole floats"])
@pytest.mark.parametrize(
    ("bits", "k", "block"),
    [
        *[(2, 64, 16), (2, 100, 32), (2, 20, 64), (4, 100, 32), (8, 100, 32)],
        # Blocks that are summed up in parts.
        *[(4, 1300, 512), (8, 600, 256), (8, 1300, 512), (8, 4500, 4096)],
    ],
)
def test_agrees_with_the_tests_own_oracle(compute, zero_points, bits, k, block):
    rng = np.random.default_rng(k + block)
    codes, scales, zeros = random_weights(rng, 5, k, block, zero_points, bits)
    a = rng.standard_normal((4, k)).astype(np.float32)
    a[1, 2] = np.nan
    a[2, 3] = -np.inf
    bias = rng.standard_normal(5).astype(np.float32)
    shape = {"k": k, "block_size": block, "bits": bits}
    found = matmul_nbits_oracle(a, codes, scales, zeros, **shape, bias=bias, compute=compute)
    weights = reference.Weights(codes, scales, zeros, k, block, bits)
    expected = reference.matmul(a, weights, bias, compute=compute)
    size = expected.magnitude.max()
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12, atol=1e-13 * size)
    finite = np.isfinite(expected.value)
    assert finite.any()
    assert (found.tolerance[finite] <= 2 * expected.bound[finite]).all()
    # Every ISA's own sequence of float32 operations is within it.
    if compute == "int8":
        product, rows = reference.matmul_int8_float32(a, weights, bias)
        inside = np.abs(product - found.value) <= found.tolerance
        assert rows.tolist() == [True, False, False, True]
        assert inside[rows].all()


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("compute", ["int8", "fp32"])
def test_g_idx_agrees_with_the_tests_own_oracle(compute, bits):
    rng = np.random.default_rng(7)
    k, block = 96, 32
    codes, scales, zeros = random_weights(rng, 3, k, block, "packed", bits)
    g_idx = rng.permutation(np.arange(k) // block).astype(np.int32)
    g_idx[:5] = 1  # uneven groups: one is longer than a block
    a = rng.standard_normal((2, k)).astype(np.float32)
    shape = {"k": k, "block_size": block, "bits": bits}
    found = matmul_nbits_oracle(a, codes, scales, zeros, **shape, g_idx=g_idx, compute=compute)
    weights = reference.Weights(codes, scales, zeros, k, block, bits)
    expected = reference.matmul(a, weights, compute=compute, g_idx=g_idx)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("k", [32, 1024, 4096])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_one_wrong_code_is_caught(compute, k, bits):
    rng = np.random.default_rng(k)
    block = 32
    shape = {"k": k, "block_size": block, "bits": bits, "compute": compute}
    codes, scales, _ = random_weights(rng, 8, k, block, bits=bits)
    a = rng.standard_normal((4, k)).astype(np.float32)
    right = matmul_nbits_oracle(a, codes, scales, **shape)
    assert compare(right.value.astype(np.float32), right).passed

    # The code that meets the largest activation of row 0, changed by its lowest bit; in float32
    # sums of thousands of terms that of a wide code may drown.
    place = int(np.abs(a[0]).argmax())
    damaged = codes.copy()
    per_byte = 8 // bits
    bit = bits // 2 if compute == "fp32" else 0
    field = np.uint8(1 << bits * (place % per_byte) + bit)
    damaged[3, place // block, place % block // per_byte] ^= field
    wrong = matmul_nbits_oracle(a, damaged, scales, **shape)
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


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_a_narrow_result_may_be_rounded_once_more(dtype):
    rng = np.random.default_rng(3)
    codes, scales, _ = random_weights(rng, 16, 64, 32, bits=4)
    a = rng.standard_normal((4, 64)).astype(dtype)
    exact = matmul_nbits_oracle(
        a, codes, scales.astype(dtype), k=64, block_size=32, bits=4, compute="fp32"
    )
    result = exact.value.astype(np.float32).astype(dtype)
    name = np.dtype(dtype).name
    assert compare(result, exact).passed
    assert compare(result.astype(np.float32), exact, type=name).passed
    assert not compare(result.astype(np.float32), exact).passed  # float32 can do better
    # The neighbours of a number in the type: one of the two is wrong for each element.
    for sign in (1, -1):
        moved = result.view(np.int16) + np.int16(sign)
        assert compare(moved.view(dtype), exact).wrong > 16


def test_a_result_may_overflow_its_type():
    codes = np.full((1, 1, 8), 0xFF, np.uint8)
    scales = np.full((1, 1), 8192, np.float32)
    a = np.array([[1] * 16, [-1] * 16], np.float16)
    exact = matmul_nbits_oracle(a, codes, scales, k=16, block_size=16, bits=4, compute="fp32")
    infinite = np.array([[np.inf], [-np.inf]], np.float16)
    assert compare(infinite, exact).passed
    assert compare(-infinite, exact).wrong == 2
    assert compare(infinite.astype(np.float32), exact).wrong == 2
    largest = np.array([[65504], [-65504]], np.float16)
    assert compare(largest, exact).wrong == 2


def test_a_partial_sum_may_overflow():
    codes = np.full((1, 1, 8), 0xFF, np.uint8)
    scales = np.full((1, 1), 1e38, np.float32)
    a = np.array([[1, -1] * 8, [0.01, -0.01] * 8, [np.inf] + [1, -1] * 7 + [1]], np.float32)
    oracle = matmul_nbits_oracle(a, codes, scales, k=16, block_size=16, bits=4, compute="fp32")
    assert oracle.may_overflow.tolist() == [[True], [False], [True]]
    result = np.array([[np.nan], [0], [np.nan]], np.float32)
    assert compare(result, oracle).passed
    result[1] = np.inf
    result[2] = -np.inf
    assert compare(result, oracle).wrong == 2


@pytest.mark.parametrize("block", [16, 512])
def test_results_below_the_normal_range(block):
    """Products of scales that are denormal lose bits, which a large sum multiplies."""
    rng = np.random.default_rng(block)
    codes, _, _ = random_weights(rng, 4, block, block, bits=8)
    scales = np.full((4, 1), 1e-12, np.float32)
    a = (1e-28 * rng.uniform(1, 2, (3, block))).astype(np.float32)
    found = matmul_nbits_oracle(a, codes, scales, k=block, block_size=block, bits=8)
    weights = reference.Weights(codes, scales, None, block, block, 8)
    product, rows = reference.matmul_int8_float32(a, weights)
    assert rows.all()
    assert compare(product, found).passed
    assert not compare(product * np.float32(1.2), found).passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.ones((1, 31), np.float32)}, r"A must be \[M, 32\]"),
        ({"codes": np.zeros((2, 1, 4), np.uint8)}, "codes hold 8 bytes"),
        ({"g_idx": np.full(32, 1)}, "g_idx must lie in 0..0"),
        ({"bits": 3}, "bits is 3; MatMulNBits has 2, 4 and 8"),
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
