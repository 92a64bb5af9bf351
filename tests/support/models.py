"""MatMulNBits models made in the test, and sessions on this provider or on the stock one."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import oracle

PROVIDER = "MlasExecutionProvider"
STOCK = "CPUExecutionProvider"
INPUT_NAMES = ("A", "B", "scales", "zero_points", "g_idx", "bias")
Array = npt.NDArray[Any]

# The stock provider's faults are stated for x86-64 and this release: others may not have them.
STOCK_FAULTS_KNOWN = onnxruntime.__version__.startswith("1.32.") and platform.machine() in (
    "x86_64",
    "AMD64",
)


@dataclass
class Node:
    """One MatMulNBits node. Tensors are constants unless named in `run_time`."""

    weights: oracle.Weights
    bias: Array | None = None
    g_idx: Array | None = None
    accuracy_level: int | None = 4
    run_time: tuple[str, ...] = ()  # these inputs are graph inputs
    overridable: tuple[str, ...] = ()  # these are graph inputs with an initializer
    name: str = "mm"
    prefix: str = ""  # of the tensors' names
    attributes: dict[str, Any] = field(default_factory=dict)  # replace what `weights` say
    tensors: dict[str, Array] = field(default_factory=dict)  # replace what `weights` bring

    def values(self) -> dict[str, Array]:
        """Tensors of the optional and required inputs except A, by the operator's names."""
        values: dict[str, Array | None] = {
            "B": self.weights.codes,
            "scales": self.weights.scales,
            "zero_points": self.weights.zero_points,
            "g_idx": self.g_idx,
            "bias": self.bias,
        }
        values.update(self.tensors)
        return {name: value for name, value in values.items() if value is not None}

    def feeds(self, a: Array) -> dict[str, Array]:
        values = self.values()
        return {"A": a, **{self.prefix + name: values[name] for name in self.run_time}}

    def node_proto(self, a: str = "A", y: str = "Y") -> onnx.NodeProto:
        values = self.values()
        inputs = [a] + [self.prefix + name if name in values else "" for name in INPUT_NAMES[1:]]
        while not inputs[-1]:
            inputs.pop()
        attributes: dict[str, Any] = {
            "K": self.weights.k,
            "N": self.weights.n,
            "bits": self.weights.bits,
            "block_size": self.weights.block_size,
        }
        if self.accuracy_level is not None:
            attributes["accuracy_level"] = self.accuracy_level
        attributes.update(self.attributes)
        return helper.make_node(
            "MatMulNBits", inputs, [y], name=self.name, domain="com.microsoft", **attributes
        )

    def initializers(self) -> list[onnx.TensorProto]:
        return [
            numpy_helper.from_array(np.asarray(value, order="C"), self.prefix + name)
            for name, value in self.values().items()
            if name not in self.run_time
        ]

    def graph_inputs(self) -> list[onnx.ValueInfoProto]:
        # Symbolic dims: shape inference must not find a wrong one before the provider does. It
        # insists on bias, though.
        return [
            value_info(
                self.prefix + name,
                [self.weights.n]
                if name == "bias"
                else [f"{name}_{axis}" for axis in range(value.ndim)],
                helper.np_dtype_to_tensor_dtype(value.dtype),
            )
            for name, value in self.values().items()
            if name in self.run_time or name in self.overridable
        ]


def value_info(
    name: str, shape: Sequence[int | str] | None, dtype: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )


def model_of(node: Node, a_type: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A graph of this one node: A -> Y, with whatever of its tensors is not constant as inputs."""
    return make_model(
        [node.node_proto()],
        [value_info("A", None, a_type), *node.graph_inputs()],
        [value_info("Y", None, a_type)],
        node.initializers(),
    )


def devices() -> list[Any]:
    import onnxruntime_ep_mlas

    onnxruntime_ep_mlas.register()
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == PROVIDER]
    assert found, "the provider offers no device"
    return found[:1]


def session(
    model: onnx.ModelProto | str | Path,
    provider: str = PROVIDER,
    *,
    options: dict[str, str] | None = None,
    config: dict[str, str] | None = None,
    threads: int = 1,
    configure: Callable[[onnxruntime.SessionOptions], None] | None = None,
) -> onnxruntime.InferenceSession:
    """A session on `provider`, with the CPU provider behind it, that records assignments."""
    sess_options = onnxruntime.SessionOptions()
    sess_options.intra_op_num_threads = threads
    sess_options.log_severity_level = 4
    sess_options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in (config or {}).items():
        sess_options.add_session_config_entry(key, value)
    if configure is not None:
        configure(sess_options)
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    if provider == STOCK:
        return onnxruntime.InferenceSession(source, sess_options, providers=[STOCK])
    sess_options.add_provider_for_devices(devices(), options or {})
    return onnxruntime.InferenceSession(source, sess_options)


def owners(sess: onnxruntime.InferenceSession) -> dict[str, str]:
    """Provider by name of each MatMulNBits node of all graphs."""
    return {
        node.name: subgraph.ep_name
        for subgraph in sess.get_provider_graph_assignment_info()
        for node in subgraph.get_nodes()
        if node.op_type == "MatMulNBits"
    }


def run(sess: onnxruntime.InferenceSession, feeds: dict[str, Array]) -> Array:
    (result,) = sess.run(None, feeds)
    return np.asarray(result)


def run_ours(node: Node, a: Array, **session_arguments: Any) -> Array:
    """Runs the one-node model, after checking that this provider was given the node."""
    sess = session(model_of(node), **session_arguments)
    assert owners(sess) == {node.name: PROVIDER}
    return run(sess, node.feeds(a))


def run_stock(node: Node, a: Array) -> Array:
    return run(session(model_of(node), STOCK), node.feeds(a))


def reference(node: Node, a: Array, accuracy_level: int | None = None) -> oracle.Reference:
    """What the operator must give for the node; A of any rank is taken as rows."""
    level = node.accuracy_level if accuracy_level is None else accuracy_level
    return oracle.matmul(
        a.reshape(-1, node.weights.k),
        node.weights,
        node.bias,
        compute="int8" if level == 4 else "fp32",
        g_idx=None if node.g_idx is None else node.g_idx[: node.weights.k],
    )


def assert_right(node: Node, a: Array, y: Array, context: str = "") -> None:
    assert y.shape == (*a.shape[:-1], node.weights.n), context
    if y.size == 0:
        return
    oracle.assert_matches(y.reshape(-1, node.weights.n), reference(node, a), context)


def is_right(node: Node, a: Array, y: Array) -> bool:
    """Whether a result is anywhere near: far beyond rounding, so that it can tell a fault."""
    expected = reference(node, a)
    got = y.reshape(expected.value.shape).astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected.value) <= 1e-3 * expected.magnitude + 1e-42
        same = (got == expected.value) | (np.isnan(got) & np.isnan(expected.value))
    return bool((near | same).all())


def read_report(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def report_nodes(path: Path) -> dict[str, dict[str, Any]]:
    nodes: Iterable[dict[str, Any]] = read_report(path)["nodes"]
    return {str(node["name"]): node for node in nodes}
