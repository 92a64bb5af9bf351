"""Graphs of a model as nested scopes: what a name stands for, and who uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx


@dataclass(eq=False)
class Scope:
    """One graph: the main one, or the body of an If, Loop, Scan...

    Attributes:
        graph: the graph itself.
        path: "" for the main graph, else e.g. "if_3/then_branch".
        parent: the graph around it, whose names are visible here.
        nodes: the graph's nodes; their positions don't change while this object is used.
        inputs: names of the graph's inputs.
        initializers: position of each initializer in the graph.
        sparse: names of sparse initializers.
        producers: position of the node that makes each name.
    """

    graph: onnx.GraphProto
    path: str
    parent: Scope | None
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)
    initializers: dict[str, int] = field(default_factory=dict)
    sparse: set[str] = field(default_factory=set)
    producers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = list(self.graph.node)
        self.inputs = {value.name for value in self.graph.input}
        self.initializers = {t.name: i for i, t in enumerate(self.graph.initializer)}
        self.sparse = {tensor.values.name for tensor in self.graph.sparse_initializer}
        self.producers = {
            name: i for i, node in enumerate(self.nodes) for name in node.output if name
        }

    def defines(self, name: str) -> bool:
        return (
            name in self.initializers
            or name in self.producers
            or name in self.inputs
            or name in self.sparse
        )

    def owner(self, name: str) -> Scope | None:
        """The scope, this or one around it, that defines a name."""
        scope: Scope | None = self
        while scope is not None and not scope.defines(name):
            scope = scope.parent
        return scope


def node_label(node: onnx.NodeProto) -> str:
    """The node's name, or that of its first output when it has none."""
    return node.name or next((name for name in node.output if name), "")


def open_scopes(model: onnx.ModelProto) -> list[Scope]:
    """All graphs of a model in graph order, a graph before those inside it."""
    return list(_walk(model.graph, "", None))


def _walk(graph: onnx.GraphProto, path: str, parent: Scope | None) -> Iterator[Scope]:
    scope = Scope(graph, path, parent)
    yield scope
    for node in scope.nodes:
        for attribute in node.attribute:
            bodies = [(attribute.name, attribute.g)] if attribute.HasField("g") else []
            bodies += [(f"{attribute.name}[{i}]", g) for i, g in enumerate(attribute.graphs)]
            for name, body in bodies:
                step = f"{node_label(node)}/{name}"
                yield from _walk(body, f"{path}/{step}" if path else step, scope)


# A name together with the graph that defines it: sibling graphs may use one name twice.
Definition = tuple[Scope, str]


def count_uses(scopes: list[Scope], ignored: set[tuple[Scope, int, int]]) -> Counter[Definition]:
    """How often each name is read, as a node's input or a graph's output.

    Args:
        scopes: all graphs.
        ignored: inputs not to count: graph, position of the node, position of the input.
    """
    uses: Counter[Definition] = Counter()
    for scope in scopes:
        names = [
            name
            for i, node in enumerate(scope.nodes)
            for j, name in enumerate(node.input)
            if name and (scope, i, j) not in ignored
        ]
        for name in [*names, *(value.name for value in scope.graph.output)]:
            owner = scope.owner(name)
            if owner is not None:
                uses[owner, name] += 1
    return uses


def all_names(scopes: list[Scope]) -> set[str]:
    """Every name of a value or node anywhere in the model."""
    names: set[str] = set()
    for scope in scopes:
        names |= scope.inputs | scope.sparse | set(scope.initializers) | set(scope.producers)
        for node in scope.nodes:
            names.add(node.name)
            names.update(node.input)
    return names
