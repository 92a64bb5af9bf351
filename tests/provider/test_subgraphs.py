"""Nodes in bodies of If and Loop, with weights of their own and of the outer graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cases
import models

K, N = 64, 64


def body_node(seed: int, prefix: str, name: str, **arguments: object) -> models.Node:
    rng = np.random.default_rng(seed)
    weights = cases.random_weights(rng, N, K, 32, zero_points="per_block", scales="power_of_two")
    return models.Node(weights, name=name, prefix=prefix, **arguments)  # type: ignore[arg-type]


def if_model(
    then_node: models.Node, else_node: models.Node, *, outer_weights: bool
) -> onnx.ModelProto:
    def branch(node: models.Node, y: str) -> onnx.GraphProto:
        return helper.make_graph(
            [node.node_proto("A", y)],
            node.name + "_graph",
            [],
            [models.value_info(y, None)],
            [] if outer_weights else node.initializers(),
        )

    choice = helper.make_node(
        "If",
        ["condition"],
        ["Y"],
        name="choice",
        then_branch=branch(then_node, "then_Y"),
        else_branch=branch(else_node, "else_Y"),
    )
    return models.make_model(
        [choice],
        [
            models.value_info("A", ["M", K]),
            models.value_info("condition", [], TensorProto.BOOL),
            *then_node.graph_inputs(),
            *else_node.graph_inputs(),
        ],
        [models.value_info("Y", None)],
        [*then_node.initializers(), *else_node.initializers()] if outer_weights else [],
    )


@pytest.mark.parametrize("outer_weights", [False, True])
@pytest.mark.parametrize("level", [0, 4])
def test_if(outer_weights: bool, level: int, tmp_path: Path) -> None:
    nodes = {
        True: body_node(1, "then_", "in_then", accuracy_level=level),
        False: body_node(2, "else_", "in_else", accuracy_level=level),
    }
    model = if_model(nodes[True], nodes[False], outer_weights=outer_weights)
    path = tmp_path / "report.json"
    sess = models.session(model, options={"report": str(path)})
    a = cases.random_activations(np.random.default_rng(3), 3, K)
    for condition, node in nodes.items():
        y = models.run(sess, {"A": a, "condition": np.array(condition)})
        models.assert_right(node, a, y, node.name)
    report = models.report_nodes(path)
    assert {name: node["taken"] for name, node in report.items()} == {
        "in_then": True,
        "in_else": True,
    }
    assert report["in_then"]["graph"] == "choice/then_branch"
    assert report["in_else"]["graph"] == "choice/else_branch"
    assert all(node["packed_bytes"] > 0 and node["kernels"] for node in report.values())


def test_if_with_run_time_weights_of_the_outer_graph() -> None:
    nodes = {
        True: body_node(4, "then_", "in_then", run_time=("B", "scales")),
        False: body_node(5, "else_", "in_else", run_time=("zero_points",)),
    }
    model = if_model(nodes[True], nodes[False], outer_weights=True)
    sess = models.session(model)
    a = cases.random_activations(np.random.default_rng(6), 3, K)
    feeds = {**nodes[True].feeds(a), **nodes[False].feeds(a)}
    for condition, node in nodes.items():
        y = models.run(sess, {**feeds, "condition": np.array(condition)})
        models.assert_right(node, a, y, node.name)


def test_loop() -> None:
    """Three rounds of X = X @ W + bias, W of the outer graph and used there as well."""
    rng = np.random.default_rng(7)
    node = body_node(8, "", "in_loop", accuracy_level=0)
    node.weights.scales[...] *= 2.0**-6
    node.bias = rng.standard_normal(N).astype(np.float32)
    body = helper.make_graph(
        [
            node.node_proto("X_in", "X_out"),
            helper.make_node("Identity", ["go_in"], ["go_out"]),
        ],
        "body",
        [
            models.value_info("round", [], TensorProto.INT64),
            models.value_info("go_in", [], TensorProto.BOOL),
            models.value_info("X_in", None),
        ],
        [models.value_info("go_out", [], TensorProto.BOOL), models.value_info("X_out", None)],
    )
    outside = node.node_proto("A", "first")
    outside.name = "outside"
    model = models.make_model(
        [
            helper.make_node("Loop", ["rounds", "", "A"], ["Y"], name="rounds_loop", body=body),
            outside,
        ],
        [models.value_info("A", ["M", K]), models.value_info("rounds", [], TensorProto.INT64)],
        [models.value_info("Y", None), models.value_info("first", None)],
        node.initializers(),
    )
    sess = models.session(model)
    a = cases.random_activations(rng, 3, K)
    y, first = sess.run(["Y", "first"], {"A": a, "rounds": np.array(3, np.int64)})
    models.assert_right(node, a, first, "outside")
    step = first
    for _ in range(2):
        step = models.run_ours(node, step)
    np.testing.assert_array_equal(y, step)


def test_nested_if_in_loop_body_is_claimed(tmp_path: Path) -> None:
    node = body_node(9, "", "deep", accuracy_level=0)
    choice = helper.make_node(
        "If",
        ["go_in"],
        ["X_out"],
        name="choice",
        then_branch=helper.make_graph(
            [node.node_proto("X_in", "t")], "then", [], [models.value_info("t", None)]
        ),
        else_branch=helper.make_graph(
            [helper.make_node("Identity", ["X_in"], ["e"])],
            "else",
            [],
            [models.value_info("e", None)],
        ),
    )
    body = helper.make_graph(
        [choice, helper.make_node("Identity", ["go_in"], ["go_out"])],
        "body",
        [
            models.value_info("round", [], TensorProto.INT64),
            models.value_info("go_in", [], TensorProto.BOOL),
            models.value_info("X_in", None),
        ],
        [models.value_info("go_out", [], TensorProto.BOOL), models.value_info("X_out", None)],
    )
    model = models.make_model(
        [helper.make_node("Loop", ["rounds", "", "A"], ["Y"], name="outer", body=body)],
        [models.value_info("A", ["M", K]), models.value_info("rounds", [], TensorProto.INT64)],
        [models.value_info("Y", None)],
        node.initializers(),
    )
    path = tmp_path / "report.json"
    sess = models.session(model, options={"report": str(path)})
    a = cases.random_activations(np.random.default_rng(10), 3, K)
    y = models.run(sess, {"A": a, "rounds": np.array(1, np.int64)})
    models.assert_right(node, a, y)
    report = models.report_nodes(path)["deep"]
    assert report["taken"]
    assert report["graph"] == "choice/then_branch"


def test_bodies_of_equal_names_are_all_reported(tmp_path: Path) -> None:
    """Two unnamed If nodes whose bodies use the same names inside."""
    nodes = [body_node(seed, f"w{seed}_", "mm") for seed in (11, 12)]
    choices = []
    for index, node in enumerate(nodes):
        branches = {
            branch: helper.make_graph(
                [node.node_proto("A", "y")], branch, [], [models.value_info("y", None)]
            )
            for branch in ("then_branch", "else_branch")
        }
        choices.append(helper.make_node("If", ["go"], [f"Y{index}"], **branches))
    model = models.make_model(
        choices,
        [models.value_info("A", ["M", K]), models.value_info("go", [], TensorProto.BOOL)],
        [models.value_info("Y0", None), models.value_info("Y1", None)],
        [tensor for node in nodes for tensor in node.initializers()],
    )
    path = tmp_path / "report.json"
    sess = models.session(model, options={"report": str(path)})
    reported = models.read_report(path)["nodes"]
    assert len(reported) == 4
    assert all(entry["taken"] and entry["packed_bytes"] > 0 for entry in reported)
    a = cases.random_activations(np.random.default_rng(13), 3, K)
    for go in (True, False):
        results = sess.run(None, {"A": a, "go": np.array(go)})
        for node, y in zip(nodes, results, strict=True):
            models.assert_right(node, a, y)
