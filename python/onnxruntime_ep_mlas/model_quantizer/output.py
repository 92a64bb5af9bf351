"""Writes models: each file to a temporary one, then renamed; tensors streamed when external."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from onnxruntime_ep_mlas.model_quantizer.tensors import (
    ExternalRegion,
    is_external,
    make_inline,
    model_tensors,
    raw_bytes,
    tensor_bytes,
)

# A protobuf message ends at 2^31 - 1 bytes; what is left is for whatever the estimate misses.
MAX_INLINE_BYTES = 2**31 - 2**24
# Shape inference reads small tensors, and wants them in the model.
_MIN_EXTERNAL_BYTES = 1024
# One page, so that a tensor can be mapped.
_ALIGNMENT = 4096
_VALUE_FIELDS = (
    "raw_data",
    "float_data",
    "int32_data",
    "int64_data",
    "double_data",
    "uint64_data",
)


class ModelWriter:
    """Takes a model's new tensors one at a time, and writes its files.

    With a data file every tensor of some size goes there at once and never waits in memory. Nothing
    appears under the final names before `finish`; leaving the context without it removes the
    temporary files.
    """

    def __init__(self, output: Path | None, external: bool) -> None:
        self._output = output
        self._data_path = output.with_name(output.name + ".data") if output and external else None
        self._temporary: dict[Path, Path] = {}
        self._data: BinaryIO | None = None

    def __enter__(self) -> ModelWriter:
        if self._data_path is not None:
            self._data = self._open(self._data_path)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._data is not None:
            self._data.close()
        for temporary in self._temporary.values():
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()

    @property
    def data_path(self) -> Path | None:
        """The data file beside the model, or None."""
        return self._data_path

    def tensor(self, name: str, array: npt.NDArray[Any]) -> TensorProto:
        """A new tensor with these values."""
        tensor = TensorProto(name=name, dims=array.shape)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if self._data is not None and data.nbytes >= _MIN_EXTERNAL_BYTES:
            self._write_data(tensor, data)
        else:
            tensor.raw_data = data.tobytes()
        return tensor

    def finish(self, model: onnx.ModelProto, folder: Path | None) -> None:
        """Moves the other tensors to where they belong and writes the files, the model last.

        Args:
            model: the model.
            folder: where external data of tensors that aren't from `tensor` lie.
        """
        if self._data is None:
            for tensor in model_tensors(model):
                if is_external(tensor):
                    make_inline(tensor, folder)
        else:
            for tensor in model_tensors(model):
                self._settle(tensor, folder)
            _sync_and_close(self._data)
        if self._output is None:
            return
        file = self._open(self._output)
        with file:
            file.write(model.SerializeToString())
            _sync_and_close(file)
        for path, temporary in self._temporary.items():
            temporary.replace(path)

    def _settle(self, tensor: TensorProto, folder: Path | None) -> None:
        """Puts a tensor into the data file unless it is small, and names that file in it."""
        assert self._data_path is not None
        if tensor.data_type == TensorProto.STRING:
            return
        if not self._holds(tensor):
            if tensor_bytes(tensor, folder) < _MIN_EXTERNAL_BYTES:
                if is_external(tensor):
                    make_inline(tensor, folder)
                return
            source = ExternalRegion(tensor, folder) if is_external(tensor) else raw_bytes(tensor)
            self._write_data(tensor, source)
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = self._data_path.name

    def _holds(self, tensor: TensorProto) -> bool:
        # The final name may also be that of the data file that the model came with.
        assert self._data_path is not None
        temporary = self._temporary[self._data_path].name
        return is_external(tensor) and any(
            entry.key == "location" and entry.value == temporary for entry in tensor.external_data
        )

    def _write_data(
        self, tensor: TensorProto, source: npt.NDArray[np.uint8] | ExternalRegion
    ) -> None:
        assert self._data is not None
        assert self._data_path is not None
        offset = self._data.seek(-(-self._data.tell() // _ALIGNMENT) * _ALIGNMENT)
        if isinstance(source, ExternalRegion):
            source.copy_to(self._data)
        else:
            self._data.write(source.data)
        length = self._data.tell() - offset
        for fieldname in _VALUE_FIELDS:
            tensor.ClearField(fieldname)
        tensor.data_location = TensorProto.EXTERNAL
        del tensor.external_data[:]
        for key, value in (
            ("location", self._temporary[self._data_path].name),
            ("offset", str(offset)),
            ("length", str(length)),
        ):
            tensor.external_data.add(key=key, value=value)

    def _open(self, path: Path) -> BinaryIO:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        file = temporary.open("xb")
        self._temporary[path] = temporary
        return file


def _sync_and_close(file: BinaryIO) -> None:
    # Before the rename: a crash must not leave the final name on an empty file.
    file.flush()
    os.fsync(file.fileno())
    file.close()
