"""What com.microsoft::MatMulNBits must give, in numpy, and the error that float32 may add.

Nothing here uses the library under test. Weights are in the operator's layout: codes uint8
[N, k_blocks, block_size*bits/8], scales float32 [N, k_blocks], zero points None, uint8
[N, ceil(k_blocks*bits/8)] or float32 [N, k_blocks]; fields are packed least significant bits first.

Error model. u = 2^-24 is float32's unit roundoff, gamma(n) = n*u / (1 - n*u) bounds n successive
roundings (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), and TINY = 2^-150 is half
the smallest denormal: what one operation may lose when its result is denormal. The bounds hold for
any order of summation.

fp32 compute. A weight (code - zero_point) * scale takes at most three roundings, then each of K
terms takes part in at most K additions, and the bias in one:
    |error| <= gamma(K + 4) * (sum_k |a_k| |w_k| + |bias|)  +  underflow.
With a fractional zero point the kernel may form code*scale - zero_point*scale, whose rounding is
relative to the parts: |w_k| is then replaced by (|code| + |zero_point|) * |scale|.

int8 compute. The quantiser is exact (`quantize_activations`). A block longer than 256 k, or 128 k
at 8 bits, is summed in parts of that length, so that the int32 sum of a part and its conversion to
float32 are exact (at most 128 * 127 * 255 < 2^22). A part then takes one rounding for
a_scale * b_scale and one multiply-add:
    |error| <= gamma(parts + 3) * (sum_parts |acc * a_scale * b_scale| + |bias|)  +  underflow,
where float zero points add a second term per part, so that the sum has 2 * parts terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeGuard

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
Uint8Array = npt.NDArray[np.uint8]
Int32Array = npt.NDArray[np.int32]
ZeroPoints = Uint8Array | Float32Array | None

UNIT_ROUNDOFF = 2.0**-24
TINY = 2.0**-150
FLOAT32_MAX = float(np.finfo(np.float32).max)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def gamma(n: int) -> float:
    return n * UNIT_ROUNDOFF / (1.0 - n * UNIT_ROUNDOFF)


# --- operator layout -----------------------------------------------------------------------------


def pack_fields(values: Uint8Array, bits: int) -> Uint8Array:
    """Packs the last axis into bytes, least significant bits first, zeros filling the last byte."""
    per_byte = 8 // bits
    missing = -values.shape[-1] % per_byte
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    fields = padded.reshape(*values.shape[:-1], -1, per_byte).astype(np.uint32)
    shifts = np.arange(per_byte, dtype=np.uint32) * bits
    packed: Uint8Array = np.bitwise_or.reduce(fields << shifts, axis=-1).astype(np.uint8)
    return packed


def unpack_fields(packed: Uint8Array, count: int, bits: int) -> Uint8Array:
    """Inverse of `pack_fields`: the first `count` fields of the last axis."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    fields = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    unpacked: Uint8Array = fields.reshape(*packed.shape[:-1], -1)[..., :count]
    return unpacked


def unpack_codes(codes: Uint8Array, k: int, bits: int = 2) -> Uint8Array:
    """Codes [N, k_blocks, bytes] as one byte each, [N, K]; junk past K is dropped."""
    return unpack_fields(codes.reshape(codes.shape[0], -1), k, bits)


def is_packed(zero_points: Uint8Array | Float32Array) -> TypeGuard[Uint8Array]:
    """Whether zero points are packed integers rather than floats."""
    return zero_points.dtype == np.uint8


def unpack_zero_points(
    zero_points: ZeroPoints, n: int, k_blocks: int, bits: int = 2
) -> Float64Array:
    """Zero points as float64 [N, k_blocks]; None means the operator's default 2^(bits-1)."""
    if zero_points is None:
        return np.full((n, k_blocks), 2.0 ** (bits - 1))
    if is_packed(zero_points):
        return unpack_fields(zero_points.reshape(n, -1), k_blocks, bits).astype(np.float64)
    return zero_points.reshape(n, k_blocks).astype(np.float64)


