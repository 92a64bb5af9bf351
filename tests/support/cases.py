"""Random weights, activations and group indices for tests, in the operator's layout."""

from __future__ import annotations

from typing import Literal

import numpy as np

from oracle import Float32Array, Int32Array, Weights, ZeroPoints, ceil_div, pack_fields

ZeroPointCase = Literal["none", "uniform", "per_block", "float", "float_integers"]
ScaleCase = Literal["fp16", "fp32", "power_of_two"]
ZERO_POINT_CASES: tuple[ZeroPointCase, ...] = (
    "none",
    "uniform",
    "per_block",
    "float",
    "float_integers",
)
SCALE_CASES: tuple[ScaleCase, ...] = ("fp16", "fp32", "power_of_two")


def random_weights(
    rng: np.random.Generator,
    n: int,
    k: int,
    block_size: int,
    *,
    bits: int = 2,
    zero_points: ZeroPointCase = "none",
    scales: ScaleCase = "fp16",
) -> Weights:
    """Random weights. Codes past K and unused zero-point fields hold junk, as exporters leave it.

    A third of the scales is negative and, unless they are powers of two, some are 0 and -0, as
    symmetric quantisers emit them. zero_points "uniform" is one non-default value everywhere;
    "float_integers" are floats that a packer may keep as integers; "float" are odd multiples of 1/8
    of either sign.
    """
    k_blocks, levels = ceil_div(k, block_size), 2**bits
    codes = rng.integers(0, 256, (n, k_blocks, block_size * bits // 8), dtype=np.uint8)
    if scales == "power_of_two":
        # 1 at 8 bits, whose sums are large as it is.
        exponents = rng.integers(-2, 2, (n, k_blocks)) if bits < 8 else np.zeros((n, k_blocks))
        magnitude = np.exp2(exponents).astype(np.float32)
    else:
        magnitude = rng.uniform(0.01, 0.5, (n, k_blocks)).astype(np.float16).astype(np.float32)
        magnitude[rng.random((n, k_blocks)) < 0.03] = 0.0
        if scales == "fp32":
            # One bit below fp16's precision in each scale that is not zero.
            magnitude = (magnitude * np.float32(1 + 2.0**-18)).astype(np.float32)
    scale = np.copysign(magnitude, rng.uniform(-1, 2, (n, k_blocks)).astype(np.float32))
    packed: ZeroPoints = None
    if zero_points == "uniform":
        value = int(rng.choice([v for v in range(levels) if v != levels // 2]))
        packed = pack_fields(np.full((n, k_blocks), value, np.uint8), bits)
    elif zero_points == "per_block":
        packed = pack_fields(rng.integers(0, levels, (n, k_blocks), dtype=np.uint8), bits)
    elif zero_points == "float_integers":
        packed = rng.integers(0, levels, (n, k_blocks)).astype(np.float32)
    elif zero_points == "float":
        packed = (rng.integers(-2, 4 * levels, (n, k_blocks)) / 4 + 1 / 8).astype(np.float32)
    if packed is not None and packed.dtype == np.uint8:
        used = k_blocks * bits % 8
        if used:
            packed[:, -1] |= rng.integers(0, 256, n, dtype=np.uint8) & np.uint8(
                (0xFF << used) & 0xFF
            )
    return Weights(codes, scale, packed, k, block_size, bits)


def random_activations(rng: np.random.Generator, m: int, k: int) -> Float32Array:
    """float32 [M, K], row by row of another magnitude, with some zeros."""
    a = rng.standard_normal((m, k)).astype(np.float32)
    a *= np.exp2(rng.integers(-6, 7, (m, 1))).astype(np.float32)
    a[rng.random((m, k)) < 0.05] = 0.0
    return a


def exact_activations(
    rng: np.random.Generator, m: int, k: int, block_size: int, bits: int = 2
) -> Float32Array:
    """Integers whose blocks all have amax 127, so that int8 quantisation keeps them: r = scale = 1.

    With "power_of_two" scales every partial sum of either compute type is then exact in float32 for
    K up to 500: the result must equal the reference bit by bit in any order of summation. At 8 bits
    most are 0, for the same reason.
    """
    a = rng.integers(-127, 128, (m, k)).astype(np.float32)
    if bits == 8:
        a[rng.random((m, k)) < 15 / 16] = 0
    a[:, ::block_size] = np.where(rng.random(a[:, ::block_size].shape) < 0.5, 127, -127)
    return a


def random_g_idx(rng: np.random.Generator, k: int, block_size: int) -> Int32Array:
    """int32 [K]: k spread over the groups at random; groups differ in size and may be empty."""
    return rng.integers(0, ceil_div(k, block_size), k).astype(np.int32)
