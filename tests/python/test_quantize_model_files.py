"""quantize_model from and to files: external data, sizes, failures, and models above 2 GiB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper

import onnxruntime_ep_mlas
from float_models import grid_weights, model, run, tensor, value
from onnxruntime_ep_mlas import quantize_model
from onnxruntime_ep_mlas.model_quantizer import quantizer

node = helper.make_node
RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 64)).astype(np.float32)


def layers() -> onnx.ModelProto:
    """A MatMul to take, a larger one behind a Constant, one to leave, an embedding and a bias."""
    nodes = [
        node("MatMul", ["x", "w0"], ["a"], "taken"),
        node("Constant", [], ["w1"], value=tensor("value", grid_weights(RNG, 64, 64) / 16)),
        node("MatMul", ["a", "w1"], ["b"], "constant"),
        node("MatMul", ["b", "w2"], ["c"], "left"),
        node("Add", ["c", "bias"], ["y"]),
        node("Gather", ["table", "ids"], ["rows"]),
    ]
    initializers = [
        tensor("w0", grid_weights(RNG, 64, 64) / np.float32(16)),
        tensor("w2", RNG.standard_normal((64, 64)).astype(np.float32)),
        tensor("bias", RNG.standard_normal(64).astype(np.float32)),
        tensor("table", RNG.standard_normal((50, 16)).astype(np.float32)),
    ]
    return model(
        nodes,
        initializers,
        [value("x", ["m", 64]), value("ids", [3], TensorProto.INT64)],
        [value("y", ["m", 64]), value("rows", [3, 16])],
    )


FEEDS = {"x": X, "ids": np.array([4, 0, 49])}
SETTINGS = {"accuracy_level": 0, "exclude": ["left"]}


def save(source: onnx.ModelProto, path: Path, external: bool) -> None:
    copy = onnx.ModelProto()
    copy.CopyFrom(source)
    if external:
        external_data_helper.convert_model_to_external_data(
            copy, location=path.name + ".data", size_threshold=0, convert_attribute=True
        )
    onnx.save(copy, path)


@pytest.mark.parametrize("was_external", [False, True])
@pytest.mark.parametrize("external", [None, False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_files(was_external: bool, external: bool | None, in_place: bool, tmp_path: Path) -> None:
    source = layers()
    path = tmp_path / "float.onnx"
    save(source, path, was_external)
    input_bytes = sum(file.stat().st_size for file in tmp_path.iterdir())
    output = path if in_place else tmp_path / "quantized.onnx"
    report = quantize_model(path, output, external_data=external, **SETTINGS)

    assert report.model is None
    assert report.output == output
    data = output.with_name(output.name + ".data")
    assert report.external_data == (data if external else None)
    written = output.stat().st_size + (data.stat().st_size if external else 0)
    assert report.output_bytes == written
    assert abs(report.input_bytes - input_bytes) < 4096 * 8  # alignment of the data file
    assert [r.name for r in report.taken] == ["taken", "constant"]
    expected = {path.name, output.name}
    expected |= {path.name + ".data"} if was_external else set()
    expected |= {data.name} if external else set()
    assert {file.name for file in tmp_path.iterdir()} == expected, "temporary files are left"
    onnx.load(output)
    for ours, wanted in zip(run(output, FEEDS), run(source, FEEDS), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-4)


def test_external_tensors_are_aligned_and_small_ones_stay_in_the_model(tmp_path: Path) -> None:
    path, output = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    save(layers(), path, external=True)
    quantize_model(path, output, external_data=True, **SETTINGS)
    loaded = onnx.load(output, load_external_data=False)
    external = {t.name: t for t in loaded.graph.initializer if t.data_location}
    inline = {t.name for t in loaded.graph.initializer if not t.data_location}
    assert {"w2", "table", "w0_q2"} <= set(external)
    assert "bias" in inline
    end = 0
    for t in sorted(external.values(), key=lambda t: int(entries(t)["offset"])):
        entry = entries(t)
        assert entry["location"] == "quantized.onnx.data"
        assert int(entry["offset"]) % 4096 == 0
        assert int(entry["offset"]) >= end
        end = int(entry["offset"]) + int(entry["length"])
    assert end == (tmp_path / "quantized.onnx.data").stat().st_size


def entries(external: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in external.external_data}


def test_external_data_is_used_when_one_file_cannot_hold_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, output = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    save(layers(), path, external=False)
    one_file = quantize_model(path, output, **SETTINGS)
    assert one_file.external_data is None

    # Nothing smaller than the file itself may count as fitting.
    monkeypatch.setattr(quantizer, "MAX_INLINE_BYTES", one_file.output_bytes - 1)
    report = quantize_model(path, output, **SETTINGS)
    assert report.external_data == tmp_path / "quantized.onnx.data"
    for ours, wanted in zip(run(output, FEEDS), run(path, FEEDS), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match="allow external_data"):
        quantize_model(path, output, external_data=False, **SETTINGS)
    with pytest.raises(ValueError, match="give an output path"):
        quantize_model(path, None, **SETTINGS)


def test_a_failure_leaves_no_files_and_no_changes(tmp_path: Path) -> None:
    source = layers()
    w2 = np.ones((64, 64), np.float32)
    w2[0, 0] = np.inf
    next(t for t in source.graph.initializer if t.name == "w2").CopyFrom(tensor("w2", w2))
    path = tmp_path / "float.onnx"
    save(source, path, external=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="weight 'w2' of node 'left' holds inf"):
        quantize_model(path, path, external_data=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_output_in_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "float.onnx"
    save(layers(), path, external=False)
    with pytest.raises(FileNotFoundError):
        quantize_model(path, tmp_path / "none" / "quantized.onnx", **SETTINGS)


def test_missing_and_foreign_models(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no model .*none\.onnx"):
        quantize_model(tmp_path / "none.onnx", None)
    for name, content in (("text.onnx", b"hello, world, this is no protobuf"), ("empty.onnx", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is no ONNX model"):
            quantize_model(tmp_path / name, None)


@pytest.mark.parametrize(
    ("key", "content", "message"),
    [
        ("location", "../float.onnx.data", "must be a path below the model's folder"),
        ("location", "/etc/hostname", "must be a path below the model's folder"),
        ("location", "", "must be a path below the model's folder"),
        ("location", "gone.data", r"gone\.data doesn't exist"),
        ("offset", "99999999", "claims bytes 99999999 to"),
        ("offset", "-4", "claims bytes -4 to"),
        ("length", "99999999", "claims bytes"),
        ("length", "many", "must be numbers"),
        ("length", "16", "is float .* but its external data has 16 bytes"),
    ],
)
def test_bad_external_data_is_refused_by_name(
    key: str, content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "float.onnx"
    save(layers(), path, external=True)
    broken = onnx.load(path, load_external_data=False)
    w0 = broken.graph.initializer[0]
    for entry in w0.external_data:
        if entry.key == key:
            entry.value = content
    path.write_bytes(broken.SerializeToString())
    with pytest.raises((ValueError, FileNotFoundError), match=f"(?s)tensor 'w0'.*{message}"):
        quantize_model(path, tmp_path / "quantized.onnx", **SETTINGS)


def test_a_model_object_with_external_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "float.onnx"
    save(layers(), path, external=True)
    with pytest.raises(ValueError, match="give the model's path"):
        quantize_model(onnx.load(path, load_external_data=False), None, **SETTINGS)


def test_report_as_json(tmp_path: Path) -> None:
    path, output = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    save(layers(), path, external=False)
    report = quantize_model(path, output, **SETTINGS)
    content = json.loads(json.dumps(report.to_dict()))
    assert content["output"] == str(output)
    assert [n["name"] for n in content["nodes"]] == ["taken", "constant", "left"]
    assert content["nodes"][0]["taken"] is True
    assert content["nodes"][2]["reason"] == "its name matches exclude pattern 'left'"


@pytest.mark.skipif(
    sys.platform != "linux",
    reason="needs sparse files, and reads the peak of its memory from /proc",
)
def test_more_than_2_gib_are_streamed(tmp_path: Path) -> None:
    """2.2 GB in and out: a sparse file of zeros and one real weight of 67 MB."""
    rows, k, n = 8_500_000, 4096, 4096
    path, output = tmp_path / "big.onnx", tmp_path / "big-w2.onnx"
    table, w = TensorProto(name="table"), TensorProto(name="w")
    weights = grid_weights(np.random.default_rng(0), k, n)
    offset = 0
    for t, dims in ((table, (rows, 64)), (w, (k, n))):
        t.data_type = TensorProto.FLOAT
        t.dims.extend(dims)
        t.data_location = TensorProto.EXTERNAL
        length = 4 * dims[0] * dims[1]
        for name, content in (("location", "big.data"), ("offset", offset), ("length", length)):
            t.external_data.add(key=name, value=str(content))
        offset += length
    with (tmp_path / "big.data").open("wb") as file:
        file.seek(offset - weights.nbytes)
        weights.tofile(file)
    nodes = [
        node("Gather", ["table", "ids"], ["rows"]),
        node("MatMul", ["x", "w"], ["y"], "proj"),
    ]
    inputs = [value("ids", [3], TensorProto.INT64), value("x", [2, k])]
    outputs = [value("rows", [3, 64]), value("y", [2, n])]
    path.write_bytes(model(nodes, [table, w], inputs, outputs).SerializeToString())

    # In a process of its own, to measure the memory that it needs.
    code = f"""
import json, pathlib
from onnxruntime_ep_mlas import quantize_model

def peak():
    # Not getrusage: its maximum starts with that of the process that forked this one.
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

before = peak()
report = quantize_model({str(path)!r}, {str(output)!r}, algorithm="rtn", accuracy_level=0)
print(json.dumps([report.to_dict(), peak() - before]))
"""
    packages = str(Path(onnxruntime_ep_mlas.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": packages},
    )
    report, memory = json.loads(result.stdout)
    assert report["external_data"] == str(output) + ".data"
    assert report["input_bytes"] > 2**31
    assert report["output_bytes"] > 2**31
    assert [n["relative_error"] for n in report["nodes"]] == [0.0]
    # The weight, its codes and what the quantiser works on, but nothing of the table's size.
    assert memory < 2**28, f"needed {memory / 2**20:.0f} MiB"

    x = RNG.standard_normal((2, k)).astype(np.float32)
    rows_out, y = run(output, {"ids": np.array([0, 5, rows - 1]), "x": x})
    assert (rows_out == 0).all()
    np.testing.assert_allclose(y, x @ weights, rtol=1e-4, atol=1e-2)
    for file in tmp_path.iterdir():
        file.unlink()
