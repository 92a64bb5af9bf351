"""Times several cases against each other, interleaved in random order."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Case", "Samples", "interleave", "mad", "repeat_calls"]

# Repetitions of a case so slow that all of them would not fit its time limit.
_LEAST_REPEATS = 3


@dataclass(frozen=True)
class Case:
    """`run(calls)` does the work `calls` times and returns the seconds that took."""

    name: str
    run: Callable[[int], float]


@dataclass(frozen=True)
class Samples:
    """Seconds per call of each repetition."""

    real: tuple[float, ...]
    cpu: tuple[float, ...]  # of all threads of the process
    calls: int  # per repetition

    @property
    def median(self) -> float:
        return statistics.median(self.real)

    @property
    def mad(self) -> float:
        return mad(self.real)


def mad(values: Sequence[float]) -> float:
    """Median absolute deviation from the median."""
    centre = statistics.median(values)
    return statistics.median(abs(value - centre) for value in values)


def repeat_calls(call: Callable[[], object]) -> Callable[[int], float]:
    """A Case's `run` from a function that does the work once."""

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start

    return run


def interleave(
    cases: Sequence[Case],
    *,
    repeats: int,
    min_seconds: float,
    max_seconds: float,
    rng: np.random.Generator,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Samples]:
    """Runs every case `repeats` times, each time long enough to last `min_seconds`.

    The order is drawn anew for each repetition. A case whose repetitions would take longer than
    `max_seconds` together gets fewer, at least three. `progress` is called after each repetition
    of all cases.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, is {repeats}")
    calls: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for case in cases:
        if case.name in calls:
            raise ValueError(f"two cases are named {case.name}")
        case.run(1)  # first touch, lazy initialisation
        seconds = max(case.run(1), 1e-9)
        if seconds < min_seconds:
            # One call is a poor estimate of a short time.
            trial = min(100, math.ceil(min_seconds / seconds / 4))
            seconds = max(case.run(trial) / trial, 1e-9)
        calls[case.name] = max(1, math.ceil(min_seconds / seconds))
        affordable = int(max_seconds / (seconds * calls[case.name]))
        wanted[case.name] = min(repeats, max(_LEAST_REPEATS, affordable))

    real: dict[str, list[float]] = {case.name: [] for case in cases}
    cpu: dict[str, list[float]] = {case.name: [] for case in cases}
    for repetition in range(repeats):
        for index in rng.permutation(len(cases)):
            case = cases[int(index)]
            # Spread over the whole run, so that a slow case meets the same conditions.
            due = -(-(repetition + 1) * wanted[case.name] // repeats)
            if len(real[case.name]) >= due:
                continue
            count = calls[case.name]
            cpu_start = time.process_time()
            seconds = case.run(count)
            cpu[case.name].append((time.process_time() - cpu_start) / count)
            real[case.name].append(seconds / count)
        progress()
    return {
        case.name: Samples(tuple(real[case.name]), tuple(cpu[case.name]), calls[case.name])
        for case in cases
    }
