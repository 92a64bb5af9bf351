"""The oracle itself, where a mistake in it could hide one in the kernels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from cases import random_activations, random_weights

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def nearest_float32(exact: Fraction) -> np.float32:
    """Round half even by comparing the neighbours of a first guess exactly."""
    with np.errstate(over="ignore"):
        guess = np.float32(float(exact))
    around = [np.nextafter(guess, -np.inf), guess, np.nextafter(guess, np.inf)]
    best = [x for x in around if np.isfinite(x)]
    distance = min(abs(Fraction(float(x)) - exact) for x in best)
    nearest = [x for x in best if abs(Fraction(float(x)) - exact) == distance]
    return min(nearest, key=lambda x: int(np.float32(x).view(np.uint32)) & 1)


@given(x=finite, y=finite, z=finite)
def test_fma_rounds_once(x: float, y: float, z: float) -> None:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if abs(exact) > Fraction(oracle.FLOAT32_MAX) or exact == 0:
        return
    result = oracle.fma32(*(np.array([value], np.float32) for value in (x, y, z)))
    assert result[0] == nearest_float32(exact)


@pytest.mark.parametrize(
    ("x", "y", "z", "expected"),
    [
        # A double rounding through float64 would see a tie here and round it the wrong way.
        (1 + 2.0**-23, 1 + 2.0**-23, 2.0**-80, 1 + 2.0**-22),
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-70, 1 + 2.0**-11 + 2.0**-23),
        (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-70), 1 + 2.0**-11),
    ],
)
def test_fma_at_false_ties(x: float, y: float, z: float, expected: float) -> None:
    result = oracle.fma32(*(np.array([value], np.float32) for value in (x, y, z)))
    assert result[0] == np.float32(expected)


def test_bounds_are_tight_enough_to_see_one_wrong_code() -> None:
    rng = np.random.default_rng(1)
    weights = random_weights(rng, 4, 64, 32, zero_points="per_block", scales="power_of_two")
    a = random_activations(rng, 3, 64)
    a[a == 0] = 1
    codes = weights.codes.copy()
    codes[2, 1, 3] ^= 1
    wrong = oracle.Weights(codes, weights.scales, weights.zero_points, 64, 32)
    for compute in ("int8", "fp32"):
        value = oracle.matmul(a, wrong, compute=compute).value.astype(np.float32)
        with pytest.raises(AssertionError, match="outside the error bound"):
            oracle.assert_matches(value, oracle.matmul(a, weights, compute=compute))


def test_not_a_number_must_be_where_the_reference_has_it() -> None:
    weights = random_weights(np.random.default_rng(1), 4, 16, 16)
    a = np.ones((1, 16), np.float32)
    expected = oracle.matmul(a, weights, compute="fp32")
    with pytest.raises(AssertionError):
        oracle.assert_matches(np.full((1, 4), np.nan, np.float32), expected)
    a[0, 3] = np.nan
    swallowed = expected.value.astype(np.float32)
    with pytest.raises(AssertionError):
        oracle.assert_matches(swallowed, oracle.matmul(a, weights, compute="fp32"))


def test_a_sum_that_may_overflow_beside_an_infinity_may_be_not_a_number() -> None:
    weights = random_weights(np.random.default_rng(1), 4, 16, 16, scales="power_of_two")
    a = np.full((1, 16), 1, np.float32)
    a[0, 3] = np.inf
    infinite = np.isinf(oracle.matmul(a, weights, compute="fp32").value)
    assert infinite.any()
    nothing = np.full((1, 4), np.nan, np.float32)
    with pytest.raises(AssertionError):
        oracle.assert_matches(nothing, oracle.matmul(a, weights, compute="fp32"))
    a[0, 5:] = 3e38
    oracle.assert_matches(nothing, oracle.matmul(a, weights, compute="fp32"))
