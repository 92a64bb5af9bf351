"""Input g_idx: any grouping of K, constant or run-time, and its range."""

from __future__ import annotations

import numpy as np
import pytest

import cases
import models

K, BLOCK_SIZE, N = 100, 32, 21
GROUPS = 4


def groupings() -> dict[str, models.Array]:
    rng = np.random.default_rng(21)
    identity = np.arange(K) // BLOCK_SIZE
    return {
        "identity": identity,
        "reversed": identity[::-1],
        "permuted": rng.permutation(identity),
        "random": rng.integers(0, GROUPS, K),
        "one_group": np.full(K, 2),
        "interleaved": np.arange(K) % GROUPS,
        "padded_to_blocks": np.concatenate([rng.permutation(identity), np.full(28, 3)]),
    }


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero_points", ["none", "per_block", "float"])
@pytest.mark.parametrize("grouping", sorted(groupings()))
@pytest.mark.parametrize("run_time", [(), ("g_idx",)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_groupings(
    bits: int,
    grouping: str,
    zero_points: cases.ZeroPointCase,
    level: int,
    run_time: tuple[str, ...],
) -> None:
    rng = np.random.default_rng(22)
    g_idx = groupings()[grouping].astype(np.int32)
    weights = cases.random_weights(rng, N, K, BLOCK_SIZE, bits=bits, zero_points=zero_points)
    node = models.Node(weights, g_idx=g_idx, accuracy_level=level, run_time=run_time)
    a = cases.random_activations(rng, 4, K)
    models.assert_right(node, a, models.run_ours(node, a))


@pytest.mark.parametrize("bad", [-1, GROUPS, 2**31 - 1, -(2**31)])
def test_out_of_range_constant_is_refused(bad: int) -> None:
    rng = np.random.default_rng(23)
    g_idx = groupings()["identity"].astype(np.int32)
    g_idx[57] = bad
    node = models.Node(cases.random_weights(rng, N, K, BLOCK_SIZE), g_idx=g_idx)
    with pytest.raises(Exception, match=rf"'mm': input g_idx.*g_idx\[57\] = {bad} .*0 to 3"):
        models.session(models.model_of(node))


@pytest.mark.parametrize("bad", [-1, GROUPS, 2**31 - 1])
def test_out_of_range_run_time_is_refused(bad: int) -> None:
    rng = np.random.default_rng(24)
    g_idx = groupings()["identity"].astype(np.int32)
    node = models.Node(
        cases.random_weights(rng, N, K, BLOCK_SIZE), g_idx=g_idx, run_time=("g_idx",)
    )
    sess = models.session(models.model_of(node))
    a = cases.random_activations(rng, 2, K)
    models.assert_right(node, a, models.run(sess, node.feeds(a)))
    broken = g_idx.copy()
    broken[99] = bad
    with pytest.raises(Exception, match=rf"'mm': input g_idx.*g_idx\[99\] = {bad} "):
        sess.run(None, {"A": a, "g_idx": broken})
    models.assert_right(node, a, models.run(sess, node.feeds(a)), "after a refused run")
