"""What a session costs besides its runs: creation time, bytes per weight, resident memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from . import backends
from .results import Result
from .settings import Progress, Settings
from .timing import Case, Samples, interleave, repeat_calls
from .workload import Workload, ZeroPoints, random_weights, save_model

__all__ = ["measure_session"]

_DIM = 4096
_BLOCK_SIZE = 32
_MEMORY_MATRICES = 12  # enough that the library's own memory doesn't matter
_PROBE_SECONDS = 300


def measure_session(settings: Settings, progress: Progress) -> list[Result]:
    """Creation time of a session with one matrix; packed size; memory of one with twelve.

    Memory is measured on Linux only, where a process can read and reset its own peak.
    """
    sizes = settings.block_sizes or (_BLOCK_SIZE,)
    progress.start("session", 3 * len(sizes))
    rng = np.random.default_rng(settings.seed)
    results: list[Result] = []
    for block_size in sizes:
        workload = Workload(1, settings.n or _DIM, settings.k or _DIM, block_size)
        with tempfile.TemporaryDirectory(prefix="ort-mlas-bench-") as folder:
            results += _creation(workload, settings, rng, Path(folder))
            progress.step(f"session creation block:{block_size}")
            results += _sizes(workload, rng)
            progress.step(f"session size block:{block_size}")
            if sys.platform == "linux":
                results += _memory(workload, settings, rng, Path(folder))
            progress.step(f"session memory block:{block_size}")
    return results


def _name(what: str, workload: Workload) -> str:
    return f"{what}/n:{workload.n}/k:{workload.k}/block:{workload.block_size}"


def _creation(
    workload: Workload, settings: Settings, rng: np.random.Generator, folder: Path
) -> list[Result]:
    path = folder / "one.onnx"
    save_model(path, [random_weights(workload, rng)])
    cases = [
        Case(
            backend,
            repeat_calls(
                lambda backend=backend: backends.create_session(  # type: ignore[misc]
                    backend, path, threads=settings.threads, isa=settings.isa
                )
            ),
        )
        for backend in ("mlas-ep", "ort")
    ]
    samples = interleave(
        cases,
        repeats=settings.repeats,
        min_seconds=settings.min_seconds,
        max_seconds=settings.max_seconds,
        rng=rng,
    )
    return [
        Result(
            suite="session",
            group=_name("create", workload),
            backend=case.name,
            samples=samples[case.name],
            threads=settings.threads,
            baseline="ort",
        )
        for case in cases
    ]


def _sizes(workload: Workload, rng: np.random.Generator) -> list[Result]:
    results = []
    kinds: tuple[tuple[str, ZeroPoints], ...] = (("symmetric", "none"), ("zero_points", "uint8"))
    for kind, zero_points in kinds:
        weights = random_weights(replace(workload, zero_points=zero_points), rng)
        seconds = []
        packed = backends.pack(weights)
        for _ in range(3):
            seconds.append(repeat_calls(lambda weights=weights: backends.pack(weights))(1))  # type: ignore[misc]
        results.append(
            Result(
                suite="session",
                group=_name(f"pack_{kind}", workload),
                backend="mlas",
                samples=Samples(tuple(seconds), tuple(seconds), 1),
                counters={
                    "packed_bytes": float(packed.nbytes),
                    "bits_per_weight": 8.0 * packed.nbytes / (workload.n * workload.k),
                },
            )
        )
    return results


def _memory(
    workload: Workload, settings: Settings, rng: np.random.Generator, folder: Path
) -> list[Result]:
    path = folder / "many.onnx"
    if workload.n != workload.k:
        raise ValueError("suite session chains its matrices: n and k must be equal")
    save_model(path, [random_weights(workload, rng) for _ in range(_MEMORY_MATRICES)])
    results = []
    for backend in ("mlas-ep", "ort"):
        found = _probe(backend, path, settings)
        counters = {
            "resident_bytes": float(found["resident_bytes"]),
            "peak_bytes": float(found["peak_bytes"]),
        }
        packed_bytes = found["packed_bytes"]
        if packed_bytes:
            counters["packed_bytes"] = float(packed_bytes)
            counters["resident_to_packed"] = found["resident_bytes"] / packed_bytes
        seconds = float(found["seconds"])
        results.append(
            Result(
                suite="session",
                group=_name("memory", workload),
                backend=backend,
                samples=Samples((seconds,), (float(found["cpu_seconds"]),), 1),
                threads=settings.threads,
                counters=counters,
                baseline="ort",
            )
        )
    return results


def _probe(backend: str, path: Path, settings: Settings) -> dict[str, float]:
    """A process of its own, since memory that earlier cases freed may stay resident here."""
    command = [sys.executable, "-m", f"{__package__}.memory_probe", backend, str(path)]
    command += [str(settings.threads), settings.isa or ""]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise backends.BenchmarkError(f"memory probe of {backend} failed: {lines[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found
