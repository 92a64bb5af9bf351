#!/usr/bin/env python3
"""Compares two runs of `ort-mlas bench`, row by row.

    python tools/compare_sweeps.py BEFORE AFTER [--threshold 1.25] [--markdown FILE]

BEFORE and AFTER are JSON files of `ort-mlas bench --json`, or folders of them as --output writes. A
row is slower when its median time grew by more than the threshold and the quartiles of the two runs
don't overlap: the lower quartile after lies above the upper one before. Times of two different
CPUs are shown and never judged.

Exit code 0: no row is slower; 1: some are; 2: the files can't be read or share no row. Needs
nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class InputError(Exception):
    """A file is not a result of `ort-mlas bench`; the text says which and why."""


@dataclass(frozen=True)
class Sweep:
    """Repetitions, microseconds, by row name, and the CPU they were measured on."""

    cpu: str
    times: dict[str, list[float]]


@dataclass(frozen=True)
class Spread:
    """Quartiles of a row's repetitions, microseconds."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Spread:
        if len(times) == 1:
            return cls(times[0], times[0], times[0])
        low, median, high = statistics.quantiles(times, n=4, method="inclusive")
        return cls(low, median, high)


@dataclass(frozen=True)
class Row:
    """A row that both runs have."""

    name: str
    before: Spread
    after: Spread

    @property
    def ratio(self) -> float:
        """Time after / time before: above 1 is slower."""
        return self.after.median / self.before.median

    def slower(self, threshold: float) -> bool:
        return self.ratio > threshold and self.after.low > self.before.high


def read_sweep(path: Path) -> Sweep:
    """One file, or all *.json of a folder.

    Raises:
        InputError: nothing to read, another kind of file, or files of several CPUs.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} holds no .json file")
    times: dict[str, list[float]] = defaultdict(list)
    cpus = set()
    for file in files:
        try:
            content: Any = json.loads(file.read_text(encoding="utf-8"))
            cpus.add(str(content["context"]["cpu"]))
            for row in content["benchmarks"]:
                if row["run_type"] == "iteration":
                    times[row["run_name"]].append(float(row["real_time"]))
        except OSError as error:
            raise InputError(f"can't read {file}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file} is no result of ort-mlas bench: {type(error).__name__} {error}"
            ) from error
    if len(cpus) != 1:
        raise InputError(f"{path} mixes results of several CPUs: {', '.join(sorted(cpus))}")
    wrong = [name for name, values in times.items() if not all(value > 0 for value in values)]
    if wrong:
        raise InputError(f"{path}: row {wrong[0]} has a time that is not positive")
    return Sweep(cpus.pop(), dict(times))


def compare(before: Sweep, after: Sweep) -> list[Row]:
    """Rows that both have, in the order of `after`.

    Raises:
        InputError: there is none.
    """
    rows = [
        Row(name, Spread.of(before.times[name]), Spread.of(times))
        for name, times in after.times.items()
        if name in before.times
    ]
    if not rows:
        raise InputError("the two runs have no row in common")
    return rows


def to_markdown(rows: Sequence[Row], before: Sweep, after: Sweep, threshold: float) -> str:
    """A table of all rows, and what is only in one of the runs."""
    lines = [f"CPU: {after.cpu}" if before.cpu == after.cpu else _other_cpu(before, after), ""]
    lines += ["| row | before, us | after, us | ratio | |", "| --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        note = "slower" if before.cpu == after.cpu and row.slower(threshold) else ""
        lines.append(
            f"| {row.name} | {_times(row.before)} | {_times(row.after)} "
            f"| {row.ratio:.2f} | {note} |"
        )
    for what, names in (
        ("new", after.times.keys() - before.times.keys()),
        ("gone", before.times.keys() - after.times.keys()),
    ):
        if names:
            lines += ["", f"{what}: {', '.join(sorted(names))}"]
    return "\n".join(lines) + "\n"


def _times(spread: Spread) -> str:
    return f"{spread.median:.1f} ({spread.low:.1f} to {spread.high:.1f})"


def _other_cpu(before: Sweep, after: Sweep) -> str:
    return f"CPU was {before.cpu}, is {after.cpu}: the times are not comparable"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--threshold", type=float, default=1.25, help="least ratio of medians (default 1.25)"
    )
    parser.add_argument("--markdown", type=Path, help="file to append the table to")
    options = parser.parse_args(arguments)
    if not options.threshold >= 1:
        parser.error(f"--threshold must be at least 1, got {options.threshold}")
    try:
        before, after = read_sweep(options.before), read_sweep(options.after)
        rows = compare(before, after)
        text = to_markdown(rows, before, after, options.threshold)
        print(text, end="")
        if options.markdown is not None:
            with options.markdown.open("a", encoding="utf-8") as file:
                file.write(text)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if before.cpu != after.cpu:
        return 0
    slower = [row for row in rows if row.slower(options.threshold)]
    for row in slower:
        print(f"slower: {row.name} takes {row.ratio:.2f} times as long", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
