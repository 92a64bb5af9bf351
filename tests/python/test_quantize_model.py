"""quantize_model on graphs made in the test: what is taken, what is left and that results stay.

The weights lie on the quantisers' grid, so the quantised model must give what the float one gives.
accuracy_level 0 keeps activations in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from float_models import (
    X,
    check_same_results,
    grid_weights,
    initializer_names,
    model,
    op_types,
    quantize,
    run,
    tensor,
    value,
)
from onnxruntime_ep_mlas import quantize_model

node = helper.make_node
RNG = np.random.default_rng(0)


def test_matmul() -> None:
    w = grid_weights(RNG, 64, 24)
    source = model([node("MatMul", ["x", "w"], ["y"], "proj")], [tensor("w", w)])
    quantized, report = check_same_results(source)
    (changed,) = quantized.graph.node
    assert (changed.name, changed.op_type, changed.domain) == (
        "proj",
        "MatMulNBits",
        "com.microsoft",
    )
    assert list(changed.output) == ["y"]
    attributes = {a.name: a.i for a in changed.attribute}
    assert attributes == {"K": 64, "N": 24, "bits": 2, "block_size": 32, "accuracy_level": 0}
    assert "w" not in initializer_names(quantized.graph)
    assert {o.domain: o.version for o in quantized.opset_import} == {"": 17, "com.microsoft": 1}
    (result,) = report.taken
    assert (result.name, result.op_type, result.graph, result.weight) == ("proj", "MatMul", "", "w")
    assert (result.k, result.n, result.bits, result.block_size) == (64, 24, 2, 32)
    assert (result.algorithm, result.accuracy_level) == ("mse", 0)
    assert report.original_bytes == result.original_bytes == w.nbytes
    # 2 bits a weight, a float32 scale and a byte of zero points per 2 blocks and column.
    assert report.quantized_bytes == result.quantized_bytes == 64 * 24 // 4 + 24 * 2 * 4 + 24
    assert report.output_bytes == quantized.ByteSize()


def test_accuracy_level_is_4_unless_told() -> None:
    source = model([node("MatMul", ["x", "w"], ["y"])], [tensor("w", grid_weights(RNG, 64, 8))])
    report = quantize_model(source, None)
    assert report.model is not None
    attributes = {a.name: a.i for a in report.model.graph.node[0].attribute}
    assert attributes["accuracy_level"] == 4
    assert report.taken[0].accuracy_level == 4
    # A node without a name goes by its output's.
    assert report.taken[0].name == report.model.graph.node[0].name == "y"


@pytest.mark.parametrize("algorithm", ["rtn", "mse"])
@pytest.mark.parametrize("block_size", [16, 32, 64, 128, 256])
def test_block_sizes_that_do_not_divide_k(algorithm: str, block_size: int) -> None:
    w = grid_weights(RNG, 300, 8, block_size)
    source = model([node("MatMul", ["x", "w"], ["y"])], [tensor("w", w)], [value("x", [2, 3, 300])])
    feeds = {"x": RNG.standard_normal((2, 3, 300)).astype(np.float32)}
    check_same_results(source, feeds, algorithm=algorithm, block_size=block_size)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block_size", [16, 64, 512])
def test_wider_codes_for_the_stock_provider(bits: int, block_size: int) -> None:
    w = grid_weights(RNG, 64, 24, block_size, bits)
    source = model([node("MatMul", ["x", "w"], ["y"])], [tensor("w", w)])
    _, report = check_same_results(source, bits=bits, block_size=block_size, algorithm="rtn")
    (result,) = report.taken
    assert (result.bits, result.block_size) == (bits, block_size)
    # Codes up to a whole block and a float32 scale per block and column.
    k_blocks = -(-64 // block_size)
    assert result.quantized_bytes == 24 * k_blocks * (block_size * bits // 8 + 4)


def test_a_vector_times_a_matrix() -> None:
    source = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [tensor("w", grid_weights(RNG, 64, 24))],
        [value("x", [64])],
        [value("y", [24])],
    )
    check_same_results(source, {"x": X[0]})


@pytest.mark.parametrize("shape", [[], [1], [24], [1, 24], [1, 1], "m1", "mn", None])
@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
@pytest.mark.parametrize(("trans_b", "alpha"), [(0, 1.0), (1, 0.5)])
def test_gemm(shape: Any, beta: float, trans_b: int, alpha: float) -> None:
    dims = {"m1": [5, 1], "mn": [5, 24]}.get(shape, shape) if isinstance(shape, str) else shape
    w = grid_weights(RNG, 64, 24)
    initializers = [tensor("w", w.T.copy() if trans_b else w)]
    inputs = ["x", "w"]
    if dims is not None:
        initializers.append(tensor("c", RNG.standard_normal(dims).astype(np.float32)))
        inputs.append("c")
    source = model(
        [node("Gemm", inputs, ["y"], "gemm", alpha=alpha, beta=beta, transB=trans_b)],
        initializers,
        [value("x", [5, 64])],
    )
    quantized, report = check_same_results(source)
    assert len(report.taken) == 1
    kinds = op_types(quantized.graph)
    if dims is None or beta == 0:
        assert kinds == ["MatMulNBits"]
        assert len(quantized.graph.node[0].input) == 4
    elif isinstance(shape, list):
        assert kinds == ["MatMulNBits"]
        assert len(quantized.graph.node[0].input) == 6
        assert "c" not in initializer_names(quantized.graph)
    else:
        assert kinds == ["MatMulNBits", "Add"] if beta == 1 else ["MatMulNBits", "Mul", "Add"]
        assert "c" in initializer_names(quantized.graph)


@pytest.mark.parametrize("beta", [1.0, -0.5])
def test_gemm_with_a_run_time_addend(beta: float) -> None:
    source = model(
        [
            node("Gemm", ["x", "w", "c"], ["h"], "gemm", beta=beta),
            node("Relu", ["h"], ["y"]),
        ],
        [tensor("w", grid_weights(RNG, 64, 24))],
        [value("x", [5, 64]), value("c", [24])],
    )
    feeds = {"x": X, "c": RNG.standard_normal(24).astype(np.float32)}
    quantized, _ = check_same_results(source, feeds)
    assert op_types(quantized.graph)[-2:] == ["Add", "Relu"]
    assert quantized.graph.node[-2].output[0] == "h"


def test_gemm_with_transposed_a_is_left() -> None:
    w = grid_weights(RNG, 64, 24)
    source = model(
        [node("Gemm", ["x", "w"], ["y"], transA=1)], [tensor("w", w)], [value("x", [64, 5])]
    )
    quantized, report = quantize(source)
    assert op_types(quantized.graph) == ["Gemm"]
    assert "transA" in report.skipped[0].reason


def constant_node(name: str, array: np.ndarray) -> onnx.NodeProto:
    return node("Constant", [], [name], value=tensor("value", array))


@pytest.mark.parametrize(
    "behind",
    [
        ["Identity"],
        ["Transpose"],
        ["Transpose10"],
        ["Transpose01"],
        ["Transpose", "Identity", "Transpose10"],
        ["Identity", "Transpose", "Identity"],
    ],
)
@pytest.mark.parametrize("constant", ["initializer", "Constant"])
@pytest.mark.parametrize("op_type", ["MatMul", "Gemm"])
def test_weights_behind_other_nodes(behind: list[str], constant: str, op_type: str) -> None:
    w = grid_weights(RNG, 64, 24)
    swapped = sum(step in ("Transpose", "Transpose10") for step in behind) % 2
    stored = w.T.copy() if swapped else w
    nodes, initializers = [], []
    if constant == "initializer":
        initializers.append(tensor("w0", stored))
    else:
        nodes.append(constant_node("w0", stored))
    for i, step in enumerate(behind):
        perm = {"perm": [int(digit) for digit in step[9:]]} if len(step) > 9 else {}
        nodes.append(node(step[:9].rstrip("01"), [f"w{i}"], [f"w{i + 1}"], **perm))
    nodes.append(node(op_type, ["x", f"w{len(behind)}"], ["y"], "proj"))
    quantized, report = check_same_results(model(nodes, initializers, [value("x", [5, 64])]))
    assert [r.weight for r in report.taken] == ["w0"]
    assert op_types(quantized.graph) == ["MatMulNBits"]
    assert not initializer_names(quantized.graph) & {"w0"}


def test_shared_weights_are_quantised_once() -> None:
    w = grid_weights(RNG, 64, 64)
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "first"),
        node("MatMul", ["a", "w"], ["b"], "second"),
        node("Transpose", ["w"], ["wt"]),
        node("MatMul", ["b", "wt"], ["y"], "transposed"),
    ]
    w = w / np.float32(8)
    w[:, ::32] = w[::32, :].T  # -2 in every block of the transpose too
    source = model(nodes, [tensor("w", w)])
    quantized, report = quantize(source)
    assert [r.name for r in report.taken] == ["first", "second", "transposed"]
    inputs = {n.name: list(n.input[1:]) for n in quantized.graph.node}
    assert inputs["first"] == inputs["second"]
    assert not set(inputs["first"]) & set(inputs["transposed"])
    assert report.quantized_bytes == sum(
        r.quantized_bytes for r in report.taken if r.name != "second"
    )
    assert report.original_bytes == 2 * w.nbytes
    assert op_types(quantized.graph) == ["MatMulNBits"] * 3
    assert "w" not in initializer_names(quantized.graph)


def test_what_others_read_is_kept() -> None:
    embedding = grid_weights(RNG, 64, 24)
    nodes = [
        node("Gather", ["table", "ids"], ["picked"], axis=1),
        node("MatMul", ["x", "table"], ["y"], "head"),
    ]
    source = model(
        nodes,
        [tensor("table", embedding)],
        [value("x", ["m", 64]), value("ids", [3], TensorProto.INT64)],
        [value("y", None), value("picked", None)],
    )
    feeds = {"x": X, "ids": np.array([1, 5, 2])}
    quantized, report = check_same_results(source, feeds)
    assert len(report.taken) == 1
    assert "table" in initializer_names(quantized.graph)


def test_graph_outputs_and_their_nodes_are_kept() -> None:
    nodes = [
        node("Transpose", ["w"], ["wt"]),
        node("MatMul", ["x", "wt"], ["y"]),
    ]
    w = grid_weights(RNG, 64, 24).T.copy()
    source = model(nodes, [tensor("w", w)], outputs=[value("y", None), value("wt", None)])
    quantized, _ = check_same_results(source)
    assert op_types(quantized.graph) == ["Transpose", "MatMulNBits"]
    assert "w" in initializer_names(quantized.graph)


def test_overridable_initializers_are_left_alone() -> None:
    w = grid_weights(RNG, 64, 24)
    source = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [tensor("w", w)],
        [value("x", ["m", 64]), value("w", [64, 24])],
    )
    quantized, report = check_same_results(source, {"x": X, "w": w * 2})
    assert report.taken == ()
    assert "is also a graph input, so callers can override it" in report.skipped[0].reason
    assert quantized == source


def test_value_info_of_removed_names_goes() -> None:
    source = model(
        [
            node("Identity", ["w"], ["v"]),
            node("MatMul", ["x", "v"], ["h"]),
            node("Relu", ["h"], ["y"]),
        ],
        [tensor("w", grid_weights(RNG, 64, 24))],
    )
    source.graph.value_info.extend([value("v", [64, 24]), value("h", ["m", 24])])
    quantized, _ = check_same_results(source)
    assert [v.name for v in quantized.graph.value_info] == ["h"]


def test_new_names_avoid_those_in_use() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Add", ["h", "w_q2"], ["w_q2_scales"]),
        node("Identity", ["w_q2_scales"], ["y"]),
    ]
    initializers = [
        tensor("w", grid_weights(RNG, 64, 24)),
        tensor("w_q2", np.ones(24, np.float32)),
    ]
    check_same_results(model(nodes, initializers))


def if_model(shared: bool) -> onnx.ModelProto:
    """An If whose branches use one local name for different weights, or the main graph's."""

    def branch(name: str) -> onnx.GraphProto:
        weights = [] if shared else [tensor("w", grid_weights(RNG, 64, 24))]
        nodes = [
            node("MatMul", ["x", "w"], ["h"], f"{name}_matmul"),
            node("Relu" if name == "then" else "Neg", ["h"], [f"{name}_y"]),
        ]
        return helper.make_graph(nodes, name, [], [value(f"{name}_y", ["m", 24])], weights)

    nodes = [
        node("If", ["c"], ["y"], "choice", then_branch=branch("then"), else_branch=branch("else"))
    ]
    outer = [tensor("w", grid_weights(RNG, 64, 24))] if shared else []
    return model(nodes, outer, [value("x", ["m", 64]), value("c", [], TensorProto.BOOL)])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("choice", [False, True])
