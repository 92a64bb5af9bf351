"""`ort-mlas quantize`: MatMul and Gemm with constant weights become MatMulNBits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..model_quantizer import QuantizationReport, quantize_model
from ..quantize import algorithms, default_algorithm
from ..quantize.layout import SUPPORTED_BITS
from .output import make_console, print_json, progress_bar

__all__ = ["quantize"]

_OVERRIDE_KEYS = {
    "algorithm": str,
    "bits": int,
    "block_size": int,
    "accuracy_level": int,
}


def quantize(
    model: Annotated[Path, typer.Argument(help="Float32 ONNX model.")],
    output: Annotated[Path, typer.Argument(help="File to write; replaced in one step.")],
    algorithm: Annotated[
        str | None,
        typer.Option(
            help="How codes and scales are chosen: "
            + "; ".join(f"{a.name}, {a.description}" for a in algorithms().values())
            + ". Default "
            + ", ".join(f"{default_algorithm(b)} at {b} bits" for b in SUPPORTED_BITS)
            + "."
        ),
    ] = None,
    bits: Annotated[int, typer.Option(help="Bits per weight: 2, 4 or 8.")] = 2,
    block_size: Annotated[int, typer.Option(help="Neighbouring k that share a scale.")] = 32,
    accuracy_level: Annotated[
        int, typer.Option(min=0, max=4, help="4: int8 activations; 0: float32 ones.")
    ] = 4,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Only nodes whose name matches this pattern (* and ?); repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Not nodes whose name matches; repeatable.")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            help="PATTERN:KEY=VALUE[,KEY=VALUE...] for the nodes that match; keys "
            f"{', '.join(_OVERRIDE_KEYS)}; repeatable."
        ),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Quantise the constant weights of MatMul and Gemm nodes; names of nodes are kept."""
    overrides = dict(_override(text) for text in override or [])
    with progress_bar() as bar:
        task = bar.add_task(f"quantising {model.name}", total=None)
        report = quantize_model(
            model,
            output,
            algorithm=algorithm,
            bits=bits,
            block_size=block_size,
            accuracy_level=accuracy_level,
            include=include or [],
            exclude=exclude or [],
            overrides=overrides,
            on_progress=lambda done, total, name: bar.update(
                task, completed=done, total=total, description=name
            ),
        )
    if json_output:
        print_json(report.to_dict())
    else:
        _print(report, make_console())


def _override(text: str) -> tuple[str, dict[str, Any]]:
    # From the right: node names of exporters hold colons.
    pattern, separator, settings = text.rpartition(":")
    if not separator or not pattern:
        raise typer.BadParameter(f"--override takes PATTERN:KEY=VALUE, not '{text}'")
    values: dict[str, Any] = {}
    for part in settings.split(","):
        key, _, value = part.partition("=")
        if key not in _OVERRIDE_KEYS:
            keys = ", ".join(_OVERRIDE_KEYS)
            raise typer.BadParameter(f"--override '{text}': unknown key '{key}'; known: {keys}")
        try:
            values[key] = _OVERRIDE_KEYS[key](value)
        except ValueError:
            raise typer.BadParameter(
                f"--override '{text}': {key} takes a number, not '{value}'"
            ) from None
    return pattern, values


def _print(report: QuantizationReport, console: Console) -> None:
    table = Table(title="Quantised nodes")
    for head in ("node", "K x N", "bits", "block", "algorithm", "weights", "relative error"):
        table.add_column(head, justify="left" if head == "node" else "right")
    for node in report.taken:
        table.add_row(
            node.name,
            f"{node.k}x{node.n}",
            str(node.bits),
            str(node.block_size),
            node.algorithm,
            f"{_mib(node.original_bytes)} -> {_mib(node.quantized_bytes)}",
            f"{node.relative_error:.3f}",
        )
    console.print(table)
    if report.skipped:
        skipped = Table("node", "why", title="Left as they are")
        for node in report.skipped:
            skipped.add_row(node.name, node.reason)
        console.print(skipped)
    console.print(
        f"{len(report.taken)} nodes quantised; weights {_mib(report.original_bytes)} -> "
        f"{_mib(report.quantized_bytes)}, model {_mib(report.input_bytes)} -> "
        f"{_mib(report.output_bytes)}: {report.output}",
        markup=False,
        soft_wrap=True,
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:.2f} MiB"
