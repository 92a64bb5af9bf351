"""EPContext models: packed weights kept in a model or in a file beside it, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import cases
import isa_support
import models
import qdq_models
import shared_weights_probe

EMBED = pytest.mark.parametrize("embed", [False, True], ids=["side_file", "embedded"])
WAY_OUT = "compile the original model again"


def compile_model(
    model: onnx.ModelProto, folder: Path, *, embed: bool = False, **arguments: Any
) -> Path:
    """The EPContext model of `model`, written by a session of it."""
    original, path = folder / "model.onnx", folder / "context.onnx"
    onnx.save(model, original)
    config = {
        "ep.context_enable": "1",
        "ep.context_file_path": str(path),
        "ep.context_embed_mode": str(int(embed)),
    }
    models.session(original, config=config, **arguments)
    return path


def side_file(path: Path) -> Path:
    return path.with_name(f"{path.stem}_mlas.bin")


def context_nodes(path: Path) -> list[onnx.NodeProto]:
    return [node for node in onnx.load(path).graph.node if node.op_type == "EPContext"]


def random_node(seed: int, bits: int = 4, **arguments: Any) -> models.Node:
    rng = np.random.default_rng([41, seed])
    return models.Node(cases.random_weights(rng, 40, 128, 32, bits=bits), **arguments)


A = cases.random_activations(np.random.default_rng(42), 5, 128)


@EMBED
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero_points", cases.ZERO_POINT_CASES)
@pytest.mark.parametrize("grouped", [False, True])
def test_round_trip(
    bits: int,
    level: int,
    zero_points: cases.ZeroPointCase,
    grouped: bool,
    embed: bool,
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng([43, bits])
    for n, k, run_time in ((40, 128, ()), (17, 77, ("bias",)), (1, 1, ())):
        node = models.Node(
            cases.random_weights(rng, n, k, 32, bits=bits, zero_points=zero_points),
            bias=rng.standard_normal(n).astype(np.float32),
            g_idx=cases.random_g_idx(rng, k, 32) if grouped else None,
            accuracy_level=level,
            run_time=run_time,
        )
        a = cases.random_activations(rng, 5, k)
        expected = models.run_ours(node, a)
        path = compile_model(models.model_of(node), tmp_path, embed=embed)
        assert side_file(path).exists() != embed
        (kept,) = context_nodes(path)
        assert len(onnx.load(path).graph.node) == 1
        assert not onnx.load(path).graph.initializer
        report = tmp_path / "report.json"
        sess = models.session(path, options={"report": str(report)})
        np.testing.assert_array_equal(models.run(sess, node.feeds(a)), expected)
        entry = models.report_nodes(report)[kept.name]
        assert entry["taken"]
        assert (entry["n"], entry["k"], entry["bits"], entry["accuracy_level"]) == (
            *(n, k, bits, level),
        )
        path.unlink()


@EMBED
def test_model_compiler(embed: bool, tmp_path: Path) -> None:
    node = random_node(1)
    original, path = tmp_path / "model.onnx", tmp_path / "compiled.onnx"
    onnx.save(models.model_of(node), original)
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(models.devices(), {})
    compiler = onnxruntime.ModelCompiler(
        options, str(original), embed_compiled_data_into_model=embed
    )
    compiler.compile_to_file(str(path))
    assert len(context_nodes(path)) == 1
    assert (tmp_path / "compiled_mlas.bin").exists() != embed
    y = models.run(models.session(path), {"A": A})
    np.testing.assert_array_equal(y, models.run_ours(node, A))


@EMBED
@pytest.mark.parametrize("product", ["MatMul", "Gemm"])
def test_pairs(product: Any, embed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(44)
    pair = qdq_models.random_pair(
        *(rng, 75, 33, TensorProto.INT4), bias=True, product=product, add=product == "MatMul"
    )
    a = cases.random_activations(rng, 4, 75)
    for level in ("0", "4"):
        options = {"qdq_accuracy_level": level}
        expected = models.run(models.session(pair.model(), options=options), {"A": a})
        path = compile_model(pair.model(), tmp_path, embed=embed, options=options)
        np.testing.assert_array_equal(models.run(models.session(path), {"A": a}), expected)
        # What was chosen when it was compiled may be chosen anew.
        other = {"qdq_accuracy_level": "4" if level == "0" else "0"}
        y = models.run(models.session(path, options=other), {"A": a})
        again = models.run(models.session(pair.model(), options=other), {"A": a})
        np.testing.assert_array_equal(y, again)
        path.unlink()


def test_options_hold_for_restored_nodes(tmp_path: Path) -> None:
    node = random_node(2, accuracy_level=4)
    path = compile_model(models.model_of(node), tmp_path)
    for isa in isa_support.usable_isas():
        y = models.run(models.session(path, options={"isa": isa}), {"A": A})
        np.testing.assert_array_equal(y, models.run_ours(node, A, options={"isa": isa}))
    y = models.run(models.session(path, options={"accuracy_level": "0"}), {"A": A})
    np.testing.assert_array_equal(y, models.run_ours(node, A, options={"accuracy_level": "0"}))


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_16_bit_activations(kind: int, tmp_path: Path) -> None:
    node = random_node(3)
    scales = qdq_models.float_tensor("scales", kind, node.weights.scales)
    initializers = [t for t in node.initializers() if t.name != "scales"]
    model = models.make_model(
        [
            helper.make_node("Cast", ["A"], ["a"], to=kind),
            node.node_proto("a", "y"),
            helper.make_node("Cast", ["y"], ["Y"], to=TensorProto.FLOAT),
        ],
        [models.value_info("A", None)],
        [models.value_info("Y", None)],
        [*initializers, scales],
    )
    expected = models.run(models.session(model), {"A": A})
    path = compile_model(model, tmp_path)
    np.testing.assert_array_equal(models.run(models.session(path), {"A": A}), expected)


def test_weights_that_arrive_with_a_run_stay_as_they_are(tmp_path: Path) -> None:
    kept, passed = random_node(4, name="kept", prefix="k_"), random_node(5)
    passed.name, passed.prefix, passed.run_time = "passed", "p_", ("B",)
    model = models.make_model(
        [kept.node_proto("A", "T"), passed.node_proto("A", "Y")],
        [models.value_info("A", None), *passed.graph_inputs()],
        [models.value_info("T", None), models.value_info("Y", None)],
        [*kept.initializers(), *passed.initializers()],
    )
    report = tmp_path / "report.json"
    path = compile_model(model, tmp_path, options={"report": str(report)})
    assert "arrive with every run" in models.report_nodes(report)["passed"]["reason"]
    assert [node.op_type for node in onnx.load(path).graph.node].count("EPContext") == 1
    sess = models.session(path, options={"report": str(report)})
    assert all(node["taken"] for node in models.report_nodes(report).values())
    t, y = sess.run(["T", "Y"], passed.feeds(A))
    models.assert_right(kept, A, t)
    models.assert_right(passed, A, y)


def test_many_nodes_share_one_file_that_moves_with_the_model(tmp_path: Path) -> None:
    nodes = [random_node(10 + i, name=f"n{i}", prefix=f"n{i}_") for i in range(5)]
    names = [f"Y{i}" for i in range(5)]
    model = models.make_model(
        [node.node_proto("A", name) for node, name in zip(nodes, names, strict=True)],
        [models.value_info("A", None)],
        [models.value_info(name, None) for name in names],
        [tensor for node in nodes for tensor in node.initializers()],
    )
    path = compile_model(model, tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {
        *("model.onnx", "context.onnx", "context_mlas.bin"),
    }
    moved = tmp_path / "elsewhere" / "renamed.onnx"
    moved.parent.mkdir()
    shutil.move(path, moved)
    with pytest.raises(Exception, match=rf"context_mlas.bin.*No such file.*{WAY_OUT}"):
        models.session(moved)
    shutil.move(side_file(path), moved.with_name("context_mlas.bin"))
    results = models.session(moved).run(names, {"A": A})
    for node, y in zip(nodes, results, strict=True):
        models.assert_right(node, A, y)


def test_from_memory(tmp_path: Path) -> None:
    node = random_node(6)
    path = compile_model(models.model_of(node), tmp_path)
    loaded = onnx.load(path)
    with pytest.raises(Exception, match=r"loaded from memory.*ep.context_file_path"):
        models.session(loaded)
    y = models.run(models.session(loaded, config={"ep.context_file_path": str(path)}), {"A": A})
    models.assert_right(node, A, y)
    embedded = onnx.load(compile_model(models.model_of(node), tmp_path / "..", embed=True))
    models.assert_right(node, A, models.run(models.session(embedded), {"A": A}))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def test_every_flipped_byte_of_a_side_file_is_refused_or_padding(tmp_path: Path) -> None:
    node = random_node(7, bias=np.ones(40, np.float32))
    path = compile_model(models.model_of(node), tmp_path)
    file = side_file(path)
    whole = file.read_bytes()
    expected = models.run(models.session(path), {"A": A})
    harmless = 0
    # Heads whole, packed payload in strides.
    for at in [*range(600), *range(600, len(whole), 97), len(whole) - 1]:
        file.write_bytes(flipped(whole, at))
        refused = None
        try:
            sess = models.session(path)
        except Exception as error:
            refused = str(error)
        if refused is None:
            harmless += 1
            np.testing.assert_array_equal(models.run(sess, {"A": A}), expected)
        else:
            assert WAY_OUT in refused, at
    assert harmless <= 128, "bytes between blobs are zeros that nothing reads"
    file.write_bytes(whole)
    np.testing.assert_array_equal(models.run(models.session(path), {"A": A}), expected)


def test_flipped_bytes_of_an_embedded_blob_are_refused(tmp_path: Path) -> None:
    node = random_node(8)
    path = compile_model(models.model_of(node), tmp_path, embed=True)
    model = onnx.load(path)
    (kept,) = (n for n in model.graph.node if n.op_type == "EPContext")
    (context,) = (a for a in kept.attribute if a.name == "ep_cache_context")
    whole = context.s
    for at in [*range(300), *range(300, len(whole), 211), len(whole) - 1]:
        context.s = flipped(whole, at)
        with pytest.raises(Exception, match=WAY_OUT):
            models.session(model)
    for size in (0, 1, 100, 200, len(whole) - 1):
        context.s = whole[:size]
        with pytest.raises(Exception, match=WAY_OUT):
            models.session(model)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 100, 300, -1, -64])
def test_truncated_side_file_is_refused(size: int, tmp_path: Path) -> None:
    path = compile_model(models.model_of(random_node(9)), tmp_path)
    file = side_file(path)
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(Exception, match=rf"EPContext node .*context_mlas.bin.*{WAY_OUT}"):
        models.session(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"GGUF" + data[4:], "no packed weights of MlasExecutionProvider"),
        (lambda data: data[:8] + b"\2\0\0\0" + data[12:], "version 2, this build reads 1"),
        (lambda data: data + b"\0" * 64, "cut short or joined"),
        (lambda _: b"", "empty"),
    ],
)
def test_foreign_side_files_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = compile_model(models.model_of(random_node(9)), tmp_path)
    file = side_file(path)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(Exception, match=f"{message}.*{WAY_OUT}"):
        models.session(path)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("../context_mlas.bin:0", "not in the model's folder"),
        ("/etc/passwd:0", "not in the model's folder"),
        ("sub/context_mlas.bin:0", "not in the model's folder"),
        ("..:0", "not in the model's folder"),
        (":0", "not in the model's folder"),
        ("context_mlas.bin", "names no file"),
        ("context_mlas.bin:", "names no file"),
        ("context_mlas.bin:-1", "names no file"),
        ("context_mlas.bin:99999999999999", "names no file"),
        ("context_mlas.bin:7", "holds 1 nodes, not number 7"),
        ("none.bin:0", "No such file"),
    ],
)
def test_references_elsewhere_are_refused(context: str, message: str, tmp_path: Path) -> None:
    path = compile_model(models.model_of(random_node(9)), tmp_path)
    model = onnx.load(path)
    (kept,) = (n for n in model.graph.node if n.op_type == "EPContext")
    (attribute,) = (a for a in kept.attribute if a.name == "ep_cache_context")
    attribute.s = context.encode()
    onnx.save(model, path)
    with pytest.raises(Exception, match=f"{message}.*{WAY_OUT}"):
        models.session(path)


def test_nodes_of_other_providers_are_left_alone(tmp_path: Path) -> None:
    path = compile_model(models.model_of(random_node(9)), tmp_path)
    model = onnx.load(path)
    (kept,) = (n for n in model.graph.node if n.op_type == "EPContext")
    (source,) = (a for a in kept.attribute if a.name == "source")
    source.s = b"OtherExecutionProvider"
    report = tmp_path / "report.json"
    with pytest.raises(Exception):  # noqa: B017, PT011 - nobody runs it
        models.session(model, options={"report": str(report)})
    assert models.read_report(report)["nodes"] == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    node = random_node(9)
    config = {
        "ep.context_enable": "1",
        "ep.context_file_path": str(tmp_path / "no_such_folder" / "context.onnx"),
        "ep.context_embed_mode": "0",
    }
    with pytest.raises(Exception, match="no_such_folder"):
        models.session(models.model_of(node), config=config)


@pytest.mark.uninstrumented
@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' /proc")
def test_sessions_share_packed_weights() -> None:
    # Freed memory goes back at once, so that what stays is what is held.
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, str(Path(shared_weights_probe.__file__))],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    resident = [int(line.split()[0]) for line in done.stdout.splitlines()]
    packed = 4096 * 4096 * 9 // 16
    assert resident[3] - resident[1] < packed, f"{resident} bytes; {packed} are packed"
