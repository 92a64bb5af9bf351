"""Finds the constant tensor behind a node's input."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from onnxruntime_ep_mlas.model_quantizer.scopes import Definition, Scope


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that never changes, as an input sees it.

    Attributes:
        tensor: the values.
        definition: where the tensor is defined.
        transposed: whether the input sees a rank-2 tensor with its two dims swapped.
        chain: every name between the tensor and the input, the tensor's own first.
    """

    tensor: onnx.TensorProto
    definition: Definition
    transposed: bool
    chain: tuple[Definition, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Dims as the input sees them."""
        dims = tuple(self.tensor.dims)
        return dims[::-1] if self.transposed and len(dims) == 2 else dims


def find_constant(scope: Scope, name: str) -> Constant | str:
    """The constant that `name` stands for in `scope`, through Identity and Transpose, or in words
    why there is none."""
    transposed = False
    chain: list[Definition] = []
    while True:
        owner = scope.owner(name)
        if owner is None:
            return f"{name!r} is defined nowhere"
        if (owner, name) in chain:
            return f"{name!r} is computed from itself"
        chain.insert(0, (owner, name))
        if name in owner.initializers:
            if name in owner.inputs:
                return f"initializer {name!r} is also a graph input, so callers can override it"
            tensor = owner.graph.initializer[owner.initializers[name]]
            return Constant(tensor, (owner, name), transposed, tuple(chain))
        if name in owner.sparse:
            return f"{name!r} is a sparse initializer"
        if name not in owner.producers:
            return f"{name!r} is a graph input, not a constant"
        node = owner.nodes[owner.producers[name]]
        if node.domain not in ("", "ai.onnx"):
            return f"{name!r} is computed by {node.domain}::{node.op_type}"
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.HasField("t"):
                    return Constant(attribute.t, (owner, name), transposed, tuple(chain))
            return f"{name!r} comes from a Constant without a dense tensor"
        if node.op_type == "Transpose":
            swaps = _swaps_two_dims(node)
            if swaps is None:
                return f"{name!r} comes from a Transpose of more than two dims"
            transposed ^= swaps
        elif node.op_type != "Identity":
            return f"{name!r} is computed by {node.op_type}"
        scope, name = owner, node.input[0]


def _swaps_two_dims(node: onnx.NodeProto) -> bool | None:
    """Whether a Transpose swaps the dims of a matrix; None when it is for other ranks."""
    for attribute in node.attribute:
        if attribute.name == "perm":
            perm = list(attribute.ints)
            return perm == [1, 0] if sorted(perm) == [0, 1] else None
    return True
