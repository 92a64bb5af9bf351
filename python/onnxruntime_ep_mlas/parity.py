"""What com.microsoft::MatMulNBits must give, in numpy, and how far a right result may be.

Two compute types. "fp32" (accuracy_level other than 4): Y = A x dequant(B)^T + bias. "int8"
(accuracy_level 4): A is first rounded per row and block of `block_size` along K, by

    r = fp32(127 / amax),   q = round-half-even(fp32(a * r)),   scale = fp32(amax / 127),

and the rest is exact. A row that holds NaN or Inf, or a block so small that r overflows, is
computed as "fp32".

Error model. u = 2^-24 is float32's unit roundoff. A sum of n rounded terms differs from the exact
one by at most n*u*(sum of the terms' magnitudes); and since roundings are as often up as down, by
more than 8*sqrt(n)*u*(the same sum) with a probability below 2*n*exp(-32) (Higham and Mary, "A new
approach to probabilistic rounding error analysis", 2019). The tolerance is the smaller one. n is
K for "fp32". For "int8" it is the number of parts, as which kernels sum up a block that is longer
than 256 k, or 128 k at 8 bits: a part's int32 sum is exact in float32 (128 * 127 * 255 < 2^22). A
few roundings per term are added. The narrower "int8" tolerance is what makes one wrong code, scale
or zero point visible.

A result of type float16 or bfloat16 is a float32 one that was rounded once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = [
    "Compute",
    "Oracle",
    "Parity",
    "QuantizedActivations",
    "compare",
    "matmul_nbits_oracle",
    "quantize_activations",
    "unpack_fields",
]

Compute = Literal["int8", "fp32"]
FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
BytesArray = npt.NDArray[np.uint8]

_UNIT_ROUNDOFF = 2.0**-24
_CONFIDENCE = 8.0
_ROUNDINGS_PER_TERM = 4  # dequantising or joining scales, the product, the bias
_SMALLEST_DENORMAL = 2.0**-149
_PART_LENGTHS = {2: 256, 4: 256, 8: 128}
# Unit roundoff, smallest denormal and where rounding gives infinity. numpy has no bfloat16.
_NARROW_TYPES = {
    "float16": (2.0**-11, 2.0**-24, 65520.0),
    "bfloat16": (2.0**-8, 2.0**-133, 2.0**128 - 2.0**119),
}
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class QuantizedActivations:
    """A after the int8 rule. `fp32_rows` marks rows the rule doesn't apply to: all 0 here."""

    q: npt.NDArray[np.int8]  # [M, k_blocks * block_size], zeros past K
    scales: FloatArray  # [M, k_blocks]
    fp32_rows: npt.NDArray[np.bool_]  # [M]


@dataclass(frozen=True)
class Oracle:
    """The exact result, the largest permitted distance of a float32 one from it, and where a
    partial sum may leave float32's range, so that a right result may be NaN or infinite; [M, N].
    """

    value: DoubleArray
    tolerance: DoubleArray
    may_overflow: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Parity:
    """How far a result is from the oracle."""

    max_abs_error: float  # over elements where both are finite
    relative_rms: float  # ||result - oracle|| / ||oracle||, over the same elements
    worst: float  # largest error in units of its tolerance; Inf where NaN or Inf disagree
    wrong: int  # elements beyond their tolerance
    elements: int

    @property
    def passed(self) -> bool:
        return self.wrong == 0


def unpack_fields(packed: BytesArray, count: int, bits: int) -> BytesArray:
    """Splits bytes along the last axis into `count` fields of `bits` bits, low bits first."""
    if bits == 8:
        return packed[..., :count]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = (packed[..., np.newaxis] >> shifts) & np.uint8((1 << bits) - 1)
    flat: BytesArray = fields.reshape(*packed.shape[:-1], -1)
    return flat[..., :count]


