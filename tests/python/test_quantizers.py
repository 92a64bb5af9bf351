"""Quantisers of weights against exhaustive search and their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from float_models import grid_weights
from onnxruntime_ep_mlas import (
    Algorithm,
    QuantizedWeights,
    algorithms,
    quantize_weights,
    register_algorithm,
)
from onnxruntime_ep_mlas.quantize import CodedColumns, Columns, driver
from onnxruntime_ep_mlas.quantize import algorithm as algorithm_module

# Every positive fp16 number.
ALL_SCALES = np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
ALGORITHM_BITS = [
    (name, bits) for name, algorithm in algorithms().items() for bits in algorithm.bits
]
Float32Array = npt.NDArray[np.float32]


def squared_error(weights: Float32Array, quantized: QuantizedWeights) -> float:
    return float(np.square(weights.astype(np.float64) - quantized.dequantize()).sum())


def least_error_by_search(column: npt.NDArray[np.float64], bits: int) -> float:
    """Least squared error of one block over all fp16 scales, integer zero points and codes."""
    best = float(np.square(column).sum())
    for zero_point in range(2**bits):
        steps = column / ALL_SCALES[:, None]
        codes = np.clip(np.rint(steps) + zero_point, 0, 2**bits - 1)
        errors = np.square(column - (codes - zero_point) * ALL_SCALES[:, None]).sum(axis=1)
        best = min(best, float(errors.min()))
    return best


blocks = hnp.arrays(
    np.float32,
    (16, 1),
    elements=st.one_of(
        st.floats(-8, 8, width=32),
        st.sampled_from([0.0, 1.0, -1.0, 0.5, -2.0, 1e-6, -1e-7, 6e4]),
    ),
)


@given(blocks)
@settings(max_examples=min(60, settings.default.max_examples))
def test_mse_is_the_least_error_of_all_grids(weights: Float32Array) -> None:
    quantized = quantize_weights(weights, block_size=16, algorithm="mse")
    least = least_error_by_search(weights[:, 0].astype(np.float64), 2)
    assert (
        squared_error(weights, quantized)
        <= least * (1 + 1e-5) + 1e-12 * np.square(weights, dtype=np.float64).sum()
    )


def test_mse_at_4_bits_is_the_least_error_of_all_grids() -> None:
    weights = np.random.default_rng(4).standard_normal((16, 3)).astype(np.float32)
    for column in weights.T:
        quantized = quantize_weights(column[:, None], bits=4, block_size=16, algorithm="mse")
        least = least_error_by_search(column.astype(np.float64), 4)
        assert squared_error(column[:, None], quantized) <= least * (1 + 1e-5)


@given(blocks)
def test_mse_is_never_worse_than_rounding(weights: Float32Array) -> None:
    mse = squared_error(weights, quantize_weights(weights, block_size=16, algorithm="mse"))
    floor = 1e-12 * float(np.square(weights, dtype=np.float64).sum())
    for other in ("rtn", "rtn_asymmetric"):
        error = squared_error(weights, quantize_weights(weights, block_size=16, algorithm=other))
        assert mse <= error * (1 + 1e-5) + floor, other


@pytest.mark.parametrize(("name", "bits"), ALGORITHM_BITS)
@pytest.mark.parametrize("k", [5, 32, 100])
def test_every_code_is_the_nearest_of_its_grid(name: str, bits: int, k: int) -> None:
    weights = np.random.default_rng(k).standard_normal((k, 6)).astype(np.float32)
    quantized = quantize_weights(weights, bits=bits, block_size=32, algorithm=name)
    block = np.arange(k) // 32
    scales = quantized.scales.astype(np.float64)[:, block]
    zero_points = quantized.zero_point_values().astype(np.float64)[:, block]
    levels = np.arange(2**bits)[:, None, None]
    nearest = np.abs((levels - zero_points) * scales - weights.T).min(axis=0)
    chosen = np.abs((quantized.code_values() - zero_points) * scales - weights.T)
    assert (chosen <= nearest + 1e-6 * np.abs(scales)).all()


@pytest.mark.parametrize(("name", "bits"), ALGORITHM_BITS)
def test_scales_are_exact_in_fp16(name: str, bits: int) -> None:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((70, 9)).astype(np.float32)
    weights *= np.exp2(rng.integers(-20, 8, 9)).astype(np.float32)
    quantized = quantize_weights(weights, bits=bits, algorithm=name)
    np.testing.assert_array_equal(
        quantized.scales.astype(np.float16).astype(np.float32), quantized.scales
    )


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rtn_puts_the_largest_weight_on_code_0(bits: int) -> None:
    weights = np.zeros((32, 3), np.float32)
    weights[7] = [3.0, -3.0, 2.5]
    weights[9] = [-1.0, 1.0, -2.5]
    quantized = quantize_weights(weights, bits=bits, algorithm="rtn")
    half = 2 ** (bits - 1)
    expected = (np.array([3.0, -3.0, -2.5]) / -half).astype(np.float16)
    np.testing.assert_array_equal(quantized.scales[:, 0], expected.astype(np.float32))
    assert quantized.zero_points is None
    codes = quantized.code_values()
    assert codes[:2, 7].tolist() == [0, 0]
    assert codes[2, 9] == 0
    assert (codes[:, 0] == half).all()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rtn_asymmetric_spans_the_block_and_zero(bits: int) -> None:
    weights = np.zeros((16, 3), np.float32)
    weights[:, 0] = np.linspace(-1, 2, 16)
    weights[:, 1] = np.linspace(3, 6, 16)
    weights[:, 2] = np.linspace(-6, -3, 16)
    quantized = quantize_weights(weights, bits=bits, block_size=16, algorithm="rtn_asymmetric")
    highest = 2**bits - 1
    np.testing.assert_array_equal(
        quantized.scales[:, 0],
        (np.array([3, 6, 6], np.float32) / np.float32(highest)).astype(np.float16),
    )
    assert quantized.zero_point_values()[:, 0].tolist() == [round(highest / 3), 0, highest]


@pytest.mark.parametrize(
    # At 4 and 8 bits an asymmetric grid's step over such a block isn't exact in fp16.
    ("name", "bits"),
    [pair for pair in ALGORITHM_BITS if pair[0] != "rtn_asymmetric" or pair[1] == 2],
)
@pytest.mark.parametrize("block_size", [16, 32, 64])
def test_weights_on_a_grid_come_back(name: str, bits: int, block_size: int) -> None:
    # Powers of two times -2..1: 4- and 8-bit grids hold them too.
    weights = grid_weights(np.random.default_rng(2), 150, 11, block_size)
    if name == "rtn_asymmetric":
        # Its grid spans [min, max]: only blocks that reach both ends come back.
        weights[1::block_size] = weights[::block_size] * np.float32(-0.5)
    quantized = quantize_weights(weights, bits=bits, block_size=block_size, algorithm=name)
    np.testing.assert_array_equal(quantized.dequantize(), weights)


@pytest.mark.parametrize(("name", "bits"), ALGORITHM_BITS)
def test_zero_and_vanishing_blocks_become_zero(name: str, bits: int) -> None:
    weights = np.zeros((64, 4), np.float32)
    weights[:, 1] = 1e-9
    weights[:, 2] = -1e-40
    weights[3, 3] = 1.0
    quantized = quantize_weights(weights, bits=bits, algorithm=name)
    dequantized = quantized.dequantize()
    assert np.isfinite(dequantized).all()
    assert (dequantized[:, :3] == 0).all()
    assert (dequantized[32:, 3] == 0).all()


@pytest.mark.parametrize(("name", "bits"), ALGORITHM_BITS)
@pytest.mark.parametrize("constant", [0.75, -0.75, 6e4, -3e-5])
def test_constant_blocks_are_within_fp16_of_themselves(
    name: str, bits: int, constant: float
) -> None:
    weights = np.full((32, 2), constant, np.float32)
    dequantized = quantize_weights(weights, bits=bits, algorithm=name).dequantize()
    # Each quantiser puts the one value on a level: what is left is the rounding of the scale, by
    # half a unit of fp16, times the level.
    step = float(np.spacing(np.float16(abs(constant)))) * 2 ** (bits - 1)
    np.testing.assert_allclose(dequantized, weights, rtol=2.0**-10, atol=max(step, 2.0**-24))


@pytest.mark.parametrize("name", algorithms())
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_weights_are_refused_by_name_and_place(name: str, bad: float) -> None:
    weights = np.ones((40, 17000), np.float32)
    weights[33, 16901] = bad
    with pytest.raises(ValueError, match=r"layer\.weight holds .* at row 33, column 16901"):
        quantize_weights(weights, algorithm=name, name="layer.weight")


def test_weights_beyond_fp16_scales_are_refused() -> None:
    quantize_weights(np.full((16, 1), 98256.0, np.float32), block_size=16, algorithm="mse")
    with pytest.raises(ValueError, match="its scale would leave the range of fp16"):
        quantize_weights(np.full((16, 1), 98257.0, np.float32), block_size=16)


@pytest.mark.parametrize("name", algorithms())
def test_result_depends_neither_on_threads_nor_on_strides(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    # Several times what is quantised at a time.
    monkeypatch.setattr(driver, "_WEIGHTS_AT_A_TIME", 1 << 14)
    weights = rng.standard_normal((1000, 70)).astype(np.float32)
    expected = quantize_weights(weights, algorithm=name)
    for other in (
        quantize_weights(weights, algorithm=name, threads=3),
        quantize_weights(np.asfortranarray(weights), algorithm=name),
        quantize_weights(np.repeat(weights, 2, axis=1)[:, ::2], algorithm=name),
    ):
        np.testing.assert_array_equal(other.codes, expected.codes)
        np.testing.assert_array_equal(other.scales, expected.scales)
        np.testing.assert_array_equal(other.zero_point_values(), expected.zero_point_values())


@pytest.mark.parametrize(("k", "n"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_small_and_empty_matrices(k: int, n: int) -> None:
    quantized = quantize_weights(np.ones((k, n), np.float32))
    assert quantized.dequantize().shape == (k, n)
    assert (quantized.dequantize() == 1).all()


def test_sizes_at_block_32() -> None:
    weights = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)
    symmetric = quantize_weights(weights, algorithm="rtn")
    assert symmetric.nbytes == 64 * 16 // 4 + 16 * 2 * 4
    assert quantize_weights(weights, algorithm="mse").nbytes == symmetric.nbytes + 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bits": 3}, "bits is 3; MatMulNBits has 2, 4 and 8"),
        ({"block_size": 24}, "block_size is 24; it must be a power of two"),
        ({"block_size": 8}, "block_size is 8; it must be a power of two of at least 16"),
        ({"block_size": 512}, "block_size is 512; at 2 bits it may be 256 at most"),
        ({"algorithm": "gtpq"}, "unknown algorithm 'gtpq'; known: rtn, rtn_asymmetric, mse"),
        ({"algorithm": "mse", "bits": 8}, "'mse' can't do 8 bits; choose rtn or rtn_asymmetric"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize_weights(np.ones((32, 2), np.float32), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("array", [np.ones((4, 4)), np.ones(4, np.float32)])
def test_other_arrays_are_refused(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"must be float32 \[K, N\]"):
        quantize_weights(array)


def test_a_registered_algorithm_is_used_and_held_to_its_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(algorithm_module, "_ALGORITHMS", algorithms())

    def sign(columns: Columns, scale: float) -> CodedColumns:
        codes = np.where(columns.blocks < 0, 1, 3).astype(np.uint8)
        return CodedColumns(codes, np.full(codes.shape[:-1], scale, np.float32), None)

    register_algorithm(Algorithm("sign", "signs", (2,), lambda c: sign(c, 0.5)))
    register_algorithm(Algorithm("inexact", "signs", (2,), lambda c: sign(c, 0.1)))
    weights = np.array([[-3.0, 2.0]], np.float32)
    assert quantize_weights(weights, algorithm="sign").dequantize().tolist() == [[-0.5, 0.5]]
    with pytest.raises(ValueError, match="'inexact' returned scales that fp16 can't hold"):
        quantize_weights(weights, algorithm="inexact")
    with pytest.raises(ValueError, match="already a quantisation algorithm 'sign'"):
        register_algorithm(Algorithm("sign", "again", (2,), lambda c: sign(c, 0.5)))


def test_negative_and_positive_blocks_mirror_each_other() -> None:
    weights = np.random.default_rng(5).standard_normal((64, 8)).astype(np.float32)
    for name, bits in itertools.product(("rtn", "mse"), (2, 4)):
        plus = quantize_weights(weights, bits=bits, algorithm=name)
        minus = quantize_weights(-weights, bits=bits, algorithm=name)
        assert squared_error(weights, plus) == pytest.approx(squared_error(-weights, minus))
