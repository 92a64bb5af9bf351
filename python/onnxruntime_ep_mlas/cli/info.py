"""`ort-mlas info`: what this installation can do on this machine, and why not more."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import _native
from .._library import get_ep_name, get_library_path
from .output import make_console, print_json

__all__ = ["collect", "info", "rule_text"]


def collect() -> dict[str, Any]:
    """Everything `info` shows, as JSON values."""
    choice: dict[str, Any] = {}
    selection_error = ""
    try:
        choice = _native.isa_choice()
    except ValueError as error:  # ORT_MLAS_ISA names something that can't run here
        selection_error = str(error)
    library = Path(get_library_path())
    return {
        "version": metadata.version("onnxruntime-ep-mlas"),
        "provider": {
            "name": get_ep_name(),
            "library": str(library),
            "library_exists": library.is_file(),
        },
        "onnxruntime": _onnxruntime_version(),
        "cpu_features": _native.cpu_features(),
        "isa_choice": choice,
        "selection_error": selection_error,
        "isas": _native.isas(),
        "kernels": _native.kernels(),
    }


def info(
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="List kernel rows that can't run here too.")
    ] = False,
) -> None:
    """Show CPU features, instruction sets, kernel rows, ONNX Runtime and the provider library."""
    found = collect()
    if json_output:
        print_json(found)
        return
    _print(found, make_console(), everything)


def _onnxruntime_version() -> str | None:
    try:
        import onnxruntime
    except ImportError:
        return None
    return str(onnxruntime.__version__)


def _print(found: dict[str, Any], console: Console, everything: bool) -> None:
    features: dict[str, bool | str] = found["cpu_features"]
    has = [name for name, value in features.items() if value is True]
    lacks = [name for name, value in features.items() if value is False]
    provider = found["provider"]
    missing = "" if provider["library_exists"] else " (missing: reinstall the package)"
    lines = {
        "package": f"onnxruntime-ep-mlas {found['version']}",
        "ONNX Runtime": found["onnxruntime"] or "not installed: pip install onnxruntime",
        "provider": provider["name"],
        "library": provider["library"] + missing,
        "CPU": str(features.get("brand", "")),
        "features": " ".join(has),
        "without": " ".join(lacks),
        "core type": str(features.get("core", "")),
        "kernels used": found["selection_error"] or rule_text(found["isa_choice"]),
    }
    for name, text in lines.items():
        console.print(Text(f"{name + ':':14}{text}"), soft_wrap=True)

    isas = Table("instruction set", "needs", "usable here", title="Instruction sets")
    for isa in found["isas"]:
        isas.add_row(isa["name"], isa["instructions"], _usable(isa))
    console.print(isas)

    kernels = Table("kernel", "path", "tile", "block lengths", "usable here", title="Kernel rows")
    hidden = 0
    for row in found["kernels"]:
        if row["unavailable_reason"] and not everything:
            hidden += 1
            continue
        kernels.add_row(
            row["name"],
            row["path"],
            f"{row['tile_rows']}x{row['tile_columns']}",
            _powers_of_two(row["block_lengths"]),
            _usable(row),
        )
    console.print(kernels)
    if hidden:
        console.print(f"{hidden} more rows can't run here: see --all or --json.")


def _powers_of_two(lengths: list[int]) -> str:
    """Block lengths; "16, 32, ... 256" for every power of two in between."""
    every = [lengths[0] << step for step in range(len(lengths))]
    if len(lengths) > 3 and lengths == every:
        return f"{lengths[0]}, {lengths[1]}, ... {lengths[-1]}"
    return ", ".join(str(length) for length in lengths)


def rule_text(choice: dict[str, Any]) -> str:
    """Which ISA runs how many rows (M), e.g. "neon_dotprod for M = 1, neon_i8mm for M >= 2"."""
    one, few, many = (str(choice[key]) for key in ("one_row", "few_rows", "many_rows"))
    many_from = int(choice["many_from"])
    if few == many or many_from == 2:
        return f"{many} for every M" if one == many else f"{one} for M = 1, {many} for M >= 2"
    below = f"{one} for M = 1, {few}" if one != few else few
    return f"{below} for M < {many_from}, {many} for M >= {many_from}"


def _usable(row: dict[str, Any]) -> str:
    reason = row["unavailable_reason"]
    return f"no: {reason}" if reason else "yes"
