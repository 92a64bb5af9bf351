"""What a quantiser of weights is, and the list of those known by name.

A quantiser sees some output columns of a matrix at a time, each with all of its k: what it may use
about a layer arrives in `Columns`, so a later one that needs more (say, second moments of the
layer's inputs) adds a field there and leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onnxruntime_ep_mlas._arrays import Float32Array, Uint8Array

FP16_MAX = 65504.0


@dataclass(frozen=True)
class Columns:
    """Some columns of W, transposed and cut into blocks.

    Attributes:
        blocks: float32 [columns, k_blocks, block_size], finite, contiguous; 0 past k.
        bits: width of a code.
    """

    blocks: Float32Array
    bits: int


@dataclass(frozen=True)
class CodedColumns:
    """Result of a quantiser.

    Attributes:
        codes: uint8 [columns, k_blocks, block_size], each below 2^bits.
        scales: float32 [columns, k_blocks], every one exactly representable in fp16.
        zero_points: None for 2^(bits-1), or uint8 [columns, k_blocks]. The same of the two for
            every group of columns.
    """

    codes: Uint8Array
    scales: Float32Array
    zero_points: Uint8Array | None


@dataclass(frozen=True)
class Algorithm:
    """A quantiser with the facts that help to choose it.

    Attributes:
        name: what `quantize_weights(algorithm=...)` takes.
        description: one line for people.
        bits: widths that it can do.
        quantize: the function.
    """

    name: str
    description: str
    bits: tuple[int, ...]
    quantize: Callable[[Columns], CodedColumns]


_ALGORITHMS: dict[str, Algorithm] = {}


def register_algorithm(algorithm: Algorithm) -> None:
    """Makes a quantiser known by its name.

    Raises:
        ValueError: another one has that name.
    """
    if algorithm.name in _ALGORITHMS:
        raise ValueError(f"there is already a quantisation algorithm {algorithm.name!r}")
    _ALGORITHMS[algorithm.name] = algorithm


def algorithms() -> dict[str, Algorithm]:
    """The known quantisers by name, in order of registration."""
    return dict(_ALGORITHMS)


def find_algorithm(name: str, bits: int) -> Algorithm:
    """The quantiser of that name.

    Raises:
        ValueError: there is none, or it can't do this width.
    """
    algorithm = _ALGORITHMS.get(name)
    if algorithm is None:
        raise ValueError(f"unknown algorithm {name!r}; known: {', '.join(_ALGORITHMS)}")
    if bits not in algorithm.bits:
        able = [other.name for other in _ALGORITHMS.values() if bits in other.bits]
        raise ValueError(f"algorithm {name!r} can't do {bits} bits; choose {' or '.join(able)}")
    return algorithm


def default_algorithm(bits: int) -> str:
    """The quantiser for whole models that don't name one: "mse", where a coarse grid makes its
    choice of scale and zero point count; at 8 bits "rtn", whose weights need no zero points."""
    return "mse" if bits in _ALGORITHMS["mse"].bits else "rtn"


def round_to_fp16(scales: Float32Array) -> Float32Array:
    """Nearest fp16 values, as float32."""
    return scales.astype(np.float16).astype(np.float32)


def nearest_codes(
    blocks: Float32Array, scales: Float32Array, zero_points: Uint8Array | int, bits: int
) -> Uint8Array:
    """The codes that dequantise closest to the weights.

    Args:
        blocks: float32 [..., block_size].
        scales: float32 [...]; 0 gives the zero point as every code.
        zero_points: uint8 [...], or one for all.
        bits: width of a code.

    Returns:
        uint8 [..., block_size].
    """
    offsets = np.asarray(zero_points, np.float32)[..., None]
    usable = (scales != 0)[..., None]
    steps = np.zeros_like(blocks)
    # A scale may be tiny beside a weight that it clips: such a quotient is as good as infinite.
    with np.errstate(over="ignore"):
        np.divide(blocks, scales[..., None], out=steps, where=usable)
    np.rint(steps, out=steps)
    steps += offsets
    np.clip(steps, 0, 2**bits - 1, out=steps)
    return steps.astype(np.uint8)
