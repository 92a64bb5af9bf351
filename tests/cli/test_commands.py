"""The commands: JSON on standard output, exit codes, one-line errors."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxruntime_ep_mlas as mlas
from onnxruntime_ep_mlas import _native, model_parity
from onnxruntime_ep_mlas.bench import groups
from onnxruntime_ep_mlas.bench.calibration import Peaks
from onnxruntime_ep_mlas.cli.info import rule_text


def one_line_error(ran):
    assert ran.code == 2
    assert ran.out == ""
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("ort-mlas: error: ")
    return lines[0]


def test_info_json(ort_mlas):
    ran = ort_mlas("info", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = ran.json()
    assert found["provider"]["name"] == "MlasExecutionProvider"
    assert found["provider"]["library_exists"] is True
    assert found["onnxruntime"] == onnxruntime.__version__
    assert found["version"] == mlas.__version__
    assert next(isa["name"] for isa in found["isas"]) == "portable"
    assert found["isa_choice"] == _native.isa_choice()
    assert found["selection_error"] == ""
    assert found["cpu_features"] == _native.cpu_features()
    assert {row["name"] for row in found["kernels"]} == {row["name"] for row in mlas.kernels()}
    assert all("unavailable_reason" in row for row in found["kernels"])


def test_info_for_people_hides_rows_that_can_not_run_unless_asked(ort_mlas):
    usable = [row["name"] for row in mlas.kernels() if not row["unavailable_reason"]]
    unusable = [row for row in mlas.kernels() if row["unavailable_reason"]]
    short = ort_mlas("info")
    assert short.code == 0
    assert all(name in short.out for name in usable)
    assert not any(row["name"] in short.out for row in unusable)
    long = ort_mlas("info", "--all")
    assert all(row["name"] in long.out for row in unusable)


def test_info_shortens_lists_of_block_lengths(ort_mlas):
    out = ort_mlas("info").out
    assert "16, 32, ... 256" in out
    assert "16, 32, ... 65536" in out


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (("avx2", "avx2", "avx2", 2), "avx2 for every M"),
        (
            ("neon_dotprod", "neon_i8mm", "neon_i8mm", 2),
            "neon_dotprod for M = 1, neon_i8mm for M >= 2",
        ),
        (("a", "b", "b", 9), "a for M = 1, b for M >= 2"),
        (("a", "a", "b", 9), "a for M < 9, b for M >= 9"),
        (("a", "b", "c", 9), "a for M = 1, b for M < 9, c for M >= 9"),
        (("a", "b", "c", 2), "a for M = 1, c for M >= 2"),
    ],
)
def test_info_words_the_rule(choice, text):
    keys = ("one_row", "few_rows", "many_rows", "many_from")
    assert rule_text(dict(zip(keys, choice, strict=True))) == text


def test_info_names_the_rule_and_the_core(ort_mlas):
    out = ort_mlas("info").out
    assert rule_text(_native.isa_choice()) in out
    assert f"core type:    {_native.cpu_features()['core']}" in out


def test_info_survives_an_isa_that_can_not_be_selected(ort_mlas, monkeypatch):
    monkeypatch.setenv("ORT_MLAS_ISA", "sse9")
    found = ort_mlas("info", "--json").json()
    assert found["isa_choice"] == {}
    assert "sse9" in found["selection_error"]


def test_version_and_help(ort_mlas):
    assert ort_mlas("--version").out.strip() == mlas.__version__
    assert ort_mlas("--help").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["info", "--nonsense"],
        ["quantize", "only-one.onnx"],
        ["bench", "--suite", "nonsense"],
        ["bench", "--backend", "nonsense"],
        ["bench", "--block-size", "17"],
        ["bench", "--repeats", "0"],
        ["parity", "model.onnx", "--min-cosine", "0.5"],
        ["parity", "model.onnx", "--dim", "batch"],
        ["quantize", "a.onnx", "b.onnx", "--override", "no-settings"],
        ["quantize", "a.onnx", "b.onnx", "--override", "x:colour=3"],
        ["quantize", "a.onnx", "b.onnx", "--override", "x:bits=two"],
    ],
)
def test_wrong_usage_is_exit_code_2(ort_mlas, arguments):
    ran = ort_mlas(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_missing_and_broken_files(ort_mlas, tmp_path):
    missing = tmp_path / "missing.onnx"
    assert str(missing) in one_line_error(ort_mlas("parity", missing))
    assert str(missing) in one_line_error(ort_mlas("quantize", missing, tmp_path / "out.onnx"))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model at all")
    assert str(broken) in one_line_error(ort_mlas("parity", broken))
    assert str(broken) in one_line_error(ort_mlas("quantize", broken, tmp_path / "out.onnx"))


def test_traceback_on_request(ort_mlas, tmp_path):
    ran = ort_mlas("--traceback", "parity", tmp_path / "missing.onnx")
    assert ran.code == 2
    assert "Traceback" in ran.err


def test_quantize(ort_mlas, encoder, tmp_path):
    path = tmp_path / "out.onnx"
    ran = ort_mlas(
        "quantize", encoder, path, "--algorithm", "rtn", "--block-size", 16, "--exclude", "*up",
        "--json",
    )  # fmt: skip
    assert ran.code == 0
    found = ran.json()
    by_name = {node["name"]: node for node in found["nodes"]}
    assert by_name["layer.0/down"]["taken"] is True
    assert by_name["layer.0/down"]["block_size"] == 16
    assert by_name["layer.0/up"]["taken"] is False
    (node,) = [n for n in onnx.load(path).graph.node if n.op_type == "MatMulNBits"]
    assert node.name == "layer.0/down"
    assert list(tmp_path.glob(".*")) == []


def test_quantize_override_and_table(ort_mlas, encoder, tmp_path):
    path = tmp_path / "out.onnx"
    ran = ort_mlas("quantize", encoder, path, "--override", "*/up:bits=4,block_size=64")
    assert ran.code == 0
    assert "layer.0/up" in ran.out
    attributes = {
        node.name: {a.name: a.i for a in node.attribute}
        for node in onnx.load(path).graph.node
        if node.op_type == "MatMulNBits"
    }
    assert attributes["layer.0/up"]["bits"] == 4
    assert attributes["layer.0/up"]["block_size"] == 64
    assert attributes["layer.0/down"]["bits"] == 2


@pytest.mark.parametrize(("bits", "algorithm"), [(2, "mse"), (4, "mse"), (8, "rtn")])
def test_quantize_to_every_width(ort_mlas, encoder, tmp_path, bits, algorithm):
    path = tmp_path / "out.onnx"
    ran = ort_mlas("quantize", encoder, path, "--bits", bits, "--json")
    assert ran.code == 0, ran.err
    taken = [node for node in ran.json()["nodes"] if node["taken"]]
    assert {(node["bits"], node["algorithm"]) for node in taken} == {(bits, algorithm)}
    errors = [node["relative_error"] for node in taken]
    low, high = {2: (0.2, 0.5), 4: (0.04, 0.12), 8: (0.002, 0.01)}[bits]
    assert all(low < error < high for error in errors), errors
    ran = ort_mlas("parity", path, "--original", encoder, "--min-cosine", 1 - high**2, "--json")
    assert ran.code == 0, ran.err
    assert [node["bits"] for node in ran.json()["nodes"]] == [bits, bits]
    assert all(node["ours"]["passed"] for node in ran.json()["nodes"])


def test_parity_holds(ort_mlas, encoder, quantized, tmp_path):
    copy = tmp_path / "parity.json"
    ran = ort_mlas(
        "parity", quantized, "--original", encoder, "--dim", "sequence_length=7", "--json",
        "--output", copy,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    found = ran.json()
    assert json.loads(copy.read_text()) == found
    assert found["passed"] is True
    assert found["failures"] == []
    assert found["inputs"]["input_ids"] == [1, 7]
    assert [node["name"] for node in found["nodes"]] == ["layer.0/up", "layer.0/down"]
    for node in found["nodes"]:
        assert node["taken"] is True
        assert node["compute"] == "int8"
        assert node["rows"] == 7
        assert node["ours"]["passed"] is True
        assert 0 < node["ours"]["worst"] <= 1
        assert node["ours"]["elements"] == 7 * node["n"]
        assert node["stock"]["elements"] == 7 * node["n"]
    assert set(found["outputs"]["output"]) == {"ours/stock", "ours/original", "stock/original"}
    assert found["outputs"]["output"]["ours/stock"]["cosine_min"] > 0.9999
    cosine = found["outputs"]["output"]["ours/original"]["cosine_mean"]
    assert 0.5 < cosine < 0.9999


def test_parity_thresholds_fail_with_exit_code_1(ort_mlas, encoder, quantized):
    arguments = ["parity", quantized, "--original", encoder]
    assert ort_mlas(*arguments, "--min-cosine", 0.5).code == 0
    ran = ort_mlas(*arguments, "--min-cosine", 0.99999, "--json")
    assert ran.code == 1
    assert ran.json()["passed"] is False
    assert "cosine" in ran.json()["failures"][0]
    assert ort_mlas(*arguments, "--min-argmax", 1.01).code == 1


def test_parity_notices_a_damaged_model(ort_mlas, encoder, quantized, tmp_path):
    """Damage that keeps the model valid shows in its agreement with the original."""
    model = onnx.load(quantized)
    node = next(n for n in model.graph.node if n.name == "layer.0/down")
    tensor = next(t for t in model.graph.initializer if t.name == node.input[1])
    codes = onnx.numpy_helper.to_array(tensor).copy()
    tensor.CopyFrom(onnx.numpy_helper.from_array(codes ^ np.uint8(0xFF), tensor.name))
    damaged = tmp_path / "damaged.onnx"
    onnx.save(model, damaged)
    arguments = ["--original", encoder, "--min-cosine", 0.8]
    assert ort_mlas("parity", quantized, *arguments).code == 0
    assert ort_mlas("parity", damaged, *arguments).code == 1


def test_parity_notices_one_wrong_row_of_ours(ort_mlas, quantized, monkeypatch):
    """The session computes with one column of weights damaged, the oracle with the model's."""
    create = model_parity.InferenceSession

    def create_damaged(source, *arguments, **options):
        if isinstance(source, bytes):
            model = onnx.ModelProto.FromString(source)
            node = next(n for n in model.graph.node if n.name == "layer.0/up")
            tensor = next(t for t in model.graph.initializer if t.name == node.input[1])
            codes = onnx.numpy_helper.to_array(tensor).copy()
            codes[5] ^= np.uint8(0b01)
            tensor.CopyFrom(onnx.numpy_helper.from_array(codes, tensor.name))
            source = model.SerializeToString()
        return create(source, *arguments, **options)

    monkeypatch.setattr(model_parity, "InferenceSession", create_damaged)
    ran = ort_mlas("parity", quantized, "--json")
    assert ran.code == 1
    found = ran.json()
    assert found["passed"] is False
    up, down = found["nodes"]
    assert up["ours"]["passed"] is False
    assert up["ours"]["wrong"] <= up["rows"]  # one column
    assert down["ours"]["passed"] is True  # judged on what it received
    assert len(found["failures"]) == 1
    assert "layer.0/up" in found["failures"][0]


