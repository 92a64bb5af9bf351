"""The typer application and its entry point."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from . import bench, compile, info, parity, quantize  # noqa: A004
from .output import EXIT_ERROR, EXIT_OK, fail

__all__ = ["app", "main"]

app = typer.Typer(
    name="ort-mlas",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Low-bit MatMulNBits on ONNX Runtime: inspect, quantise, compile, check, measure. "
    "Exit codes: 0 done, 1 a check failed, 2 it could not be done.",
)
app.command("info")(info.info)
app.command("quantize")(quantize.quantize)
app.command("compile")(compile.compile)
app.command("parity")(parity.parity)
app.command("bench")(bench.bench)

_traceback = False


def _print_version(wanted: bool) -> None:
    if wanted:
        print(metadata.version("onnxruntime-ep-mlas"))
        raise typer.Exit


@app.callback()
def _common(
    show_traceback: Annotated[
        bool, typer.Option("--traceback", help="Print the Python traceback of an error.")
    ] = False,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    global _traceback
    _traceback = show_traceback


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    global _traceback
    _traceback = False
    try:
        app(args=None if arguments is None else list(arguments), prog_name="ort-mlas")
    except SystemExit as stop:
        if isinstance(stop.code, int):
            return stop.code
        return EXIT_OK if stop.code is None else EXIT_ERROR
    except Exception as error:
        if _traceback:
            traceback.print_exc(file=sys.stderr)
        fail(error)
        return EXIT_ERROR
    return EXIT_OK
