"""pack, unpack and matmul_nbits on quantised weights."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

import cases
import oracle
from narrow_types import narrowed
from onnxruntime_ep_mlas import (
    QuantizedWeights,
    cpu_features,
    kernels,
    matmul_nbits,
    pack,
    quantize_weights,
    unpack,
)
from onnxruntime_ep_mlas.packing import Compute

COMPUTES: tuple[Compute, ...] = get_args(Compute)


def from_oracle(weights: oracle.Weights) -> QuantizedWeights:
    return QuantizedWeights(
        weights.codes,
        weights.scales,
        weights.zero_points,
        weights.k,
        weights.n,
        weights.block_size,
        weights.bits,
    )


def check_round_trip(weights: QuantizedWeights) -> None:
    packed = pack(weights)
    assert packed.ctypes.data % 64 == 0
    back = unpack(packed)
    shape = (weights.k, weights.n, weights.block_size, weights.bits)
    assert (back.k, back.n, back.block_size, back.bits) == shape
    np.testing.assert_array_equal(back.code_values(), weights.code_values())
    np.testing.assert_array_equal(back.scales, weights.scales)
    np.testing.assert_array_equal(back.zero_point_values(), weights.zero_point_values())
    points = weights.zero_point_values()
    integers = (points == np.rint(points)) & (points >= 0) & (points < 2**weights.bits)
    if (points == 2 ** (weights.bits - 1)).all():
        assert back.zero_points is None
    else:
        assert back.zero_points is not None
        assert back.zero_points.dtype == (np.uint8 if integers.all() else np.float32)
    np.testing.assert_array_equal(pack(back), packed)
    np.testing.assert_array_equal(pack(weights, threads=2), packed)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero_points", cases.ZERO_POINT_CASES)
@pytest.mark.parametrize("scales", cases.SCALE_CASES)
@pytest.mark.parametrize(("n", "k", "block_size"), [(1, 1, 16), (17, 70, 32), (40, 300, 128)])
def test_round_trip(
    bits: int,
    zero_points: cases.ZeroPointCase,
    scales: cases.ScaleCase,
    n: int,
    k: int,
    block_size: int,
) -> None:
    rng = np.random.default_rng(n)
    kinds = {"bits": bits, "zero_points": zero_points, "scales": scales}
    check_round_trip(from_oracle(cases.random_weights(rng, n, k, block_size, **kinds)))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero_points", ["none", "per_block", "float"])
@pytest.mark.parametrize("block_size", [512, 4096, 65536])
def test_round_trip_of_blocks_stored_in_parts(
    bits: int, zero_points: cases.ZeroPointCase, block_size: int
) -> None:
    rng = np.random.default_rng(block_size)
    for k in (100, block_size + 129):
        check_round_trip(
            from_oracle(
                cases.random_weights(rng, 3, k, block_size, bits=bits, zero_points=zero_points)
            )
        )


@given(data=st.data())
def test_any_weights(data: st.DataObject) -> None:
    """Packed and back, and multiplied: whatever width, shape and kinds."""
    bits = data.draw(st.sampled_from([2, 4, 8]), "bits")
    block_size = data.draw(st.sampled_from([16, 32, 64, 128, 256] + [512, 1024] * (bits > 2)))
    n, k = data.draw(st.integers(1, 70), "n"), data.draw(st.integers(1, 1100), "k")
    m = data.draw(st.sampled_from([1, 2, 5, 9]), "m")
    weights = cases.random_weights(
        np.random.default_rng(data.draw(st.integers(0, 1 << 32), "seed")),
        *(n, k, block_size),
        bits=bits,
        zero_points=data.draw(st.sampled_from(cases.ZERO_POINT_CASES)),
        scales=data.draw(st.sampled_from(cases.SCALE_CASES)),
    )
    check_round_trip(from_oracle(weights))
    a = cases.random_activations(np.random.default_rng(k), m, k)
    for compute in COMPUTES:
        product = matmul_nbits(a, from_oracle(weights), compute=compute)
        oracle.assert_matches(product, oracle.matmul(a, weights, compute=compute))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("shape", [(96,), (1, 96), (7, 96), (2, 3, 96), (0, 96)])
def test_product(bits: int, compute: Compute, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    weights = cases.random_weights(rng, 21, 96, 32, bits=bits, zero_points="per_block")
    a = rng.standard_normal(shape).astype(np.float32)
    bias = rng.standard_normal(21).astype(np.float32)
    product = matmul_nbits(a, from_oracle(weights), bias=bias, compute=compute)
    assert product.shape == (*shape[:-1], 21)
    rows = a.reshape(-1, 96)
    oracle.assert_matches(
        product.reshape(-1, 21), oracle.matmul(rows, weights, bias, compute=compute)
    )
    packed = pack(from_oracle(weights))
    np.testing.assert_array_equal(
        matmul_nbits(a, packed, bias=bias, compute=compute, threads=2), product
    )


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_product_of_a_16_bit_type(bits: int, compute: Compute, name: str) -> None:
    dtype = np.dtype(name if name == "float16" else ml_dtypes.bfloat16)
    element_type = TensorProto.FLOAT16 if name == "float16" else TensorProto.BFLOAT16
    rng = np.random.default_rng(bits)
    weights = cases.random_weights(rng, 21, 96, 32, bits=bits)
    a = rng.standard_normal((2, 3, 96)).astype(dtype)
    product = matmul_nbits(a, from_oracle(weights), compute=compute)
    assert product.dtype == dtype
    assert product.shape == (2, 3, 21)
    expected = oracle.matmul(a.reshape(6, 96).astype(np.float32), weights, compute=compute)
    oracle.assert_matches(
        product.reshape(6, 21).astype(np.float32), narrowed(expected, element_type)
    )


def test_product_of_strided_rows() -> None:
    rng = np.random.default_rng(0)
    weights = quantize_weights(rng.standard_normal((64, 20)).astype(np.float32))
    wide = rng.standard_normal((5, 128)).astype(np.float32)
    expected = matmul_nbits(np.ascontiguousarray(wide[:, ::2]), weights)
    np.testing.assert_array_equal(matmul_nbits(wide[:, ::2], weights), expected)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_kernel_can_be_chosen(bits: int) -> None:
    rng = np.random.default_rng(0)
    weights = pack(quantize_weights(rng.standard_normal((64, 20)).astype(np.float32), bits=bits))
    a = rng.standard_normal((3, 64)).astype(np.float32)
    names = [
        row["name"]
        for row in kernels()
        if (row["isa"], row["compute"], row["format"], row["bits"])
        == ("portable", "int8", "quad", bits)
    ]
    assert names
    expected = matmul_nbits(a, weights, isa="portable")
    for name in names:
        np.testing.assert_array_equal(
            matmul_nbits(a, weights, isa="portable", kernel=name), expected
        )
    with pytest.raises(ValueError, match="nosuch"):
        matmul_nbits(a, weights, kernel="nosuch")
    other = next(row["name"] for row in kernels() if row["bits"] != bits)
    with pytest.raises(ValueError, match=other):
        matmul_nbits(a, weights, kernel=other)


def test_what_does_not_fit_is_refused() -> None:
    weights = quantize_weights(np.ones((64, 20), np.float32))
    with pytest.raises(ValueError, match="its last dim must be the weights' K, 64"):
        matmul_nbits(np.ones((2, 63), np.float32), weights)
    with pytest.raises(ValueError, match=r"a is float64 \[2, 64\]; it must be float32, float16"):
        matmul_nbits(np.ones((2, 64)), weights)
    with pytest.raises(ValueError, match="bias"):
        matmul_nbits(np.ones((2, 64), np.float32), weights, bias=np.ones(19, np.float32))
    four = quantize_weights(np.ones((64, 20), np.float32), bits=4)
    with pytest.raises(ValueError, match="column format holds 2-bit weights only"):
        pack(four, format="column")
    packed = pack(weights)
    damaged = packed.copy()
    damaged[-1] ^= 1
    with pytest.raises(ValueError):  # noqa: PT011 - misaligned or damaged, as the copy falls
        unpack(damaged)
    with pytest.raises(ValueError, match="codes is"):
        pack(replace(weights, codes=weights.codes[:-1]))


def test_machine_and_kernels_are_described() -> None:
    features = cpu_features()
    assert isinstance(features["brand"], str)
    assert isinstance(features["avx2"], bool)
    rows = kernels()
    assert len({row["name"] for row in rows}) == len(rows) > 0
    assert any(not row["unavailable_reason"] for row in rows)
