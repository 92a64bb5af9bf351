"""One quantised matrix in the layout of com.microsoft::MatMulNBits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxruntime_ep_mlas._arrays import Float32Array, Uint8Array
from onnxruntime_ep_mlas.quantize.layout import (
    ceil_div,
    check_bits_and_block_size,
    unpack_fields,
)


@dataclass(frozen=True, eq=False)
class QuantizedWeights:
    """W[k, n] = (code[n, k] - zero_point[n, k // block_size]) * scale[n, k // block_size].

    With k_blocks = ceil(k / block_size):

    Attributes:
        codes: uint8 [n, k_blocks, block_size * bits / 8], least significant bits first. Codes past
            k mean nothing.
        scales: float32 [n, k_blocks].
        zero_points: None for 2^(bits-1) everywhere; or uint8 [n, ceil(k_blocks * bits / 8)], packed
            as the codes are; or float32 [n, k_blocks].
        k: rows of W.
        n: columns of W.
        block_size: rows that share a scale.
        bits: 2, 4 or 8.

    Raises:
        ValueError: a shape or type doesn't fit the others.
    """

    codes: Uint8Array
    scales: Float32Array
    zero_points: Uint8Array | Float32Array | None
    k: int
    n: int
    block_size: int
    bits: int

    def __post_init__(self) -> None:
        check_bits_and_block_size(self.bits, self.block_size)
        if self.k < 0 or self.n < 0:
            raise ValueError(f"k is {self.k} and n is {self.n}; neither may be negative")
        k_blocks = self.k_blocks
        blob = self.block_size * self.bits // 8
        _check_array("codes", self.codes, np.uint8, (self.n, k_blocks, blob))
        _check_array("scales", self.scales, np.float32, (self.n, k_blocks))
        if self.zero_points is None:
            return
        if self.zero_points.dtype == np.uint8:
            shape = (self.n, ceil_div(k_blocks * self.bits, 8))
            _check_array("zero_points", self.zero_points, np.uint8, shape)
        else:
            _check_array("zero_points", self.zero_points, np.float32, (self.n, k_blocks))

    @property
    def k_blocks(self) -> int:
        """Blocks per column."""
        return ceil_div(self.k, self.block_size)

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and zero points."""
        zero_point_bytes = 0 if self.zero_points is None else self.zero_points.nbytes
        return self.codes.nbytes + self.scales.nbytes + zero_point_bytes

    def code_values(self) -> Uint8Array:
        """Codes one per byte: uint8 [n, k]."""
        return unpack_fields(self._code_rows(), self.k, self.bits)

    def zero_point_values(self) -> Float32Array:
        """Zero points, whatever their form: float32 [n, k_blocks]."""
        if self.zero_points is None:
            return np.full((self.n, self.k_blocks), 2 ** (self.bits - 1), np.float32)
        if self.zero_points.dtype != np.uint8:
            return self.zero_points.astype(np.float32)
        packed = self.zero_points.view(np.uint8)
        return unpack_fields(packed, self.k_blocks, self.bits).astype(np.float32)

    def dequantize(self) -> Float32Array:
        """The matrix that the codes stand for: float32 [k, n]."""
        padded = self.k_blocks * self.block_size
        values = unpack_fields(self._code_rows(), padded, self.bits)
        blocks = values.reshape(self.n, self.k_blocks, self.block_size).astype(np.float32)
        blocks -= self.zero_point_values()[:, :, None]
        blocks *= self.scales[:, :, None]
        return np.ascontiguousarray(blocks.reshape(self.n, padded)[:, : self.k].T)

    def _code_rows(self) -> Uint8Array:
        return self.codes.reshape(self.n, self.k_blocks * self.codes.shape[2])


def _check_array(
    name: str, array: np.ndarray, dtype: type[np.generic], shape: tuple[int, ...]
) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{name} is {array.dtype} {list(array.shape)}; expected {np.dtype(dtype)} {list(shape)}"
        )
