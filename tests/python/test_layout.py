"""Bit fields of the operator's layout, against the independent restatement in oracle.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from onnxruntime_ep_mlas import QuantizedWeights
from onnxruntime_ep_mlas.quantize import pack_fields, unpack_fields


@given(
    bits=st.sampled_from([2, 4, 8]),
    rows=st.integers(1, 3),
    count=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_fields_round_trip(bits: int, rows: int, count: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 2**bits, (rows, count), dtype=np.uint8)
    packed = pack_fields(values, bits)
    np.testing.assert_array_equal(packed, oracle.pack_fields(values, bits))
    np.testing.assert_array_equal(unpack_fields(packed, count, bits), values)


def test_first_value_is_in_the_lowest_bits() -> None:
    assert pack_fields(np.array([1, 2, 3, 0, 2], np.uint8), 2).tolist() == [0b00111001, 0b10]
    assert pack_fields(np.array([0x1, 0xA], np.uint8), 4).tolist() == [0xA1]


def test_no_fields_take_no_bytes() -> None:
    assert pack_fields(np.zeros((2, 0), np.uint8), 2).shape == (2, 0)
    assert unpack_fields(np.zeros((0, 3), np.uint8), 12, 2).shape == (0, 12)


def test_bad_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="value 4 doesn't fit 2 bits"):
        pack_fields(np.array([4], np.uint8), 2)
    with pytest.raises(ValueError, match="must be uint8"):
        pack_fields(np.array([1], np.int64), 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bits is 3"):
        pack_fields(np.array([1], np.uint8), 3)
    with pytest.raises(ValueError, match="1 bytes hold 4 fields of 2 bits, fewer than 5"):
        unpack_fields(np.zeros(1, np.uint8), 5, 2)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero_points", [None, "packed", "float"])
@pytest.mark.parametrize("k", [1, 16, 50, 96])
def test_dequantize_agrees_with_the_oracle(bits: int, zero_points: str | None, k: int) -> None:
    rng = np.random.default_rng(bits * k)
    n, block_size = 3, 16
    k_blocks = oracle.ceil_div(k, block_size)
    codes = rng.integers(0, 256, (n, k_blocks, block_size * bits // 8), dtype=np.uint8)
    scales = rng.standard_normal((n, k_blocks)).astype(np.float32)
    points: np.ndarray | None = None
    if zero_points == "packed":
        points = rng.integers(0, 256, (n, oracle.ceil_div(k_blocks * bits, 8)), dtype=np.uint8)
    elif zero_points == "float":
        points = rng.uniform(0, 3, (n, k_blocks)).astype(np.float32)
    weights = QuantizedWeights(codes, scales, points, k, n, block_size, bits)
    expected = oracle.Weights(codes, scales, points, k, block_size, bits)
    np.testing.assert_array_equal(weights.code_values(), expected.code_values())
    np.testing.assert_array_equal(weights.zero_point_values(), expected.zero_point_values())
    dequantized = weights.dequantize()
    assert dequantized.dtype == np.float32
    np.testing.assert_allclose(dequantized, expected.dequantize().T, rtol=1e-6, atol=1e-5)


def test_quantized_weights_refuse_arrays_that_do_not_fit() -> None:
    codes, scales = np.zeros((2, 1, 8), np.uint8), np.ones((2, 1), np.float32)
    QuantizedWeights(codes, scales, None, 32, 2, 32, 2)
    with pytest.raises(ValueError, match=r"codes is uint8 \[2, 1, 8\]; expected uint8 \[2, 2, 8\]"):
        QuantizedWeights(codes, scales, None, 33, 2, 32, 2)
    with pytest.raises(ValueError, match=r"scales is float64"):
        QuantizedWeights(codes, scales.astype(np.float64), None, 32, 2, 32, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"zero_points is uint8 \[2, 2\]"):
        QuantizedWeights(codes, scales, np.zeros((2, 2), np.uint8), 32, 2, 32, 2)
    with pytest.raises(ValueError, match=r"zero_points is float32 \[2, 2\]"):
        QuantizedWeights(codes, scales, np.zeros((2, 2), np.float32), 32, 2, 32, 2)
