"""Parity of a quantised model: node by node against the oracle, and end to end.

Each MatMulNBits is judged on the activations that it really received: its input and output are
added to the graph's outputs, and the oracle is computed from that input. So an error of one node
doesn't count against the ones after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from ._library import import_onnxruntime
from ._model_files import load_model
from .parity import Compute, Parity, compare, matmul_nbits_oracle
from .session import InferenceSession, NodeAssignment, session_report

__all__ = ["Agreement", "ModelParity", "NodeParity", "agreement", "check_model", "check_nodes"]

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]
Progress = Callable[[str], None]

_OP_TYPE = "MatMulNBits"
_DOMAIN = "com.microsoft"
_TYPE_NAMES: dict[int, str] = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}
_READABLE = "/float32_for_parity"  # suffix of outputs that a Cast is added for
_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"


@dataclass(frozen=True)
class NodeParity:
    """One MatMulNBits. `ours` is None where `skipped` says why, `stock` also where the stock
    provider refuses the model.
    """

    name: str
    k: int
    n: int
    bits: int
    block_size: int
    accuracy_level: int
    type: str  # of A, scales and output: "float32", "float16" or "bfloat16"
    compute: Compute
    taken: bool
    reason: str  # why our provider left the node to another one
    rows: int = 0
    ours: Parity | None = None
    stock: Parity | None = None
    skipped: str = ""


@dataclass(frozen=True)
class Agreement:
    """How alike two results of the same output are; cosine and argmax over the last axis."""

    max_abs_error: float
    relative_rms: float
    cosine_mean: float
    cosine_min: float
    argmax: float  # share of rows with the same index of the largest element


@dataclass(frozen=True)
class ModelParity:
    """Result of `check_model`. `outputs[name][pair]`, pairs "ours/stock", "ours/original", ...;
    outputs that are no floats, or bfloat16, which ONNX Runtime has no arrays of, are left out.
    `stock_refusal` says why the stock provider can't run the model, "" when it can.
    """

    nodes: list[NodeParity]
    outputs: dict[str, dict[str, Agreement]] = field(default_factory=dict)
    stock_refusal: str = ""

    @property
    def wrong_nodes(self) -> list[NodeParity]:
        return [node for node in self.nodes if node.ours is not None and not node.ours.passed]

    @property
    def declined_nodes(self) -> list[NodeParity]:
        return [node for node in self.nodes if not node.taken]

    @property
    def passed(self) -> bool:
        """No node that our provider took is beyond its tolerance, and at least one was checked."""
        return not self.wrong_nodes and any(node.ours is not None for node in self.nodes)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        result = asdict(self)
        for row, node in zip(result["nodes"], self.nodes, strict=True):
            for side in ("ours", "stock"):
                parity: Parity | None = getattr(node, side)
                if parity is not None:
                    row[side]["passed"] = parity.passed
        result["passed"] = self.passed
        return result


def agreement(result: Array, reference: Array) -> Agreement:
    """Compares two results of one output.

    Raises ValueError when their shapes differ.
    """
    if result.shape != reference.shape:
        raise ValueError(f"shapes differ: {list(result.shape)} and {list(reference.shape)}")
    if result.size == 0:
        return Agreement(0.0, 0.0, 1.0, 1.0, 1.0)
    last = result.shape[-1] if result.ndim else 1
    x = result.astype(np.float64).reshape(-1, last)
    y = reference.astype(np.float64).reshape(-1, last)
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    dots = (x * y).sum(axis=1)
    equal = (x == y).all(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(equal, 1.0, np.where(norms > 0, dots / norms, 0.0))
    norm = float(np.linalg.norm(y))
    distance = float(np.linalg.norm(x - y))
    return Agreement(
        max_abs_error=float(np.abs(x - y).max()),
        relative_rms=distance / norm if norm > 0 else distance,
        cosine_mean=float(cosine.mean()),
        cosine_min=float(cosine.min()),
        argmax=float((x.argmax(axis=1) == y.argmax(axis=1)).mean()),
    )


def check_model(
    model: Path,
    feeds: Feeds,
    *,
    original: Path | None = None,
    provider_options: Mapping[str, str] | None = None,
    threads: int = 1,
    progress: Progress = lambda _: None,
) -> ModelParity:
    """Per-node parity of `model`, and how its outputs agree between ours, stock and `original`.

    `original` is the model that `model` was quantised from; outputs are matched by name. The
    stock provider may refuse `model`: it has neither bfloat16 nor 8 bits with float zero points.
    `progress` is told each step before it starts. Raises ValueError when the model has no
    MatMulNBits or the original lacks its outputs, and onnxruntime's errors when it can't run.
    """
    nodes = check_nodes(
        model, feeds, provider_options=provider_options, threads=threads, progress=progress
    )
    progress("outputs: ours")
    results = {"ours": _run(_ours(model, provider_options, threads), feeds)}
    progress("outputs: stock")
    stock = _stock(model, _options(threads, quiet=True))
    if not isinstance(stock, str):
        results["stock"] = _run(stock, feeds)
    if original is not None:
        progress("outputs: original")
        results["original"] = _run(_original(original, threads), feeds)
        missing = sorted(set(results["ours"]) - set(results["original"]))
        if missing:
            raise ValueError(f"{original} has no output named {', '.join(missing)}")
    pairs = list(itertools.combinations(results, 2))
    outputs = {
        name: {f"{a}/{b}": agreement(results[a][name], results[b][name]) for a, b in pairs}
        for name in results["ours"]
        if np.issubdtype(results["ours"][name].dtype, np.floating)
    }
    return ModelParity(nodes, outputs, stock if isinstance(stock, str) else "")


def check_nodes(
    model: Path,
    feeds: Feeds,
    *,
    provider_options: Mapping[str, str] | None = None,
    threads: int = 1,
    stock: bool = True,
    progress: Progress = lambda _: None,
) -> list[NodeParity]:
    """Every MatMulNBits against the oracle; those in If/Loop bodies are listed as skipped."""
    proto = load_model(model)
    targets = _name_nodes(proto)
    hidden = list(_hidden_nodes(proto.graph))
    types = _element_types(proto.graph)
    if not targets and not hidden:
        raise ValueError(f"{model} has no {_OP_TYPE} node; quantise it first")
    constants = _constants(proto, model.parent)
    wanted = _expose(proto, targets, {*constants, *feeds}, types)

    progress("nodes: ours")
    source = proto.SerializeToString()
    ours = InferenceSession(
        source,
        _options(threads, model.parent),
        provider_options=provider_options,
        allow_fallback=True,
    )
    report = session_report(ours)
    results = {"ours": _fetch(ours, wanted, feeds)}
    del ours
    if stock:
        progress("nodes: stock")
        cpu = _stock(source, _options(threads, model.parent, quiet=True))
        if not isinstance(cpu, str):
            results["stock"] = _fetch(cpu, wanted, feeds)
        del cpu

    reported = [node for node in report.nodes if node.op_type == _OP_TYPE]
    assigned = {node.name: node for node in reported if not node.graph}
    checked = []
    for node in targets:
        progress(f"oracle: {node.name}")
        base = _describe(node, assigned.get(node.name), types)
        checked.append(_check(node, base, {**constants, **feeds}, results))
    for body, node in hidden:
        inside = [other for other in reported if other.graph and other.name == node.name]
        base = _describe(node, inside[0] if inside else None, types)
        skipped = f"inside the body of '{body}', where its input can't be read"
        checked.append(NodeParity(**base, skipped=skipped))
    return checked


def _check(
    node: onnx.NodeProto,
    base: dict[str, Any],
    known: Mapping[str, Array],
    results: Mapping[str, Mapping[str, Array]],
) -> NodeParity:
    parities: dict[str, Parity] = {}
    rows = 0
    for side, fetched in results.items():
        inputs = [{**known, **fetched}.get(name) for name in node.input]
        a, b, scales, zero_points, g_idx, bias = inputs + [None] * (6 - len(inputs))
        if a is None or b is None or scales is None:
            return NodeParity(**base, skipped="its inputs can't be read")
        a2 = a.reshape(-1, a.shape[-1])
        rows = a2.shape[0]
        # The stock provider follows the attribute even where an option overrides it for ours.
        compute = base["compute"] if side == "ours" else _compute_of(base["accuracy_level"])
        oracle = matmul_nbits_oracle(
            a2,
            b,
            scales,
            zero_points,
            k=base["k"],
            block_size=base["block_size"],
            bits=base["bits"],
            bias=bias,
            g_idx=g_idx,
            compute=compute,
        )
        parities[side] = compare(fetched[node.output[0]], oracle, type=base["type"])
    ours = parities.get("ours") if base["taken"] else None
    skipped = "" if base["taken"] else "not run by our provider"
    return NodeParity(**base, rows=rows, ours=ours, stock=parities.get("stock"), skipped=skipped)


def _describe(
    node: onnx.NodeProto, assignment: NodeAssignment | None, types: Mapping[str, int]
) -> dict[str, Any]:
    attributes = {a.name: a.i for a in node.attribute}
    level = attributes.get("accuracy_level", 0)
    taken = assignment is not None and assignment.taken
    reason = "the provider's report doesn't name this node"
    compute = _compute_of(level)
    if assignment is not None:
        reason = assignment.reason
        compute = assignment.details["compute"] if taken else compute
    return {
        "name": node.name,
        "k": attributes.get("K", 0),
        "n": attributes.get("N", 0),
        "bits": attributes.get("bits", 4),
        "block_size": attributes.get("block_size", 0),
        "accuracy_level": level,
        "type": _TYPE_NAMES.get(_type_of(node, types), "float32"),
        "compute": compute,
        "taken": taken,
        "reason": reason,
    }


def _compute_of(accuracy_level: int) -> Compute:
    return "int8" if accuracy_level == 4 else "fp32"


def _name_nodes(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Top-level MatMulNBits nodes, each given a name of its own where it lacks one."""
    taken = {node.name for node in proto.graph.node if node.name}
    seen: set[str] = set()
    targets = []
    for index, node in enumerate(proto.graph.node):
        if node.op_type != _OP_TYPE or node.domain != _DOMAIN:
            continue
        if not node.name or node.name in seen:
            name = f"{node.name or _OP_TYPE}_{index}"
            while name in taken:
                name += "_"
            node.name = name
            taken.add(name)
        seen.add(node.name)
        targets.append(node)
    return targets


