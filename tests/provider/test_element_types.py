"""A, scales, zero points and bias of float, float16 and bfloat16, at every width.

A's, the scales' and the bias' numbers are float32 numbers; sums are float32; the result is rounded
once to A's type (narrow_types.py). bfloat16 values go in and out by way of Cast nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import cases
import models
import oracle
from narrow_types import narrowed
from qdq_models import float_tensor, representable

FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
TYPES = pytest.mark.parametrize("kind", [FLOAT16, BFLOAT16], ids=["float16", "bfloat16"])
K, N, BLOCK = 77, 21, 32


class TypedNode:
    """A node whose floating-point inputs have types of their own."""

    def __init__(self, node: models.Node, kind: int, other_types: dict[str, int]) -> None:
        self.node, self.kind = node, kind
        self.types = {"scales": kind, "bias": kind, **other_types}

    def tensors(self) -> dict[str, models.Array]:
        return self.node.values()

    def type_of(self, name: str) -> int:
        value = self.tensors()[name]
        if value.dtype != np.float32:
            return int(helper.np_dtype_to_tensor_dtype(value.dtype))
        return self.types.get(name, FLOAT)

    def model(self) -> Any:
        """A (float) -> Cast -> the node -> Cast -> Y (float); run-time inputs are cast too."""
        nodes = [helper.make_node("Cast", ["A"], ["A_cast"], to=self.kind)]
        inputs = [models.value_info("A", None)]
        initializers = []
        for name, value in self.tensors().items():
            wanted = self.type_of(name)
            if name not in self.node.run_time:
                is_float = value.dtype == np.float32
                initializers.append(
                    float_tensor(name, wanted, value)
                    if is_float
                    else helper.make_tensor(name, wanted, value.shape, value.tobytes(), raw=True)
                )
            elif value.dtype == np.float32 and wanted != FLOAT:
                inputs.append(models.value_info(f"{name}_wide", value.shape))
                nodes.append(helper.make_node("Cast", [f"{name}_wide"], [name], to=wanted))
            else:
                element_type = helper.np_dtype_to_tensor_dtype(value.dtype)
                inputs.append(models.value_info(name, value.shape, element_type))
        nodes.append(self.node.node_proto("A_cast", "Y_narrow"))
        nodes.append(helper.make_node("Cast", ["Y_narrow"], ["Y"], to=FLOAT))
        return models.make_model(nodes, inputs, [models.value_info("Y", None)], initializers)

    def feeds(self, a: models.Array) -> dict[str, models.Array]:
        feeds = {"A": a}
        for name in self.node.run_time:
            value = self.tensors()[name]
            cast = value.dtype == np.float32 and self.type_of(name) != FLOAT
            feeds[f"{name}_wide" if cast else name] = value
        return feeds


def random_node(
    rng: np.random.Generator,
    kind: int,
    bits: int,
    zero_points: cases.ZeroPointCase,
    **arguments: Any,
) -> models.Node:
    weights = cases.random_weights(rng, N, K, BLOCK, bits=bits, zero_points=zero_points)
    scales = representable(weights.scales, kind)
    points = weights.zero_points
    if points is not None and points.dtype == np.float32:
        points = representable(points, kind)
    weights = oracle.Weights(weights.codes, scales, points, K, BLOCK, bits)
    bias = representable(rng.standard_normal(N), kind)
    return models.Node(weights, bias=bias, **arguments)


def check(typed: TypedNode, a: models.Array, sess: Any) -> None:
    assert models.owners(sess) == {"mm": models.PROVIDER}
    y = models.run(sess, typed.feeds(a))
    oracle.assert_matches(y, narrowed(models.reference(typed.node, a), typed.kind))


@TYPES
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero_points", ["none", "per_block", "float"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("run_time", [(), ("scales",), ("B", "scales", "zero_points", "bias")])
def test_types(
    kind: int,
    bits: int,
    level: int,
    zero_points: cases.ZeroPointCase,
    grouped: bool,
    run_time: tuple[str, ...],
) -> None:
    rng = np.random.default_rng([31, bits, level])
    node = random_node(rng, kind, bits, zero_points, accuracy_level=level)
    if grouped:
        node.g_idx = cases.random_g_idx(rng, K, BLOCK)
    node.run_time = tuple(name for name in run_time if name in node.values())
    typed = TypedNode(node, kind, {"zero_points": kind})
    sess = models.session(typed.model())
    for m in (1, 6):
        check(typed, representable(rng.standard_normal((m, K)), kind), sess)


@pytest.mark.parametrize("kind", [FLOAT, FLOAT16, BFLOAT16])
@pytest.mark.parametrize("zero_point_type", [FLOAT, FLOAT16, BFLOAT16])
@pytest.mark.parametrize("run_time", [(), ("zero_points",)])
def test_zero_points_of_another_type(
    kind: int, zero_point_type: int, run_time: tuple[str, ...]
) -> None:
    rng = np.random.default_rng([32, kind, zero_point_type])
    node = random_node(rng, zero_point_type, 4, "float", run_time=run_time)
    node.weights = oracle.Weights(
        *(node.weights.codes, representable(node.weights.scales, kind), node.weights.zero_points),
        *(K, BLOCK, 4),
    )
    node.bias = None
    typed = TypedNode(node, kind, {"zero_points": zero_point_type})
    a = representable(rng.standard_normal((3, K)), kind)
    if kind == FLOAT:
        y = models.run(models.session(typed.model()), typed.feeds(a))
        models.assert_right(node, a, y)
    else:
        check(typed, a, models.session(typed.model()))


@TYPES
def test_report_names_the_type(kind: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(33)
    path = tmp_path / "report.json"
    typed = TypedNode(random_node(rng, kind, 4, "none"), kind, {})
    models.session(typed.model(), options={"report": str(path)})
    (report,) = models.report_nodes(path).values()
    assert report["taken"]
    assert report["type"] == ("float16" if kind == FLOAT16 else "bfloat16")


@TYPES
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("level", [0, 4])
def test_non_finite_activations(kind: int, value: float, level: int) -> None:
    rng = np.random.default_rng(34)
    node = random_node(rng, kind, 4, "none", accuracy_level=level)
    typed = TypedNode(node, kind, {})
    a = representable(rng.standard_normal((3, K)), kind)
    a[1, 40] = value
    y = models.run(models.session(typed.model()), typed.feeds(a))
    wide = models.reference(node, a)
    assert np.array_equal(np.isfinite(y), np.isfinite(wide.value))
    assert np.array_equal(y[1], wide.value[1].astype(np.float32), equal_nan=True)


def test_overflow_is_infinite() -> None:
    weights = oracle.Weights(
        *(np.full((1, 1, 8), 0xFF, np.uint8), np.full((1, 1), 8192, np.float32)),
        *(None, 16, 16, 4),
    )
    typed = TypedNode(models.Node(weights, accuracy_level=0), FLOAT16, {})
    a = np.array([[1] * 16, [-1] * 16, [0.01] * 16], np.float32)
    y = models.run(models.session(typed.model()), typed.feeds(a))
    assert y[0, 0] == np.inf
    assert y[1, 0] == -np.inf
    assert np.isfinite(y[2, 0])


@TYPES
@pytest.mark.parametrize("shape", [(K,), (0, K), (2, 0, K), (2, 3, K)])
def test_ranks(kind: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(35)
    typed = TypedNode(random_node(rng, kind, 8, "per_block"), kind, {})
    a = representable(rng.standard_normal(shape), kind)
    y = models.run(models.session(typed.model()), typed.feeds(a))
    assert y.shape == (*shape[:-1], N)
    if y.size:
        expected = narrowed(models.reference(typed.node, a), kind)
        oracle.assert_matches(y.reshape(-1, N), expected)
