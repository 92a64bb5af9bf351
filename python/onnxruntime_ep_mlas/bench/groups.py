"""Measures groups of cases that are to be compared with each other."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import _native
from . import backends
from .calibration import Peak, Peaks, best_peak, peaks_for
from .results import Result
from .settings import Progress, Settings
from .timing import Case, Samples, interleave
from .workload import RandomWeights, Workload, random_activations, random_weights

__all__ = ["CaseSpec", "Group", "fastest_isa", "measure_groups"]


@dataclass(frozen=True)
class CaseSpec:
    """One case; `isa` forces our kernels, or None."""

    backend: str
    threads: int = 1
    isa: str | None = None


@dataclass(frozen=True)
class Group:
    """Cases on one workload that are interleaved; ratios are taken to `baseline`."""

    name: str
    workload: Workload
    cases: tuple[CaseSpec, ...]
    baseline: str = "ort"


def fastest_isa() -> str:
    """The fastest ISA that this machine can run: what the stock provider is assumed to use."""
    usable = [isa["name"] for isa in _native.isas() if not isa["unavailable_reason"]]
    return usable[-1]


def measure_groups(
    suite: str, groups: Sequence[Group], settings: Settings, progress: Progress
) -> list[Result]:
    """Times every group. Ours is first verified against the oracle; a wrong result raises.

    The peaks are measured before and after each group, and the higher value counts: a change of
    the clock meets the cases and their peak alike.
    """
    progress.start(suite, len(groups))
    peaks = Peaks.of_this_machine()
    rng = np.random.default_rng(settings.seed)
    results: list[Result] = []
    for group in groups:
        weights = random_weights(group.workload, rng)
        with tempfile.TemporaryDirectory(prefix="ort-mlas-bench-") as folder:
            results += _measure(suite, group, weights, settings, peaks, rng, Path(folder))
        progress.step(f"{suite} {group.name}")
    return results


def _measure(
    suite: str,
    group: Group,
    weights: RandomWeights,
    settings: Settings,
    peaks: Peaks,
    rng: np.random.Generator,
    folder: Path,
) -> list[Result]:
    workload = group.workload
    a = random_activations(workload, rng)
    cases: list[Case] = []
    isas: list[str] = []
    for spec in group.cases:
        name = f"{suite}/{group.name}/{spec.backend}/threads:{spec.threads}"
        isa = ""
        if spec.backend in ("mlas", "mlas-ep"):
            isa = _native.select_isa(spec.isa or settings.isa, workload.m)
        runnable = backends.prepare(
            spec.backend,
            workload,
            weights,
            a,
            threads=spec.threads,
            isa=isa or None,
            folder=folder,
        )
        if isa:
            backends.verify(name, runnable.result(), a, weights, workload.compute)
        cases.append(Case(f"{name}/{isa}", runnable.run))
        isas.append(isa)

    wanted = [(isa or fastest_isa(), workload.compute) for isa in isas]
    before = peaks_for(peaks, wanted)
    samples = interleave(
        cases,
        repeats=settings.repeats,
        min_seconds=settings.min_seconds,
        max_seconds=settings.max_seconds,
        rng=rng,
    )
    after = peaks_for(peaks, wanted)
    results = []
    for spec, case, isa, key in zip(group.cases, cases, isas, wanted, strict=True):
        peak: Peak | None = best_peak([before[key], after[key]]) if key in before else None
        results.append(_result(suite, group, spec, isa, samples[case.name], peak))
    return results


def _result(
    suite: str, group: Group, spec: CaseSpec, isa: str, samples: Samples, peak: Peak | None
) -> Result:
    return Result(
        suite=suite,
        group=group.name,
        backend=spec.backend,
        samples=samples,
        workload=group.workload,
        threads=spec.threads,
        isa=isa,
        peak=peak,
        baseline=group.baseline,
    )
