"""The packed buffer and its quad format in numpy, independent of the library's own layout code.

Header, 128 bytes, little endian: magic "ORTMLAS" and NUL; uint32 version, family, format, bits;
uint64 n, k; uint32 block length, scale type, zero point kind, uniform zero point; uint64 payload
bytes, checksum (of header and payload); zeros.

Payload. N is padded to strips of 16 columns, which follow each other. A strip holds its blocks in k
order; a block holds, with nothing between them,
    units of 64 bytes, each of 4P k, P = 8 / bits:
                                      byte 4*c + j of unit u holds, from bit bits*p on, the code of
                                      column c at k = 4P*u + 4p + j (p < P, j in 0..3); codes of
                                      8 bits stand with the top bit flipped
    16 scales                         float16 or float32
    16 zero points                    uniform: nothing; per block: one byte each; float: float32
A block longer than 256 k (128 at 8 bits) is stored as parts of that length, each as a block with
the same scales and zero points, as many as K needs. Padding, columns from N on and k from K on, has
code 0, scale 0 and zero point 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oracle import Float32Array, Uint8Array, Weights, ceil_div, integer_zero_points, unpack_codes

STRIP_COLUMNS = 16
HEADER_BYTES = 128
HEADER = struct.Struct("<8sIIIIQQIIIIQQ56x")
MAGIC = b"ORTMLAS\0"
VERSION = 1
FAMILY_QNBIT = 1
FORMAT_QUAD = 1
SCALE_FP16, SCALE_FP32 = 0, 1
ZERO_POINT_UNIFORM, ZERO_POINT_PER_BLOCK, ZERO_POINT_FLOAT = 0, 1, 2

WORD = 2**64 - 1
FNV_PRIME = 0x100000001B3
FNV_BASIS = 0xCBF29CE484222325
CHECKSUM_CHAINS = 4


@dataclass(frozen=True)
class Header:
    """Fields by which tests forge headers with `dataclasses.replace`."""

    n: int
    k: int
    block_len: int
    scale_type: int
    zero_point_kind: int
    uniform_zero_point: int
    payload_bytes: int
    checksum: int = 0
    bits: int = 2
    magic: bytes = MAGIC
    version: int = VERSION
    family: int = FAMILY_QNBIT
    format: int = FORMAT_QUAD

    def to_bytes(self) -> bytes:
        return HEADER.pack(
            self.magic,
            self.version,
            self.family,
            self.format,
            self.bits,
            self.n,
            self.k,
            self.block_len,
            self.scale_type,
            self.zero_point_kind,
            self.uniform_zero_point,
            self.payload_bytes,
            self.checksum,
        )


def read_header(buffer: Uint8Array) -> Header:
    magic, version, family, fmt, bits, n, k, block, scale, kind, uniform, payload, checksum = (
        HEADER.unpack_from(buffer.tobytes())
    )
    return Header(
        n, k, block, scale, kind, uniform, payload, checksum, bits, magic, version, family, fmt
    )


def fnv_checksum(data: bytes) -> int:
    """FNV-1a over 64-bit words dealt to four chains, folded with the length; odd bytes last."""
    chains = [FNV_BASIS + i for i in range(CHECKSUM_CHAINS)]
    whole = len(data) // (8 * CHECKSUM_CHAINS) * (8 * CHECKSUM_CHAINS)
    for i, word in enumerate(np.frombuffer(data[:whole], "<u8").tolist()):
        mixed = ((chains[i % CHECKSUM_CHAINS] ^ word) * FNV_PRIME) & WORD
        chains[i % CHECKSUM_CHAINS] = mixed ^ (mixed >> 32)
    total = FNV_BASIS ^ len(data)
    for item in [*chains, *data[whole:]]:
        total = ((total ^ item) * FNV_PRIME) & WORD
    return total


def seal(header: Header, payload: bytes) -> Uint8Array:
    """The whole buffer, with the checksum that fits: of the header without its own, xor payload."""
    unsealed = replace(header, checksum=0).to_bytes()
    checksum = fnv_checksum(unsealed) ^ fnv_checksum(payload)
    return np.frombuffer(replace(header, checksum=checksum).to_bytes() + payload, np.uint8)


def scale_type_of(scales: Float32Array) -> int:
    """The smallest type that keeps every scale."""
    with np.errstate(over="ignore"):
        kept = scales.astype(np.float16).astype(np.float32)
    return SCALE_FP16 if np.array_equal(kept, scales, equal_nan=True) else SCALE_FP32


def zero_point_kind_of(weights: Weights) -> tuple[int, int]:
    """The smallest kind that keeps every zero point, and the uniform value or else the default."""
    default = 2 ** (weights.bits - 1)
    if not integer_zero_points(weights):
        return ZERO_POINT_FLOAT, default
    values = weights.zero_point_values()
    if (values == values[0, 0]).all():
        return ZERO_POINT_UNIFORM, int(values[0, 0])
    return ZERO_POINT_PER_BLOCK, default


def representation(weights: Weights, *, general: bool) -> tuple[int, int, int]:
    """Scale type, zero point kind and uniform zero point of the header; `general`: float32 scales
    and zero points as given."""
    if not general:
        return scale_type_of(weights.scales), *zero_point_kind_of(weights)
    given, kind = weights.zero_points, ZERO_POINT_UNIFORM
    if given is not None:
        kind = ZERO_POINT_PER_BLOCK if given.dtype == np.uint8 else ZERO_POINT_FLOAT
    return SCALE_FP32, kind, 2 ** (weights.bits - 1)


def pack(weights: Weights, *, general: bool = False) -> Uint8Array:
    """The whole buffer, uint8 [bytes]; `general` as in `representation`."""
    scale_type, kind, uniform = representation(weights, general=general)
    strips = ceil_div(weights.n, STRIP_COLUMNS)
    part_len, source = weights.part_length(), weights.block_of_part()
    count = len(source)
    codes = np.zeros((strips * STRIP_COLUMNS, count * part_len), np.uint8)
    codes[: weights.n, : weights.k] = unpack_codes(weights.codes, weights.k, weights.bits)
    planes = 8 // weights.bits
    shape = (strips, STRIP_COLUMNS, count, part_len // (4 * planes), planes, 4)
    parts = [_units(codes.reshape(shape), weights.bits)]
    scale_dtype = np.dtype("<f2" if scale_type == SCALE_FP16 else "<f4")
    parts.append(_columns(weights.scales[:, source], scale_dtype))
    if kind != ZERO_POINT_UNIFORM:
        zero_points = weights.zero_point_values()[:, source]
        parts.append(
            _columns(zero_points, np.dtype("u1" if kind == ZERO_POINT_PER_BLOCK else "<f4"))
        )
    payload = np.concatenate(parts, axis=2).tobytes()
    header = Header(
        *(weights.n, weights.k, weights.block_size, scale_type, kind, uniform, len(payload)),
        bits=weights.bits,
    )
    return seal(header, payload)


def _units(codes: Uint8Array, bits: int) -> Uint8Array:
    """[strip, column, block, unit, p, j] -> bytes [strip, block, unit * (column, j)]."""
    planes = codes.transpose(0, 2, 3, 1, 5, 4).astype(np.uint32)
    shifts = bits * np.arange(8 // bits, dtype=np.uint32)
    unit_bytes = (planes << shifts).sum(axis=-1).astype(np.uint8)
    if bits == 8:
        unit_bytes ^= np.uint8(0x80)
    units: Uint8Array = unit_bytes.reshape(*unit_bytes.shape[:2], -1)
    return units


def _columns(values: npt.NDArray[np.floating], dtype: np.dtype[np.generic]) -> Uint8Array:
    """[N, k_blocks] -> bytes [strip, block, 16 values]."""
    n, blocks = values.shape
    padded = np.zeros((ceil_div(n, STRIP_COLUMNS) * STRIP_COLUMNS, blocks), dtype)
    padded[:n] = values
    by_strip = np.ascontiguousarray(padded.reshape(-1, STRIP_COLUMNS, blocks).transpose(0, 2, 1))
    columns: Uint8Array = by_strip.view(np.uint8).reshape(by_strip.shape[0], blocks, -1)
    return columns


def unpack(buffer: Uint8Array) -> tuple[Uint8Array, Float32Array, Float32Array]:
    """Codes, one byte each [N, K], scales and zero points, both [N, k_blocks], of a buffer."""
    header = read_header(buffer)
    bits, planes = header.bits, 8 // header.bits
    part_len = min(header.block_len, 128 if bits == 8 else 256)
    blocks, units = ceil_div(header.k, part_len), part_len // (4 * planes)
    strips = ceil_div(header.n, STRIP_COLUMNS)
    payload = buffer[HEADER_BYTES:].reshape(strips, blocks, -1)
    quads = payload[:, :, : units * 64].reshape(strips, blocks, units, STRIP_COLUMNS, 4)
    if bits == 8:
        quads = quads ^ np.uint8(0x80)
    shifts = (bits * np.arange(planes, dtype=np.uint8))[:, None]
    fields = (quads[..., None, :] >> shifts) & np.uint8(2**bits - 1)
    by_column = fields.transpose(0, 3, 1, 2, 4, 5).reshape(strips * STRIP_COLUMNS, -1)
    codes: Uint8Array = by_column[: header.n, : header.k]
    scale_bytes = STRIP_COLUMNS * (2 if header.scale_type == SCALE_FP16 else 4)
    scale_part = payload[:, :, units * 64 : units * 64 + scale_bytes]
    first_parts = slice(None, None, header.block_len // part_len)
    scales = _from_columns(
        scale_part, "<f2" if header.scale_type == SCALE_FP16 else "<f4", header.n
    )[:, first_parts]
    if header.zero_point_kind == ZERO_POINT_UNIFORM:
        return codes, scales, np.full_like(scales, header.uniform_zero_point)
    rest = payload[:, :, units * 64 + scale_bytes :]
    kind = "u1" if header.zero_point_kind == ZERO_POINT_PER_BLOCK else "<f4"
    return codes, scales, _from_columns(rest, kind, header.n)[:, first_parts]


def _from_columns(part: Uint8Array, dtype: str, n: int) -> Float32Array:
    values = np.ascontiguousarray(part).view(dtype).astype(np.float32)
    by_column: Float32Array = values.transpose(0, 2, 1).reshape(-1, part.shape[1])[:n]
    return by_column
