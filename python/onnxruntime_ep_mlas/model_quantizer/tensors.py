"""Tensors of a model, read one at a time, from the model itself or from external data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

_COPIED_AT_A_TIME = 1 << 24


def graph_tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Every tensor in a graph and its subgraphs: initializers and attributes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _node_tensors(node)


def model_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Every tensor in a model, its functions included."""
    yield from graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _node_tensors(node)


def _node_tensors(node: onnx.NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from graph_tensors(attribute.g)
        for graph in attribute.graphs:
            yield from graph_tensors(graph)


def is_external(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL


class ExternalRegion:
    """Where a tensor's bytes lie: a file, the offset in it and the length."""

    def __init__(self, tensor: TensorProto, folder: Path | None) -> None:
        """Checks the entry against the file.

        Raises:
            ValueError: no folder is known, the location leaves it, or the numbers are wrong.
            FileNotFoundError: there is no such file.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if folder is None:
            raise ValueError(
                f"tensor {tensor.name!r} has external data, but a model that is given as an object "
                "has no folder to find it in; give the model's path"
            )
        posix = PurePosixPath(location)
        if not location or posix.is_absolute() or ".." in posix.parts:
            raise ValueError(
                f"tensor {tensor.name!r}: external data location {location!r} must be a path below "
                "the model's folder"
            )
        self.path = folder / posix
        if not self.path.is_file():
            raise FileNotFoundError(
                f"tensor {tensor.name!r}: external data file {self.path} doesn't exist"
            )
        available = self.path.stat().st_size
        try:
            self.offset = int(entries.get("offset", "0"))
            self.length = int(entries.get("length", str(available - self.offset)))
        except ValueError:
            raise ValueError(
                f"tensor {tensor.name!r}: offset and length of its external data must be numbers"
            ) from None
        if self.offset < 0 or self.length < 0 or self.offset + self.length > available:
            raise ValueError(
                f"tensor {tensor.name!r} claims bytes {self.offset} to "
                f"{self.offset + self.length} of {self.path}, which has {available}"
            )

    def map(self) -> npt.NDArray[np.uint8]:
        """The bytes, mapped: pages are read when touched."""
        if self.length == 0:
            return np.zeros(0, np.uint8)
        return np.memmap(
            self.path, dtype=np.uint8, mode="r", offset=self.offset, shape=(self.length,)
        )

    def copy_to(self, file: BinaryIO) -> None:
        """Writes the bytes to a file, some at a time."""
        with self.path.open("rb") as source:
            source.seek(self.offset)
            left = self.length
            while left:
                chunk = source.read(min(left, _COPIED_AT_A_TIME))
                if not chunk:
                    raise OSError(f"{self.path} was cut short while it was read")
                file.write(chunk)
                left -= len(chunk)


def tensor_bytes(tensor: TensorProto, folder: Path | None) -> int:
    """Bytes that the tensor's values take in the model or its external data."""
    if is_external(tensor):
        return ExternalRegion(tensor, folder).length
    return len(tensor.raw_data) if tensor.HasField("raw_data") else tensor.ByteSize()


def read_float32(tensor: TensorProto, folder: Path | None) -> npt.NDArray[np.float32]:
    """The values of a float tensor; external ones are mapped, not loaded.

    Raises:
        ValueError: the number of bytes doesn't fit the dims.
    """
    shape = tuple(tensor.dims)
    if not is_external(tensor):
        try:
            return numpy_helper.to_array(tensor).astype(np.float32, copy=False)
        except ValueError as error:
            raise ValueError(f"tensor {tensor.name!r} {list(shape)}: {error}") from None
    data = ExternalRegion(tensor, folder).map()
    if data.nbytes != 4 * math.prod(shape):
        raise ValueError(
            f"tensor {tensor.name!r} is float {list(shape)}, but its external data has "
            f"{data.nbytes} bytes"
        )
    return data.view("<f4").reshape(shape)


def raw_bytes(tensor: TensorProto) -> npt.NDArray[np.uint8]:
    """The values of an inline tensor, of any type but string, as external data holds them."""
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, np.uint8)
    # Typed fields, unpacked by the one function that knows all types, then packed as raw bytes.
    raw = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
    return np.frombuffer(raw, np.uint8)


def make_inline(tensor: TensorProto, folder: Path | None) -> None:
    """Moves a tensor's external data into the tensor."""
    data = ExternalRegion(tensor, folder).map().tobytes()
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = data