def test_parity_reports_declined_nodes(ort_mlas, encoder, tmp_path):
    path = tmp_path / "mixed.onnx"
    ort_mlas("quantize", encoder, path, "--override", "*/up:bits=4")
    ran = ort_mlas("parity", path, "--json")
    assert ran.code == 0
    assert all(node["taken"] for node in ran.json()["nodes"])
    model = onnx.load(path)
    (up,) = (node for node in model.graph.node if node.name == "layer.0/up")
    up.attribute.append(onnx.helper.make_attribute("weight_prepacked", 1))
    onnx.save(model, path)
    ran = ort_mlas("parity", path, "--json")
    assert ran.code == 1
    by_name = {node["name"]: node for node in ran.json()["nodes"]}
    assert by_name["layer.0/up"]["taken"] is False
    assert by_name["layer.0/up"]["reason"]
    assert by_name["layer.0/down"]["ours"]["passed"] is True
    assert ort_mlas("parity", path, "--allow-fallback").code == 0


def test_parity_follows_accuracy_level(ort_mlas, quantized):
    ran = ort_mlas("parity", quantized, "--accuracy-level", 0, "--json")
    assert ran.code == 0
    assert {node["compute"] for node in ran.json()["nodes"]} == {"fp32"}


def test_parity_with_given_inputs(ort_mlas, quantized, tmp_path):
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, input_ids=np.zeros((2, 3), np.int64), attention_mask=np.ones((2, 3), np.int64))
    ran = ort_mlas("parity", quantized, "--inputs", inputs, "--json")
    assert ran.code == 0
    assert ran.json()["inputs"]["input_ids"] == [2, 3]
    np.savez(inputs, nonsense=np.zeros(1))
    assert "nonsense" in one_line_error(ort_mlas("parity", quantized, "--inputs", inputs))


