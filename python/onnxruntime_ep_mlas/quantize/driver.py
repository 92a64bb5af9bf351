"""quantize_weights: checks, cuts the matrix into blocks and runs a quantiser over its columns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from onnxruntime_ep_mlas._arrays import Float32Array, Uint8Array
from onnxruntime_ep_mlas.quantize.algorithm import (
    FP16_MAX,
    Algorithm,
    CodedColumns,
    Columns,
    find_algorithm,
)
from onnxruntime_ep_mlas.quantize.layout import ceil_div, check_bits_and_block_size, pack_fields
from onnxruntime_ep_mlas.quantize.quantized_weights import QuantizedWeights

# Weights handed to a quantiser at a time: bounds the memory it needs beside the matrix.
_WEIGHTS_AT_A_TIME = 1 << 20


def quantize_weights(
    weights: Float32Array,
    *,
    bits: int = 2,
    block_size: int = 32,
    algorithm: str = "rtn",
    threads: int = 1,
    name: str = "weights",
) -> QuantizedWeights:
    """Quantises a matrix W of the product A @ W.

    Every scale is rounded to fp16 before codes are chosen, so that storing it in 16 bits loses
    nothing. The result doesn't depend on `threads`.

    Args:
        weights: float32 [K, N]; any strides.
        bits: 2, 4 or 8.
        block_size: rows of W that share a scale: a power of two, at least 16; at 2 bits at most
            256. It needn't divide K.
        algorithm: a name of `algorithms()`: "rtn", "rtn_asymmetric" or "mse".
        threads: how many threads to use.
        name: what error messages call the matrix.

    Returns:
        The quantised matrix. Codes past K are the zero point, so they dequantise to 0.

    Raises:
        ValueError: a wrong type, shape, width, block size or algorithm; a weight that is NaN or
            infinite, or so large that its scale leaves the range of fp16.
    """
    check_bits_and_block_size(bits, block_size)
    quantizer = find_algorithm(algorithm, bits)
    if threads < 1:
        raise ValueError(f"threads is {threads}; it must be at least 1")
    if weights.dtype != np.float32 or weights.ndim != 2:
        raise ValueError(
            f"{name} is {weights.dtype} {list(weights.shape)}; it must be float32 [K, N]"
        )
    k, n = weights.shape
    k_blocks = ceil_div(k, block_size)
    step = max(1, _WEIGHTS_AT_A_TIME // max(1, k_blocks * block_size))
    starts = range(0, n, step)

    def run(start: int) -> tuple[Uint8Array, Float32Array, Uint8Array | None]:
        columns = _cut(weights[:, start : start + step], start, block_size, bits, name)
        coded = _run_checked(quantizer, columns)
        zero_points = coded.zero_points
        return (
            pack_fields(coded.codes, bits),
            coded.scales,
            None if zero_points is None else pack_fields(zero_points, bits),
        )

    if k == 0 or n == 0:
        empty = np.zeros((n, k_blocks), np.float32)
        codes = np.zeros((n, k_blocks, block_size * bits // 8), np.uint8)
        return QuantizedWeights(codes, empty, None, k, n, block_size, bits)
    if threads == 1 or len(starts) == 1:
        parts = [run(start) for start in starts]
    else:
        with ThreadPoolExecutor(min(threads, len(starts))) as pool:
            parts = list(pool.map(run, starts))
    packed_zero_points = [part[2] for part in parts if part[2] is not None]
    return QuantizedWeights(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate(packed_zero_points) if packed_zero_points else None,
        k,
        n,
        block_size,
        bits,
    )


def _cut(part: Float32Array, first_column: int, block_size: int, bits: int, name: str) -> Columns:
    k, count = part.shape
    k_blocks = ceil_div(k, block_size)
    padded = np.zeros((count, k_blocks * block_size), np.float32)
    padded[:, :k] = part.T
    largest = float(np.abs(padded).max())
    if not np.isfinite(largest):
        column, row = (int(i) for i in np.argwhere(~np.isfinite(padded))[0])
        raise ValueError(
            f"{name} holds {padded[column, row]} at row {row}, column {first_column + column}; "
            "only finite weights can be quantised"
        )
    # The widest step that any quantiser takes: both extremes at the ends of the levels.
    limit = FP16_MAX * (2**bits - 1) / 2
    if largest > limit:
        raise ValueError(
            f"{name} holds a weight of magnitude {largest:g}; at {bits} bits its scale would leave "
            f"the range of fp16 (weights up to {limit:g} can be quantised)"
        )
    return Columns(padded.reshape(count, k_blocks, block_size), bits)


def _run_checked(algorithm: Algorithm, columns: Columns) -> CodedColumns:
    """Holds a quantiser to its contract: packing and kernels rely on it."""
    coded = algorithm.quantize(columns)
    expected = columns.blocks.shape
    if coded.codes.shape != expected or coded.scales.shape != expected[:-1]:
        raise ValueError(
            f"algorithm {algorithm.name!r} returned codes {list(coded.codes.shape)} and scales "
            f"{list(coded.scales.shape)} for blocks {list(expected)}"
        )
    if not np.array_equal(coded.scales, coded.scales.astype(np.float16)):
        raise ValueError(f"algorithm {algorithm.name!r} returned scales that fp16 can't hold")
    return coded
