"""tools/demo.py on a small model: its JSON, and its exit code when ours is wrong."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxruntime_ep_mlas import model_parity

DEMO = Path(__file__).parents[2] / "tools" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("mlas_demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def run(demo, encoder, tmp_path):
    output = tmp_path / "demo.json"
    paths = ["--model", str(encoder), "--folder", str(tmp_path), "--output", str(output)]
    brief = ["--lengths", "4", "9", "--repeats", "3", "--min-seconds", "0.001"]
    code = demo.main([*paths, *brief])
    return code, json.loads(output.read_text())


def test_demo(demo, encoder, tmp_path, capsys):
    code, found = run(demo, encoder, tmp_path)
    assert code == 0
    assert found["passed"] is True
    assert set(found["lengths"]) == {"4", "9"}
    at_nine = found["lengths"]["9"]
    assert set(at_nine["seconds"]) == set(demo.CASES)
    assert all(s["median"] > 0 for s in at_nine["seconds"].values())
    assert at_nine["ours_is_times"][demo.OURS] == 1
    assert [node["taken"] for node in at_nine["nodes"]] == [True, True]
    cosines = {c: a["output"]["cosine_mean"] for c, a in at_nine["agreement_with_fp32"].items()}
    assert cosines["fp32"] == 1
    assert cosines["w4-stock"] > cosines["w2-stock"]
    assert cosines["w2-ours"] == pytest.approx(cosines["w2-stock"], abs=1e-3)
    weights = 64 * 96 * 2
    assert found["sizes"]["fp32"]["linear_bytes"] == 4 * weights
    assert weights / 4 < found["sizes"]["w2"]["linear_bytes"] < weights / 2
    assert 2 < found["ours"]["packed_bits_per_weight"] < 3.5
    printed = capsys.readouterr().out
    assert "Sequence length 9" in printed
    assert "2 of 2 MatMulNBits" in printed
    assert "costs quality" in " ".join(printed.split())


def test_demo_fails_when_parity_does(demo, encoder, tmp_path, monkeypatch):
    fetch = model_parity._fetch

    def fetch_damaged(session, names, feeds):
        results = fetch(session, names, feeds)
        if "MlasExecutionProvider" in session.get_providers():
            results["u"] = results["u"] + np.float32(1e-3) * np.abs(results["u"]).max()
        return results

    assert "u" in [node.output[0] for node in onnx.load(encoder).graph.node]
    monkeypatch.setattr(model_parity, "_fetch", fetch_damaged)
    code, found = run(demo, encoder, tmp_path)
    assert code == 1
    assert found["passed"] is False
    assert all("layer.0/up" in text for text in found["failures"])