@dataclass(frozen=True)
class Weights:
    """One quantised matrix in the operator's layout."""

    codes: Uint8Array
    scales: Float32Array
    zero_points: ZeroPoints
    k: int
    block_size: int
    bits: int = 2

    @property
    def n(self) -> int:
        return int(self.codes.shape[0])

    @property
    def k_blocks(self) -> int:
        return ceil_div(self.k, self.block_size)

    def part_length(self) -> int:
        """k of a part: what int8 compute sums up at once."""
        return min(self.block_size, 128 if self.bits == 8 else 256)

    def block_of_part(self) -> npt.NDArray[np.int64]:
        """[parts]: the index of each part's scale."""
        part = self.part_length()
        return np.arange(ceil_div(self.k, part)) * part // self.block_size

    def code_values(self) -> Float64Array:
        """[N, K]."""
        return unpack_codes(self.codes, self.k, self.bits).astype(np.float64)

    def zero_point_values(self) -> Float64Array:
        """[N, k_blocks]."""
        return unpack_zero_points(self.zero_points, self.n, self.k_blocks, self.bits)

    def groups(self, g_idx: Int32Array | None = None) -> npt.NDArray[np.int64]:
        """[K]: the scale's index of each k."""
        return np.arange(self.k) // self.block_size if g_idx is None else g_idx.astype(np.int64)

    def dequantize(self, g_idx: Int32Array | None = None) -> Float64Array:
        """(code - zero_point) * scale in float64, [N, K]."""
        groups = self.groups(g_idx)
        return (self.code_values() - self.zero_point_values()[:, groups]) * self.scales.astype(
            np.float64
        )[:, groups]


# --- activations ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuantizedActivations:
    q: npt.NDArray[np.int8]  # [M, k_blocks * block_size]
    scales: Float32Array  # [M, k_blocks]
    sums: Int32Array  # [M, k_blocks]
    fp32_rows: npt.NDArray[np.bool_]  # [M]: q, scales and sums of such a row are zeros


def quantize_activations(a: Float32Array, block_size: int) -> QuantizedActivations:
    """The int8 rule in float32: r = 127 / amax, q = round-half-even(a * r), scale = amax / 127."""
    m, k = a.shape
    k_blocks = ceil_div(k, block_size)
    padded = np.zeros((m, k_blocks * block_size), np.float32)
    padded[:, :k] = a
    blocks = padded.reshape(m, k_blocks, block_size)
    with np.errstate(all="ignore"):
        amax = np.abs(blocks).max(axis=2, initial=np.float32(0))
        ratio = np.where(amax > 0, np.float32(127) / amax, np.float32(0)).astype(np.float32)
        fp32_rows = ~np.isfinite(a).all(axis=1) | np.isinf(ratio).any(axis=1)
        scaled = np.where(fp32_rows[:, None, None], np.float32(0), blocks * ratio[:, :, None])
    q = np.clip(np.rint(scaled), -127, 127).astype(np.int8)
    scales = np.where(fp32_rows[:, None], np.float32(0), amax / np.float32(127))
    sums = q.astype(np.int32).sum(axis=2, dtype=np.int32)
    return QuantizedActivations(q.reshape(m, k_blocks * block_size), scales, sums, fp32_rows)


# --- products ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """Value, largest permitted difference and the sum of the finite terms' magnitudes; [M, N]."""

    value: Float64Array
    bound: Float64Array
    magnitude: Float64Array


def matmul_fp32(
    a: Float32Array,
    weights: Weights,
    bias: Float32Array | None = None,
    g_idx: Int32Array | None = None,
) -> Reference:
    """accuracy_level 0-3: IEEE semantics for NaN and Inf, whatever the order of the terms."""
    groups = weights.groups(g_idx)
    a64 = a[:, : weights.k].astype(np.float64)
    scale = np.abs(weights.scales.astype(np.float64))[:, groups]
    w = weights.dequantize(g_idx)
    parts = np.abs(w)
    if weights.zero_points is not None and weights.zero_points.dtype == np.float32:
        parts = (weights.code_values() + np.abs(weights.zero_point_values()[:, groups])) * scale
    with np.errstate(invalid="ignore"):
        value = _ieee_matmul(a64, w)
        magnitude = np.where(np.isfinite(a64), np.abs(a64), 0) @ parts.T
        underflow = TINY * (
            2 * weights.k + np.abs(a64).sum(axis=1)[:, None] * 2 + scale.sum(axis=1)[None, :]
        )
        if bias is not None:
            value = value + bias.astype(np.float64)
            magnitude = magnitude + np.abs(bias.astype(np.float64))
    return Reference(value, gamma(weights.k + 4) * magnitude + underflow, magnitude)


def _ieee_matmul(a: Float64Array, w: Float64Array) -> Float64Array:
    """a @ w.T, with non-finite rows summed term by term: BLAS may drop or spread NaN."""
    finite = np.isfinite(a).all(axis=1)
    out = np.empty((a.shape[0], w.shape[0]))
    out[finite] = a[finite] @ w.T
    for row in np.flatnonzero(~finite):
        out[row] = (a[row] * w).sum(axis=1)
    return out


