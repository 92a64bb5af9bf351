"""The JSON report, and what the provider declines."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import cases
import models
from onnxruntime_ep_mlas import _native


def report_of(
    node: models.Node, path: Path, model: Any = None, **arguments: Any
) -> tuple[onnxruntime.InferenceSession, dict[str, Any]]:
    sess = models.session(
        model or models.model_of(node), options={"report": str(path)}, **arguments
    )
    return sess, models.report_nodes(path)[node.name]


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize(
    ("zero_points", "kind"),
    [
        ("none", "uniform"),
        ("uniform", "uniform"),
        ("per_block", "per_block"),
        ("float_integers", "per_block"),
        ("float", "float"),
    ],
)
@pytest.mark.parametrize("scales", ["fp16", "fp32"])
def test_taken_node(
    zero_points: cases.ZeroPointCase,
    kind: str,
    scales: cases.ScaleCase,
    level: int,
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(41)
    weights = cases.random_weights(rng, 40, 256, 32, zero_points=zero_points, scales=scales)
    node = models.Node(weights, accuracy_level=level)
    _, report = report_of(node, tmp_path / "report.json")
    compute = "int8" if level == 4 else "fp32"
    expected = {
        "name": "mm",
        "op_type": "MatMulNBits",
        "graph": "",
        "output": "Y",
        "taken": True,
        "reason": "",
        "n": 40,
        "k": 256,
        "bits": 2,
        "block_size": 32,
        "accuracy_level": level,
        "compute": compute,
        "weights": "constant",
        "format": "quad",
        "scale_type": scales,
        "zero_point_kind": kind,
    }
    assert {key: report[key] for key in expected} == expected
    assert set(report) == {*expected, "kernels", "packed_bytes", "fused_name"}
    assert report["kernels"]
    assert all(name.startswith(f"qnbit_{compute}_w2_quad_") for name in report["kernels"])
    # 48 padded columns of 256 codes at 2 bits is the least that can hold the weights.
    assert report["packed_bytes"] >= 48 * 256 // 4


def test_head_and_file_handling(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("something older", encoding="utf-8")
    node = models.Node(cases.random_weights(np.random.default_rng(42), 16, 64, 32))
    report_of(node, path)
    report = models.read_report(path)
    assert report["provider"] == models.PROVIDER
    assert report["version"]
    choice = _native.isa_choice()
    assert report["isa"] == choice["many_rows"]
    assert report["isas"] == choice
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_model_without_our_operator(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    model = models.make_model(
        [helper.make_node("Relu", ["A"], ["Y"])],
        [models.value_info("A", [2])],
        [models.value_info("Y", [2])],
    )
    models.session(model, options={"report": str(path)})
    assert models.read_report(path)["nodes"] == []


def test_names_are_escaped_and_missing_ones_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    rng = np.random.default_rng(43)
    node = models.Node(cases.random_weights(rng, 16, 64, 32), name='a "b"\\c\n\u00e9')
    report_of(node, path)
    assert json.loads(path.read_text(encoding="utf-8"))["nodes"][0]["name"] == node.name
    unnamed = models.Node(cases.random_weights(rng, 16, 64, 32), name="")
    models.session(models.model_of(unnamed), options={"report": str(path)})
    assert list(models.report_nodes(path)) == ["output 'Y'"]


def test_run_time_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(44)
    weights = cases.random_weights(rng, 16, 64, 32, zero_points="per_block")
    _, report = report_of(models.Node(weights, run_time=("B",)), tmp_path / "report.json")
    assert report["taken"]
    assert report["weights"] == "run-time"
    assert report["packed_bytes"] == 0
    assert (report["scale_type"], report["zero_point_kind"]) == ("fp32", "per_block")


def declined(
    node: models.Node, path: Path, reason: str, model: Any = None, **arguments: Any
) -> onnxruntime.InferenceSession:
    sess, report = report_of(node, path, model, **arguments)
    assert not report["taken"]
    assert reason in report["reason"]
    assert report["packed_bytes"] == 0
    assert models.owners(sess) == {node.name: models.STOCK}
    return sess


@pytest.mark.parametrize("bits", [4, 8])
def test_other_widths_stay_with_the_cpu_provider(bits: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(45)
    # At level 0: stock int8 kernels round differently on each processor.
    node = models.Node(cases.random_weights(rng, 32, 64, 32, bits=bits), accuracy_level=0)
    sess = declined(node, tmp_path / "report.json", f"bits = {bits} is not supported")
    a = cases.random_activations(rng, 3, 64)
    assert models.is_right(node, a, models.run(sess, {"A": a}))


def test_float16_activations_stay_with_the_cpu_provider(tmp_path: Path) -> None:
    rng = np.random.default_rng(46)
    node = models.Node(cases.random_weights(rng, 32, 64, 32), accuracy_level=0)
    node.tensors = {"scales": node.weights.scales.astype(np.float16)}
    model = models.model_of(node, TensorProto.FLOAT16)
    sess = declined(node, tmp_path / "report.json", "input A is float16", model)
    a = rng.standard_normal((3, 64)).astype(np.float16)
    y = models.run(sess, {"A": a})
    expected = models.reference(node, a.astype(np.float32))
    np.testing.assert_allclose(y, expected.value, rtol=1e-2, atol=1e-2 * expected.magnitude.max())


def test_context_models_are_declined(tmp_path: Path) -> None:
    node = models.Node(cases.random_weights(np.random.default_rng(47), 32, 64, 32))
    config = {
        "ep.context_enable": "1",
        "ep.context_file_path": str(tmp_path / "context.onnx"),
    }
    path = tmp_path / "report.json"
    # No node is left for a context model, which ONNX Runtime may call an error.
    with contextlib.suppress(Exception):
        models.session(models.model_of(node), options={"report": str(path)}, config=config)
    report = models.report_nodes(path)["mm"]
    assert not report["taken"]
    assert "ep.context_enable" in report["reason"]


def test_prepacked_layouts_are_declined(tmp_path: Path) -> None:
    node = models.Node(
        cases.random_weights(np.random.default_rng(48), 32, 64, 32),
        attributes={"weight_prepacked": 1},
    )
    declined(node, tmp_path / "report.json", "weight_prepacked = 1 names a layout")


def test_taken_and_declined_side_by_side(tmp_path: Path) -> None:
    rng = np.random.default_rng(49)
    ours = models.Node(cases.random_weights(rng, 64, 64, 32), name="w2", prefix="w2_")
    # At level 0, as above.
    theirs = models.Node(
        cases.random_weights(rng, 64, 64, 32, bits=4), accuracy_level=0, name="w4", prefix="w4_"
    )
    model = models.make_model(
        [ours.node_proto("A", "T"), theirs.node_proto("T", "Y")],
        [models.value_info("A", ["M", 64])],
        [models.value_info("Y", None), models.value_info("T", None)],
        [*ours.initializers(), *theirs.initializers()],
    )
    path = tmp_path / "report.json"
    sess = models.session(model, options={"report": str(path)})
    report = models.report_nodes(path)
    assert {name: node["taken"] for name, node in report.items()} == {"w2": True, "w4": False}
    assert models.owners(sess) == {"w2": models.PROVIDER, "w4": models.STOCK}
    a = cases.random_activations(rng, 3, 64)
    y, t = sess.run(["Y", "T"], {"A": a})
    models.assert_right(ours, a, t)
    assert models.is_right(theirs, t, y)


def test_refused_node_is_reported_before_the_session_fails(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    weights = cases.random_weights(np.random.default_rng(50), 16, 64, 32)
    node = models.Node(weights, tensors={"scales": np.ones((16, 3), np.float32)})
    with pytest.raises(Exception, match="scales"):
        models.session(models.model_of(node), options={"report": str(path)})
    report = models.report_nodes(path)["mm"]
    assert not report["taken"]
    assert "scales" in report["reason"]


def test_fused_name_is_what_a_profile_shows(tmp_path: Path) -> None:
    rng = np.random.default_rng(51)
    node = models.Node(cases.random_weights(rng, 16, 64, 32))

    def profile(options: onnxruntime.SessionOptions) -> None:
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / "profile")

    sess, report = report_of(node, tmp_path / "report.json", configure=profile)
    sess.run(None, {"A": cases.random_activations(rng, 1, 64)})
    events = json.loads(Path(sess.end_profiling()).read_text(encoding="utf-8"))
    kernels = [event["name"] for event in events if event["name"].endswith("_kernel_time")]
    assert kernels == [report["fused_name"] + "_kernel_time"]
