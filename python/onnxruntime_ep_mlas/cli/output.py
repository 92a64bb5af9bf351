"""How commands speak: tables and JSON on standard output, progress and errors on standard error."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = [
    "EXIT_CHECK_FAILED",
    "EXIT_ERROR",
    "EXIT_OK",
    "fail",
    "make_console",
    "print_json",
    "progress_bar",
    "write_json",
    "write_text",
]

EXIT_OK = 0
EXIT_CHECK_FAILED = 1
EXIT_ERROR = 2

_LONGEST_ERROR = 1000


def make_console() -> Console:
    """For tables; never wraps when standard output is a file."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def fail(error: BaseException) -> None:
    """Prints an error as one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, FileNotFoundError) and error.filename:
        text = f"no such file: {error.filename}"
    elif isinstance(error, KeyError):
        text = f"missing key {text}"
    if len(text) > _LONGEST_ERROR:
        text = text[:_LONGEST_ERROR] + " ..."
    print(f"ort-mlas: error: {text}", file=sys.stderr)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on standard error that disappears when the work is done; none outside a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield progress


def write_text(path: Path, text: str) -> None:
    """Replaces a file in one step, so that nobody sees half of it; makes the folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp's own mode hides the file from everybody else
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """As `write_text`."""
    write_text(path, json.dumps(value, indent=2) + "\n")
