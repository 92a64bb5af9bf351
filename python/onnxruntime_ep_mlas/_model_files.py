"""Reading model files."""

from __future__ import annotations

from pathlib import Path

import onnx


def load_model(path: Path) -> onnx.ModelProto:
    """The model at `path`, its external data left on disk.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no ONNX model.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no model {path}")
    try:
        loaded = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ValueError(f"{path} is no ONNX model: {error}") from error
    if not loaded.graph.node:
        raise ValueError(f"{path} is no ONNX model: it has no nodes")
    return loaded
