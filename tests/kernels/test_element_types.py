"""A and C of 16 bits: A's numbers are float32 numbers, sums are float32, C is rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isa_support
import oracle
from cases import random_activations, random_weights
from isa_support import KernelRow
from native_calls import Guarded, pack, pack_for, run_row, with_row_gap
from onnxruntime_ep_mlas import _native

TYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]

every_row = pytest.mark.parametrize(
    "row", isa_support.executable_kernel_rows(family="qnbit"), ids=repr
)
every_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def narrowed(values: oracle.Float32Array, dtype: np.dtype[np.generic]) -> npt.NDArray[np.uint16]:
    """The bits of each value rounded to the type; all NaN alike."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.ascontiguousarray(values.astype(dtype))
    bits = rounded.view(np.uint16).copy()
    bits[np.isnan(values)] = 0xFFFF
    return bits


def assert_narrowed(actual: npt.NDArray[np.generic], wide: oracle.Float32Array) -> None:
    bits = np.ascontiguousarray(actual).view(np.uint16).copy()
    bits[np.isnan(actual.astype(np.float32))] = 0xFFFF
    np.testing.assert_array_equal(bits, narrowed(wide, actual.dtype))


@every_row
@every_type
def test_product_is_the_float32_one_rounded(row: KernelRow, dtype: np.dtype[np.generic]) -> None:
    rng = np.random.default_rng(17)
    for m, n, k, block in ((1, 1, 1, 16), (row["tile_rows"] + 1, 37, 77, 32), (3, 48, 300, 128)):
        weights = random_weights(rng, n, k, block, bits=row["bits"], zero_points="per_block")
        packed, bias = pack_for(row, weights), rng.standard_normal(n).astype(np.float32)
        a = random_activations(rng, m, k).astype(dtype)
        if m > 2:
            a[1, k // 2], a[2, 0] = np.inf, np.nan
        c = run_row(row, a, packed, bias=bias)
        assert c.dtype == dtype
        assert_narrowed(c, run_row(row, a.astype(np.float32), packed, bias=bias))


@every_type
@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_gather_strides_and_threads(isa: str, compute: str, dtype: np.dtype[np.generic]) -> None:
    rng = np.random.default_rng(18)
    weights = random_weights(rng, 300, 530, 32, bits=4, zero_points="float")
    packed, gather = pack(weights), rng.integers(-1, 600, 530).astype(np.int32)
    options = {"isa": isa, "compute": compute, "gather": gather}
    wide = random_activations(rng, 35, 600).astype(dtype).astype(np.float32)
    expected = _native.matmul_nbits(wide, packed, **options)
    spread = np.zeros((35, 607), dtype)
    spread[:, :600] = wide.astype(dtype)
    out = np.zeros((35, 311), dtype)
    for threads in (1, 3):
        c = _native.matmul_nbits(
            spread[:, :600], packed, threads=threads, out=out[:, :300], **options
        )
        assert_narrowed(c, expected)
        assert not out[:, 300:].any()


@every_type
@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_only_the_product_and_the_workspace_are_written(
    isa: str, compute: str, dtype: np.dtype[np.generic]
) -> None:
    rng = np.random.default_rng(19)
    for m, n, k in ((1, 1, 1), (3, 17, 33), (9, 31, 100)):
        packed = pack(random_weights(rng, n, k, 16, bits=8))
        values = rng.standard_normal((m, k)).astype(dtype).view(np.uint16)
        a, out = Guarded(values, 2), Guarded(np.zeros((m, n), np.uint16), 6)
        needed = _native.workspace_bytes(m, packed, compute=compute, isa=isa, type=str(dtype))
        workspace = Guarded(np.zeros(needed, np.uint8))
        _native.matmul_nbits(
            *(a.array.view(dtype), packed),
            compute=compute,
            isa=isa,
            out=out.array.view(dtype),
            workspace=workspace.array,
        )
        a.check("a")
        out.check("out", contents_may_change=True)
        workspace.check("workspace", contents_may_change=True)


@given(
    bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40),
    isa=st.sampled_from(isa_support.usable_isas()),
    dtype=st.sampled_from(TYPES),
)
@settings(max_examples=min(300, 3 * settings.default.max_examples))
def test_any_number_is_rounded_half_to_even(
    bits: list[int], isa: str, dtype: np.dtype[np.generic]
) -> None:
    """By way of the bias, which is all that is added to products of zeros."""
    values = np.array(bits, np.uint32).view(np.float32)
    weights = random_weights(np.random.default_rng(1), len(values), 16, 16)
    a = np.zeros((1, 16), dtype)
    c = _native.matmul_nbits(a, pack(weights), bias=values, isa=isa)
    assert_narrowed(c[0], values)


@every_type
def test_other_types_are_refused(dtype: np.dtype[np.generic]) -> None:
    packed = pack(random_weights(np.random.default_rng(1), 4, 16, 16))
    a = np.zeros((2, 16), dtype)
    with pytest.raises(ValueError, match="a must have dtype"):
        _native.matmul_nbits(a.astype(np.int16), packed)
    with pytest.raises(ValueError, match="out must have dtype"):
        _native.matmul_nbits(a, packed, out=np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match="type must be"):
        _native.workspace_bytes(1, packed, type="float64")
    with pytest.raises(ValueError, match="contiguous columns"):
        _native.matmul_nbits(with_row_gap(np.zeros((16, 2), np.float32), 1).astype(dtype).T, packed)
