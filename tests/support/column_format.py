"""The column format of packed weights in numpy, independent of the library's own layout code.

The header is that of quad_format.py, with format 2. N is padded to strips of 16 columns, which
follow each other. A strip holds groups of G = max(64, block_len) k in k order, K padded to whole
groups; a group holds, with nothing between them,
    G / 64 rows of 16 vectors of 16 bytes: byte j of column c's vector v holds, at bits 2p and 2p+1,
                                           the code at k = 64v + 16p + j (p in 0..3, j in 0..15)
    for each of its G / block_len blocks in turn: 16 scales, float16 or float32, then
                                           16 zero points (uniform: nothing; per block: one byte
                                           each; float: float32)
Padding, columns from N on and k from K on, has code 0; blocks that are all padding have scale 0 and
zero point 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import quad_format
from oracle import Float32Array, Uint8Array, Weights, ceil_div, unpack_codes
from quad_format import HEADER_BYTES, STRIP_COLUMNS, Header

FORMAT_COLUMN = 2
VECTOR_K = 64


def group_k(block_len: int) -> int:
    return max(VECTOR_K, block_len)


def pack(weights: Weights, *, general: bool = False) -> Uint8Array:
    """The whole buffer, uint8 [bytes]; `general` as in quad_format.pack."""
    scale_type, kind, uniform = quad_format.representation(weights, general=general)
    group = group_k(weights.block_size)
    strips, groups = ceil_div(weights.n, STRIP_COLUMNS), ceil_div(weights.k, group)
    codes = np.zeros((strips * STRIP_COLUMNS, groups * group), np.uint8)
    codes[: weights.n, : weights.k] = unpack_codes(weights.codes, weights.k, weights.bits)
    planes = codes.reshape(strips, STRIP_COLUMNS, groups, group // VECTOR_K, 4, 16)
    shifts = 2 * np.arange(4, dtype=np.uint8)[:, None]
    vectors = np.bitwise_or.reduce(planes << shifts, axis=4)
    parts = [vectors.transpose(0, 2, 3, 1, 4).reshape(strips, groups, -1)]

    blocks = group // weights.block_size
    scale = np.dtype("<f2" if scale_type == quad_format.SCALE_FP16 else "<f4")
    parameters = [_by_block(weights.scales, scale, groups * blocks)]
    if kind != quad_format.ZERO_POINT_UNIFORM:
        dtype = np.dtype("u1" if kind == quad_format.ZERO_POINT_PER_BLOCK else "<f4")
        parameters.append(_by_block(weights.zero_point_values(), dtype, groups * blocks))
    joined = np.concatenate(parameters, axis=2)  # [strip, block, bytes]
    parts.append(joined.reshape(strips, groups, -1))
    payload = np.concatenate(parts, axis=2).tobytes()
    header = Header(
        *(weights.n, weights.k, weights.block_size, scale_type, kind, uniform, len(payload)),
        format=FORMAT_COLUMN,
    )
    return quad_format.seal(header, payload)


def _by_block(
    values: npt.NDArray[np.floating], dtype: np.dtype[np.generic], blocks: int
) -> Uint8Array:
    """[N, k_blocks] -> bytes [strip, block, 16 values], with blocks of zeros up to `blocks`."""
    n, k_blocks = values.shape
    padded = np.zeros((ceil_div(n, STRIP_COLUMNS) * STRIP_COLUMNS, blocks), dtype)
    padded[:n, :k_blocks] = values
    by_strip = np.ascontiguousarray(padded.reshape(-1, STRIP_COLUMNS, blocks).transpose(0, 2, 1))
    return by_strip.view(np.uint8).reshape(by_strip.shape[0], blocks, -1)


def unpack(buffer: Uint8Array) -> tuple[Uint8Array, Float32Array, Float32Array]:
    """Codes, one byte each [N, K], scales and zero points, both [N, k_blocks], of a buffer."""
    header = quad_format.read_header(buffer)
    group = group_k(header.block_len)
    strips, groups = ceil_div(header.n, STRIP_COLUMNS), ceil_div(header.k, group)
    payload = buffer[HEADER_BYTES:].reshape(strips, groups, -1)
    code_bytes = group // 4 * STRIP_COLUMNS
    vectors = payload[:, :, :code_bytes].reshape(strips, groups, -1, STRIP_COLUMNS, 1, 16)
    fields = (vectors >> (2 * np.arange(4, dtype=np.uint8)[:, None])) & np.uint8(3)
    by_column = fields.transpose(0, 3, 1, 2, 4, 5).reshape(strips * STRIP_COLUMNS, -1)

    parameters = payload[:, :, code_bytes:].reshape(
        strips, groups * (group // header.block_len), -1
    )
    fp16 = header.scale_type == quad_format.SCALE_FP16
    scale_bytes = STRIP_COLUMNS * (2 if fp16 else 4)
    k_blocks = ceil_div(header.k, header.block_len)
    scales = _by_column(parameters[:, :k_blocks, :scale_bytes], "<f2" if fp16 else "<f4", header.n)
    codes: Uint8Array = by_column[: header.n, : header.k]
    if header.zero_point_kind == quad_format.ZERO_POINT_UNIFORM:
        return codes, scales, np.full_like(scales, header.uniform_zero_point)
    kind = "u1" if header.zero_point_kind == quad_format.ZERO_POINT_PER_BLOCK else "<f4"
    return codes, scales, _by_column(parameters[:, :k_blocks, scale_bytes:], kind, header.n)


def _by_column(part: Uint8Array, dtype: str, n: int) -> Float32Array:
    values = np.ascontiguousarray(part).view(dtype).astype(np.float32)
    by_column: Float32Array = values.transpose(0, 2, 1).reshape(-1, part.shape[1])[:n]
    return by_column
