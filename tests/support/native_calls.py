"""The extension module called with the oracle's types, and arrays that betray stray writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from onnxruntime_ep_mlas import _native
from oracle import Float32Array, Int32Array, Uint8Array, Weights

GUARD_BYTES = 256
ALIGNMENT = 64


def pack(
    weights: Weights,
    *,
    threads: int = 1,
    general: bool = False,
    format: str = "quad",  # noqa: A002
) -> Uint8Array:
    return _native.pack(
        weights.codes,
        weights.scales,
        weights.zero_points,
        k=weights.k,
        block_size=weights.block_size,
        bits=weights.bits,
        threads=threads,
        general=general,
        format=format,
    )


def pack_for(row: dict[str, Any], weights: Weights, *, general: bool = False) -> Uint8Array:
    """In the format that a kernel row reads."""
    return pack(weights, general=general, format=row["format"])


def regroup(weights: Weights, g_idx: Int32Array) -> tuple[Weights, Int32Array | None]:
    codes, scales, zero_points, gather = _native.regroup(
        weights.codes,
        weights.scales,
        weights.zero_points,
        g_idx,
        k=weights.k,
        block_size=weights.block_size,
        bits=weights.bits,
    )
    k = weights.k if gather is None else len(gather)
    return Weights(codes, scales, zero_points, k, weights.block_size, weights.bits), gather


def run_row(
    row: dict[str, Any], a: Float32Array, packed: Uint8Array, **arguments: Any
) -> Float32Array:
    """The product by the named row, in that row's compute type."""
    return _native.matmul_nbits(a, packed, kernel=row["name"], compute=row["compute"], **arguments)


def with_row_gap(a: Float32Array, gap: int, fill: float = np.nan) -> Float32Array:
    """The same values in rows that lie `gap` floats further apart; the gap holds `fill`."""
    rows, columns = a.shape
    wide = np.full((rows, columns + gap), fill, np.float32)
    wide[:, :columns] = a
    return wide[:, :columns]


class Guarded:
    """An array between two runs of guard bytes. `check` fails if anyone wrote to those.

    `offset` bytes past a multiple of 64 is where the array starts. A strided copy keeps the row
    stride of its original, and its gaps are guarded too.
    """

    def __init__(self, original: npt.NDArray[Any], offset: int = 0) -> None:
        self._row_gap = 0
        rows_of_columns = original.ndim == 2 and original.shape[0] > 1
        if rows_of_columns:
            self._row_gap = original.strides[0] // original.itemsize - original.shape[1]
        shape = original.shape
        full = (shape[0], shape[1] + self._row_gap) if self._row_gap else shape
        size = int(np.prod(full)) * original.itemsize
        self._memory = np.random.default_rng(size).integers(
            0, 256, size + 2 * GUARD_BYTES + 2 * ALIGNMENT, dtype=np.uint8
        )
        start = GUARD_BYTES + (-(self._memory.ctypes.data + GUARD_BYTES)) % ALIGNMENT + offset
        self._full = self._memory[start : start + size].view(original.dtype).reshape(full)
        self.array = self._full[:, : shape[1]] if self._row_gap else self._full
        self.array[...] = original
        self._expected = self._memory.copy()

    def check(self, name: str, *, contents_may_change: bool = False) -> None:
        """Fails if a guard byte, a row gap or, unless allowed, the array itself was written to."""
        if contents_may_change:
            # Put the array's old bytes back, so that one comparison covers all that lies around.
            start = self.array.ctypes.data - self._memory.ctypes.data
            old = self._expected[start : start + self._full.nbytes].view(self._full.dtype)
            old = old.reshape(self._full.shape)[tuple(slice(0, n) for n in self.array.shape)]
            self.array[...] = old
        changed = np.flatnonzero(self._memory != self._expected)
        assert changed.size == 0, f"{name}: byte {changed[0]} of its surroundings was written to"
