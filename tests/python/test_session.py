"""The session helper: what it makes, reports and refuses."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import float_models
import onnxruntime_ep_mlas as mlas
import qdq_models


def quantized_model(bits: int = 2, nodes: int = 1) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    steps = [
        helper.make_node("MatMul", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}"], f"layer_{i}")
        for i in range(nodes)
    ]
    steps[-1].output[0] = "y"
    weights = [
        float_models.tensor(f"w{i}", float_models.grid_weights(rng, 64, 64)) for i in range(nodes)
    ]
    source = float_models.model(steps, weights)
    result = mlas.quantize_model(source, None, bits=bits, algorithm="rtn").model
    assert result is not None
    return result


X = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)


def test_session_runs_on_the_provider() -> None:
    model = quantized_model(nodes=3)
    session = mlas.InferenceSession(model)
    assert isinstance(session, onnxruntime.InferenceSession)
    assert session.get_providers() == ["MlasExecutionProvider", "CPUExecutionProvider"]
    report = mlas.session_report(session)
    assert report.provider == "MlasExecutionProvider"
    assert report.isa in {row["isa"] for row in mlas.kernels()}
    assert [node.name for node in report.taken] == ["layer_0", "layer_1", "layer_2"]
    assert report.declined == ()
    assert {node.op_type for node in report.nodes} == {"MatMulNBits"}
    assert report.nodes[0].details["n"] == 64
    ours = session.run(None, {"x": X})[0]
    stock = float_models.run(model, {"x": X})[0]
    np.testing.assert_allclose(ours, stock, rtol=1e-3, atol=1e-2 * np.abs(stock).max())


@pytest.mark.parametrize("form", ["path", "str", "bytes", "proto"])
def test_every_form_of_model(form: str, tmp_path: Path) -> None:
    model = quantized_model()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    given = {"path": path, "str": str(path), "bytes": model.SerializeToString(), "proto": model}
    session = mlas.InferenceSession(given[form])  # type: ignore[arg-type]
    assert len(mlas.session_report(session).taken) == 1


def declined_model(nodes: int = 1) -> onnx.ModelProto:
    """Its nodes name another device's layout, which the CPU provider overlooks."""
    model = quantized_model(bits=4, nodes=nodes)
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            node.attribute.append(helper.make_attribute("weight_prepacked", 1))
    return model


@pytest.mark.parametrize("bits", [4, 8])
def test_other_widths_are_taken(bits: int) -> None:
    session = mlas.InferenceSession(quantized_model(bits=bits))
    (node,) = mlas.session_report(session).taken
    assert node.details["bits"] == bits


def test_a_declined_node_is_an_error_naming_it_and_the_reason() -> None:
    model = declined_model()
    with pytest.raises(RuntimeError) as caught:
        mlas.InferenceSession(model)
    message = str(caught.value)
    assert "1 of 1 MatMulNBits nodes would not run on MlasExecutionProvider" in message
    assert "'layer_0': " in message
    assert "allow_fallback=True" in message

    session = mlas.InferenceSession(model, allow_fallback=True)
    (declined,) = mlas.session_report(session).declined
    assert declined.name == "layer_0"
    assert declined.reason
    assert declined.reason in message
    expected = float_models.run(model, {"x": X})[0]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected)


def test_a_long_list_of_declined_nodes_is_cut() -> None:
    with pytest.raises(RuntimeError, match="25 of 25 MatMulNBits nodes") as caught:
        mlas.InferenceSession(declined_model(nodes=25))
    assert "and 5 more" in str(caught.value)


def test_model_without_the_operator_is_fine() -> None:
    model = float_models.model([helper.make_node("Relu", ["x"], ["y"])])
    session = mlas.InferenceSession(model)
    assert mlas.session_report(session).nodes == ()


def test_options_reach_the_provider(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    session = mlas.InferenceSession(
        quantized_model(), provider_options={"isa": "portable", "report": str(path)}
    )
    assert mlas.session_report(session).isa == "portable"
    written = json.loads(path.read_text())
    assert written["isa"] == "portable"
    assert [node["name"] for node in written["nodes"]] == ["layer_0"]


def test_session_options_are_honoured() -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = mlas.InferenceSession(quantized_model(), options)
    assert session.get_session_options().intra_op_num_threads == 1
    with pytest.raises(ValueError, match="sess_options already have providers"):
        mlas.InferenceSession(quantized_model(), options)


@pytest.mark.parametrize(
    ("options", "word"), [({"isa": "sse9"}, "sse9"), ({"speed": "high"}, "speed")]
)
def test_bad_provider_options_are_errors(options: dict[str, str], word: str) -> None:
    with pytest.raises(RuntimeError, match=f"can't create a session .*{word}"):
        mlas.InferenceSession(quantized_model(), provider_options=options)


def test_broken_model_is_an_error_not_a_cpu_session(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="can't create a session"):
        mlas.InferenceSession(tmp_path / "missing.onnx")
    with pytest.raises(RuntimeError, match="can't create a session"):
        mlas.InferenceSession(b"not a model")


def test_providers_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="providers can't be chosen here"):
        mlas.InferenceSession(quantized_model(), providers=["CPUExecutionProvider"])


def test_report_of_a_foreign_session_is_refused() -> None:
    session = onnxruntime.InferenceSession(
        quantized_model().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    with pytest.raises(ValueError, match="no report on this session"):
        mlas.session_report(session)


def test_reports_go_with_their_sessions() -> None:
    first, second = (
        mlas.InferenceSession(quantized_model()),
        mlas.InferenceSession(quantized_model(nodes=2)),
    )
    assert len(mlas.session_report(first).nodes) == 1
    assert len(mlas.session_report(second).nodes) == 2
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None, "its report keeps a session alive"


def test_register_is_idempotent() -> None:
    for _ in range(3):
        mlas.register()
    names = [device.ep_name for device in onnxruntime.get_ep_devices()]
    assert names.count("MlasExecutionProvider") == 1


def test_float_types_other_than_the_nodes_stay_on_the_cpu() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "matmul"),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT16),
    ]
    w = float_models.grid_weights(np.random.default_rng(0), 64, 8)
    source = float_models.model(
        nodes,
        [float_models.tensor("w", w)],
        outputs=[float_models.value("y", ["m", 8], TensorProto.FLOAT16)],
    )
    session = mlas.InferenceSession(mlas.quantize_model(source, None).model)  # type: ignore[arg-type]
    assert session.run(None, {"x": X})[0].dtype == np.float16


@pytest.mark.parametrize("block_size", [32, 24])
def test_pairs_of_dequantize_linear_may_stay_with_the_cpu_provider(block_size: int) -> None:
    pair = qdq_models.random_pair(
        np.random.default_rng(2), 64, 48, TensorProto.INT4, block_size=block_size
    )
    session = mlas.InferenceSession(pair.model())
    (node,) = mlas.session_report(session).nodes
    assert (node.name, node.op_type) == ("product", "DequantizeLinear+MatMul")
    assert node.taken == (block_size == 32)
    assert bool(node.reason) == (block_size == 24)
