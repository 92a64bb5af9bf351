"""Parity of models at every width and element type: what is judged right, and what isn't."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cases
from onnxruntime_ep_mlas.model_parity import check_model, check_nodes

TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}


def typed_tensor(name, values, element_type):
    dtype = helper.tensor_dtype_to_np_dtype(element_type)
    return helper.make_tensor(
        name, element_type, values.shape, values.astype(dtype).tobytes(), raw=True
    )


def save_chain(path, element_type, *, bits=4, block=32, zero_points="none", level=4):
    """x (float32) -> Cast -> two products -> y, of this type; the first one's scales are inputs."""
    rng = np.random.default_rng(bits)
    nodes = [helper.make_node("Cast", ["x"], ["h0"], "cast", to=element_type)]
    tensors, k = [], 80
    for index, n in enumerate((48, 24)):
        weights = cases.random_weights(rng, n, k, block, bits=bits, zero_points=zero_points)
        names = [f"B{index}", f"scales{index}"]
        tensors.append(numpy_helper.from_array(weights.codes, names[0]))
        tensors.append(typed_tensor(names[1], weights.scales / 8, element_type))
        if weights.zero_points is not None:
            names.append(f"zero_points{index}")
            packed = weights.zero_points.dtype == np.uint8
            tensors.append(
                numpy_helper.from_array(weights.zero_points, names[2])
                if packed
                else typed_tensor(names[2], weights.zero_points, element_type)
            )
        nodes.append(
            helper.make_node(
                *("MatMulNBits", [f"h{index}", *names], [f"h{index + 1}"], f"mm{index}"),
                domain="com.microsoft",
                K=k,
                N=n,
                bits=bits,
                block_size=block,
                accuracy_level=level,
            )
        )
        k = n
    # One whose value is computed when the model runs.
    wide = helper.make_node("Cast", ["scales0"], ["wide"], "widen", to=TensorProto.FLOAT)
    nodes.insert(0, wide)
    nodes.insert(1, helper.make_node("Cast", ["wide"], ["computed"], "narrow", to=element_type))
    nodes[3].input[2] = "computed"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", 80])],
        [helper.make_tensor_value_info("h2", element_type, ["m", 24])],
        tensors,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def activations(rows=3):
    return {"x": np.random.default_rng(0).standard_normal((rows, 80)).astype(np.float32)}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize(("bits", "block"), [(2, 32), (4, 32), (8, 64), (4, 512), (8, 1024)])
@pytest.mark.parametrize("zero_points", ["none", "float"])
def test_every_width_and_type(tmp_path, name, level, bits, block, zero_points):
    path = tmp_path / "chain.onnx"
    save_chain(path, TYPES[name], bits=bits, block=block, zero_points=zero_points, level=level)
    result = check_model(path, activations())
    assert result.passed
    for node in result.nodes:
        assert (node.bits, node.block_size, node.type) == (bits, block, name)
        assert node.taken
        assert node.ours.passed
        assert (node.stock is None) == bool(result.stock_refusal)
    refused = name == "bfloat16" or (bits, zero_points) == (8, "float")
    assert bool(result.stock_refusal) == refused
    # There are no numpy arrays of bfloat16.
    pairs = {output: set(found) for output, found in result.outputs.items()}
    assert pairs == ({} if name == "bfloat16" else {"h2": set() if refused else {"ours/stock"}})


@pytest.mark.parametrize("name", TYPES)
def test_a_wrong_kernel_of_any_type_is_found(tmp_path, monkeypatch, name):
    """The oracle is told one other code in each block of one column."""
    from onnxruntime_ep_mlas import model_parity

    right = model_parity.matmul_nbits_oracle

    def other_code(a, codes, *arguments, **keywords):
        changed = codes.copy()
        changed[2, :, 0] ^= 0x80
        return right(a, changed, *arguments, **keywords)

    path = tmp_path / "chain.onnx"
    save_chain(path, TYPES[name], bits=8)
    feeds = activations(rows=8)
    assert all(node.ours.passed for node in check_nodes(path, feeds, stock=False))
    monkeypatch.setattr(model_parity, "matmul_nbits_oracle", other_code)
    for node in check_nodes(path, feeds, stock=False):
        assert not node.ours.passed
        assert 4 <= node.ours.wrong <= 8


def test_bfloat16_is_compared_with_its_original(ort_mlas, tmp_path):
    path, original = tmp_path / "bf16.onnx", tmp_path / "fp32.onnx"
    save_chain(original, TensorProto.FLOAT)
    save_chain(path, TensorProto.BFLOAT16)
    model = onnx.load(path)
    model.graph.node[-1].output[0] = "narrow"
    model.graph.node.append(helper.make_node("Cast", ["narrow"], ["h2"], to=TensorProto.FLOAT))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(model, path)
    ran = ort_mlas("parity", path, "--original", original, "--min-cosine", 0.999, "--json")
    assert ran.code == 0, ran.err
    found = ran.json()
    assert [node["type"] for node in found["nodes"]] == ["bfloat16"] * 2
    assert [node["stock"] for node in found["nodes"]] == [None, None]
    assert set(found["outputs"]["h2"]) == {"ours/original"}
    table = ort_mlas("parity", path, "--original", original)
    assert table.code == 0
    assert "bfloat16" in table.out
    assert "The stock provider can't run this model: " in table.out
    assert "MatMulNBits(1)" in table.out
