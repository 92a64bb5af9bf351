"""Inputs that are made for a model, and nodes that parity can list but not check."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxruntime_ep_mlas.model_inputs import input_specs, make_inputs
from onnxruntime_ep_mlas.model_parity import agreement, check_model


def model_with(inputs, nodes=(), initializers=(), outputs=()):
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def integers(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.INT64, list(dims))


def test_ids_stay_within_the_table_they_index():
    table = numpy_helper.from_array(np.zeros((7, 3), np.float32), "table")
    nodes = [
        helper.make_node("Cast", ["ids"], ["cast"], to=TensorProto.INT32),
        helper.make_node("Gather", ["table", "cast"], ["rows"]),
    ]
    model = model_with([integers("ids", "batch", "seq")], nodes, [table])
    assert [spec.vocabulary for spec in input_specs(model)] == [7]
    ids = make_inputs(model, {"seq": 1000})["ids"]
    assert ids.shape == (1, 1000)
    assert (ids.min(), ids.max()) == (0, 6)


def test_names_decide_masks_types_and_positions():
    inputs = [integers(n, 1, "seq") for n in ("attention_mask", "token_type_ids", "position_ids")]
    made = make_inputs(model_with(inputs), {"seq": 3})
    assert made["attention_mask"].tolist() == [[1, 1, 1]]
    assert made["token_type_ids"].tolist() == [[0, 0, 0]]
    assert made["position_ids"].tolist() == [[0, 1, 2]]


def test_the_seed_decides():
    model = model_with([helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "length"])])
    first, again = make_inputs(model, seed=1)["x"], make_inputs(model, seed=1)["x"]
    assert first.shape == (2, 32)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    assert (make_inputs(model, seed=2)["x"] != first).any()


def test_initializers_are_no_inputs():
    weight = numpy_helper.from_array(np.zeros((2, 2), np.float32), "w")
    info = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 2])
    assert make_inputs(model_with([info], initializers=[weight])) == {}


def test_what_can_not_be_made_is_refused():
    text = helper.make_tensor_value_info("text", TensorProto.STRING, [1])
    with pytest.raises(ValueError, match="input 'text' has type object"):
        make_inputs(model_with([text]))
    with pytest.raises(ValueError, match="no input has a dim named rows; the model's: seq"):
        make_inputs(model_with([integers("ids", "seq")]), {"rows": 3})
    with pytest.raises(ValueError, match="input 'x' is no tensor of known rank"):
        make_inputs(model_with([onnx.ValueInfoProto(name="x")]))


def test_agreement():
    x = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)
    same = agreement(x, x)
    assert (same.max_abs_error, same.cosine_min, same.argmax) == (0, 1, 1)
    turned = agreement(x, np.array([[1.0, 0.0], [2.0, 0.0]], np.float32))
    assert turned.max_abs_error == 2
    assert turned.cosine_mean == pytest.approx(0.5)
    assert turned.cosine_min == 0
    assert turned.argmax == 0.5
    with pytest.raises(ValueError, match="shapes differ"):
        agreement(x, x[0])


def nbits_node(rng, name, source, target):
    k, n = 32, 16
    initializers = [
        numpy_helper.from_array(rng.integers(0, 256, (n, 1, 8), dtype=np.uint8), f"{name}.codes"),
        numpy_helper.from_array(np.full((n, 1), 0.1, np.float32), f"{name}.scales"),
    ]
    node = helper.make_node(
        "MatMulNBits", [source, f"{name}.codes", f"{name}.scales"], [target], name,
        domain="com.microsoft", K=k, N=n, bits=2, block_size=32, accuracy_level=4,
    )  # fmt: skip
    return node, initializers


def test_nodes_in_bodies_are_listed_and_unnamed_ones_checked(tmp_path):
    rng = np.random.default_rng(3)
    bodies = []
    for branch in ("then", "else"):
        node, initializers = nbits_node(rng, f"in_{branch}", "x", f"y_{branch}")
        out = helper.make_tensor_value_info(f"y_{branch}", TensorProto.FLOAT, ["m", 16])
        bodies.append(helper.make_graph([node], branch, [], [out], initializers))
    plain, initializers = nbits_node(rng, "", "x", "z")
    choose = helper.make_node(
        "If", ["condition"], ["y"], "choose", then_branch=bodies[0], else_branch=bodies[1]
    )
    model = model_with(
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", 32]),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
        ],
        [choose, plain],
        initializers,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["m", 16]) for name in "yz"],
    )
    path = tmp_path / "bodies.onnx"
    onnx.save(model, path)
    result = check_model(path, make_inputs(model, {"m": 3}))
    (top,) = [node for node in result.nodes if node.ours is not None]
    assert top.name
    assert top.ours.passed
    listed = {node.name: node for node in result.nodes if node.skipped}
    assert set(listed) == {"in_then", "in_else"}
    assert all("'choose'" in node.skipped for node in listed.values())
    assert all(node.taken for node in listed.values())
    assert result.outputs["y"]["ours/stock"].cosine_min > 0.9999
    assert result.passed
