"""Results of a run, and their form in google-benchmark's JSON."""

from __future__ import annotations

import datetime
import os
import statistics
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from .. import _native
from .._library import import_onnxruntime
from .calibration import Peak
from .timing import Samples, mad
from .workload import Workload

__all__ = ["Result", "context", "to_google_benchmark"]


@dataclass(frozen=True)
class Result:
    """One case. `group` is common to the cases that were interleaved and may be compared."""

    suite: str
    group: str
    backend: str
    samples: Samples
    workload: Workload | None = None
    threads: int = 1
    isa: str = ""  # of our kernels; "" for the stock provider
    peak: Peak | None = None  # of one core
    bytes_read: int = 0  # per call, where bandwidth is what limits
    bandwidth: float = 0.0  # bytes per second that one core can read, measured beside
    baseline: str = ""  # backend that the ratio is taken to
    counters: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.suite}/{self.group}/{self.backend}/threads:{self.threads}"

    @property
    def ops_per_second(self) -> float:
        return self.workload.ops / self.samples.median if self.workload else 0.0

    @property
    def fraction_of_peak(self) -> float | None:
        """Of `threads` cores' peak."""
        if self.peak is None or self.workload is None:
            return None
        return self.ops_per_second / (self.peak.ops * self.threads)

    @property
    def fraction_of_ceiling(self) -> float | None:
        """Of what no right result can pass; equals the fraction of peak but for 16-bit sums."""
        if self.peak is None or self.workload is None:
            return None
        return self.ops_per_second / (self.peak.ceiling_ops * self.threads)

    @property
    def fraction_of_bandwidth(self) -> float | None:
        if not self.bandwidth or not self.bytes_read:
            return None
        return self.bytes_read / self.samples.median / self.bandwidth


def context(settings: dict[str, Any]) -> dict[str, Any]:
    """google-benchmark's context, with the versions and options that a result depends on."""
    features = _native.cpu_features()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "executable": "ort-mlas bench",
        "num_cpus": os.cpu_count() or 1,
        "mhz_per_cpu": round(_native.clock_hz() / 1e6),
        "load_avg": [round(load, 2) for load in _load_average()],
        "library_version": metadata.version("onnxruntime-ep-mlas"),
        "json_schema_version": 1,
        "onnxruntime_version": import_onnxruntime().__version__,
        "cpu": str(features.get("brand", "")),
        "cpu_features": sorted(name for name, has in features.items() if has is True),
        "settings": settings,
    }


def _load_average() -> tuple[float, ...]:
    """Empty where the operating system has none, as Windows."""
    return os.getloadavg() if hasattr(os, "getloadavg") else ()


def to_google_benchmark(results: list[Result], settings: dict[str, Any]) -> dict[str, Any]:
    """{"context": {...}, "benchmarks": [...]}: repetitions and their median and MAD.

    Counters: ops_per_second, bytes_per_second, fraction_of_peak, fraction_of_ceiling,
    fraction_of_bandwidth, ratio_to_<baseline> and what the suite adds.
    """
    by_key = {(r.suite, r.group, r.backend, r.threads): r for r in results}
    rows: list[dict[str, Any]] = []
    for family, result in enumerate(results):
        counters = _counters(result)
        base = by_key.get((result.suite, result.group, result.baseline, result.threads))
        if base is not None and base is not result:
            ratio = base.samples.median / result.samples.median
            counters[f"ratio_to_{result.baseline}"] = ratio
        common = {
            "family_index": family,
            "per_family_instance_index": 0,
            "run_name": result.name,
            "repetitions": len(result.samples.real),
            "threads": result.threads,
        }
        label = " ".join(part for part in (result.isa, _peak_label(result)) if part)
        for index, (real, cpu) in enumerate(
            zip(result.samples.real, result.samples.cpu, strict=True)
        ):
            rows.append(
                {
                    "name": result.name,
                    **common,
                    "run_type": "iteration",
                    "repetition_index": index,
                    "iterations": result.samples.calls,
                    "real_time": real * 1e6,
                    "cpu_time": cpu * 1e6,
                    "time_unit": "us",
                    "label": label,
                }
            )
        for aggregate, real, cpu in (
            ("median", result.samples.median, statistics.median(result.samples.cpu)),
            ("mad", result.samples.mad, mad(result.samples.cpu)),
        ):
            row = {
                "name": f"{result.name}_{aggregate}",
                **common,
                "run_type": "aggregate",
                "aggregate_name": aggregate,
                "aggregate_unit": "time",
                "iterations": len(result.samples.real),
                "real_time": real * 1e6,
                "cpu_time": cpu * 1e6,
                "time_unit": "us",
                "label": label,
            }
            rows.append({**row, **counters} if aggregate == "median" else row)
    return {"context": context(settings), "benchmarks": rows}


def _counters(result: Result) -> dict[str, float]:
    counters: dict[str, float] = dict(result.counters)
    if result.workload is not None:
        counters["ops_per_second"] = result.ops_per_second
    if result.bytes_read:
        counters["bytes_per_second"] = result.bytes_read / result.samples.median
    for name in ("fraction_of_peak", "fraction_of_ceiling", "fraction_of_bandwidth"):
        value = getattr(result, name)
        if value is not None:
            counters[name] = value
    if result.peak is not None:
        counters["peak_ops_per_second"] = result.peak.ops
    if result.bandwidth:
        counters["read_bandwidth"] = result.bandwidth
    return counters


def _peak_label(result: Result) -> str:
    return f"peak:{result.peak.instruction}" if result.peak else ""
