"""`ort-mlas compile` and `compile_model`."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxruntime_ep_mlas as mlas

INPUTS = {
    "input_ids": np.arange(6, dtype=np.int64).reshape(2, 3),
    "attention_mask": np.ones((2, 3), np.int64),
}


@pytest.mark.parametrize("embed", [False, True])
def test_compiled_model_gives_the_same_numbers(ort_mlas, quantized, tmp_path, embed):
    output = tmp_path / "compiled.onnx"
    output.write_text("something older")
    ran = ort_mlas("compile", quantized, output, "--json", *(["--embed"] if embed else []))
    assert ran.code == 0, ran.err
    said = ran.json()
    weights = tmp_path / "compiled_mlas.bin"
    assert said["weights"] == (None if embed else str(weights))
    assert weights.exists() != embed
    # Nothing is left of the work.
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    kept = [node for node in onnx.load(output).graph.node if node.op_type == "EPContext"]
    assert len(kept) == said["nodes"] > 0
    assert said["packed_bytes"] > 0
    session = mlas.InferenceSession(output)
    assert len(mlas.session_report(session).taken) == said["nodes"]
    for ours, original in zip(
        session.run(None, INPUTS), mlas.InferenceSession(quantized).run(None, INPUTS), strict=True
    ):
        np.testing.assert_array_equal(ours, original)


def test_text_output(ort_mlas, quantized, tmp_path):
    ran = ort_mlas("compile", quantized, tmp_path / "compiled.onnx")
    assert ran.code == 0
    assert "bytes of packed weights in" in ran.out


def test_models_without_our_nodes_are_named(ort_mlas, encoder, tmp_path):
    output = tmp_path / "compiled.onnx"
    ran = ort_mlas("compile", encoder, output)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert not output.exists()


def test_missing_model_is_named(ort_mlas, tmp_path):
    ran = ort_mlas("compile", tmp_path / "none.onnx", tmp_path / "compiled.onnx")
    assert ran.code == 2
    assert "none.onnx" in ran.err


def test_damaged_weights_are_refused_with_the_way_out(ort_mlas, quantized, tmp_path):
    output = tmp_path / "compiled.onnx"
    assert ort_mlas("compile", quantized, output).code == 0
    weights = tmp_path / "compiled_mlas.bin"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    with pytest.raises(RuntimeError, match="ort-mlas compile"):
        mlas.InferenceSession(output)
