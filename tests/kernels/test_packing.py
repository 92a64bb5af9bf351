"""Packing against the format restated in numpy, and back."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import quad_format
from cases import SCALE_CASES, ZERO_POINT_CASES, ScaleCase, ZeroPointCase, random_weights
from native_calls import pack
from onnxruntime_ep_mlas import _native

# Bits and block lengths: all that have kernels of their own, and some stored in parts.
WIDTHS = [(bits, block) for bits in (2, 4, 8) for block in (16, 32, 64, 128, 256)]
WIDTHS += [(4, 512), (8, 512), (4, 65536), (8, 65536)]

QUAD_DIGEST = "e3fa61d8822d0aae8ab4b8adead3f705de81046b451b10f81cc8cc117e8c5e33"


def assert_same_bytes(weights: oracle.Weights, *, general: bool, threads: int = 1) -> None:
    packed = pack(weights, general=general, threads=threads)
    expected = quad_format.pack(weights, general=general)
    assert quad_format.read_header(packed) == quad_format.read_header(expected)
    np.testing.assert_array_equal(packed, expected)


def assert_round_trip(weights: oracle.Weights, *, general: bool = False) -> None:
    packed = pack(weights, general=general)
    codes, scales, zero_points = _native.unpack(packed)
    every_code = oracle.unpack_codes(codes, weights.k_blocks * weights.block_size, weights.bits)
    stated = oracle.unpack_codes(weights.codes, weights.k, weights.bits)
    np.testing.assert_array_equal(every_code[:, : weights.k], stated)
    past_k = every_code[:, weights.k :]
    assert not past_k.any()
    np.testing.assert_array_equal(scales.view(np.uint32), weights.scales.view(np.uint32))
    np.testing.assert_array_equal(zero_points, weights.zero_point_values())
    restated = quad_format.unpack(packed)
    np.testing.assert_array_equal(restated[0], stated)
    np.testing.assert_array_equal(restated[1].view(np.uint32), weights.scales.view(np.uint32))
    np.testing.assert_array_equal(restated[2], weights.zero_point_values())


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("scales", SCALE_CASES)
@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [16, 32, 64, 128, 256, 512])
def test_bytes_are_the_stated_format(
    block: int, bits: int, zero_points: ZeroPointCase, scales: ScaleCase, general: bool
) -> None:
    if bits == 2 and block > 256:
        return
    for n, k in ((1, 1), (15, block), (16, block + 1), (17, 3 * block - 1), (33, 2 * block + 5)):
        weights = random_weights(
            *(np.random.default_rng([n, k]), n, k, block),
            bits=bits,
            zero_points=zero_points,
            scales=scales,
        )
        assert_same_bytes(weights, general=general)
        assert_round_trip(weights, general=general)


@given(
    n=st.integers(1, 70),
    k=st.integers(1, 600),
    width=st.sampled_from(WIDTHS),
    zero_points=st.sampled_from(ZERO_POINT_CASES),
    scales=st.sampled_from(SCALE_CASES),
    general=st.booleans(),
    threads=st.sampled_from([1, 2, 5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_packs_to_the_stated_format(
    n: int,
    k: int,
    width: tuple[int, int],
    zero_points: ZeroPointCase,
    scales: ScaleCase,
    general: bool,
    threads: int,
    seed: int,
) -> None:
    bits, block = width
    weights = random_weights(
        *(np.random.default_rng(seed), n, k, block),
        bits=bits,
        zero_points=zero_points,
        scales=scales,
    )
    assert_same_bytes(weights, general=general, threads=threads)
    assert_round_trip(weights, general=general)


def test_quad_bytes_never_change() -> None:
    """Files that earlier versions packed must stay readable: the digest is theirs."""
    values = np.arange(33 * 3 * 8, dtype=np.uint32)
    codes = (values * 37 + (values >> 3) * 11).astype(np.uint8).reshape(33, 3, 8)
    scales = ((np.arange(99) % 13 + 1) / 64).astype(np.float32).reshape(33, 3)
    zero_points = (np.arange(33, dtype=np.uint8) * 7)[:, None]
    packed = pack(oracle.Weights(codes, scales, zero_points, 77, 32))
    assert hashlib.sha256(packed.tobytes()).hexdigest() == QUAD_DIGEST


def test_junk_in_unused_fields_leaves_no_trace() -> None:
    rng = np.random.default_rng(1)
    weights = random_weights(rng, 20, 77, 16, zero_points="per_block")
    assert weights.zero_points is not None
    clean_codes = oracle.pack_fields(
        np.pad(oracle.unpack_codes(weights.codes, 77), [(0, 0), (0, 3)]), 2
    ).reshape(weights.codes.shape)
    clean_zero_points = oracle.pack_fields(weights.zero_point_values().astype(np.uint8), 2)
    assert (clean_codes != weights.codes).any()
    assert (clean_zero_points != weights.zero_points).any()
    clean = replace(weights, codes=clean_codes, zero_points=clean_zero_points)
    np.testing.assert_array_equal(pack(weights), pack(clean))


def info(weights: oracle.Weights, **arguments: bool) -> dict[str, object]:
    return dict(_native.packed_info(pack(weights, **arguments)))


@pytest.mark.parametrize(
    ("scale", "kept_as"),
    [
        (1.0, "fp16"),
        (-0.0, "fp16"),
        (65504.0, "fp16"),
        (65520.0, "fp32"),
        (2.0**-14, "fp16"),
        (2.0**-24, "fp16"),
        (2.0**-25, "fp32"),
        (3 * 2.0**-24, "fp16"),
        (3 * 2.0**-25, "fp32"),
        (1 + 2.0**-10, "fp16"),
        (1 + 2.0**-11, "fp32"),
        (2.0**-14 + 2.0**-24, "fp16"),
        (2.0**-14 + 2.0**-25, "fp32"),
        (1e-40, "fp32"),
        (float(np.inf), "fp16"),
        (float(np.nan), "fp16"),
    ],
)
def test_scales_take_16_bits_only_when_nothing_is_lost(scale: float, kept_as: str) -> None:
    weights = random_weights(np.random.default_rng(2), 18, 64, 32)
    scales = weights.scales.copy()
    scales[17, 1] = scale
    weights = replace(weights, scales=scales)
    assert info(weights)["scale_type"] == kept_as
    np.testing.assert_array_equal(_native.unpack(pack(weights))[1], scales)
    assert info(weights, general=True)["scale_type"] == "fp32"


def test_zero_points_take_the_smallest_kind_that_keeps_them() -> None:
    def fields(zero_points: oracle.ZeroPoints, **arguments: bool) -> tuple[object, object]:
        weights = replace(
            random_weights(np.random.default_rng(4), 3, 64, 32), zero_points=zero_points
        )
        found = info(weights, **arguments)
        return found["zero_point_kind"], found["uniform_zero_point"]

    assert fields(None) == ("uniform", 2)
    for value in range(4):
        packed = oracle.pack_fields(np.full((3, 2), value, np.uint8), 2)
        assert fields(packed) == ("uniform", value)
        assert fields(packed | np.uint8(0xF0)) == ("uniform", value), "junk above the used fields"
        assert fields(np.full((3, 2), value, np.float32)) == ("uniform", value)
        assert fields(packed, general=True)[0] == "per_block"
        assert fields(np.full((3, 2), value, np.float32), general=True)[0] == "float"
    mixed = np.array([[1, 1], [1, 1], [1, 3]], np.uint8)
    assert fields(oracle.pack_fields(mixed, 2))[0] == "per_block"
    assert fields(mixed.astype(np.float32))[0] == "per_block"
    for odd in (1.5, -1.0, 4.0, np.nan, np.inf, 255.0):
        values = mixed.astype(np.float32)
        values[2, 1] = odd
        assert fields(values)[0] == "float", odd
    minus_zero = np.array([[-0.0, 0.0]] * 3, np.float32)
    assert fields(minus_zero) == ("uniform", 0)


def test_bytes_per_weight() -> None:
    weights = random_weights(np.random.default_rng(6), 4096, 256, 32)
    bits = 8 * (pack(weights).nbytes - quad_format.HEADER_BYTES) / (4096 * 256)
    assert bits == 2.5
    weights = random_weights(np.random.default_rng(6), 4096, 256, 32, zero_points="per_block")
    assert 8 * (pack(weights).nbytes - quad_format.HEADER_BYTES) / (4096 * 256) == 2.75
    for bits, block in ((4, 32), (8, 128)):
        weights = random_weights(np.random.default_rng(6), 4096, 256, block, bits=bits)
        stored = 8 * (pack(weights).nbytes - quad_format.HEADER_BYTES) / (4096 * 256)
        assert stored == bits + 16 / block


def test_packed_arrays_are_aligned() -> None:
    weights = random_weights(np.random.default_rng(8), 5, 40, 16)
    assert all(pack(weights).ctypes.data % 64 == 0 for _ in range(20))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 3}, "bits must be"),
        (
            {
                "block_size": 512,
                "k": 1024,
                "codes": np.zeros((3, 2, 128), np.uint8),
            },
            "block length 512 has no kernel",
        ),
        ({"bits": 4, "codes": np.zeros((3, 2, 16), np.uint8), "format": "column"}, "2-bit"),
        ({"block_size": 24}, "block_size"),
        ({"block_size": 8}, "block_size"),
        ({"block_size": 0}, "block_size"),
        ({"k": 0}, "k must"),
        ({"k": -1}, "k must"),
        ({"k": 2**60}, "k must"),
        ({"k": 65}, "codes must have shape"),
        ({"threads": 0}, "threads"),
        ({"threads": 100000}, "threads"),
        ({"codes": np.zeros((3, 2, 7), np.uint8)}, "codes must have shape"),
        ({"codes": np.zeros((3, 16), np.uint8)}, "codes must have 3 dim"),
        ({"codes": np.zeros((3, 2, 8), np.int8)}, "codes must have dtype uint8"),
        ({"codes": np.zeros((3, 2, 16), np.uint8)[:, :, ::2]}, "codes must be C-contiguous"),
        ({"scales": np.ones((3, 3), np.float32)}, "scales must have shape"),
        ({"scales": np.ones((3, 2))}, "scales must have dtype float32"),
        ({"scales": np.ones((2, 3), np.float32).T}, "scales must be C-contiguous"),
        ({"scales": np.zeros(25, np.uint8)[1:].view(np.float32).reshape(3, 2)}, "address"),
        ({"zero_points": np.zeros((3, 2), np.uint8)}, "zero_points must have shape"),
        ({"zero_points": np.zeros((3, 1), np.float32)}, "zero_points must have shape"),
        ({"zero_points": np.zeros((3, 2), np.float16)}, "zero_points must have dtype"),
        (
            {
                "codes": np.zeros((0, 2, 8), np.uint8),
                "scales": np.zeros((0, 2), np.float32),
            },
            "n >= 1",
        ),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "codes": np.zeros((3, 2, 8), np.uint8),
        "scales": np.ones((3, 2), np.float32),
        "zero_points": None,
        "k": 64,
        "block_size": 32,
    }
    _native.pack(**arguments)
    with pytest.raises(ValueError, match=message):
        _native.pack(**{**arguments, **change})
