"""Memory of context models and of packing: what is mapped, shared, given back, and left alone."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import cases
import models
import peak_memory_probe

K = 96
A = cases.random_activations(np.random.default_rng(61), 3, K)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' /proc")


def chain(seeds: list[int], n: int = K, bits: int = 4) -> tuple[onnx.ModelProto, list[models.Node]]:
    """Nodes one after the other; those of equal seeds have equal weights, each its own copy."""
    nodes = []
    for index, seed in enumerate(seeds):
        weights = cases.random_weights(np.random.default_rng([62, seed]), n, n, 32, bits=bits)
        nodes.append(models.Node(weights, name=f"n{index}", prefix=f"n{index}_"))
    values = ["A", *(f"T{index}" for index in range(len(nodes) - 1)), "Y"]
    model = models.make_model(
        [node.node_proto(*values[i : i + 2]) for i, node in enumerate(nodes)],
        [models.value_info("A", ["M", n])],
        [models.value_info("Y", ["M", n])],
        [tensor for node in nodes for tensor in node.initializers()],
    )
    return model, nodes


def compile_model(model: onnx.ModelProto, path: Path, **config: str) -> Path:
    """Writes the context model `path` with a file beside it."""
    original = path.with_name("original.onnx")
    onnx.save(model, original)
    path.unlink(missing_ok=True)  # ONNX Runtime replaces no context model
    config = {"ep.context_enable": "1", "ep.context_file_path": str(path), **config}
    models.session(original, config=config)
    return path


def mappings_of(file: Path) -> int:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return sum(line.endswith(str(file)) for line in maps.splitlines())


@linux_only
def test_all_nodes_and_sessions_share_one_mapping(tmp_path: Path) -> None:
    model, _ = chain([1, 2, 3])
    path = compile_model(model, tmp_path / "context.onnx")
    file = tmp_path / "context_mlas.bin"
    assert mappings_of(file) == 0
    sessions = [models.session(path) for _ in range(3)]
    assert mappings_of(file) == 1
    expected = models.run(models.session(model), {"A": A})
    del sessions[0]
    gc.collect()
    for sess in sessions:
        np.testing.assert_array_equal(models.run(sess, {"A": A}), expected)
    del sess
    sessions.clear()
    gc.collect()
    assert mappings_of(file) == 0


def test_a_replaced_file_serves_later_sessions_alone(tmp_path: Path) -> None:
    first, second = chain([1, 2])[0], chain([3, 4])[0]
    path = compile_model(first, tmp_path / "context.onnx")
    expected_first = models.run(models.session(first), {"A": A})
    expected_second = models.run(models.session(second), {"A": A})
    assert not np.array_equal(expected_first, expected_second)
    before = models.session(path)
    compile_model(second, path)
    after = models.session(path)
    np.testing.assert_array_equal(models.run(before, {"A": A}), expected_first)
    np.testing.assert_array_equal(models.run(after, {"A": A}), expected_second)


def test_sessions_made_at_once(tmp_path: Path) -> None:
    model, _ = chain([1, 1, 2])
    path = compile_model(model, tmp_path / "context.onnx")
    expected = models.run(models.session(model), {"A": A})
    sources: list[onnx.ModelProto | Path] = [model, path] * 4

    def make_and_run(source: onnx.ModelProto | Path) -> models.Array:
        return models.run(models.session(source), {"A": A})

    with ThreadPoolExecutor(len(sources)) as pool:
        for _ in range(5):
            for result in pool.map(make_and_run, sources):
                np.testing.assert_array_equal(result, expected)


def test_equal_weights_of_several_nodes(tmp_path: Path) -> None:
    model, nodes = chain([1, 2, 1, 1])
    path = compile_model(model, tmp_path / "context.onnx")
    expected = A
    for node in nodes:
        expected = models.run(models.session(models.model_of(node)), {"A": expected})
    np.testing.assert_array_equal(models.run(models.session(model), {"A": A}), expected)
    np.testing.assert_array_equal(models.run(models.session(path), {"A": A}), expected)


def test_a_name_prefix_is_no_obstacle(tmp_path: Path) -> None:
    model, _ = chain([1])
    path = compile_model(
        model, tmp_path / "context.onnx", **{"ep.context_node_name_prefix": "part_1_"}
    )
    expected = models.run(models.session(model), {"A": A})
    np.testing.assert_array_equal(models.run(models.session(path), {"A": A}), expected)


def test_bodies_keep_their_nodes(tmp_path: Path) -> None:
    model, (outer,) = chain([1])
    inner = models.Node(outer.weights, name="inner", prefix="inner_")
    # ONNX Runtime 1.32 loses constants of bodies when it writes a context model.
    inner.run_time = ("B", "scales")

    def body(node: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph([node], node.name, [], [models.value_info(node.output[0], None)])

    choice = helper.make_node(
        "If",
        ["condition"],
        ["Z"],
        name="choice",
        then_branch=body(inner.node_proto("Y", "then_Z")),
        else_branch=body(helper.make_node("Identity", ["Y"], ["else_Z"], name="same")),
    )
    model = models.make_model(
        [outer.node_proto("A", "Y"), choice],
        [
            models.value_info("A", ["M", K]),
            models.value_info("condition", [], TensorProto.BOOL),
            *inner.graph_inputs(),
        ],
        [models.value_info("Z", None)],
        outer.initializers(),
    )
    report = tmp_path / "report.json"
    original, path = tmp_path / "original.onnx", tmp_path / "context.onnx"
    onnx.save(model, original)
    config = {"ep.context_enable": "1", "ep.context_file_path": str(path)}
    models.session(original, config=config, options={"report": str(report)})
    compiled = models.report_nodes(report)
    assert compiled["n0"]["taken"]
    assert not compiled["inner"]["taken"]
    if not onnxruntime.__version__.startswith("1.23."):  # which doesn't say what a body is part of
        assert "bodies of If and Loop" in compiled["inner"]["reason"]

    sess = models.session(path, options={"report": str(report)})
    loaded = models.read_report(report)["nodes"]
    assert [node["taken"] for node in loaded] == [True, True]
    assert {node["graph"] for node in loaded} == {"", "choice/then_branch"}
    for condition in (True, False):
        feeds = {**inner.feeds(A), "condition": np.array(condition)}
        expected = models.run(models.session(model), feeds)
        np.testing.assert_array_equal(models.run(sess, feeds), expected)


def save_with_external_data(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(
        model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=1
    )
    return path


def test_constants_given_back_stay_readable(tmp_path: Path) -> None:
    """Another node reads the file's tensors after they were packed."""
    n = 512  # pages enough to give back
    model, (node,) = chain([5], n)
    codes = onnx.helper.make_node("Identity", ["n0_B"], ["codes"], name="reader")
    sums = onnx.helper.make_node("ReduceSum", ["n0_scales"], ["sums"], name="sum", keepdims=0)
    model.graph.node.extend([codes, sums])
    model.graph.output.extend(
        [models.value_info("codes", None, TensorProto.UINT8), models.value_info("sums", None)]
    )
    path = save_with_external_data(model, tmp_path / "model.onnx")
    options = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def unoptimised(sess_options: onnxruntime.SessionOptions) -> None:
        sess_options.graph_optimization_level = options

    sess = models.session(path, configure=unoptimised)
    a = cases.random_activations(np.random.default_rng(63), 2, n)
    for _ in range(2):
        y, codes_read, sums_read = sess.run(["Y", "codes", "sums"], {"A": a})
        models.assert_right(node, a, y)
        np.testing.assert_array_equal(codes_read, node.weights.codes)
        np.testing.assert_allclose(sums_read, node.weights.scales.sum(dtype=np.float64), rtol=1e-3)


@linux_only
@pytest.mark.uninstrumented
def test_peak_on_external_data_is_the_packed_weights(tmp_path: Path) -> None:
    model, _ = chain([1, 2, 3, 4, 5, 6], 4096, bits=2)
    path = save_with_external_data(model, tmp_path / "model.onnx")
    # Freed memory goes back at once.
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, str(Path(peak_memory_probe.__file__)), str(path)]
    done = subprocess.run(
        [*command, str(tmp_path / "report.json")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    # One node's own constants stand beside all packed weights while it is packed.
    constants = 4096 * 4096 * 2 // 8 + 4096 * 128 * 4
    assert found["packed"] > 6 * 4096 * 4096 // 4
    assert found["peak"] < found["packed"] + constants + 2**20, found
