"""g_idx: weights whose groups are scattered over K, brought into blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isa_support
import native_calls
import oracle
from cases import (
    ZERO_POINT_CASES,
    ZeroPointCase,
    random_activations,
    random_g_idx,
    random_weights,
)
from native_calls import pack
from onnxruntime_ep_mlas import _native


def assert_regrouped(weights: oracle.Weights, g_idx: oracle.Int32Array) -> None:
    regrouped, gather = native_calls.regroup(weights, g_idx)
    expected, order = oracle.regroup(weights, g_idx)
    assert gather is not None
    np.testing.assert_array_equal(gather, order)
    np.testing.assert_array_equal(regrouped.codes, expected.codes)
    np.testing.assert_array_equal(regrouped.scales, expected.scales)
    if expected.zero_points is None:
        assert regrouped.zero_points is None
    else:
        assert regrouped.zero_points is not None
        np.testing.assert_array_equal(regrouped.zero_points, expected.zero_points)
    # Each k of A is read once, with the weight that g_idx gives it.
    read = gather >= 0
    assert sorted(gather[read]) == list(range(weights.k))
    dequantized = np.empty((weights.n, weights.k))
    dequantized[:, gather[read]] = regrouped.dequantize()[:, read]
    np.testing.assert_array_equal(dequantized, weights.dequantize(g_idx))


@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
def test_groupings(zero_points: ZeroPointCase) -> None:
    rng = np.random.default_rng(1)
    for k, block in ((1, 16), (100, 32), (64, 16), (300, 128), (256, 256), (515, 64)):
        groups = oracle.ceil_div(k, block)
        weights = random_weights(rng, 19, k, block, zero_points=zero_points)
        natural = (np.arange(k) // block).astype(np.int32)
        groupings = {
            "permuted": rng.permutation(natural),
            "any sizes": random_g_idx(rng, k, block),
            "all in the last": np.full(k, groups - 1, np.int32),
            "backwards": natural[::-1].copy(),
            "one moved": np.concatenate([natural[:-1], [0]]).astype(np.int32),
        }
        for g_idx in groupings.values():
            if not np.array_equal(g_idx, natural):
                assert_regrouped(weights, g_idx)


@given(
    k=st.integers(1, 300),
    block=st.sampled_from([16, 32, 64, 128, 256]),
    zero_points=st.sampled_from(ZERO_POINT_CASES),
    compute=st.sampled_from(["int8", "fp32"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_grouping_multiplies_right(
    k: int, block: int, zero_points: ZeroPointCase, compute: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, 18, k, block, zero_points=zero_points)
    g_idx = random_g_idx(rng, k, block)
    a = random_activations(rng, 3, k)
    regrouped, gather = native_calls.regroup(weights, g_idx)
    expected = oracle.matmul(a, weights, compute=compute, g_idx=g_idx)
    for isa in isa_support.usable_isas():
        c = _native.matmul_nbits(a, pack(regrouped), gather=gather, compute=compute, isa=isa)
        oracle.assert_matches(c, expected, f"{isa} {compute}")


def test_weights_in_place_stay_as_they_are() -> None:
    weights = random_weights(np.random.default_rng(2), 5, 70, 32, zero_points="per_block")
    same, gather = native_calls.regroup(weights, (np.arange(70) // 32).astype(np.int32))
    assert gather is None
    assert same.codes is weights.codes
    assert same.scales is weights.scales
    assert same.zero_points is weights.zero_points


@pytest.mark.parametrize("group", [-1, 3, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("place", [0, 40, 69])
def test_groups_out_of_range_are_refused(group: int, place: int) -> None:
    weights = random_weights(np.random.default_rng(3), 5, 70, 32)
    g_idx = (np.arange(70) // 32).astype(np.int32)
    g_idx[place] = group
    with pytest.raises(ValueError, match=rf"g_idx\[{place}\] = {group} .*3 \(0 to 2\)"):
        native_calls.regroup(weights, g_idx)


@pytest.mark.parametrize(
    ("g_idx", "message"),
    [
        (np.zeros(69, np.int32), r"g_idx must have shape \[70\]"),
        (np.zeros(70, np.int64), "g_idx must have dtype int32"),
        (np.zeros((70, 1), np.int32), "g_idx must have 1 dim"),
        (np.zeros(140, np.int32)[::2], "g_idx must be C-contiguous"),
    ],
)
def test_wrong_g_idx_arrays_are_named(g_idx: oracle.Int32Array, message: str) -> None:
    weights = random_weights(np.random.default_rng(4), 5, 70, 32)
    with pytest.raises(ValueError, match=message):
        native_calls.regroup(weights, g_idx)


@pytest.mark.parametrize("index", [-2, 70, 2**31 - 1])
def test_gather_out_of_range_is_refused(index: int) -> None:
    packed = pack(random_weights(np.random.default_rng(5), 5, 64, 32))
    gather = np.arange(64, dtype=np.int32)
    gather[11] = index
    with pytest.raises(ValueError, match=rf"gather\[11\] = {index}"):
        _native.matmul_nbits(np.ones((2, 70), np.float32), packed, gather=gather)
