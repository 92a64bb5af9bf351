"""Round to nearest: the scale follows from the block's extremes alone."""

from __future__ import annotations

import numpy as np

from onnxruntime_ep_mlas.quantize.algorithm import (
    Algorithm,
    CodedColumns,
    Columns,
    nearest_codes,
    register_algorithm,
    round_to_fp16,
)
from onnxruntime_ep_mlas.quantize.layout import SUPPORTED_BITS


def quantize_symmetric(columns: Columns) -> CodedColumns:
    """Zero point 2^(bits-1); the weight of largest magnitude gets code 0.

    There is one level more below the zero point than above it, so the scale takes the sign that
    puts the largest weight there: negative scales are usual.
    """
    zero_point = 2 ** (columns.bits - 1)
    low, high = columns.blocks.min(axis=-1), columns.blocks.max(axis=-1)
    largest = np.where(-low >= high, low, high)
    scales = round_to_fp16(largest / np.float32(-zero_point))
    codes = nearest_codes(columns.blocks, scales, zero_point, columns.bits)
    return CodedColumns(codes, scales, None)


def quantize_asymmetric(columns: Columns) -> CodedColumns:
    """Levels spread over [min, max] of the block, widened to hold 0; an integer zero point."""
    highest = np.float32(2**columns.bits - 1)
    low = np.minimum(columns.blocks.min(axis=-1), np.float32(0))
    high = np.maximum(columns.blocks.max(axis=-1), np.float32(0))
    scales = round_to_fp16((high - low) / highest)
    steps = np.full_like(scales, 2 ** (columns.bits - 1))
    np.divide(-low, scales, out=steps, where=scales != 0)
    zero_points = np.clip(np.rint(steps), 0, highest).astype(np.uint8)
    codes = nearest_codes(columns.blocks, scales, zero_points, columns.bits)
    return CodedColumns(codes, scales, zero_points)


register_algorithm(
    Algorithm(
        "rtn",
        "round to nearest, zero point 2^(bits-1), scale from the largest weight of a block",
        SUPPORTED_BITS,
        quantize_symmetric,
    )
)
register_algorithm(
    Algorithm(
        "rtn_asymmetric",
        "round to nearest, scale and zero point from smallest and largest weight of a block",
        SUPPORTED_BITS,
        quantize_asymmetric,
    )
)
