"""Packed buffers that are damaged, cut short, foreign or hostile are refused, never read past."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import isa_support
import quad_format
from cases import random_weights
from native_calls import Guarded, pack, pack_for, run_row
from onnxruntime_ep_mlas import _native
from oracle import Uint8Array


def aligned(content: Uint8Array, offset: int = 0) -> Uint8Array:
    return Guarded(content, offset).array


WEIGHTS = random_weights(np.random.default_rng(9), 17, 40, 16, zero_points="per_block")


@pytest.fixture
def packed() -> Uint8Array:
    return pack(WEIGHTS)


def readers() -> list[Callable[[Uint8Array], object]]:
    a = np.ones((1, 4096), np.float32)
    return [
        _native.packed_info,
        _native.unpack,
        lambda buffer: _native.matmul_nbits(a, buffer),
        lambda buffer: _native.workspace_bytes(1, buffer),
        lambda buffer: _native.kernels_for(1, buffer),
        lambda buffer: _native.time_matmul(a, buffer, compute="fp32", calls=1),
    ]


def assert_refused(buffer: Uint8Array, message: str) -> None:
    for read in readers():
        with pytest.raises(ValueError, match=message):
            read(buffer)


def test_a_copy_is_as_good(packed: Uint8Array) -> None:
    for read in readers():
        read(aligned(packed))


@pytest.mark.parametrize("offset", [1, 4, 16, 32])
def test_misaligned(packed: Uint8Array, offset: int) -> None:
    assert_refused(aligned(packed, offset), "must start at a multiple of 64")


def test_cut_short_or_joined(packed: Uint8Array) -> None:
    for size in (0, 1, 127, 128, 129, packed.size - 64, packed.size - 1):
        assert_refused(aligned(packed[:size].copy()), "cut short")
    assert_refused(aligned(np.concatenate([packed, packed[:64]])), "joined")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"magic": b"ORTMLAX\0"}, "not a packed buffer"),
        ({"magic": b"GGUF\0\0\0\0"}, "not a packed buffer"),
        ({"version": 0}, "version 0"),
        ({"version": 2}, "version 2"),
        ({"family": 2}, "family 2"),
        ({"format": 0}, "format 0"),
        ({"format": 2}, "can't hold"),  # the column format, which pads K further here
        ({"format": 3}, "format 3"),
        ({"bits": 4}, "can't hold"),
        ({"bits": 0}, "bits = 0"),
        ({"bits": 3}, "bits = 3"),
        ({"bits": 16}, "bits = 16"),
        ({"bits": 4, "format": 2}, "2-bit weights only"),
        ({"block_len": 0}, "block length 0"),
        ({"block_len": 24}, "block length 24"),
        ({"block_len": 512}, "block length 512"),
        ({"scale_type": 2}, "scale type"),
        ({"zero_point_kind": 3}, "zero point"),
        ({"uniform_zero_point": 4}, "zero point"),
        ({"n": 0}, "n >= 1"),
        ({"k": 0}, "k >= 1"),
        ({"n": 33}, "can't hold"),
        ({"n": 16}, "can't hold"),
        ({"k": 49}, "can't hold"),
        ({"k": 32}, "can't hold"),
        ({"n": 2**63}, "too large"),
        ({"k": 2**63}, "too large"),
        ({"n": 2**32, "k": 2**32}, "too large"),
        ({"block_len": 32}, "can't hold"),
        ({"scale_type": 1}, "can't hold"),
        ({"zero_point_kind": 0}, "can't hold"),
        ({"zero_point_kind": 2}, "can't hold"),
        ({"payload_bytes": 0}, "cut short"),
        ({"payload_bytes": 2**64 - 1}, "cut short"),
    ],
)
def test_forged_header(packed: Uint8Array, change: dict[str, int], message: str) -> None:
    header = replace(quad_format.read_header(packed), **change)  # type: ignore[arg-type]
    assert_refused(aligned(quad_format.seal(header, packed[128:].tobytes())), message)


def test_dims_whose_size_wraps_around() -> None:
    """A strip of one 256-block with float32 scales and zero points takes 1152 bytes: as many strips
    as overflow 64 bits by just 128 bytes must not pass for a buffer of 128 bytes."""
    strips = (2**57 + 1) // 9
    assert strips * 1152 == 2**64 + 128
    payload = bytes(128)
    header = quad_format.Header(
        n=16 * strips,
        k=1,
        block_len=256,
        scale_type=quad_format.SCALE_FP32,
        zero_point_kind=quad_format.ZERO_POINT_FLOAT,
        uniform_zero_point=2,
        payload_bytes=len(payload),
    )
    # No product here: where the header is believed, that would read far out of bounds.
    with pytest.raises(ValueError, match=r"too large|can't hold"):
        _native.packed_info(aligned(quad_format.seal(header, payload)))


def test_reserved_bytes_must_be_zero(packed: Uint8Array) -> None:
    for index in (struct.calcsize(quad_format.HEADER.format) - 56, 127):
        damaged = aligned(packed)
        damaged[index] = 1
        assert_refused(damaged, "reserved")


def test_any_flipped_bit_of_the_payload_is_found(packed: Uint8Array) -> None:
    rng = np.random.default_rng(3)
    for index in range(quad_format.HEADER_BYTES, packed.size):
        damaged = aligned(packed)
        damaged[index] ^= np.uint8(1 << rng.integers(8))
        for read in (_native.packed_info, _native.unpack):
            with pytest.raises(ValueError, match="checksum"):
                read(damaged)
    _native.packed_info(aligned(packed))


def test_any_flipped_bit_of_the_header_is_found(packed: Uint8Array) -> None:
    """A changed dim or zero point would otherwise give a wrong product without a word."""
    accepted = []
    for index in range(quad_format.HEADER_BYTES):
        for bit in range(8):
            damaged = aligned(packed)
            damaged[index] ^= np.uint8(1 << bit)
            try:
                _native.packed_info(damaged)
                accepted.append((index, bit))
            except ValueError:
                pass
    assert not accepted, f"(byte, bit) of the header changed unnoticed: {accepted}"


def test_swapped_payload_words_are_found(packed: Uint8Array) -> None:
    words = packed.view(np.uint64)
    first = quad_format.HEADER_BYTES // 8
    for distance in (1, 2, 4, 8):
        if words[first] == words[first + distance]:
            continue
        damaged = aligned(packed).view(np.uint64)
        damaged[[first, first + distance]] = damaged[[first + distance, first]]
        with pytest.raises(ValueError, match="checksum"):
            _native.packed_info(damaged.view(np.uint8))


def test_checksum_can_be_skipped(packed: Uint8Array) -> None:
    damaged = aligned(packed)
    damaged[200] ^= 1
    assert _native.packed_info(damaged, verify_checksum=False)["n"] == 17


@pytest.mark.parametrize("row", isa_support.executable_kernel_rows(family="qnbit"), ids=repr)
def test_a_kernel_refuses_what_it_does_not_read(row: isa_support.KernelRow) -> None:
    weights = random_weights(np.random.default_rng(9), 17, 40, 16, bits=row["bits"])
    packed = pack_for(row, weights)
    header = quad_format.read_header(packed)
    a = np.ones((row["tile_rows"], 40), np.float32)
    for change in ({"format": 7}, {"bits": 3}, {"family": 9}):
        foreign = quad_format.seal(replace(header, **change), packed[128:].tobytes())
        with pytest.raises(ValueError, match=r"format|bits|family"):
            _native.matmul_nbits(a, aligned(foreign), kernel=row.name, compute=row["compute"])
    other = "quad" if row["format"] == "column" else "column"
    with pytest.raises(ValueError, match=f"reads format {row['format']}.* holds {other}"):
        run_row(row, a, pack(WEIGHTS, format=other))
    other_width = random_weights(
        np.random.default_rng(9), 17, 40, 16, bits=4 if row["bits"] == 2 else 2
    )
    with pytest.raises(ValueError, match=f"with {row['bits']} bits"):
        run_row(row, a, pack(other_width))
    other = "fp32" if row["compute"] == "int8" else "int8"
    with pytest.raises(ValueError, match="computes"):
        _native.matmul_nbits(a, packed, kernel=row.name, compute=other)
    with pytest.raises(ValueError, match="isa"):
        _native.matmul_nbits(a, packed, kernel=row.name, compute=row["compute"], isa="none")
    assert np.isfinite(
        _native.matmul_nbits(a, packed, kernel=row.name, compute=row["compute"], isa=row["isa"])
    ).all()


def test_unusable_and_unknown_kernels_are_refused(packed: Uint8Array) -> None:
    a = np.ones((1, 40), np.float32)
    with pytest.raises(ValueError, match="there is no kernel"):
        _native.matmul_nbits(a, packed, kernel="qnbit_int8_w2_quad_portable_fused_r3c16")
    for row in isa_support.kernel_rows():
        if row["unavailable_reason"]:
            with pytest.raises(ValueError, match="can't run here"):
                _native.matmul_nbits(a, packed, kernel=row.name, compute=row["compute"])


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (np.zeros((2, 128), np.uint8), "packed must have 1 dim"),
        (np.zeros(256, np.int8), "packed must have dtype uint8"),
        (np.zeros(512, np.uint8)[::2], "packed must be C-contiguous"),
        (np.zeros((), np.uint8), "packed must have 1 dim"),
    ],
)
def test_not_a_byte_array(buffer: Uint8Array, message: str) -> None:
    assert_refused(buffer, message)