def test_if_branches(shared: bool, choice: bool) -> None:
    source = if_model(shared)
    quantized, report = check_same_results(source, {"x": X, "c": np.array(choice)})
    assert {(r.name, r.graph) for r in report.taken} == {
        ("then_matmul", "choice/then_branch"),
        ("else_matmul", "choice/else_branch"),
    }
    assert "w" not in initializer_names(quantized.graph)
    assert len(initializer_names(quantized.graph)) == (3 if shared else 0)
    for attribute in quantized.graph.node[0].attribute:
        assert attribute.g.node[0].op_type == "MatMulNBits"
        assert len(initializer_names(attribute.g)) == (0 if shared else 3)


def test_loop_body_reads_a_weight_of_the_graph_around_it() -> None:
    w = grid_weights(RNG, 64, 64) / np.float32(64)
    body = helper.make_graph(
        [
            node("Transpose", ["w"], ["wt"]),
            node("MatMul", ["state", "wt"], ["next"], "step"),
            node("Identity", ["going"], ["still_going"]),
        ],
        "body",
        [
            value("i", [], TensorProto.INT64),
            value("going", [], TensorProto.BOOL),
            value("state", ["m", 64]),
        ],
        [value("still_going", [], TensorProto.BOOL), value("next", ["m", 64])],
    )
    source = model(
        [node("Loop", ["count", "", "x"], ["y"], "loop", body=body)],
        [tensor("w", w.T.copy()), tensor("count", np.array(3, np.int64))],
    )
    quantized, report = check_same_results(source)
    assert [(r.name, r.graph) for r in report.taken] == [("step", "loop/body")]
    inner = quantized.graph.node[0].attribute[0].g
    assert op_types(inner) == ["MatMulNBits", "Identity"]
    assert "w" not in initializer_names(quantized.graph)


