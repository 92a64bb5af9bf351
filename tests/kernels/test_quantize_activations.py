"""The activation quantiser against the rule, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

import isa_support
import oracle
from cases import random_activations
from native_calls import with_row_gap
from onnxruntime_ep_mlas import _native

BLOCK_LENGTHS = (16, 32, 64, 128, 256)


def assert_exact(a: oracle.Float32Array, block: int, isa: str) -> None:
    q, scales, sums, fp32_rows = _native.quantize_activations(a, block, isa=isa)
    expected = oracle.quantize_activations(a, block)
    np.testing.assert_array_equal(fp32_rows.astype(bool), expected.fp32_rows)
    rows = ~expected.fp32_rows
    np.testing.assert_array_equal(q[rows], expected.q[rows])
    np.testing.assert_array_equal(scales[rows], expected.scales[rows])
    np.testing.assert_array_equal(sums[rows], expected.sums[rows])


@pytest.mark.parametrize("isa", isa_support.usable_isas())
@pytest.mark.parametrize("block", BLOCK_LENGTHS)
def test_shapes(isa: str, block: int) -> None:
    rng = np.random.default_rng(1)
    for k in sorted({*range(1, 40), block - 1, block, block + 1, 3 * block - 5, 65 * block + 3}):
        for m in (0, 1, 2, 3):
            a = random_activations(rng, m, k)
            assert_exact(a, block, isa)
            assert_exact(with_row_gap(a, 3, np.inf), block, isa)


@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_ties_go_to_the_even_integer(isa: str) -> None:
    a = np.zeros((1, 32), np.float32)
    a[0, :16] = [
        127,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        -2.5,
        126.5,
        -126.5,
        125.5,
        -125.5,
        3.5,
        4.5,
        0,
        -0.0,
        1,
    ]
    q, scales, _, _ = _native.quantize_activations(a, 32, isa=isa)
    expected = [127, 0, 2, 2, 0, -2, -2, 126, -126, 126, -126, 4, 4, 0, 0, 1]
    assert q[0, :16].tolist() == expected
    assert scales[0, 0] == 1
    assert_exact(a, 32, isa)


@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_the_largest_magnitude_becomes_127(isa: str) -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((500, 16)).astype(np.float32)
    a *= np.exp2(rng.integers(-100, 120, (500, 1))).astype(np.float32)
    q = _native.quantize_activations(a, 16, isa=isa)[0]
    assert (np.abs(q.astype(int)).max(axis=1) == 127).all()
    assert_exact(a, 16, isa)


@given(
    a=hypothesis_numpy.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 70)),
        elements=st.floats(width=32),
    ),
    block=st.sampled_from(BLOCK_LENGTHS),
)
def test_any_values(a: oracle.Float32Array, block: int) -> None:
    for isa in isa_support.usable_isas():
        assert_exact(a, block, isa)


@given(
    values=st.lists(
        st.one_of(
            st.sampled_from([0.0, -0.0, 1e-45, 1e-38, 3.7e-37, 3.8e-37, 1.0, -127.0, 3.4028235e38]),
            st.floats(min_value=-200, max_value=200, width=32),
        ),
        min_size=1,
        max_size=80,
    )
)
def test_edge_values(values: list[float]) -> None:
    a = np.array([values], np.float32)
    for isa in isa_support.usable_isas():
        assert_exact(a, 16, isa)


@pytest.mark.parametrize(
    ("a", "block", "message"),
    [
        (np.zeros((2, 8)), 16, "a must have dtype float32"),
        (np.zeros(8, np.float32), 16, "a must have 2 dim"),
        (np.zeros((2, 8), np.float32), 48, "block_size must be"),
        (np.zeros((2, 8), np.float32), 2**17, "block_size must be"),
        (np.zeros((2, 8), np.float32), 0, "block_size must be"),
        (np.zeros((2, 8), np.float32), -16, "block_size must be"),
        (np.zeros((2, 0), np.float32), 16, "at least one column"),
        (np.zeros((8, 2), np.float32).T, 16, "contiguous columns"),
    ],
)
def test_wrong_arguments_are_named(a: oracle.Float32Array, block: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _native.quantize_activations(a, block)