def test_parity_of_a_model_with_external_data(ort_mlas, quantized, tmp_path):
    folder = tmp_path / "external"
    folder.mkdir()
    model = onnx.load(quantized)
    # ONNX Runtime wants small tensors, such as axes, inside the model.
    onnx.save(
        model, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=100
    )
    assert (folder / "m.data").stat().st_size > 1000
    before = sorted(folder.iterdir())
    ran = ort_mlas("parity", folder / "m.onnx", "--json")
    assert ran.code == 0, ran.err
    assert [node["ours"]["passed"] for node in ran.json()["nodes"]] == [True, True]
    assert sorted(folder.iterdir()) == before


def test_parity_of_a_model_without_the_operator(ort_mlas, encoder):
    assert "no MatMulNBits" in one_line_error(ort_mlas("parity", encoder))
    assert "no input has a dim" in one_line_error(ort_mlas("parity", encoder, "--dim", "x=3"))


TINY = ["--n", 64, "--k", 64, "--m", 1, "--m", 3, "--block-size", 32, "--repeats", 3]
TINY += ["--min-seconds", 0.0005]


@pytest.fixture
def steady_peaks(monkeypatch):
    """Peaks far above anything measured, so that the test doesn't depend on the machine's load."""
    available = frozenset(row["name"] for row in _native.peak_instructions())
    peaks = Peaks(available, lambda _: 1e15)
    monkeypatch.setattr(groups.Peaks, "of_this_machine", classmethod(lambda _: peaks))


