"""Weights that arrive with a run, alone and together, and initializers that a run may override."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import cases
import models


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([11, *seed])


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero_points", ["none", "per_block", "float"])
@pytest.mark.parametrize(
    "run_time",
    [
        ("B",),
        ("scales",),
        ("zero_points",),
        ("B", "scales"),
        ("B", "scales", "zero_points", "bias"),
    ],
)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_run_time_weights(
    bits: int, run_time: tuple[str, ...], zero_points: cases.ZeroPointCase, level: int
) -> None:
    rng = generator(level)
    if zero_points == "none":
        run_time = tuple(name for name in run_time if name != "zero_points")
    bias = rng.standard_normal(33).astype(np.float32)
    node = models.Node(
        cases.random_weights(rng, 33, 80, 32, bits=bits, zero_points=zero_points, scales="fp32"),
        bias=bias,
        accuracy_level=level,
        run_time=run_time,
    )
    sess = models.session(models.model_of(node))
    assert models.owners(sess) == {"mm": models.PROVIDER}
    for m in (1, 6):
        a = cases.random_activations(rng, m, 80)
        models.assert_right(node, a, models.run(sess, node.feeds(a)))


def test_other_weights_in_the_same_buffers() -> None:
    """A result kept by buffer address would be found out here."""
    rng = generator(1)
    node = models.Node(
        cases.random_weights(rng, 32, 64, 32, zero_points="per_block"),
        run_time=("B", "scales", "zero_points"),
    )
    sess = models.session(models.model_of(node))
    a = cases.random_activations(rng, 2, 64)
    feeds = node.feeds(a)
    for _ in range(3):
        other = cases.random_weights(rng, 32, 64, 32, zero_points="per_block")
        feeds["B"][...] = other.codes
        feeds["scales"][...] = other.scales
        feeds["zero_points"][...] = other.zero_points
        current = dataclasses.replace(node, weights=other)
        models.assert_right(current, a, models.run(sess, feeds))


@pytest.mark.parametrize("name", ["B", "scales", "zero_points", "g_idx", "bias"])
def test_overridable_initializers(name: str) -> None:
    rng = generator(2)
    k, block_size = 96, 32

    def fresh() -> models.Node:
        return models.Node(
            cases.random_weights(rng, 24, k, block_size, zero_points="per_block"),
            bias=rng.standard_normal(24).astype(np.float32),
            g_idx=cases.random_g_idx(rng, k, block_size),
        )

    node, other = fresh(), fresh()
    node.overridable = (name,)
    sess = models.session(models.model_of(node))
    assert models.owners(sess) == {"mm": models.PROVIDER}
    a = cases.random_activations(rng, 3, k)
    models.assert_right(node, a, models.run(sess, {"A": a}), "default value")

    override = other.values()[name]
    if name == "bias":
        changed = dataclasses.replace(node, bias=override)
    elif name == "g_idx":
        changed = dataclasses.replace(node, g_idx=override)
    else:
        part = {"B": "codes"}.get(name, name)
        changed = dataclasses.replace(
            node, weights=dataclasses.replace(node.weights, **{part: override})
        )
    models.assert_right(changed, a, models.run(sess, {"A": a, name: override}), "overridden")
    models.assert_right(node, a, models.run(sess, {"A": a}), "default value again")


def test_run_time_scales_that_are_zero_points_too() -> None:
    """One value on two inputs: the fused node is passed it once."""
    rng = generator(3)
    weights = cases.random_weights(rng, 16, 64, 32, zero_points="float")
    weights = dataclasses.replace(weights, zero_points=weights.scales)
    node = models.Node(weights, accuracy_level=0, run_time=("scales",))
    proto = node.node_proto()
    proto.input[3] = "scales"
    model = models.make_model(
        [proto],
        [models.value_info("A", None), models.value_info("scales", None)],
        [models.value_info("Y", None)],
        [tensor for tensor in node.initializers() if tensor.name == "B"],
    )
    sess = models.session(model)
    assert models.owners(sess) == {"mm": models.PROVIDER}
    a = cases.random_activations(rng, 3, 64)
    models.assert_right(node, a, models.run(sess, node.feeds(a)))
