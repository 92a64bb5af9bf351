"""Faults of onnxruntime 1.32.0's CPU provider that give a wrong answer and no error."""

from __future__ import annotations

import numpy as np
import pytest

import cases
import models


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def assert_ours_right_and_stock_wrong(node: models.Node, a: models.Array) -> None:
    models.assert_right(node, a, models.run_ours(node, a))
    if models.STOCK_FAULTS_KNOWN:
        assert not models.is_right(node, a, models.run_stock(node, a))


BITS = pytest.mark.parametrize("bits", [2, 4, 8])


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("grouping", ["identity", "permuted", "random"])
def test_group_index_at_two_bits(level: int, grouping: str) -> None:
    generator = rng(1)
    n, k, block_size = 24, 128, 32
    identity = (np.arange(k) // block_size).astype(np.int32)
    g_idx = {
        "identity": identity,
        "permuted": generator.permutation(identity),
        "random": cases.random_g_idx(generator, k, block_size),
    }[grouping]
    node = models.Node(
        cases.random_weights(generator, n, k, block_size), g_idx=g_idx, accuracy_level=level
    )
    assert_ours_right_and_stock_wrong(node, cases.random_activations(generator, 3, k))


@BITS
def test_run_time_zero_points_at_level_4(bits: int) -> None:
    generator = rng(2)
    weights = cases.random_weights(generator, 32, 128, 32, bits=bits, zero_points="per_block")
    node = models.Node(weights, run_time=("zero_points",))
    assert_ours_right_and_stock_wrong(node, cases.random_activations(generator, 3, 128))


@BITS
def test_run_time_scales_at_level_4(bits: int) -> None:
    generator = rng(3)
    weights = cases.random_weights(generator, 32, 128, 32, bits=bits)
    node = models.Node(weights, run_time=("scales",))
    a = cases.random_activations(generator, 3, 128)
    assert_ours_right_and_stock_wrong(node, a)
    if models.STOCK_FAULTS_KNOWN:
        assert not models.run_stock(node, a).any()


@BITS
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_activations_at_level_4(value: float, bits: int) -> None:
    generator = rng(4)
    weights = cases.random_weights(generator, 32, 128, 32, bits=bits, scales="power_of_two")
    node = models.Node(weights)
    a = cases.random_activations(generator, 3, 128)
    a[1, 40] = value
    ours = models.run_ours(node, a)
    models.assert_right(node, a, ours)
    assert not np.isfinite(ours[1]).any()
    assert np.isfinite(ours[[0, 2]]).all()
    # Level 0 is the stock provider's own statement of what the answer is.
    level_0 = models.run_stock(models.Node(weights, accuracy_level=0), a)
    np.testing.assert_array_equal(ours[1], level_0[1])
    if models.STOCK_FAULTS_KNOWN:
        assert not models.is_right(node, a, models.run_stock(node, a))


@BITS
def test_denormal_block_at_level_4(bits: int) -> None:
    generator = rng(5)
    weights = cases.random_weights(generator, 32, 32, 32, bits=bits, scales="power_of_two")
    node = models.Node(weights)
    # 127 / amax overflows. The stock result is 0 or saturated, depending on the CPU.
    a = (1e-39 * generator.uniform(-1, 1, (1, 32))).astype(np.float32)
    a[0, 0] = 1e-39
    assert_ours_right_and_stock_wrong(node, a)


def test_block_size_512_is_refused_not_zeroed() -> None:
    generator = rng(6)
    node = models.Node(cases.random_weights(generator, 16, 1024, 512))
    with pytest.raises(
        Exception, match=r"'mm'.*block_size = 512 must be .* 16 to 256 where bits = 2"
    ):
        models.session(models.model_of(node))


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("bits", [4, 8])
def test_block_size_512_is_right_where_it_is_allowed(bits: int, level: int) -> None:
    generator = rng(6)
    weights = cases.random_weights(generator, 16, 1024, 512, bits=bits, zero_points="per_block")
    node = models.Node(weights, accuracy_level=level)
    a = cases.random_activations(generator, 3, 1024)
    models.assert_right(node, a, models.run_ours(node, a))


def test_stock_agrees_where_it_is_right() -> None:
    """Guards the comparison above: the same helper calls the stock provider right where it is."""
    generator = rng(7)
    node = models.Node(cases.random_weights(generator, 32, 128, 32, zero_points="per_block"))
    a = cases.random_activations(generator, 3, 128)
    assert models.is_right(node, a, models.run_stock(node, a))