@pytest.mark.usefixtures("steady_peaks")
@pytest.mark.parametrize("suite", ["gemm", "fp32", "threads", "widths"])
def test_bench_json(ort_mlas, suite, tmp_path):
    ran = ort_mlas("bench", "--suite", suite, *TINY, "--json", "--output", tmp_path)
    assert ran.code == 0, ran.err
    found = ran.json()
    assert set(found) == {"context", "benchmarks"}
    medians = [row for row in found["benchmarks"] if row.get("aggregate_name") == "median"]
    backends = {row["run_name"].split("/")[-2] for row in medians}
    stock = "ort-fp32" if suite == "fp32" else "ort"
    assert backends == {"mlas-ep", stock} | ({"mlas"} if suite in ("gemm", "fp32") else set())
    assert all(row["real_time"] > 0 for row in medians)
    ours = [row for row in medians if "/mlas-ep/" in row["run_name"]]
    assert all(row[f"ratio_to_{stock}"] > 0 for row in ours)
    assert all(row["label"].startswith(_native.select_isa()) for row in ours)
    written = json.loads((tmp_path / f"{suite}.json").read_text())
    assert written["benchmarks"] == found["benchmarks"]
    assert f"## {suite}" in (tmp_path / "summary.md").read_text()


@pytest.mark.usefixtures("steady_peaks")
def test_bench_min_ratio_fails_with_exit_code_1(ort_mlas):
    arguments = ["bench", *TINY, "--backend", "mlas-ep", "--backend", "ort"]
    assert ort_mlas(*arguments, "--min-ratio", 1e-6).code == 0
    ran = ort_mlas(*arguments, "--min-ratio", 1e6, "--json")
    assert ran.code == 1
    assert ran.json()["benchmarks"]
    assert "below the required" in ran.err


def test_bench_fails_on_a_row_above_its_peak(ort_mlas, monkeypatch):
    available = frozenset(row["name"] for row in _native.peak_instructions())
    slow = Peaks(available, lambda _: 1.0)
    monkeypatch.setattr(groups.Peaks, "of_this_machine", classmethod(lambda _: slow))
    fastest = groups.fastest_isa()
    if slow.instruction(fastest, "int8") is None:
        pytest.skip(f"no peak is defined for {fastest}")
    ran = ort_mlas("bench", *TINY, "--isa", fastest)
    assert ran.code == 1
    assert "impossible" in ran.err


@pytest.mark.usefixtures("steady_peaks")
def test_bench_refuses_a_wrong_result(ort_mlas, monkeypatch):
    right = _native.matmul_nbits

    def wrong(*arguments, **options):
        result = right(*arguments, **options)
        result[-1, -1] *= 1.001
        return result

    monkeypatch.setattr(_native, "matmul_nbits", wrong)
    ran = ort_mlas("bench", *TINY, "--json")
    assert ran.code == 1
    assert ran.out == ""
    assert "wrong result" in ran.err


def test_bench_cold_and_session(ort_mlas, tmp_path):
    ran = ort_mlas(
        "bench", "--cold", "--suite", "session", "--n", 1024, "--k", 1024, "--repeats", 2,
        "--cold-mib", 2, "--min-seconds", 0.001, "--json", "--output", tmp_path,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    medians = {
        row["run_name"]: row
        for row in ran.json()["benchmarks"]
        if row.get("aggregate_name") == "median"
    }
    cold = [row for name, row in medians.items() if name.startswith("cold/")]
    assert len(cold) == 3
    assert all(0 < row["fraction_of_bandwidth"] < 2 for row in cold)
    assert all(row["bytes_per_weight"] > 0.25 for row in cold)
    sizes = {
        name.split("/")[1]: row["bits_per_weight"]
        for name, row in medians.items()
        if "bits_per_weight" in row
    }
    assert 2 < sizes["pack_symmetric"] < sizes["pack_zero_points"] < 3
    memory = [row for name, row in medians.items() if "/memory/" in name]
    assert {row["run_name"].split("/")[-2] for row in memory} == {"mlas-ep", "ort"}
    (ours,) = [row for row in memory if "packed_bytes" in row]
    assert ours["packed_bytes"] > 12 * 1024 * 1024 / 4
    assert ours["peak_bytes"] >= ours["resident_bytes"] * 0.5
