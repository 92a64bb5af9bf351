"""`ort-mlas parity`: is a quantised model computed right, and what did quantising cost?"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.table import Table

from .._model_files import load_model
from ..model_inputs import input_specs, make_inputs
from ..model_parity import Agreement, ModelParity, NodeParity, check_model
from ..parity import Parity
from .output import EXIT_CHECK_FAILED, make_console, print_json, progress_bar, write_json

__all__ = ["judge", "node_table", "output_table", "parity"]


def parity(
    model: Annotated[Path, typer.Argument(help="Quantised model, with MatMulNBits nodes.")],
    original: Annotated[
        Path | None, typer.Option(help="The float32 model that it was quantised from.")
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="NPZ file with an array per model input; others are generated."),
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option("--dim", help="NAME=SIZE of a named input dim; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the generated inputs.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each session.")] = 1,
    isa: Annotated[str | None, typer.Option(help="Instruction set of our kernels.")] = None,
    accuracy_level: Annotated[
        int | None, typer.Option(min=0, max=4, help="Override the model's accuracy_level for ours.")
    ] = None,
    min_cosine: Annotated[
        float | None,
        typer.Option(help="Fail when an output's mean cosine to the original is lower."),
    ] = None,
    min_argmax: Annotated[
        float | None,
        typer.Option(help="Fail when argmax agrees with the original in a smaller share of rows."),
    ] = None,
    allow_fallback: Annotated[
        bool, typer.Option(help="Accept MatMulNBits nodes that our provider declines.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write the JSON to this file too.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Check every MatMulNBits against the numpy oracle and compare the outputs end to end.

    Each node is judged on the activations that it really receives. Exit code 1: a node is outside
    its tolerance, was declined, or a threshold is missed.
    """
    if (min_cosine is not None or min_argmax is not None) and original is None:
        raise typer.BadParameter("--min-cosine and --min-argmax compare with --original: pass it")
    feeds = _feeds(model, inputs, _dims(dim or []), seed)
    options = {}
    if isa is not None:
        options["isa"] = isa
    if accuracy_level is not None:
        options["accuracy_level"] = str(accuracy_level)
    with progress_bar() as bar:
        task = bar.add_task("parity", total=None)
        result = check_model(
            model,
            feeds,
            original=original,
            provider_options=options,
            threads=threads,
            progress=lambda step: bar.update(task, description=step, advance=1),
        )
    failures = judge(
        result, min_cosine=min_cosine, min_argmax=min_argmax, allow_fallback=allow_fallback
    )
    found: dict[str, Any] = {
        "model": str(model),
        "original": str(original) if original else None,
        "inputs": {name: list(value.shape) for name, value in feeds.items()},
        **result.to_dict(),
        "failures": failures,
    }
    found["passed"] = not failures
    if output is not None:
        write_json(output, found)
    if json_output:
        print_json(found)
    else:
        _print(result, failures, make_console())
    if failures:
        raise typer.Exit(EXIT_CHECK_FAILED)


def judge(
    result: ModelParity,
    *,
    min_cosine: float | None = None,
    min_argmax: float | None = None,
    allow_fallback: bool = False,
) -> list[str]:
    """What is wrong, one sentence each; empty when the model passes."""
    failures = []
    for node in result.wrong_nodes:
        assert node.ours is not None
        failures.append(
            f"node {node.name}: {node.ours.wrong} of {node.ours.elements} elements outside the "
            f"tolerance, the worst by a factor of {node.ours.worst:.3g}"
        )
    if not allow_fallback:
        failures += [
            f"node {node.name} was not run by our provider: {node.reason or 'no reason given'}"
            for node in result.declined_nodes
        ]
    if not any(node.ours is not None for node in result.nodes):
        failures.append("no node could be checked")
    for name, pairs in result.outputs.items():
        agreement = pairs.get("ours/original")
        if agreement is None:
            continue
        if min_cosine is not None and agreement.cosine_mean < min_cosine:
            failures.append(
                f"output {name}: cosine {agreement.cosine_mean:.4f} to the original is below "
                f"{min_cosine}"
            )
        if min_argmax is not None and agreement.argmax < min_argmax:
            failures.append(
                f"output {name}: argmax agrees with the original in {agreement.argmax:.1%} of the "
                f"rows, below {min_argmax:.1%}"
            )
    return failures