def matmul_int8(a: Float32Array, weights: Weights, bias: Float32Array | None = None) -> Reference:
    """accuracy_level 4: the int8 rule, then exact arithmetic; excluded rows by `matmul_fp32`."""
    m, n = a.shape[0], weights.n
    activations = quantize_activations(a[:, : weights.k], weights.block_size)
    raw, _, zero_part = _part_sums(activations, weights)
    parts_count, blocks = raw.shape[2], weights.block_of_part()
    scale = (
        activations.scales.astype(np.float64)[:, None, blocks]
        * weights.scales.astype(np.float64)[None, :, blocks]
    )
    terms = (raw - zero_part) * scale
    if weights.zero_points is not None and weights.zero_points.dtype == np.float32:
        parts, roundings = (np.abs(raw) + np.abs(zero_part)) * np.abs(scale), 2 * parts_count + 4
    else:
        parts, roundings = np.abs(terms), parts_count + 3
    value, magnitude = terms.sum(axis=2), parts.sum(axis=2)
    underflow = TINY * ((np.abs(raw) + np.abs(zero_part)).sum(axis=2) + 3 * parts_count + 1)
    if bias is not None:
        value, magnitude = (
            value + bias.astype(np.float64),
            magnitude + np.abs(bias.astype(np.float64)),
        )
    bound = gamma(roundings) * magnitude + underflow
    assert value.shape == (m, n)
    rows = activations.fp32_rows
    if rows.any():
        exact = matmul_fp32(a[rows], weights, bias)
        value[rows], bound[rows], magnitude[rows] = exact.value, exact.bound, exact.magnitude
    return Reference(value, bound, magnitude)