def quantize_activations(a: FloatArray, block_size: int) -> QuantizedActivations:
    """Rounds A [M, K] by the int8 rule; see the module's description."""
    m, k = a.shape
    k_blocks = -(-k // block_size)
    blocks = np.zeros((m, k_blocks * block_size), np.float32)
    blocks[:, :k] = a
    blocks = blocks.reshape(m, k_blocks, block_size)
    limit = np.float32(127)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        amax = np.abs(blocks).max(axis=2, initial=np.float32(0))
        r = np.where(amax == 0, np.float32(0), limit / amax)
        fp32_rows = ~np.isfinite(a).all(axis=1) | np.isinf(r).any(axis=1)
        r[fp32_rows] = 0
        blocks = np.where(fp32_rows[:, None, None], np.float32(0), blocks)
        q = np.clip(np.rint(blocks * r[:, :, None]), -127, 127).astype(np.int8)
    scales = np.where(fp32_rows[:, None], np.float32(0), amax / limit).astype(np.float32)
    return QuantizedActivations(q.reshape(m, -1), scales, fp32_rows)


def matmul_nbits_oracle(
    a: npt.ArrayLike,
    codes: BytesArray,
    scales: npt.ArrayLike,
    zero_points: npt.NDArray[np.uint8] | npt.NDArray[np.floating] | None = None,
    *,
    k: int,
    block_size: int,
    bits: int = 2,
    bias: npt.ArrayLike | None = None,
    g_idx: npt.ArrayLike | None = None,
    compute: Compute = "int8",
) -> Oracle:
    """The operator's exact result on A [M, K] with weights in the operator's own layout.

    codes: uint8 [N, k_blocks, block_size*bits/8]; scales: [N, k_blocks]; zero_points: packed uint8
    [N, ceil(k_blocks*bits/8)] or floats [N, k_blocks]; bias: [N]; g_idx: [K], the scale group of
    each k. With g_idx, "int8" rounds A in blocks of K permuted so that a group's k are neighbours.
    Floats may be of any type: A counts as the float32 numbers that it holds.

    Raises ValueError when the arrays don't fit k, block_size and bits, or there is no such width.
    """
    a32 = np.asarray(a, np.float32)
    if a32.ndim != 2 or a32.shape[1] != k:
        raise ValueError(f"A must be [M, {k}], is {list(a32.shape)}")
    if bits not in _PART_LENGTHS:
        raise ValueError(f"bits is {bits}; MatMulNBits has 2, 4 and 8")
    k_blocks = -(-k // block_size)
    n = codes.shape[0]
    if codes.size != n * k_blocks * block_size * bits // 8:
        raise ValueError(
            f"codes hold {codes.size} bytes; [N={n}, k_blocks={k_blocks}] blocks of {block_size} "
            f"{bits}-bit codes take {n * k_blocks * block_size * bits // 8}"
        )
    scales64 = np.asarray(scales).astype(np.float64).reshape(n, k_blocks)
    zeros = _zero_points(zero_points, n, k_blocks, bits)
    code_values = unpack_fields(codes.reshape(n, -1), k, bits)
    groups = np.arange(k) // block_size
    if g_idx is not None:
        groups = np.asarray(g_idx, np.int64).reshape(k)
        if groups.min(initial=0) < 0 or groups.max(initial=0) >= k_blocks:
            raise ValueError(f"g_idx must lie in 0..{k_blocks - 1}")
    # A packer may keep floats that are integers as such, but doesn't where they are computed.
    separate = zero_points is not None and zero_points.dtype != np.uint8
    weights = _Weights(code_values, scales64, zeros, groups, block_size, bits, separate)

    product = _fp32(a32, weights) if compute == "fp32" else _int8(a32, weights)
    value, magnitude = product.value, product.magnitude
    if bias is not None:
        bias64 = np.asarray(bias).astype(np.float64).reshape(1, n)
        with np.errstate(invalid="ignore"):
            value, magnitude = value + bias64, magnitude + np.abs(bias64)
    tolerance = _growth(product.terms)[:, None] * magnitude + product.underflow
    return Oracle(value, tolerance, magnitude >= _FLOAT32_MAX)


def compare(result: npt.NDArray[Any], oracle: Oracle, *, type: str | None = None) -> Parity:  # noqa: A002
    """Distance of a result [..., N] from the oracle; NaN must meet NaN, Inf the same Inf.

    `type` is "float32", "float16" or "bfloat16", that which the result was rounded to: by default
    the array's own. Infinity is right where a value may round to it. Where the terms leave
    float32's range a partial sum may overflow: then NaN or infinity is accepted.
    """
    got = result.astype(np.float64).reshape(oracle.value.shape)
    value, tolerance = oracle.value, oracle.tolerance
    largest = _FLOAT32_MAX * (1 + _UNIT_ROUNDOFF / 2)
    narrow = _NARROW_TYPES.get(type or result.dtype.name)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if narrow is not None:
            roundoff, denormal, largest = narrow
            tolerance = tolerance + roundoff * (np.abs(value) + tolerance) + denormal / 2
        error = np.abs(got - value)
        finite = np.isfinite(got) & np.isfinite(value)
        rounds_to_infinity = (got == np.copysign(np.inf, value)) & (
            np.abs(value) + tolerance >= largest
        )
        overflows = np.where(np.isfinite(value), ~np.isfinite(got), np.isnan(got))
        same = (got == value) | (np.isnan(got) & np.isnan(value)) | rounds_to_infinity
        ratio = np.where(finite, error / tolerance, np.inf)
        ratio = np.where(same | (overflows & oracle.may_overflow), 0.0, ratio)
    norm = float(np.linalg.norm(oracle.value[finite]))
    distance = float(np.linalg.norm(error[finite]))
    return Parity(
        max_abs_error=float(error[finite].max(initial=0.0)),
        relative_rms=distance / norm if norm > 0 else distance,
        worst=float(ratio.max(initial=0.0)),
        wrong=int((ratio > 1.0).sum()),
        elements=got.size,
    )


@dataclass(frozen=True)
class _Weights:
    codes: BytesArray  # [N, K]
    scales: DoubleArray  # [N, k_blocks]
    zeros: DoubleArray  # [N, k_blocks]
    groups: npt.NDArray[np.int64]  # [K]
    block_size: int
    bits: int
    separate: bool  # a kernel may subtract zero points after a rounding, not in integers

    @property
    def part_length(self) -> int:
        """k whose int8 products are summed up at once."""
        return min(self.block_size, _PART_LENGTHS[self.bits])


def _zero_points(
    zero_points: npt.NDArray[np.uint8] | npt.NDArray[np.floating] | None,
    n: int,
    k_blocks: int,
    bits: int,
) -> DoubleArray:
    if zero_points is None:
        return np.full((n, k_blocks), 2.0 ** (bits - 1))
    if zero_points.dtype == np.uint8:
        packed = np.asarray(zero_points, np.uint8).reshape(n, -1)
        return unpack_fields(packed, k_blocks, bits).astype(np.float64)
    return zero_points.reshape(n, k_blocks).astype(np.float64)


@dataclass(frozen=True)
class _Product:
    value: DoubleArray  # [M, N]
    magnitude: DoubleArray  # [M, N]: the sum of the finite terms' magnitudes
    terms: npt.NDArray[np.int64]  # [M]: how many there are
    underflow: DoubleArray  # [M, N]: what may be lost below float32's normal range


def _fp32(a: FloatArray, weights: _Weights) -> _Product:
    scale = weights.scales[:, weights.groups]
    zero = weights.zeros[:, weights.groups]
    w = (weights.codes - zero) * scale
    parts = (weights.codes + np.abs(zero)) * np.abs(scale) if weights.separate else np.abs(w)
    a64 = a.astype(np.float64)
    finite = np.isfinite(a64)
    value = np.empty((a.shape[0], w.shape[0]))
    whole = finite.all(axis=1)
    value[whole] = a64[whole] @ w.T
    with np.errstate(invalid="ignore"):
        # Term by term: a BLAS may skip zeros and so lose 0 * Inf = NaN.
        for row in np.flatnonzero(~whole):
            value[row] = (a64[row] * w).sum(axis=1)
        size_of_a = np.where(finite, np.abs(a64), 0.0)
        magnitude = size_of_a @ parts.T
        of_scales = np.abs(weights.scales).sum(axis=1)[None, :] * weights.block_size
        lost = size_of_a.sum(axis=1)[:, None] + of_scales + 2 * a.shape[1] + 1
    terms = np.full(a.shape[0], a.shape[1] * (2 if weights.separate else 1), np.int64)
    return _Product(value, magnitude, terms, _SMALLEST_DENORMAL * lost)


def _int8(a: FloatArray, weights: _Weights) -> _Product:
    blocks = _blocks(weights)
    gathered = np.zeros((a.shape[0], len(blocks) * weights.block_size), np.float32)
    for index, (_, members) in enumerate(blocks):
        start = index * weights.block_size
        gathered[:, start : start + len(members)] = a[:, members]
    quantized = quantize_activations(gathered, weights.block_size)

    value = np.zeros((a.shape[0], weights.codes.shape[0]))
    magnitude = np.zeros_like(value)
    lost = np.ones_like(value)
    count = 0
    for index, (group, block) in enumerate(blocks):
        scale = quantized.scales[:, index].astype(np.float64)[:, None] * weights.scales[:, group]
        for offset in range(0, len(block), weights.part_length):
            members = block[offset : offset + weights.part_length]
            start = index * weights.block_size + offset
            # float32 products are exact: every partial sum of a part is an integer below 2^24.
            q = quantized.q[:, start : start + len(members)].astype(np.float32)
            raw = (q @ weights.codes[:, members].astype(np.float32).T).astype(np.float64)
            zero = q.sum(axis=1, dtype=np.float64)[:, None] * weights.zeros[:, group]
            value += (raw - zero) * scale
            sizes = np.abs(raw) + np.abs(zero)
            magnitude += (sizes if weights.separate else np.abs(raw - zero)) * np.abs(scale)
            lost += sizes + 3  # a product of scales may be denormal, and is multiplied by a sum
            count += 1
    terms = np.full(a.shape[0], count * (2 if weights.separate else 1), np.int64)
    found = _Product(value, magnitude, terms, _SMALLEST_DENORMAL * lost)
    rows = quantized.fp32_rows
    if rows.any():
        exact = _fp32(a[rows], weights)
        value[rows], magnitude[rows], terms[rows] = exact.value, exact.magnitude, exact.terms
        found.underflow[rows] = exact.underflow
    return found


def _blocks(weights: _Weights) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """Scale group and k of each block that A is rounded in: groups in order, k ascending."""
    blocks = []
    for group in np.unique(weights.groups):
        members = np.flatnonzero(weights.groups == group)
        for start in range(0, len(members), weights.block_size):
            blocks.append((int(group), members[start : start + weights.block_size]))
    return blocks


def _growth(terms: npt.NDArray[np.int64]) -> DoubleArray:
    roundings = terms.astype(np.float64) + _ROUNDINGS_PER_TERM
    growth: DoubleArray = np.minimum(roundings, _CONFIDENCE * np.sqrt(roundings)) * _UNIT_ROUNDOFF
    return growth
