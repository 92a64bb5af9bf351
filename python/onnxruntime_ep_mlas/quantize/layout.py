"""Bit fields as com.microsoft::MatMulNBits stores them: least significant bits of a byte first."""

from __future__ import annotations

import numpy as np

from onnxruntime_ep_mlas._arrays import Uint8Array

SUPPORTED_BITS = (2, 4, 8)
MIN_BLOCK_SIZE = 16
# At 2 bits ONNX Runtime refuses longer blocks.
MAX_BLOCK_SIZE_2_BITS = 256


def check_bits_and_block_size(bits: int, block_size: int) -> None:
    """Raises ValueError for a width or block size that the operator doesn't have."""
    if bits not in SUPPORTED_BITS:
        raise ValueError(f"bits is {bits!r}; MatMulNBits has 2, 4 and 8")
    if block_size < MIN_BLOCK_SIZE or block_size & (block_size - 1):
        raise ValueError(
            f"block_size is {block_size!r}; it must be a power of two of at least {MIN_BLOCK_SIZE}"
        )
    if bits == 2 and block_size > MAX_BLOCK_SIZE_2_BITS:
        raise ValueError(
            f"block_size is {block_size}; at 2 bits it may be {MAX_BLOCK_SIZE_2_BITS} at most"
        )


def ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def pack_fields(values: Uint8Array, bits: int) -> Uint8Array:
    """Packs the last axis into bytes, the first value in the lowest bits.

    Args:
        values: uint8 [..., count], each below 2^bits.
        bits: 2, 4 or 8.

    Returns:
        uint8 [..., ceil(count * bits / 8)]; unused bits of the last byte are 0.

    Raises:
        ValueError: a value doesn't fit, or `bits` isn't 2, 4 or 8.
    """
    check_bits_and_block_size(bits, MIN_BLOCK_SIZE)
    if values.dtype != np.uint8:
        raise ValueError(f"values are {values.dtype}; they must be uint8")
    if values.size and int(values.max()) >= 2**bits:
        raise ValueError(f"value {int(values.max())} doesn't fit {bits} bits")
    per_byte = 8 // bits
    packed = np.zeros((*values.shape[:-1], ceil_div(values.shape[-1], per_byte)), np.uint8)
    for place in range(per_byte):
        fields = values[..., place::per_byte]
        packed[..., : fields.shape[-1]] |= fields << np.uint8(place * bits)
    return packed


def unpack_fields(packed: Uint8Array, count: int, bits: int) -> Uint8Array:
    """Inverse of `pack_fields`.

    Args:
        packed: uint8 [..., at least ceil(count * bits / 8)].
        count: how many fields of the last axis to return.
        bits: 2, 4 or 8.

    Returns:
        uint8 [..., count].

    Raises:
        ValueError: `packed` holds fewer fields, or `bits` isn't 2, 4 or 8.
    """
    check_bits_and_block_size(bits, MIN_BLOCK_SIZE)
    per_byte = 8 // bits
    if packed.shape[-1] * per_byte < count:
        raise ValueError(
            f"{packed.shape[-1]} bytes hold {packed.shape[-1] * per_byte} fields of {bits} bits, "
            f"fewer than {count}"
        )
    values = np.empty((*packed.shape[:-1], count), np.uint8)
    mask = np.uint8(2**bits - 1)
    for place in range(per_byte):
        fields = values[..., place::per_byte]
        fields[...] = (packed[..., : fields.shape[-1]] >> np.uint8(place * bits)) & mask
    return values