def _part_sums(
    activations: QuantizedActivations, weights: Weights
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Per row, column and part: sum(q * code), sum(q) [M, parts] and zero_point * sum(q); the first
    and last [M, N, parts]."""
    part, blocks = weights.part_length(), weights.block_of_part()
    end = len(blocks) * part
    codes = np.zeros((weights.n, end))
    codes[:, : weights.k] = weights.code_values()
    q = activations.q[:, :end].astype(np.float64).reshape(len(activations.q), len(blocks), part)
    raw = np.einsum("mbk,nbk->mnb", q, codes.reshape(weights.n, len(blocks), part), optimize=True)
    sums = q.sum(axis=2)
    zero_part = sums[:, None, :] * weights.zero_point_values()[None, :, blocks]
    return raw, sums, zero_part


def fma32(x: Float32Array, y: Float32Array, z: Float32Array) -> Float32Array:
    """float32 fused multiply-add with one rounding.

    The product of two float32 is exact in float64; the sum is rounded to odd there (its last bit
    set when inexact), so that the second rounding, to float32, can't meet a false tie (Boldo and
    Melquiond, 2008).
    """
    product = x.astype(np.float64) * y.astype(np.float64)
    addend = z.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    even = (total.view(np.int64) & 1) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even, np.nextafter(total, towards), total)
    with np.errstate(over="ignore"):
        return odd.astype(np.float32)


def matmul_int8_float32(
    a: Float32Array,
    weights: Weights,
    bias: Float32Array | None = None,
    *,
    fractional: bool | None = None,
) -> tuple[Float32Array, npt.NDArray[np.bool_]]:
    """accuracy_level 4 in the float32 operations that every ISA must perform, to compare bits.

    Per part, in k order: c = fma(float(acc), a_scale * b_scale, c), where acc is the int32 sum of
    q * (code - zero_point) for integer zero points; for float ones it is the sum of q * code, and
    c = fma(a_scale * float(sum q), -(zero_point * b_scale), c) follows. The bias is added last.
    `fractional` says which of the two it is, where that is not for the values to decide.

    Returns the product [M, N], and [M] which rows it stands for: rows that run as fp32 are not
    computed.
    """
    activations = quantize_activations(a[:, : weights.k], weights.block_size)
    raw, sums, zero_part = _part_sums(activations, weights)
    if fractional is None:
        fractional = not integer_zero_points(weights)
    acc = (raw if fractional else raw - zero_part).astype(np.float32)
    zero_points = weights.zero_point_values().astype(np.float32)
    c = np.zeros(acc.shape[:2], np.float32)
    for part, block in enumerate(weights.block_of_part()):
        a_scale = activations.scales[:, block][:, None]
        b_scale = weights.scales[:, block][None, :]
        c = fma32(acc[:, :, part], a_scale * b_scale, c)
        if fractional:
            row = a_scale * sums[:, part][:, None].astype(np.float32)
            column = -(zero_points[:, block][None, :] * b_scale)
            c = fma32(np.broadcast_to(row, c.shape), np.broadcast_to(column, c.shape), c)
    return (c if bias is None else c + bias), ~activations.fp32_rows


def integer_zero_points(weights: Weights) -> bool:
    """Whether a packer may keep the zero points as integers 0..2^bits-1."""
    values = weights.zero_point_values()
    return bool(((values == np.rint(values)) & (values >= 0) & (values < 2**weights.bits)).all())


def matmul(
    a: Float32Array,
    weights: Weights,
    bias: Float32Array | None = None,
    *,
    compute: Literal["int8", "fp32"],
    g_idx: Int32Array | None = None,
) -> Reference:
    """Either compute type. With `g_idx`, int8 quantises A in blocks of the regrouped K."""
    if g_idx is None:
        return matmul_int8(a, weights, bias) if compute == "int8" else matmul_fp32(a, weights, bias)
    if compute == "fp32":
        return matmul_fp32(a, weights, bias, g_idx)
    grouped, gather = regroup(weights, g_idx)
    return matmul_int8(gather_columns(a, gather), grouped, bias)


def assert_matches(actual: Float32Array, expected: Reference, context: str = "") -> None:
    """Fails when an element is outside its bound, or NaN or Inf without the reference being so.

    Where the finite terms' magnitudes leave float32's range a partial sum may overflow: such
    elements may also be NaN or Inf, and NaN where the reference is infinite.
    """
    assert actual.shape == expected.value.shape, (
        f"{context}: shape {actual.shape} != {expected.value.shape}"
    )
    value = expected.value
    got = actual.astype(np.float64)
    with np.errstate(invalid="ignore"):
        fits = np.abs(got - value) <= expected.bound
        same = (got == value) | (np.isnan(got) & np.isnan(value))
        overflows = expected.magnitude >= FLOAT32_MAX
        may_overflow = np.where(np.isfinite(value), ~np.isfinite(got), np.isnan(got)) & overflows
    wrong = ~(np.where(np.isfinite(value), fits, same) | may_overflow)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{context}: {int(wrong.sum())} of {wrong.size} elements outside the error bound; "
            f"first [{row}, {column}]: got {got[row, column]!r}, "
            f"expected {value[row, column]!r} +- {expected.bound[row, column]!r}"
        )


# --- g_idx ---------------------------------------------------------------------------------------


def gather_columns(a: Float32Array, gather: Int32Array) -> Float32Array:
    """A's columns in packed order: [M, len(gather)], zeros where the index is -1."""
    picked = np.take(a, np.maximum(gather, 0), axis=1)
    picked[:, gather < 0] = 0
    return picked


def regroup(weights: Weights, g_idx: Int32Array) -> tuple[Weights, Int32Array]:
    """Weights whose groups are scattered over K, brought into blocks.

    Groups in ascending order, each group's k in ascending order, padded to whole blocks (index -1,
    code 0); groups that no k belongs to vanish. Returns the weights (K a multiple of the block) and
    the k of A that each packed k reads.
    """
    block, bits = weights.block_size, weights.bits
    order: list[int] = []
    groups: list[int] = []
    for group in np.unique(g_idx):
        members = [int(i) for i in np.flatnonzero(g_idx == group)]
        blocks = ceil_div(len(members), block)
        order += members + [-1] * (blocks * block - len(members))
        groups += [int(group)] * blocks
    gather = np.array(order, np.int32)
    codes = unpack_codes(weights.codes, weights.k, bits)[:, np.maximum(gather, 0)]
    codes[:, gather < 0] = 0
    packed = pack_fields(codes, bits).reshape(weights.n, len(groups), -1)
    zero_points = weights.zero_points
    if zero_points is not None:
        picked = weights.zero_point_values()[:, groups]
        if zero_points.dtype == np.uint8:
            zero_points = pack_fields(picked.astype(np.uint8), bits)
        else:
            zero_points = picked.astype(np.float32)
    grouped = replace(
        weights,
        codes=packed,
        scales=weights.scales[:, groups],
        zero_points=zero_points,
        k=len(groups) * block,
    )
    return grouped, gather
