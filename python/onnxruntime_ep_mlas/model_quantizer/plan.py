"""Decides for each MatMul and Gemm node whether it becomes a MatMulNBits, reading no weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto

from onnxruntime_ep_mlas.model_quantizer.constants import Constant, find_constant
from onnxruntime_ep_mlas.model_quantizer.report import NodeResult
from onnxruntime_ep_mlas.model_quantizer.scopes import Scope, node_label
from onnxruntime_ep_mlas.model_quantizer.settings import NodeSettings, Selection
from onnxruntime_ep_mlas.quantize.layout import ceil_div

_OPERATORS = ("MatMul", "Gemm")


@dataclass(frozen=True)
class Addend:
    """What a Gemm adds to its product: beta * C.

    Attributes:
        name: C.
        beta: its factor, never 0.
        constant: C as a row of N constants, which the bias input can take; None when it must stay
            an addition of its own.
    """

    name: str
    beta: float
    constant: Constant | None


@dataclass(frozen=True, eq=False)
class NodePlan:
    """A node to turn into MatMulNBits.

    Attributes:
        scope, position: where the node is.
        settings: how to quantise it.
        weight: the constant W.
        stored_transposed: whether the tensor's own dims are [N, K].
        k, n: dims of W in A @ W.
        alpha: factor of the product.
        addend: what a Gemm adds.
    """

    scope: Scope
    position: int
    settings: NodeSettings
    weight: Constant
    stored_transposed: bool
    k: int
    n: int
    alpha: float = 1.0
    addend: Addend | None = None

    @property
    def node(self) -> onnx.NodeProto:
        return self.scope.nodes[self.position]

    @property
    def weight_key(self) -> tuple[Any, ...]:
        """Equal for nodes that can share one quantised weight."""
        settings = self.settings
        grid = (settings.algorithm_name, settings.bits, settings.block_size)
        return (*self.weight.definition, self.stored_transposed, self.alpha, *grid)

    def largest_quantized_bytes(self) -> int:
        """Bytes of codes, scales and zero points, should there be any."""
        bits, block_size = self.settings.bits, self.settings.block_size
        k_blocks = ceil_div(self.k, block_size)
        return self.n * (
            k_blocks * block_size * bits // 8 + 4 * k_blocks + ceil_div(k_blocks * bits, 8)
        )


def plan_nodes(
    model: onnx.ModelProto, scopes: list[Scope], selection: Selection
) -> list[NodePlan | NodeResult]:
    """For every MatMul and Gemm node a plan, or a result that says why not."""
    plans: list[NodePlan | NodeResult] = []
    for scope in scopes:
        for position, node in enumerate(scope.nodes):
            if _is_candidate(node):
                plan = _plan_node(scope, position, selection)
                plans.append(_skip(node, scope.path, plan) if isinstance(plan, str) else plan)
    for function in model.functions:
        for node in function.node:
            if _is_candidate(node):
                selection.settings_for(node_label(node))
                where = f"function {function.domain}::{function.name}"
                plans.append(_skip(node, where, "it is in a function of the model; inline it"))
    return plans


def _is_candidate(node: onnx.NodeProto) -> bool:
    return node.op_type in _OPERATORS and node.domain in ("", "ai.onnx")


def _skip(node: onnx.NodeProto, graph: str, reason: str) -> NodeResult:
    return NodeResult(node_label(node), node.op_type, graph, taken=False, reason=reason)


def _plan_node(scope: Scope, position: int, selection: Selection) -> NodePlan | str:
    node = scope.nodes[position]
    settings = selection.settings_for(node_label(node))
    if isinstance(settings, str):
        return settings
    if len(node.input) < 2:
        return f"it has {len(node.input)} inputs instead of two"
    weight = find_constant(scope, node.input[1])
    if isinstance(weight, str):
        left = find_constant(scope, node.input[0])
        if isinstance(left, Constant):
            return "its constant is the left operand; MatMulNBits takes weights on the right"
        return f"its right operand is no constant matrix: {weight}"
    reason = _unfit_weight(weight)
    if reason:
        return reason
    if node.op_type == "Gemm":
        return _plan_gemm(scope, position, settings, weight)
    k, n = weight.shape
    return NodePlan(scope, position, settings, weight, weight.transposed, k, n)


def _unfit_weight(weight: Constant) -> str:
    name, shape = weight.definition[1], list(weight.tensor.dims)
    if weight.tensor.data_type != TensorProto.FLOAT:
        type_name = TensorProto.DataType.Name(weight.tensor.data_type)
        return f"weight {name!r} is {type_name}; only FLOAT (float32) is quantised"
    if len(shape) != 2:
        return f"weight {name!r} has shape {shape}; only matrices (rank 2) are quantised"
    if 0 in shape:
        return f"weight {name!r} has shape {shape}: it is empty"
    return ""


def _plan_gemm(
    scope: Scope, position: int, settings: NodeSettings, weight: Constant
) -> NodePlan | str:
    node = scope.nodes[position]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if attributes.get("transA", 0):
        return "transA is set; MatMulNBits can't transpose A"
    transposed = bool(attributes.get("transB", 0))
    k, n = weight.shape[::-1] if transposed else weight.shape
    beta = float(attributes.get("beta", 1.0))
    addend = None
    if len(node.input) > 2 and node.input[2] and beta != 0:
        found = find_constant(scope, node.input[2])
        row = found if isinstance(found, Constant) and _is_row(found, n) else None
        addend = Addend(node.input[2], beta, row)
    return NodePlan(
        scope,
        position,
        settings,
        weight,
        weight.transposed ^ transposed,
        k,
        n,
        float(attributes.get("alpha", 1.0)),
        addend,
    )


def _is_row(constant: Constant, n: int) -> bool:
    """Whether a Gemm's C is the same for every row of the product."""
    *leading, last = constant.shape or (1,)
    single_row = all(dim == 1 for dim in leading)
    return constant.tensor.data_type == TensorProto.FLOAT and single_row and last in (1, n)
