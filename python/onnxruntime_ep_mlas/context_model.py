"""Models that bring their weights already packed (ONNX Runtime's EPContext models)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxruntime_ep_mlas._library import import_onnxruntime
from onnxruntime_ep_mlas.session import InferenceSession, session_report


@dataclass(frozen=True)
class CompiledModel:
    """What `compile_model` wrote.

    Attributes:
        model: the EPContext model.
        weights: the file beside it that holds packed weights; None when they are in the model.
        nodes: how many nodes carry packed weights.
        packed_bytes: bytes of packed weights.
    """

    model: Path
    weights: Path | None
    nodes: int
    packed_bytes: int


def compile_model(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    embed: bool = False,
    provider_options: Mapping[str, str | int | Path] | None = None,
    allow_fallback: bool = False,
) -> CompiledModel:
    """Packs a model's weights once, for sessions that start without packing them.

    Sessions load the result like any model. Packed weights fit every instruction set; a later
    version with another format refuses them and names this function's command.

    Args:
        model: path of the original model.
        output: path of the model to write; replaced in one step, its weights' file before it.
        embed: keep weights inside the model, which must then stay below 2 GB, in place of a file
            beside it that sessions map into memory. The two must stay in one folder.
        provider_options, allow_fallback: as for `InferenceSession`.

    Raises:
        FileNotFoundError: there is no such model.
        RuntimeError: as for `InferenceSession`.
    """
    source, target = Path(model), Path(output)
    if not source.is_file():
        raise FileNotFoundError(2, "no such file", str(source))
    ort = import_onnxruntime()
    with tempfile.TemporaryDirectory(prefix=".ort-mlas-", dir=target.parent) as folder:
        part = Path(folder) / target.name
        options = ort.SessionOptions()
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_file_path", str(part))
        options.add_session_config_entry("ep.context_embed_mode", str(int(embed)))
        session = InferenceSession(
            source, options, provider_options=provider_options, allow_fallback=allow_fallback
        )
        taken = session_report(session).taken
        if not part.exists():
            raise RuntimeError(f"{source} has no node whose weights could be packed")
        weights = None
        for file in Path(folder).iterdir():
            if file != part:
                weights = target.with_name(file.name)
                file.replace(weights)
        part.replace(target)
    packed = sum(int(node.details["packed_bytes"]) for node in taken)
    return CompiledModel(target, weights, len(taken), packed)