def _hidden_nodes(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """MatMulNBits in the bodies of If, Loop and Scan, with the outermost node that holds them."""
    for node in graph.node:
        for attribute in node.attribute:
            bodies = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            for body in bodies:
                for inner in body.node:
                    if inner.op_type == _OP_TYPE and inner.domain == _DOMAIN:
                        yield node.name or node.op_type, inner
                for _, inner in _hidden_nodes(body):
                    yield node.name or node.op_type, inner


def _constants(proto: onnx.ModelProto, folder: Path) -> dict[str, Array]:
    """Values of the initializers and Constant nodes that feed a MatMulNBits."""
    used = {
        name
        for node in proto.graph.node
        if node.op_type == _OP_TYPE and node.domain == _DOMAIN
        for name in node.input
    }
    constants: dict[str, Array] = {}
    for tensor in proto.graph.initializer:
        if tensor.name in used:
            constants[tensor.name] = onnx.numpy_helper.to_array(tensor, str(folder))
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.output[0] in used:
            for attribute in node.attribute:
                if attribute.name == "value":
                    constants[node.output[0]] = onnx.numpy_helper.to_array(attribute.t)
    return constants


def _element_types(graph: onnx.GraphProto) -> dict[str, int]:
    """Types of the values of a graph and of the bodies in it, as far as the model states them."""
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        types[value.name] = value.type.tensor_type.elem_type
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                types[node.output[0]] = attribute.t.data_type
            if node.op_type == "Cast" and attribute.name == "to":
                types[node.output[0]] = attribute.i
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                types = {**_element_types(body), **types}
    return types


def _type_of(node: onnx.NodeProto, types: Mapping[str, int]) -> int:
    """Element type of a MatMulNBits; A, scales, bias and Y have the same."""
    names = [node.input[0], node.input[2], node.output[0]]
    return next((types[name] for name in names if types.get(name)), TensorProto.FLOAT)


def _expose(
    proto: onnx.ModelProto,
    targets: list[onnx.NodeProto],
    known: set[str],
    types: Mapping[str, int],
) -> dict[str, str]:
    """Adds the nodes' outputs and run-time inputs to the graph's outputs.

    bfloat16 goes through a Cast to float32, as ONNX Runtime makes no numpy array of it.

    Returns:
        By each value's name that of the output which it can be read from.
    """
    wanted: dict[str, str] = {}
    present = {value.name for value in proto.graph.output}
    for node in targets:
        node_type = _type_of(node, types)
        of_other_types = {*node.input[1:2], *node.input[3:5]}  # B, zero points, g_idx
        for name in [*node.input, node.output[0]]:
            if not name or name in known or name in wanted:
                continue
            value_type = types.get(name) or (0 if name in of_other_types else node_type)
            source = name
            if value_type == TensorProto.BFLOAT16:
                source = f"{name}{_READABLE}"
                cast = onnx.helper.make_node("Cast", [name], [source], to=TensorProto.FLOAT)
                proto.graph.node.append(cast)
            if source not in present:
                proto.graph.output.append(onnx.ValueInfoProto(name=source))
            wanted[name] = source
    return wanted


def _options(threads: int, external_folder: Path | None = None, *, quiet: bool = False) -> Any:
    options = import_onnxruntime().SessionOptions()
    options.intra_op_num_threads = threads
    # Without warnings about unused initializers and nodes left to the CPU; quiet also without
    # errors.
    options.log_severity_level = 4 if quiet else 3
    if external_folder is not None:
        options.add_session_config_entry(_EXTERNAL_FOLDER, str(external_folder.resolve()))
    return options


def _ours(model: Path, provider_options: Mapping[str, str] | None, threads: int) -> Any:
    return InferenceSession(
        model, _options(threads), provider_options=provider_options, allow_fallback=True
    )


def _stock(model: Path | bytes, options: Any) -> Any:
    """A session on the stock provider, or in its words why it refuses what ours has accepted."""
    onnxruntime = import_onnxruntime()
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's have no base class of their own
        return str(error)


def _original(model: Path, threads: int) -> Any:
    return import_onnxruntime().InferenceSession(
        model, _options(threads), providers=["CPUExecutionProvider"]
    )


def _run(session: Any, feeds: Feeds) -> dict[str, Array]:
    readable = [o.name for o in session.get_outputs() if o.type != "tensor(bfloat16)"]
    return _fetch(session, {name: name for name in readable}, feeds) if readable else {}


def _fetch(session: Any, wanted: Mapping[str, str], feeds: Feeds) -> dict[str, Array]:
    return dict(zip(wanted, session.run([*wanted.values()], dict(feeds)), strict=True))
