"""The JSON report, and what the provider declines."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

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
        "type": "float",
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


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"bits": 3}, "bits = 3 is not one of 2, 4 and 8"),
        ({"bits": 4, "block_size": 131072}, "block_size = 131072 is larger than"),
    ],
)
def test_widths_without_kernels_are_declined(
    attributes: dict[str, int], reason: str, tmp_path: Path
) -> None:
    node = models.Node(
        cases.random_weights(np.random.default_rng(45), 32, 64, 32), attributes=attributes
    )
    path = tmp_path / "report.json"
    # The CPU provider is left with a node that it refuses.
    with contextlib.suppress(Exception):
        models.session(models.model_of(node), options={"report": str(path)})
    report = models.report_nodes(path)["mm"]
    assert not report["taken"]
    assert reason in report["reason"]


def test_prepacked_layouts_are_declined(tmp_path: Path) -> None:
    node = models.Node(
        cases.random_weights(np.random.default_rng(48), 32, 64, 32),
        attributes={"weight_prepacked": 1},
    )
    declined(node, tmp_path / "report.json", "weight_prepacked = 1 names a layout")


def test_widths_side_by_side(tmp_path: Path) -> None:
    rng = np.random.default_rng(49)
    nodes = [
        models.Node(
            cases.random_weights(rng, 64, 64, 32, bits=bits), name=f"w{bits}", prefix=f"w{bits}_"
        )
        for bits in (2, 4, 8)
    ]
    values = ["A", "T0", "T1", "Y"]
    model = models.make_model(
        [node.node_proto(*values[i : i + 2]) for i, node in enumerate(nodes)],
        [models.value_info("A", ["M", 64])],
        [models.value_info(name, None) for name in values[1:]],
        [tensor for node in nodes for tensor in node.initializers()],
    )
    path = tmp_path / "report.json"
    sess = models.session(model, options={"report": str(path)})
    report = models.report_nodes(path)
    assert {(name, node["bits"]) for name, node in report.items() if node["taken"]} == {
        ("w2", 2),
        ("w4", 4),
        ("w8", 8),
    }
    for name, node in report.items():
        assert all(f"_{name}_" in kernel for kernel in node["kernels"])
    assert set(models.owners(sess).values()) == {models.PROVIDER}
    a = cases.random_activations(rng, 3, 64)
    for node, y in zip(nodes, sess.run(values[1:], {"A": a}), strict=True):
        models.assert_right(node, a, y)
        a = y


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
