"""Resident memory that creating a session adds: `python -m ... BACKEND MODEL THREADS ISA`.

Prints JSON: resident_bytes after creation and one run, peak_bytes during creation (both above what
a session on a tiny model has already taken), packed_bytes, seconds and cpu_seconds of creation.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ..session import session_report
from .backends import create_session
from .workload import Workload, random_weights, save_model

__all__ = ["main"]


def _status(field: str) -> int:
    """Bytes of a field of /proc/self/status."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def main(backend: str, model: Path, threads: int, isa: str | None) -> dict[str, float]:
    """Measures one backend; Linux only."""
    with tempfile.TemporaryDirectory(prefix="ort-mlas-bench-") as folder:
        tiny = Path(folder) / "tiny.onnx"
        workload = Workload(1, 32, 32, 32)
        save_model(tiny, [random_weights(workload, np.random.default_rng(0))])
        warm = create_session(backend, tiny, threads=threads, isa=isa)
        warm.run(None, {"A": np.ones((1, 32), np.float32)})
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak, VmHWM

    start, cpu_start = time.perf_counter(), time.process_time()
    created = create_session(backend, model, threads=threads, isa=isa)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak = _status("VmHWM")
    k = created.get_inputs()[0].shape[1]
    created.run(None, {"A": np.ones((1, k), np.float32)})
    gc.collect()
    after = _status("VmRSS")
    packed = 0
    if backend == "mlas-ep":
        packed = sum(node.details["packed_bytes"] for node in session_report(created).taken)
    return {
        "resident_bytes": after - before,
        "peak_bytes": peak - before,
        "packed_bytes": packed,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None)))
