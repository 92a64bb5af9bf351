"""`ort-mlas bench`: how fast, against the stock provider and against the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from .. import _native
from ..bench import (
    SUITES,
    BenchmarkError,
    Result,
    Settings,
    Summary,
    run,
    summarise,
    to_google_benchmark,
    to_markdown,
)
from ..bench.backends import BACKENDS
from ..bench.summary import columns_of
from .output import (
    EXIT_CHECK_FAILED,
    fail,
    make_console,
    print_json,
    progress_bar,
    write_json,
    write_text,
)

__all__ = ["bench"]


def bench(
    suite: Annotated[
        list[str] | None,
        typer.Option("--suite", help=f"One of {', '.join(SUITES)}, or all; may be repeated."),
    ] = None,
    m: Annotated[list[int] | None, typer.Option("--m", min=1, help="Rows; repeatable.")] = None,
    n: Annotated[int | None, typer.Option(min=1, help="Columns of the weights.")] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Rows of the weights.")] = None,
    block_size: Annotated[
        list[int] | None, typer.Option("--block-size", help="Block length; repeatable.")
    ] = None,
    bits: Annotated[
        list[int] | None,
        typer.Option("--bits", help="Widths of suite widths: 2, 4, 8; repeatable."),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            help="mlas: our kernels called directly; mlas-ep: in a session; "
            "ort: the stock provider. Default all; repeatable.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every case.")] = 1,
    isa: Annotated[str | None, typer.Option(help="Instruction set of our kernels.")] = None,
    cold: Annotated[bool, typer.Option("--cold", help="Short for --suite cold.")] = False,
    cold_mib: Annotated[
        int, typer.Option(min=1, help="MiB of packed weights that suite cold rotates over.")
    ] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions of each case.")] = 9,
    min_seconds: Annotated[
        float, typer.Option(min=0.0, help="Least duration of a repetition.")
    ] = 0.02,
    max_seconds: Annotated[
        float, typer.Option(min=0.0, help="A slow case gets fewer repetitions, to end in this.")
    ] = 3.0,
    seed: Annotated[int, typer.Option(help="Of weights, activations and the order.")] = 0,
    min_ratio: Annotated[
        float | None,
        typer.Option(help="Fail when a row of mlas-ep is less than this many times stock."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder to write SUITE.json and summary.md to."),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print google-benchmark JSON only.")
    ] = False,
) -> None:
    """Measure kernels and sessions against the stock provider, interleaved in one process.

    Exit code 1: a result is wrong, a row is faster than its instruction allows, or a ratio is
    below --min-ratio.
    """
    names = _suites(suite or [], cold)
    _check_choices("--backend", backend or [], BACKENDS)
    _check_choices("--bits", bits or [], sorted({row["bits"] for row in _native.kernels()}))
    lengths = sorted({length for row in _native.kernels() for length in row["block_lengths"]})
    _check_choices("--block-size", block_size or [], lengths)
    if isa is not None:
        _native.select_isa(isa)
    settings = Settings(
        repeats=repeats,
        min_seconds=min_seconds,
        max_seconds=max_seconds,
        threads=threads,
        isa=isa,
        m=tuple(m) if m else None,
        n=n,
        k=k,
        block_sizes=tuple(block_size) if block_size else None,
        bits=tuple(bits) if bits else None,
        backends=tuple(backend) if backend else None,
        cold_bytes=cold_mib << 20,
        seed=seed,
    )
    results: list[Result] = []
    try:
        with progress_bar() as bar:
            reporter = _Bar(bar)
            for name in names:
                found = run([name], settings, reporter)
                results += found
                if output is not None and found:
                    write_json(
                        output / f"{name}.json", to_google_benchmark(found, settings.to_dict())
                    )
    except BenchmarkError as error:
        fail(error)
        raise typer.Exit(EXIT_CHECK_FAILED) from None
    if not results:
        raise typer.BadParameter("nothing to measure: no suite has a case on these backends")

    summary = summarise(results, min_ratio=min_ratio)
    if output is not None:
        write_text(output / "summary.md", to_markdown(summary))
    if json_output:
        print_json(to_google_benchmark(results, settings.to_dict()))
    else:
        _print(summary, make_console())
    for text in summary.failures:
        fail(BenchmarkError(text))
    if summary.failures:
        raise typer.Exit(EXIT_CHECK_FAILED)


class _Bar:
    """Shows a suite's steps on a progress bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def start(self, suite: str, steps: int) -> None:
        self._task = self._progress.add_task(suite, total=steps)

    def step(self, description: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=1, description=description)


def _suites(names: list[str], cold: bool) -> list[str]:
    chosen = list(names)
    if cold:
        chosen.append("cold")
    if "all" in chosen:
        return list(SUITES)
    _check_choices("--suite", chosen, [*SUITES, "all"])
    return list(dict.fromkeys(chosen)) or ["gemm"]


def _check_choices(option: str, values: list[Any], known: Any) -> None:
    for value in values:
        if value not in known:
            names = ", ".join(str(name) for name in known)
            raise typer.BadParameter(f"{option} takes one of {names}, not {value}")


def _print(summary: Summary, console: Console) -> None:
    for suite in dict.fromkeys(row.result.suite for row in summary.rows):
        rows = [row for row in summary.rows if row.result.suite == suite]
        columns = columns_of(rows)
        table = Table(*(head for head, _ in columns), title=SUITES[suite].question)
        for row in rows:
            table.add_row(*(cell(row) for _, cell in columns))
        console.print(table)