def test_names_of_body_inputs_hide_constants_outside() -> None:
    # "w" in the body is what the loop carries, whatever the graph around calls so.
    body = helper.make_graph(
        [node("MatMul", ["v", "w"], ["next"], "step"), node("Identity", ["c"], ["d"])],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("w", [64, 64])],
        [value("d", [], TensorProto.BOOL), value("next", [64, 64])],
    )
    source = model(
        [node("Loop", ["count", "", "v"], ["y"], "loop", body=body)],
        [tensor(name, grid_weights(RNG, 64, 64)) for name in ("v", "w")]
        + [tensor("count", np.array(1, np.int64))],
    )
    _, report = quantize(source)
    assert report.taken == ()
    assert "left operand" in report.skipped[0].reason


def test_what_cannot_be_taken_says_why() -> None:
    w = np.ones((64, 8), np.float32)
    nodes = [
        node("MatMul", ["x", "z"], ["a"], "two_inputs"),
        node("MatMul", ["w_left", "z"], ["b"], "left"),
        node("MatMul", ["x", "w_batch"], ["c"], "batch"),
        node("MatMul", ["x", "w_vector"], ["d"], "vector"),
        node("Cast", ["w_half"], ["w_cast"], to=TensorProto.FLOAT),
        node("MatMul", ["x", "w_cast"], ["e"], "cast"),
        node("MatMul", ["x16", "w_half"], ["f"], "half"),
        node("MatMul", ["x", "w_empty"], ["g"], "empty"),
        node("Transpose", ["w_batch"], ["w_swapped"], perm=[0, 2, 1]),
        node("MatMul", ["z", "w_swapped"], ["h"], "swapped"),
        node("Constant", [], ["w_floats"], value_floats=[1.0] * 64),
        node("MatMul", ["x", "w_floats"], ["i"], "floats"),
        node("MatMulInteger", ["q", "q"], ["j"], "other_operator"),
    ]
    initializers = [
        tensor("w_left", w.T.copy()),
        tensor("w_batch", np.ones((2, 64, 8), np.float32)),
        tensor("w_vector", np.ones(64, np.float32)),
        tensor("w_half", w.astype(np.float16)),
        tensor("w_empty", np.ones((64, 0), np.float32)),
    ]
    outputs = [value(name, None) for name in "abcdeghi"] + [value("f", None, TensorProto.FLOAT16)]
    source = model(
        nodes[:-1],
        initializers,
        [value("x", ["m", 64]), value("z", [64, 8]), value("x16", ["m", 64], TensorProto.FLOAT16)],
        outputs,
    )
    source.graph.node.append(nodes[-1])
    quantized, report = quantize(source)
    assert quantized == source
    reasons = {result.name: result.reason for result in report.skipped}
    expected = {
        "two_inputs": "'z' is a graph input, not a constant",
        "left": "its constant is the left operand",
        "batch": "has shape [2, 64, 8]; only matrices (rank 2)",
        "vector": "has shape [64]; only matrices (rank 2)",
        "cast": "'w_cast' is computed by Cast",
        "half": "weight 'w_half' is FLOAT16; only FLOAT (float32)",
        "empty": "has shape [64, 0]: it is empty",
        "swapped": "'w_swapped' comes from a Transpose of more than two dims",
        "floats": "'w_floats' comes from a Constant without a dense tensor",
    }
    assert list(reasons) == list(expected)
    for name, part in expected.items():
        assert part in reasons[name]


