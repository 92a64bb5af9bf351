"""Least squared error of a block over all fp16 scales, zero points and codes: exact, no grid.

Fix the zero point z. As the scale s falls from infinity, every weight starts at its zero point and
moves up one level at a time: weight w takes |c| = j (c = code - z) at s = |w| / (j - 1/2), for the
levels j that exist on its side, j <= z below zero and j <= 2^bits - 1 - z above. Sorting these
events gives every assignment of codes that is best for some s. With P = sum |w| |c| and
Q = sum c^2, an assignment's error sum (w - s c)^2 = sum w^2 - s (2 P - s Q) is a parabola in s, and
P and Q are running sums over the events. Its best fp16 scale is the fp16 number nearest to P / Q,
because a parabola is symmetric and grows away from its vertex. The best over all assignments is the
best over all scales, since the codes that are nearest at the best scale are among them.

Scales need no sign: a negative one with zero point z is a positive one with 2^bits - 1 - z.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onnxruntime_ep_mlas._arrays import Float32Array, Float64Array, Uint8Array
from onnxruntime_ep_mlas.quantize.algorithm import (
    FP16_MAX,
    Algorithm,
    CodedColumns,
    Columns,
    nearest_codes,
    register_algorithm,
)

# Events whose running sums are held at a time: a dozen arrays of 8 bytes each that should stay in a
# second-level cache.
_EVENTS_AT_A_TIME = 1 << 15

# An event as one uint64 that sorts by falling scale and says which event it is; sorting such keys
# is several times faster than an argsort. From the top: the complement of the scale's float32 bits
# (those of positive floats order as the floats do), the element, whether it lies below zero, the
# level.
_SCALE_SHIFT = np.uint64(32)
_ELEMENT_SHIFT = np.uint64(8)
_BELOW_ZERO = np.uint64(1 << 7)
_LEVEL_MASK = np.uint64((1 << 7) - 1)
_ELEMENT_MASK = np.uint64((1 << 24) - 1)


def quantize_least_squares(columns: Columns) -> CodedColumns:
    """The scale and zero point of least squared error, block by block."""
    shape = columns.blocks.shape
    blocks = columns.blocks.reshape(-1, shape[-1])
    scales: Float32Array = np.empty(blocks.shape[0], np.float32)
    zero_points: Uint8Array = np.empty(blocks.shape[0], np.uint8)
    step = max(1, _EVENTS_AT_A_TIME // (shape[-1] * (2**columns.bits - 1)))
    for start in range(0, blocks.shape[0], step):
        part = slice(start, start + step)
        scales[part], zero_points[part] = _best_grid(blocks[part], columns.bits)
    scales = scales.reshape(shape[:-1])
    zero_points = zero_points.reshape(shape[:-1])
    codes = nearest_codes(columns.blocks, scales, zero_points, columns.bits)
    return CodedColumns(codes, scales, zero_points)


def _best_grid(blocks: Float32Array, bits: int) -> tuple[Float32Array, Uint8Array]:
    """Scales and zero points, both [count], of blocks [count, block_size]."""
    count = blocks.shape[0]
    highest = 2**bits - 1
    p_steps, level = _sorted_events(blocks, highest)
    q_steps = (2 * np.abs(level) - 1).astype(np.float64)

    best_gain = np.zeros(count)
    best_scale = np.zeros(count)
    best_zero_point = np.full(count, 2 ** (bits - 1), np.uint8)
    for zero_point in range(highest + 1):
        exists = (level >= -zero_point) & (level <= highest - zero_point)
        p = np.cumsum(p_steps * exists, axis=1)
        q = np.cumsum(q_steps * exists, axis=1)
        vertex = np.minimum(p / np.maximum(q, 1), FP16_MAX)
        scale = vertex.astype(np.float16).astype(np.float64)
        gain = scale * (2 * p - scale * q)
        at = np.argmax(gain, axis=1)[:, None]
        top_gain = np.take_along_axis(gain, at, axis=1)[:, 0]
        better = top_gain > best_gain
        best_gain[better] = top_gain[better]
        best_scale[better] = np.take_along_axis(scale, at, axis=1)[better, 0]
        best_zero_point[better] = zero_point
    return best_scale.astype(np.float32), best_zero_point


def _sorted_events(
    blocks: Float32Array, highest: int
) -> tuple[Float64Array, npt.NDArray[np.int16]]:
    """Every level of every weight by falling scale, each [count, block_size * highest].

    Returns:
        The weight's magnitude, and the level with the weight's sign.
    """
    count, block_size = blocks.shape
    levels = np.arange(1, highest + 1)
    magnitudes = np.abs(blocks)
    scales = magnitudes[:, :, None] / (levels - 0.5).astype(np.float32)
    keys = (~scales.view(np.uint32)).astype(np.uint64) << _SCALE_SHIFT
    keys |= np.arange(block_size, dtype=np.uint64)[None, :, None] << _ELEMENT_SHIFT
    keys |= np.where(blocks < 0, _BELOW_ZERO, np.uint64(0))[:, :, None]
    keys |= levels.astype(np.uint64)
    keys = keys.reshape(count, -1)
    keys.sort(axis=1)
    level = (keys & _LEVEL_MASK).astype(np.int16)
    np.negative(level, out=level, where=(keys & _BELOW_ZERO) != 0)
    element = ((keys >> _ELEMENT_SHIFT) & _ELEMENT_MASK).astype(np.intp)
    element += (np.arange(count) * block_size)[:, None]
    return magnitudes.astype(np.float64).reshape(-1)[element], level


register_algorithm(
    Algorithm(
        "mse",
        "least squared error over scale (clip range) and zero point of each block, exact",
        # At 8 bits a block has 255 events per weight and 256 zero points, for no visible gain.
        (2, 4),
        quantize_least_squares,
    )
)
