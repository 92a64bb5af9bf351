"""M = 1 over more weights than the cache holds: what decoding a language model is like."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .. import _native
from . import backends
from .results import Result
from .settings import Progress, Settings
from .timing import Case, interleave
from .workload import RandomWeights, Workload, random_activations, random_weights, save_model

__all__ = ["measure_cold"]

_DIM = 4096
_BLOCK_SIZE = 32


def measure_cold(settings: Settings, progress: Progress) -> list[Result]:
    """Rotates over `settings.cold_bytes` of packed weights, directly and as a chain in a session.

    A call is one pass over all matrices. Bandwidth counts each backend's own bytes: our packed
    ones, and codes and float32 scales as the model holds them for the stock provider.
    """
    sizes = settings.block_sizes or (_BLOCK_SIZE,)
    progress.start("cold", len(sizes))
    rng = np.random.default_rng(settings.seed)
    results: list[Result] = []
    for block_size in sizes:
        workload = Workload(1, settings.n or _DIM, settings.k or _DIM, block_size)
        if workload.n != workload.k:
            raise ValueError("suite cold chains its matrices: n and k must be equal")
        with tempfile.TemporaryDirectory(prefix="ort-mlas-bench-") as folder:
            results += _measure(workload, settings, rng, Path(folder))
        progress.step(f"cold block:{block_size}")
    return results


def _measure(
    workload: Workload, settings: Settings, rng: np.random.Generator, folder: Path
) -> list[Result]:
    first = random_weights(workload, rng)
    packed_bytes = backends.pack(first).nbytes
    count = -(-settings.cold_bytes // packed_bytes)
    matrices = [_rolled(first, index) for index in range(count)]
    a = random_activations(workload, rng)
    isa = _native.select_isa(settings.isa)
    group = f"n:{workload.n}/k:{workload.k}/block:{workload.block_size}/m:1/matrices:{count}"

    wanted = settings.backends or ("mlas", "mlas-ep", "ort")
    runs: dict[str, Callable[[int], float]] = {}
    if "mlas" in wanted:
        packed = [backends.pack(matrix) for matrix in matrices]

        def run_kernels(calls: int) -> float:
            seconds = _native.time_matmul(
                a, packed, compute="int8", isa=isa, threads=settings.threads, calls=calls * count
            )
            return float(sum(seconds))

        runs["mlas"] = run_kernels
    path = folder / "chain.onnx"
    save_model(path, matrices)
    for backend in ("mlas-ep", "ort"):
        if backend in wanted:
            session = backends.create_session(backend, path, threads=settings.threads, isa=isa)
            runs[backend] = backends.bind(session, a, workload.n).run

    before = _native.read_bandwidth(packed_bytes * count)
    samples = interleave(
        [Case(name, run) for name, run in runs.items()],
        repeats=settings.repeats,
        min_seconds=settings.min_seconds,
        max_seconds=max(settings.max_seconds, 10 * settings.min_seconds),
        rng=rng,
    )
    bandwidth = max(before, _native.read_bandwidth(packed_bytes * count))
    results = []
    for backend in runs:
        ours = backend != "ort"
        size = packed_bytes if ours else first.codes.nbytes + first.scales.nbytes
        results.append(
            Result(
                suite="cold",
                group=group,
                backend=backend,
                samples=samples[backend],
                threads=settings.threads,
                isa=isa if ours else "",
                bytes_read=size * count,
                bandwidth=bandwidth,
                baseline="ort",
                counters={
                    "bytes_per_weight": size / (workload.n * workload.k),
                    "matrices": float(count),
                },
            )
        )
    return results


def _rolled(weights: RandomWeights, columns: int) -> RandomWeights:
    """Other memory with the same statistics, cheaper than drawing anew."""
    return RandomWeights(
        np.roll(weights.codes, columns, axis=0),
        np.roll(weights.scales, columns, axis=0),
        None,
        weights.n,
        weights.k,
        weights.block_size,
        weights.bits,
    )