def test_functions_of_the_model_are_listed_as_skipped() -> None:
    function = helper.make_function(
        "local",
        "Linear",
        ["a", "b"],
        ["c"],
        [node("MatMul", ["a", "b"], ["c"], "inside")],
        [helper.make_opsetid("", 17)],
    )
    nodes = [node("Linear", ["x", "w"], ["y"], domain="local")]
    source = model(nodes, [tensor("w", grid_weights(RNG, 64, 8))], functions=[function])
    quantized, report = check_same_results(source)
    assert [(r.name, r.graph) for r in report.skipped] == [("inside", "function local::Linear")]
    assert quantized == source


def test_non_finite_weights_are_refused_by_name() -> None:
    w = grid_weights(RNG, 64, 24)
    w[3, 7] = np.nan
    source = model([node("MatMul", ["x", "w"], ["y"], "proj")], [tensor("w", w)])
    with pytest.raises(ValueError, match="weight 'w' of node 'proj' holds nan at row 3, column 7"):
        quantize(source)


def test_a_tensor_of_the_wrong_size_is_refused_by_name() -> None:
    w = tensor("w", grid_weights(RNG, 64, 24))
    w.raw_data = w.raw_data[:-4]
    with pytest.raises(ValueError, match=r"tensor 'w' \[64, 24\]"):
        quantize(model([node("MatMul", ["x", "w"], ["y"])], [w]))


def test_typed_fields_are_read() -> None:
    w = grid_weights(RNG, 64, 24)
    typed = helper.make_tensor("w", TensorProto.FLOAT, w.shape, w.reshape(-1).tolist())
    assert not typed.HasField("raw_data")
    check_same_results(model([node("MatMul", ["x", "w"], ["y"])], [typed]))


def test_error_is_measured() -> None:
    w = RNG.standard_normal((64, 24)).astype(np.float32)
    source = model([node("MatMul", ["x", "w"], ["y"])], [tensor("w", w)])
    quantized, report = quantize(source)
    # A x identity gives the dequantised matrix.
    dequantized = run(quantized, {"x": np.eye(64, dtype=np.float32)})[0]
    expected = np.linalg.norm(dequantized - w) / np.linalg.norm(w)
    assert report.taken[0].relative_error == pytest.approx(expected, rel=1e-5)
    assert 0.2 < expected < 0.5
