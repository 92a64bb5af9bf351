"""Small models, and the command line as a function."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxruntime_ep_mlas.cli import main


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def ort_mlas(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `ort-mlas ARGUMENTS` in this process."""

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def matrix(rng: np.random.Generator, k: int, n: int) -> np.ndarray:
    return (rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A float32 model with the demo's inputs: embedding, two linear layers, a residual."""
    rng = np.random.default_rng(5)
    vocabulary, hidden, inner = 50, 64, 96
    initializers = {
        "table": rng.standard_normal((vocabulary, hidden)).astype(np.float32),
        "up": matrix(rng, hidden, inner),
        "down": matrix(rng, inner, hidden),
        "bias": rng.standard_normal(inner).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"], "embedding"),
        helper.make_node("MatMul", ["x", "up"], ["u"], "layer.0/up"),
        helper.make_node("Add", ["u", "bias"], ["v"], "layer.0/bias"),
        helper.make_node("Relu", ["v"], ["w"], "layer.0/relu"),
        helper.make_node("MatMul", ["w", "down"], ["y"], "layer.0/down"),
        helper.make_node("Cast", ["attention_mask"], ["mask"], "mask", to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["mask3"], "mask3"),
        helper.make_node("Mul", ["y", "mask3"], ["masked"], "masked"),
        helper.make_node("Add", ["x", "masked"], ["output"], "residual"),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in initializers.items()]
    tensors.append(numpy_helper.from_array(np.array([-1], np.int64), "last"))
    dims = ["batch_size", "sequence_length"]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, dims),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, dims),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [*dims, hidden])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path = tmp_path / "encoder.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def quantized(encoder: Path, tmp_path: Path) -> Path:
    """The encoder with 2-bit weights."""
    path = tmp_path / "w2.onnx"
    assert main(["quantize", str(encoder), str(path), "--json"]) == 0
    return path
