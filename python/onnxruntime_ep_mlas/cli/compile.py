"""`ort-mlas compile`: a model that brings its weights already packed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..context_model import compile_model
from .output import make_console, print_json

__all__ = ["compile"]


def compile(  # noqa: A001
    model: Annotated[Path, typer.Argument(help="ONNX model with low-bit weights.")],
    output: Annotated[Path, typer.Argument(help="EPContext model to write; replaced in one step.")],
    embed: Annotated[
        bool, typer.Option("--embed", help="Keep packed weights inside the model (below 2 GB).")
    ] = False,
    allow_fallback: Annotated[
        bool,
        typer.Option("--allow-fallback", help="Accept MatMulNBits nodes that stay as they are."),
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Pack a model's weights once, for sessions that start without packing them."""
    done = compile_model(model, output, embed=embed, allow_fallback=allow_fallback)
    if json_output:
        print_json(
            {
                "model": str(done.model),
                "weights": str(done.weights) if done.weights else None,
                "nodes": done.nodes,
                "packed_bytes": done.packed_bytes,
            }
        )
        return
    where = f"in {done.weights}" if done.weights else "inside"
    make_console().print(
        f"{done.model}: {done.nodes} nodes, {done.packed_bytes:,} bytes of packed weights {where}"
    )
