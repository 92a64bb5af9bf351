"""quantize_model: from a float32 model to one with MatMulNBits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxruntime_ep_mlas._arrays import Float32Array
from onnxruntime_ep_mlas._model_files import load_model
from onnxruntime_ep_mlas.model_quantizer.output import MAX_INLINE_BYTES, ModelWriter
from onnxruntime_ep_mlas.model_quantizer.plan import NodePlan, plan_nodes
from onnxruntime_ep_mlas.model_quantizer.report import NodeResult, QuantizationReport
from onnxruntime_ep_mlas.model_quantizer.rewrite import (
    Edits,
    Names,
    WeightNames,
    import_domain,
    make_addend,
    rewrite_node,
    unused_after,
)
from onnxruntime_ep_mlas.model_quantizer.scopes import Definition, node_label, open_scopes
from onnxruntime_ep_mlas.model_quantizer.settings import NodeSettings, Selection
from onnxruntime_ep_mlas.model_quantizer.tensors import (
    is_external,
    model_tensors,
    read_float32,
    tensor_bytes,
)
from onnxruntime_ep_mlas.quantize import QuantizedWeights, quantize_weights

# Weights dequantised at a time to measure the error.
_WEIGHTS_AT_A_TIME = 1 << 22


def quantize_model(
    model: str | os.PathLike[str] | onnx.ModelProto,
    output: str | os.PathLike[str] | None,
    *,
    algorithm: str | None = None,
    block_size: int = 32,
    bits: int = 2,
    accuracy_level: int = 4,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    external_data: bool | None = None,
    threads: int | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> QuantizationReport:
    """Turns MatMul and Gemm nodes with constant float32 weights into com.microsoft::MatMulNBits.

    Names of outputs stay. Weights are found behind Transpose and Identity, in Constant nodes, in
    graphs around an If or Loop body, and are quantised once for all nodes that share them. What
    other nodes read, what is a graph output, and initializers that callers can override are kept.
    A Gemm's C goes to the bias input when it is a constant row, else to an Add. Weights are loaded
    one at a time.

    Args:
        model: path of a model, or a model (not changed). Only a path can have external data.
        output: path to write to, which may be `model`'s; None to get the model in the report.
        algorithm: a name of `algorithms()`; None for "mse" at 2 and 4 bits and "rtn" at 8,
            node by node.
        block_size, bits: see `quantize_weights`.
        accuracy_level: 4 for int8 arithmetic, 0 to 3 for float32.
        include: patterns (`fnmatch`, case counts) of node names; only nodes that match one are
            quantised. Empty for all. A node without a name goes by its first output's.
        exclude: patterns of nodes to leave alone.
        overrides: pattern to a dict with any of "algorithm", "bits", "block_size" and
            "accuracy_level"; of several that match a node, later ones win.
        external_data: True to put large tensors into "<output>.data"; False to refuse to; None to
            do so when the model would pass protobuf's limit of 2 GiB.
        threads: how many threads to use; None for one per CPU.
        on_progress: called after each quantised node with nodes done, nodes in all and the name.

    Returns:
        Every MatMul and Gemm node, taken or not and why, with sizes and errors.

    Raises:
        ValueError: a setting out of range, a pattern that matches no node, weights that hold NaN or
            infinity (named), a malformed tensor, or a model too large for one file or object.
        FileNotFoundError: the model or its external data doesn't exist.
        OSError: a file can't be read or written.
    """
    defaults = NodeSettings(algorithm, bits, block_size, accuracy_level)
    selection = Selection(defaults, include, exclude, overrides or {})
    source, folder, input_bytes = _open_model(model)
    scopes = open_scopes(source)
    planned = plan_nodes(source, scopes, selection)
    selection.check_every_pattern_matched()
    plans = [plan for plan in planned if isinstance(plan, NodePlan)]
    unused = unused_after(scopes, plans)
    target = None if output is None else Path(output)
    external = _choose_external(
        external_data, target, _largest_output(source, folder, plans, unused)
    )

    with ModelWriter(target, external) as writer:
        job = _Job(writer, Names(scopes), folder, threads or os.cpu_count() or 1)
        results: dict[NodePlan, NodeResult] = {}
        for done, plan in enumerate(plans, 1):
            results[plan] = job.quantize_node(plan)
            if on_progress is not None:
                on_progress(done, len(plans), results[plan].name)
        for scope, name in unused:
            job.edits.remove(scope, name)
        job.edits.apply()
        if plans:
            import_domain(source)
        writer.finish(source, folder)

    weights = job.weights.values()
    return QuantizationReport(
        nodes=tuple(results[p] if isinstance(p, NodePlan) else p for p in planned),
        original_bytes=sum({plan.weight_key: 4 * plan.k * plan.n for plan in plans}.values()),
        quantized_bytes=sum(weight.nbytes for weight in weights),
        input_bytes=input_bytes,
        output_bytes=_written_bytes(source, target, writer.data_path),
        output=target,
        external_data=writer.data_path,
        model=source if target is None else None,
    )


def _open_model(
    model: str | os.PathLike[str] | onnx.ModelProto,
) -> tuple[onnx.ModelProto, Path | None, int]:
    """A model to change, the folder of its external data, and its bytes."""
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy, None, model.ByteSize()
    path = Path(model)
    loaded = load_model(path)
    return loaded, path.parent, path.stat().st_size + _external_bytes(loaded, path.parent)


def _external_bytes(model: onnx.ModelProto, folder: Path | None) -> int:
    return sum(tensor_bytes(t, folder) for t in model_tensors(model) if is_external(t))


def _largest_output(
    model: onnx.ModelProto,
    folder: Path | None,
    plans: Iterable[NodePlan],
    unused: Iterable[Definition],
) -> int:
    """Bytes that the finished model takes at most."""
    gone = 0
    for scope, name in unused:
        if name in scope.initializers:
            gone += tensor_bytes(scope.graph.initializer[scope.initializers[name]], folder)
            continue
        for attribute in scope.nodes[scope.producers[name]].attribute:
            gone += tensor_bytes(attribute.t, folder) if attribute.HasField("t") else 0
    plans = list(plans)
    new = sum({plan.weight_key: plan.largest_quantized_bytes() for plan in plans}.values())
    # What a node's new names, attributes and bias take.
    new += sum(
        1024 + 8 * len(plan.weight.definition[1] + node_label(plan.node)) + 4 * plan.n
        for plan in plans
    )
    return int(model.ByteSize()) + _external_bytes(model, folder) - gone + new


def _choose_external(wanted: bool | None, output: Path | None, largest: int) -> bool:
    too_large = largest > MAX_INLINE_BYTES
    if output is None and (too_large or wanted):
        raise ValueError(
            f"a model of {largest} bytes with external data can't be returned; give an output path"
        )
    if too_large and wanted is False:
        raise ValueError(
            f"the model would have {largest} bytes, more than one file may hold; allow "
            "external_data"
        )
    return too_large if wanted is None else wanted


def _written_bytes(model: onnx.ModelProto, output: Path | None, data: Path | None) -> int:
    if output is None:
        return int(model.ByteSize())
    return sum(path.stat().st_size for path in (output, data) if path is not None)


@dataclass(frozen=True)
class _Weight:
    """A quantised weight whose initializers exist already."""

    names: WeightNames
    nbytes: int
    relative_error: float


class _Job:
    """Quantises planned nodes one after the other."""

    def __init__(
        self, writer: ModelWriter, names: Names, folder: Path | None, threads: int
    ) -> None:
        self.weights: dict[tuple[Any, ...], _Weight] = {}
        self.edits = Edits()
        self._writer = writer
        self._names = names
        self._folder = folder
        self._threads = threads

    def quantize_node(self, plan: NodePlan) -> NodeResult:
        settings, label, op_type = plan.settings, node_label(plan.node), plan.node.op_type
        weight = self.weights.get(plan.weight_key)
        if weight is None:
            weight = self.weights[plan.weight_key] = self._quantize_weight(plan)
        addend_nodes = make_addend(plan, self._beta(plan), self._names)
        rewrite_node(plan, weight.names, self._bias(plan), addend_nodes)
        if addend_nodes:
            self.edits.insert_after(plan.scope, plan.position, addend_nodes)
        return NodeResult(
            name=label,
            op_type=op_type,
            graph=plan.scope.path,
            taken=True,
            weight=plan.weight.definition[1],
            k=plan.k,
            n=plan.n,
            bits=settings.bits,
            block_size=settings.block_size,
            algorithm=settings.algorithm_name,
            accuracy_level=settings.accuracy_level,
            original_bytes=4 * plan.k * plan.n,
            quantized_bytes=weight.nbytes,
            relative_error=weight.relative_error,
        )

    def _quantize_weight(self, plan: NodePlan) -> _Weight:
        name = plan.weight.definition[1]
        settings = plan.settings
        values = read_float32(plan.weight.tensor, self._folder)
        matrix: Float32Array = values.T if plan.stored_transposed else values
        if plan.alpha != 1:
            matrix = matrix * np.float32(plan.alpha)
        quantized = quantize_weights(
            matrix,
            bits=settings.bits,
            block_size=settings.block_size,
            algorithm=settings.algorithm_name,
            threads=self._threads,
            name=f"weight {name!r} of node {node_label(plan.node)!r}",
        )
        stem = f"{name}_q{settings.bits}"
        names = WeightNames(
            codes=self._add(plan, stem, quantized.codes),
            scales=self._add(plan, f"{stem}_scales", quantized.scales),
            zero_points=(
                ""
                if quantized.zero_points is None
                else self._add(plan, f"{stem}_zero_points", quantized.zero_points)
            ),
        )
        return _Weight(names, quantized.nbytes, _relative_error(matrix, quantized))

    def _bias(self, plan: NodePlan) -> str:
        """Name of the bias initializer of a Gemm's constant row, or ""."""
        addend = plan.addend
        if addend is None or addend.constant is None:
            return ""
        values = read_float32(addend.constant.tensor, self._folder).reshape(-1)
        row = np.broadcast_to(values * np.float32(addend.beta), (plan.n,))
        return self._add(plan, f"{addend.constant.definition[1]}_bias", row)

    def _beta(self, plan: NodePlan) -> str:
        """Name of the initializer that scales a Gemm's C ahead of an Add, or ""."""
        addend = plan.addend
        if addend is None or addend.constant is not None or addend.beta == 1:
            return ""
        return self._add(plan, f"{plan.node.output[0]}_beta", np.array(addend.beta, np.float32))

    def _add(self, plan: NodePlan, name: str, array: np.ndarray) -> str:
        """Adds an initializer where the weight is defined, so that every sharer sees it."""
        fresh = self._names.fresh(name)
        graph = plan.weight.definition[0].graph
        graph.initializer.append(self._writer.tensor(fresh, array))
        return fresh


def _relative_error(matrix: Float32Array, quantized: QuantizedWeights) -> float:
    """||W - dequantised|| / ||W||; 0 for a zero matrix, which loses nothing."""
    step = max(1, _WEIGHTS_AT_A_TIME // max(1, quantized.k))
    error = total = 0.0
    for start in range(0, quantized.n, step):
        part = slice(start, start + step)
        zero_points = quantized.zero_points
        columns = QuantizedWeights(
            quantized.codes[part],
            quantized.scales[part],
            None if zero_points is None else zero_points[part],
            quantized.k,
            quantized.codes[part].shape[0],
            quantized.block_size,
            quantized.bits,
        )
        exact = matrix[:, part]
        error += float(np.square(columns.dequantize() - exact, dtype=np.float64).sum())
        total += float(np.square(exact, dtype=np.float64).sum())
    return float(np.sqrt(error / total)) if total else 0.0
