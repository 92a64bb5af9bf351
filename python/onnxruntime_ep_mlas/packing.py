"""The kernel library on numpy arrays: kernels, packing and the product itself."""

from __future__ import annotations

import importlib
import math
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from onnxruntime_ep_mlas._arrays import Float32Array, Uint8Array
from onnxruntime_ep_mlas.quantize.layout import pack_fields
from onnxruntime_ep_mlas.quantize.quantized_weights import QuantizedWeights

Compute = Literal["int8", "fp32"]
Format = Literal["quad", "column"]

# By name: numpy itself has no bfloat16.
_TYPES_OF_A = ("float32", "float16", "bfloat16")


def _bindings() -> Any:
    # Not at import time: quantising models and registering the provider don't need the bindings.
    try:
        return importlib.import_module("onnxruntime_ep_mlas._native")
    except ImportError as error:
        raise ImportError(
            "the kernel bindings onnxruntime_ep_mlas._native can't be loaded: reinstall "
            f"onnxruntime-ep-mlas for this Python version ({error})"
        ) from error


def cpu_features() -> dict[str, bool | str]:
    """What this machine's processor offers and its operating system saves; "brand" is its name."""
    return cast("dict[str, bool | str]", _bindings().cpu_features())


def kernels() -> list[dict[str, Any]]:
    """Every kernel of this build, usable here or not.

    Returns:
        Per kernel: name, family, isa, format, bits, compute ("int8" or "fp32"), path ("fused" or
        "panel"), tile_rows, tile_columns, block_lengths, and unavailable_reason, which is "" when
        it can run on this machine.
    """
    return cast("list[dict[str, Any]]", _bindings().kernels())


def pack(
    weights: QuantizedWeights,
    *,
    threads: int = 1,
    format: Format = "quad",  # noqa: A002
) -> Uint8Array:
    """Packs a matrix for the kernels. The result is the same on every machine.

    Args:
        weights: 2, 4 or 8 bits. "column" holds 2 bits only.
        threads: how many threads to use.
        format: "quad", which kernels of every ISA read, or "column", the baseline that they are
            measured against: few ISAs have kernels of their own for it.

    Returns:
        uint8 [bytes], 64-byte aligned: a header, then codes, scales and zero points.

    Raises:
        ValueError: weights of another width, more than the format holds, or an unknown format.
    """
    packed = _bindings().pack(
        weights.codes,
        weights.scales,
        weights.zero_points,
        k=weights.k,
        block_size=weights.block_size,
        bits=weights.bits,
        threads=threads,
        format=format,
    )
    return cast(Uint8Array, packed)


def unpack(packed: Uint8Array) -> QuantizedWeights:
    """Inverse of `pack`; codes past K come back as 0.

    A uniform zero point of 2^(bits-1) comes back as None, other integers packed, fractional ones as
    floats.

    Raises:
        ValueError: the buffer is truncated, damaged, misaligned or of another kind.
    """
    info = _bindings().packed_info(packed)
    codes, scales, zero_points = _bindings().unpack(packed)
    kind, bits = info["zero_point_kind"], info["bits"]
    stored: Uint8Array | Float32Array | None = zero_points
    if kind == "uniform" and info["uniform_zero_point"] == 2 ** (bits - 1):
        stored = None
    elif kind != "float":
        stored = pack_fields(zero_points.astype(np.uint8), bits)
    return QuantizedWeights(codes, scales, stored, info["k"], info["n"], info["block_size"], bits)


def matmul_nbits(
    a: npt.NDArray[Any],
    weights: Uint8Array | QuantizedWeights,
    *,
    bias: Float32Array | None = None,
    compute: Compute = "int8",
    isa: str | None = None,
    kernel: str | None = None,
    threads: int = 1,
) -> npt.NDArray[Any]:
    """A @ W + bias on this package's kernels, as the provider computes MatMulNBits.

    Args:
        a: float32, float16 or (of the package ml_dtypes) bfloat16 [..., K]. Sums are float32 for
            each.
        weights: a buffer of `pack`, or quantised weights, which are packed for this one call.
        bias: float32 [N] or None.
        compute: "int8" rounds A to int8 per row and block (accuracy_level 4); "fp32" doesn't
            (accuracy_level 0 to 3).
        isa: one of "portable", "avx2", "avxvnni", "avx512bw", "avx512vnni", "neon",
            "neon_dotprod", "neon_i8mm"; None for the fastest that runs here, or what the
            environment variable ORT_MLAS_ISA says.
        kernel: name of a row of `kernels()` to use, of the format that the weights are packed in
            (quantised weights are packed as "quad") and of their width; None to choose by the
            number of rows.
        threads: how many threads to use; the result doesn't depend on it.

    Returns:
        [..., N], of a's type.

    Raises:
        ValueError: a shape, type or name that doesn't fit, or a kernel that can't run here.
    """
    packed = pack(weights, threads=threads) if isinstance(weights, QuantizedWeights) else weights
    if a.dtype.name not in _TYPES_OF_A or a.ndim == 0:
        raise ValueError(
            f"a is {a.dtype} {list(a.shape)}; it must be {', '.join(_TYPES_OF_A)} [..., K]"
        )
    # Not the checksum: it would read the whole buffer at every call.
    info = _bindings().packed_info(packed, verify_checksum=False)
    if a.shape[-1] != info["k"]:
        raise ValueError(f"a is {list(a.shape)}; its last dim must be the weights' K, {info['k']}")
    rows = np.ascontiguousarray(a).reshape(math.prod(a.shape[:-1]), info["k"])
    out = _bindings().matmul_nbits(
        rows, packed, bias=bias, compute=compute, isa=isa, kernel=kernel, threads=threads
    )
    return cast("npt.NDArray[Any]", out).reshape(*a.shape[:-1], info["n"])
