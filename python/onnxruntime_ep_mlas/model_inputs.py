"""Deterministic inputs for a model whose meaning is unknown: plausible, repeatable, in range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

__all__ = ["InputSpec", "input_specs", "make_inputs"]

_DEFAULT_SEQUENCE = 32
_DEFAULT_DIM = 1
_DEFAULT_IDS = 100  # range of integers that no table in the model bounds
# Operators that pass an index through unchanged.
_PASS_THROUGH = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}


@dataclass(frozen=True)
class InputSpec:
    """A graph input: dims are int, a name, or None where the model says nothing."""

    name: str
    dtype: np.dtype[np.generic]
    dims: tuple[int | str | None, ...]
    vocabulary: int | None  # rows of the table that this input's integers select from


def input_specs(model: onnx.ModelProto) -> list[InputSpec]:
    """The model's inputs, without initializers that are listed as inputs.

    Raises ValueError for an input that is no tensor or has no known type or rank.
    """
    initializers = {tensor.name for tensor in model.graph.initializer}
    specs = []
    for value in model.graph.input:
        if value.name in initializers:
            continue
        tensor_type = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor_type.HasField("shape"):
            raise ValueError(
                f"input '{value.name}' is no tensor of known rank; pass its value with --inputs"
            )
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor_type.elem_type))
        except KeyError:
            raise ValueError(f"input '{value.name}' has an unknown element type") from None
        dims: list[int | str | None] = []
        for dim in tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                dims.append(dim.dim_value)
            else:
                dims.append(dim.dim_param or None)
        specs.append(InputSpec(value.name, dtype, tuple(dims), _vocabulary(model, value.name)))
    return specs


def make_inputs(
    model: onnx.ModelProto, dims: Mapping[str, int] | None = None, *, seed: int = 0
) -> dict[str, npt.NDArray[np.generic]]:
    """A value for every input of the model.

    Floats are standard normal. Integers are ids within the table they index; names that contain
    "mask" get ones, "type" zeros, "position" 0, 1, 2, ... Named dims come from `dims`; else those
    with "seq" or "len" in their names are 32 and all others 1.

    Raises ValueError for an input that no value can be made for, or a name in `dims` that no input
    has.
    """
    chosen = dict(dims or {})
    specs = input_specs(model)
    names = {dim for spec in specs for dim in spec.dims if isinstance(dim, str)}
    unknown = sorted(set(chosen) - names)
    if unknown:
        known = ", ".join(sorted(names)) or "none"
        raise ValueError(f"no input has a dim named {', '.join(unknown)}; the model's: {known}")
    rng = np.random.default_rng(seed)
    return {spec.name: _value(spec, chosen, rng) for spec in specs}


def _value(
    spec: InputSpec, chosen: Mapping[str, int], rng: np.random.Generator
) -> npt.NDArray[np.generic]:
    shape = [_dim(dim, chosen) for dim in spec.dims]
    name = spec.name.lower()
    if spec.dtype == np.bool_:
        return np.ones(shape, np.bool_)
    if np.issubdtype(spec.dtype, np.integer):
        if "mask" in name:
            return np.ones(shape, spec.dtype)
        if "type" in name:
            return np.zeros(shape, spec.dtype)
        if "position" in name and shape:
            return np.broadcast_to(np.arange(shape[-1]), shape).astype(spec.dtype)
        return rng.integers(0, spec.vocabulary or _DEFAULT_IDS, shape).astype(spec.dtype)
    if np.issubdtype(spec.dtype, np.floating):
        return rng.standard_normal(shape).astype(spec.dtype)
    raise ValueError(
        f"input '{spec.name}' has type {spec.dtype}, for which no value is made; "
        "pass its value with --inputs"
    )


def _dim(dim: int | str | None, chosen: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim is None:
        return _DEFAULT_DIM
    if dim in chosen:
        return chosen[dim]
    lower = dim.lower()
    return _DEFAULT_SEQUENCE if "seq" in lower or "len" in lower else _DEFAULT_DIM


def _vocabulary(model: onnx.ModelProto, name: str) -> int | None:
    """Rows of the smallest constant table that a Gather indexes with this input."""
    rows = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if tensor.dims}
    reached = {name}
    found: list[int] = []
    for node in model.graph.node:  # in topological order, so one pass follows every chain
        if node.op_type in _PASS_THROUGH and node.input[0] in reached:
            reached.update(node.output)
        if node.op_type == "Gather" and node.input[1] in reached and node.input[0] in rows:
            found.append(int(rows[node.input[0]]))
    return min(found, default=None)