def _dims(texts: list[str]) -> dict[str, int]:
    dims = {}
    for text in texts:
        name, separator, size = text.partition("=")
        if not separator or not name or not size.isdecimal():
            raise typer.BadParameter(f"--dim takes NAME=SIZE, not '{text}'")
        dims[name] = int(size)
    return dims


def _feeds(
    model: Path, inputs: Path | None, dims: dict[str, int], seed: int
) -> dict[str, npt.NDArray[np.generic]]:
    proto = load_model(model)
    given: dict[str, npt.NDArray[np.generic]] = {}
    if inputs is not None:
        with np.load(inputs) as archive:
            given = {name: archive[name] for name in archive.files}
        names = {value.name for value in proto.graph.input}
        unknown = sorted(set(given) - names)
        if unknown:
            raise ValueError(f"{inputs} has arrays that are no inputs: {', '.join(unknown)}")
        kept = [value for value in proto.graph.input if value.name not in given]
        del proto.graph.input[:]
        proto.graph.input.extend(kept)
    if dims or input_specs(proto):
        given = {**make_inputs(proto, dims, seed=seed), **given}
    return given


def node_table(nodes: list[NodeParity]) -> Table:
    """Error of each node, ours and stock, in units of its tolerance and relative to the output."""
    prefix = _common_path([node.name for node in nodes])
    caption = f"Nodes of {prefix}" if prefix else None
    title = "MatMulNBits against the oracle, on the node's own activations"
    table = Table(title=title, caption=caption)
    for head in ("node", "K x N", "bits", "block", "type", "level", "rows"):
        table.add_column(head)
    for head in ("ours: worst/tolerance", "rms", "stock: worst/tolerance", "rms", "ours"):
        table.add_column(head, justify="right")
    for node in nodes:
        table.add_row(
            node.name[len(prefix) :],
            f"{node.k}x{node.n}",
            str(node.bits),
            str(node.block_size),
            node.type,
            str(node.accuracy_level),
            str(node.rows),
            *_cells(node.ours),
            *_cells(node.stock),
            _verdict(node),
        )
    return table


def output_table(outputs: dict[str, dict[str, Agreement]]) -> Table:
    """End-to-end agreement of each pair of runs."""
    table = Table(title="Outputs, end to end")
    for head in ("output", "pair"):
        table.add_column(head)
    for head in ("max |error|", "rms", "cosine mean", "cosine min", "same argmax"):
        table.add_column(head, justify="right")
    for name, pairs in outputs.items():
        for pair, found in pairs.items():
            table.add_row(
                name,
                pair,
                f"{found.max_abs_error:.3g}",
                f"{found.relative_rms:.3g}",
                f"{found.cosine_mean:.5f}",
                f"{found.cosine_min:.5f}",
                f"{found.argmax:.1%}",
            )
    return table


def _common_path(names: list[str]) -> str:
    """The path, up to a slash, that all names begin with."""
    folders = [name.split("/")[:-1] for name in names]
    common = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    path = "".join(f"{parts[0]}/" for parts in common)
    return path if len(names) > 1 else ""


def _cells(parity: Parity | None) -> tuple[str, str]:
    if parity is None:
        return "-", "-"
    return f"{parity.worst:.3g}", f"{parity.relative_rms:.2g}"


def _verdict(node: NodeParity) -> str:
    if not node.taken:
        return f"declined: {node.reason}"
    if node.ours is None:
        return f"skipped: {node.skipped}"
    return "ok" if node.ours.passed else f"WRONG ({node.ours.wrong} elements)"


def _print(result: ModelParity, failures: list[str], console: Console) -> None:
    console.print(node_table(result.nodes))
    console.print(output_table(result.outputs))
    if result.stock_refusal:
        text = f"The stock provider can't run this model: {result.stock_refusal}"
        console.print(text, markup=False, soft_wrap=True)
    if failures:
        for text in failures:
            console.print(f"FAILED: {text}", markup=False, soft_wrap=True)
    else:
        checked = sum(node.ours is not None for node in result.nodes)
        console.print(
            f"Parity holds: {checked} of {len(result.nodes)} nodes agree with the oracle. "
            "Only --original with --min-cosine or --min-argmax judges the accuracy of the model."
        )
