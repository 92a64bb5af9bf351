"""Turns planned nodes into MatMulNBits and takes out what nobody reads any more."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import onnx
from onnx import helper

from onnxruntime_ep_mlas.model_quantizer.plan import NodePlan
from onnxruntime_ep_mlas.model_quantizer.scopes import (
    Definition,
    Scope,
    all_names,
    count_uses,
    node_label,
)

DOMAIN = "com.microsoft"


class Names:
    """Gives names that nothing in the model has yet."""

    def __init__(self, scopes: list[Scope]) -> None:
        self._taken = all_names(scopes)

    def fresh(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


@dataclass(frozen=True)
class WeightNames:
    """Initializers of one quantised weight; zero_points is "" when there are none."""

    codes: str
    scales: str
    zero_points: str


class Edits:
    """Nodes to insert and things to remove, collected while positions must stay as they are."""

    def __init__(self) -> None:
        self._inserted: dict[Scope, dict[int, list[onnx.NodeProto]]] = defaultdict(dict)
        self._removed_nodes: dict[Scope, set[int]] = defaultdict(set)
        self._removed_initializers: dict[Scope, set[int]] = defaultdict(set)
        self._removed_names: dict[Scope, set[str]] = defaultdict(set)

    def insert_after(self, scope: Scope, position: int, nodes: list[onnx.NodeProto]) -> None:
        self._inserted[scope][position] = nodes

    def remove(self, scope: Scope, name: str) -> None:
        """Removes an initializer, or the node that makes `name` and nothing else."""
        self._removed_names[scope].add(name)
        if name in scope.initializers:
            self._removed_initializers[scope].add(scope.initializers[name])
        else:
            self._removed_nodes[scope].add(scope.producers[name])

    def apply(self) -> None:
        for scope in {**self._inserted, **self._removed_nodes}:
            inserted, removed = self._inserted.get(scope, {}), self._removed_nodes.get(scope, set())
            for position in sorted({*inserted, *removed}, reverse=True):
                for node in reversed(inserted.get(position, [])):
                    scope.graph.node.insert(position + 1, node)
                if position in removed:
                    del scope.graph.node[position]
        for scope, positions in self._removed_initializers.items():
            for position in sorted(positions, reverse=True):
                del scope.graph.initializer[position]
        for scope, names in self._removed_names.items():
            values = scope.graph.value_info
            for i in reversed(range(len(values))):
                if values[i].name in names:
                    del values[i]


def unused_after(scopes: list[Scope], plans: list[NodePlan]) -> list[Definition]:
    """Constants, and the nodes between them and the planned nodes, that nobody else reads."""
    replaced = {(plan.scope, plan.position, 1) for plan in plans}
    chains = [plan.weight.chain for plan in plans]
    for plan in plans:
        if plan.addend is not None and plan.addend.constant is not None:
            replaced.add((plan.scope, plan.position, 2))
            chains.append(plan.addend.constant.chain)
        elif plan.addend is None and len(plan.node.input) > 2:
            replaced.add((plan.scope, plan.position, 2))
    uses = count_uses(scopes, replaced)
    unused: dict[Definition, None] = {}
    for chain in chains:
        # From the reader back to the tensor: a node that goes takes one use of its input along.
        for at in reversed(range(len(chain))):
            if chain[at] in unused:
                continue
            if uses[chain[at]]:
                break
            unused[chain[at]] = None
            if at:
                uses[chain[at - 1]] -= 1
    return list(unused)


def rewrite_node(
    plan: NodePlan, weight: WeightNames, bias: str, addend_nodes: list[onnx.NodeProto]
) -> None:
    """Makes the node a MatMulNBits in place; its output keeps its name.

    Args:
        plan: the node.
        weight: names of its new initializers.
        bias: name for the bias input, or "".
        addend_nodes: nodes of `make_addend`, if C stays an addition: the product goes to the first
            one's first input.
    """
    node, settings = plan.node, plan.settings
    inputs = [node.input[0], weight.codes, weight.scales, weight.zero_points, "", bias]
    while not inputs[-1]:
        inputs.pop()
    node.name = node_label(node)
    node.op_type = "MatMulNBits"
    node.domain = DOMAIN
    node.ClearField("input")
    node.input.extend(inputs)
    node.ClearField("attribute")
    for name, value in (
        ("K", plan.k),
        ("N", plan.n),
        ("bits", settings.bits),
        ("block_size", settings.block_size),
        ("accuracy_level", settings.accuracy_level),
    ):
        node.attribute.append(helper.make_attribute(name, value))
    if addend_nodes:
        node.output[0] = addend_nodes[-1].input[0]


def make_addend(plan: NodePlan, scaled_by: str, names: Names) -> list[onnx.NodeProto]:
    """Nodes that add beta * C to the product, the Add last; empty when there is no such C.

    Args:
        plan: the node.
        scaled_by: name of a scalar initializer with beta, or "" when beta is 1.
        names: source of new names.
    """
    addend = plan.addend
    if addend is None or addend.constant is not None:
        return []
    output = plan.node.output[0]
    label, name = node_label(plan.node), addend.name
    nodes = []
    if scaled_by:
        name = names.fresh(f"{output}_scaled_bias")
        nodes.append(
            helper.make_node("Mul", [addend.name, scaled_by], [name], names.fresh(f"{label}_beta"))
        )
    product = names.fresh(f"{output}_product")
    nodes.append(helper.make_node("Add", [product, name], [output], names.fresh(f"{label}_add")))
    return nodes


def import_domain(model: onnx.ModelProto) -> None:
    """Adds the operator set that MatMulNBits belongs to."""
    if all(opset.domain != DOMAIN for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
