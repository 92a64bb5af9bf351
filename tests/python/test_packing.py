"""pack, unpack and matmul_nbits on quantised weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import cases
import oracle
from onnxruntime_ep_mlas import (
    QuantizedWeights,
    cpu_features,
    kernels,
    matmul_nbits,
    pack,
    quantize_weights,
    unpack,
)


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


@pytest.mark.parametrize("zero_points", cases.ZERO_POINT_CASES)
@pytest.mark.parametrize("scales", cases.SCALE_CASES)
@pytest.mark.parametrize(("n", "k", "block_size"), [(1, 1, 16), (17, 70, 32), (40, 300, 128)])
def test_round_trip(
    zero_points: cases.ZeroPointCase, scales: cases.ScaleCase, n: int, k: int, block_size: int
) -> None:
    rng = np.random.default_rng(n)
    weights = from_oracle(
        cases.random_weights(rng, n, k, block_size, zero_points=zero_points, scales=scales)
    )
    packed = pack(weights)
    assert packed.ctypes.data % 64 == 0
    back = unpack(packed)
    assert (back.k, back.n, back.block_size, back.bits) == (k, n, block_size, 2)
    np.testing.assert_array_equal(back.code_values(), weights.code_values())
    np.testing.assert_array_equal(back.scales, weights.scales)
    np.testing.assert_array_equal(back.zero_point_values(), weights.zero_point_values())
    if (weights.zero_point_values() == 2).all():
        assert back.zero_points is None
    else:
        assert back.zero_points is not None
        assert back.zero_points.dtype == (np.float32 if zero_points == "float" else np.uint8)
    np.testing.assert_array_equal(pack(back), packed)


@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("shape", [(96,), (1, 96), (7, 96), (2, 3, 96), (0, 96)])
def test_product(compute: Literal["int8", "fp32"], shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    weights = cases.random_weights(rng, 21, 96, 32, zero_points="per_block")
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


def test_product_of_strided_rows() -> None:
    rng = np.random.default_rng(0)
    weights = quantize_weights(rng.standard_normal((64, 20)).astype(np.float32))
    wide = rng.standard_normal((5, 128)).astype(np.float32)
    expected = matmul_nbits(np.ascontiguousarray(wide[:, ::2]), weights)
    np.testing.assert_array_equal(matmul_nbits(wide[:, ::2], weights), expected)


def test_a_kernel_can_be_chosen() -> None:
    rng = np.random.default_rng(0)
    weights = pack(quantize_weights(rng.standard_normal((64, 20)).astype(np.float32)))
    a = rng.standard_normal((3, 64)).astype(np.float32)
    names = [
        row["name"]
        for row in kernels()
        if (row["isa"], row["compute"], row["format"], row["bits"])
        == ("portable", "int8", "quad", 2)
    ]
    assert names
    expected = matmul_nbits(a, weights, isa="portable")
    for name in names:
        np.testing.assert_array_equal(
            matmul_nbits(a, weights, isa="portable", kernel=name), expected
        )
    with pytest.raises(ValueError, match="nosuch"):
        matmul_nbits(a, weights, kernel="nosuch")


@pytest.mark.parametrize("bits", [4, 8])
def test_other_widths(bits: int) -> None:
    rng = np.random.default_rng(1)
    weights = quantize_weights(rng.standard_normal((192, 20)).astype(np.float32), bits=bits)
    packed = pack(weights)
    restored = unpack(packed)
    np.testing.assert_array_equal(restored.codes, weights.codes)
    np.testing.assert_array_equal(restored.scales, weights.scales)
    assert restored.bits == bits
    a = rng.standard_normal((3, 192)).astype(np.float32)
    exact = a @ weights.dequantize()
    for compute in ("int8", "fp32"):
        product = matmul_nbits(a, packed, compute=compute)  # type: ignore[arg-type]
        np.testing.assert_allclose(product, exact, rtol=0.05, atol=0.1 * np.abs(exact).mean())


def test_what_does_not_fit_is_refused() -> None:
    weights = quantize_weights(np.ones((64, 20), np.float32))
    with pytest.raises(ValueError, match="its last dim must be the weights' K, 64"):
        matmul_nbits(np.ones((2, 63), np.float32), weights)
    with pytest.raises(ValueError, match=r"a is float64 \[2, 64\]; it must be float32"):
        matmul_nbits(np.ones((2, 64)), weights)  # type: ignore[arg-type]
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
