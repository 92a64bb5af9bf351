"""Float models made in the test, with weights that quantisers reproduce exactly.

A quantised model must then give what the float model gives, but for the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from onnxruntime_ep_mlas import QuantizationReport, quantize_model

Array = npt.NDArray[Any]

# An input for `model`.
X: Array = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)


def grid_weights(
    rng: np.random.Generator, k: int, n: int, block_size: int = 32, bits: int = 2
) -> npt.NDArray[np.float32]:
    """float32 [K, N]: per block and column a power of two times integers of that many bits, among
    them the least, as -2 of -2, -1, 0, 1. None is larger than 2."""
    least = -(2 ** (bits - 1))
    codes = rng.integers(least, -least, (k, n))
    codes[::block_size] = least
    blocks = np.arange(k) // block_size
    scales = np.exp2(rng.integers(-4, 1, (blocks[-1] + 1, n)) - (bits - 2))
    return (codes * scales[blocks]).astype(np.float32)


def tensor(name: str, array: Array) -> TensorProto:
    return numpy_helper.from_array(array, name)


def value(name: str, shape: Sequence[Any], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    initializers: Sequence[TensorProto] = (),
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    ir_version: int = 8,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model at operator set 17; by default x [m, 64] -> y."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [value("x", ["m", 64])] if inputs is None else inputs,
        [value("y", ["m", None])] if outputs is None else outputs,
        initializers,
    )
    opsets = [helper.make_opsetid("", 17)]
    opsets += [helper.make_opsetid(domain, 1) for domain in {f.domain for f in functions}]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=ir_version, functions=functions
    )


def run(source: onnx.ModelProto | Path, feeds: dict[str, Array]) -> list[Array]:
    """Outputs on the stock provider."""
    given = source.SerializeToString() if isinstance(source, onnx.ModelProto) else str(source)
    session = onnxruntime.InferenceSession(given, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def op_types(graph: onnx.GraphProto) -> list[str]:
    return [node.op_type for node in graph.node]


def initializer_names(graph: onnx.GraphProto) -> set[str]:
    return {initializer.name for initializer in graph.initializer}


def quantize(source: onnx.ModelProto, **arguments: Any) -> tuple[onnx.ModelProto, Any]:
    """The quantised model and the report; activations stay float32 unless told."""
    report = quantize_model(source, None, **{"accuracy_level": 0, **arguments})
    assert report.model is not None
    return report.model, report


def check_same_results(
    source: onnx.ModelProto, feeds: dict[str, Any] | None = None, **arguments: Any
) -> tuple[onnx.ModelProto, QuantizationReport]:
    """Quantises and compares; returns the quantised model and the report."""
    before = source.SerializeToString()
    quantized, report = quantize(source, **arguments)
    assert source.SerializeToString() == before, "the given model was changed"
    assert [o.name for o in quantized.graph.output] == [o.name for o in source.graph.output]
    assert all(result.relative_error == 0 for result in report.taken)
    given = {"x": X} if feeds is None else feeds
    for ours, expected in zip(run(quantized, given), run(source, given), strict=True):
        assert ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-4)
    return quantized, report
