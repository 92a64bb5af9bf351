"""Arrays flush against pages that may not be touched, and a check of kernels with them.

A read or write past such an array kills the process, so the check is run as a program:
    python guard_pages.py ISA
prints each case before it runs it, and ends with "done".
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE


def make_untouchable(address: int) -> None:
    """Forbids every access to the page that starts at `address`."""
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        no_access, before = 0x01, ctypes.c_ulong()
        arguments = (ctypes.c_void_p(address), ctypes.c_size_t(PAGE), no_access)
        if not kernel.VirtualProtect(*arguments, ctypes.byref(before)):
            raise ctypes.WinError(ctypes.get_last_error())
        return
    prot_none = 0
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), prot_none) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


class FencedMemory:
    """Pages with an untouchable page on either side. Never unmapped: arrays may outlive it."""

    def __init__(self, size: int) -> None:
        self.pages = max(1, -(-size // PAGE)) * PAGE
        self._map = mmap.mmap(-1, self.pages + 2 * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + PAGE
        for fence in (self.start - PAGE, self.start + self.pages):
            make_untouchable(fence)

    def view(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """uint8 [size] that starts `offset` bytes after the first page's start."""
        return np.frombuffer(self._map, np.uint8, size, PAGE + offset)


def fenced(array: npt.NDArray[Any], *, at_end: bool, alignment: int = 1) -> npt.NDArray[Any]:
    """A copy whose last byte (or first) touches an untouchable page.

    At the end, at most `alignment` - 1 bytes lie between, where its size is no multiple. A 2-D copy
    of a strided array has the same row stride and ends after the last row's last column.
    """
    item = array.itemsize
    rows, columns = array.shape if array.ndim == 2 else (1, array.size)
    stride = array.strides[0] // item if rows > 1 else columns
    size = ((rows - 1) * stride + columns) * item if rows else 0
    memory = FencedMemory(size)
    start = (memory.pages - size) // alignment * alignment if at_end else 0
    flat = memory.view(start, size).view(array.dtype)
    if array.ndim != 2:
        flat[:] = array.ravel()
        return flat.reshape(array.shape)
    copy = np.lib.stride_tricks.as_strided(flat, array.shape, (stride * item, item))
    copy[...] = array
    return copy


def check_isa(isa: str) -> None:
    import oracle
    from cases import ZERO_POINT_CASES, random_activations, random_weights
    from native_calls import pack_for, with_row_gap
    from onnxruntime_ep_mlas import _native

    rng = np.random.default_rng(1)
    rows = [row for row in _native.kernels() if row["isa"] == isa]
    for row in rows:
        height, compute = row["tile_rows"], row["compute"]
        shapes = [(1, 1, 1, 16), (height, 16, 32, 16), (height + 1, 17, 33, 32)]
        shapes += [(2 * height + 1, 47, 200, 64), (height, 33, 131, 128), (3, 100, 300, 256)]
        for m, n, k, block in shapes:
            for zero_points in ZERO_POINT_CASES:
                for at_end in (True, False):
                    print(f"{row['name']} {m}x{n}x{k} block {block} {zero_points} end={at_end}")
                    weights = random_weights(
                        rng, n, k, block, bits=row["bits"], zero_points=zero_points
                    )
                    a = with_row_gap(random_activations(rng, m, k), 5)
                    packed = pack_for(row, weights)
                    bytes_needed = _native.workspace_bytes(
                        m, packed, kernel=row["name"], compute=compute
                    )
                    bias = rng.standard_normal(n).astype(np.float32)
                    out = with_row_gap(np.zeros((m, n), np.float32), 3)
                    c = _native.matmul_nbits(
                        fenced(a, at_end=at_end),
                        fenced(packed, at_end=at_end, alignment=64),
                        bias=fenced(bias, at_end=at_end),
                        out=fenced(out, at_end=at_end),
                        workspace=fenced(
                            np.zeros(bytes_needed, np.uint8), at_end=at_end, alignment=64
                        ),
                        kernel=row["name"],
                        compute=compute,
                    )
                    oracle.assert_matches(c, oracle.matmul(a, weights, bias, compute=compute))
    for m, k, block in ((1, 1, 16), (3, 33, 16), (2, 100, 64), (2, 257, 256)):
        for at_end in (True, False):
            print(f"quantize_activations {m}x{k} block {block} end={at_end}")
            a = with_row_gap(random_activations(rng, m, k), 7)
            q = _native.quantize_activations(fenced(a, at_end=at_end), block, isa=isa)[0]
            np.testing.assert_array_equal(q, oracle.quantize_activations(a, block).q)


def check_packing() -> None:
    from cases import ZERO_POINT_CASES, random_weights
    from native_calls import pack
    from onnxruntime_ep_mlas import _native

    rng = np.random.default_rng(2)
    shapes = [(1, 1, 16), (17, 33, 16), (16, 64, 32), (35, 300, 128), (5, 257, 256)]
    widths = [(bits, *shape) for bits in (2, 4, 8) for shape in shapes]
    for bits, n, k, block in [*widths, (4, 5, 257, 512), (8, 5, 257, 512)]:
        for zero_points in ZERO_POINT_CASES:
            for at_end in (True, False):
                print(f"pack, unpack {bits} bits {n}x{k} block {block} {zero_points} end={at_end}")
                weights = random_weights(rng, n, k, block, bits=bits, zero_points=zero_points)
                given = [weights.codes, weights.scales, weights.zero_points]
                codes, scales, points = (
                    None if array is None else fenced(array, at_end=at_end) for array in given
                )
                packed = _native.pack(codes, scales, points, k=k, block_size=block, bits=bits)
                np.testing.assert_array_equal(packed, pack(weights))
                unpacked = _native.unpack(fenced(packed, at_end=at_end, alignment=64))
                np.testing.assert_array_equal(unpacked[1], weights.scales)


def touch_fence() -> None:
    """Reads one byte past a fenced array, which must not survive."""
    array = fenced(np.zeros(64, np.uint8), at_end=True)
    print("touching")
    ctypes.string_at(array.ctypes.data + 64, 1)
    print("done")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if sys.argv[1] == "packing":
        check_packing()
    elif sys.argv[1] == "touch":
        touch_fence()
        sys.exit()
    else:
        check_isa(sys.argv[1])
    print("done")
