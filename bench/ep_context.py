"""What a context model saves: start-up time and memory of sessions that pack, map, read and share.

    python bench/ep_context.py [--matrices 38] [--repeats 5] [--json FILE]

Makes a chain of 4096 x 4096 MatMulNBits (2 bits, blocks of 32: 38 of them are 200 MB packed), keeps
its weights in external data, compiles it, and starts sessions of each kind in processes of their
own, in turn. Files are in the page cache. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

import onnxruntime_ep_mlas
from onnxruntime_ep_mlas.bench.workload import Workload, random_weights, save_model

DIM, BLOCK_SIZE = 4096, 32
MIB = 2**20

# Name -> model file, provider options (None: the stock provider).
CASES: dict[str, tuple[str, dict[str, str] | None]] = {
    "stock provider": ("original.onnx", None),
    "original model, packed at start": ("original.onnx", {}),
    "context model, side file": ("side.onnx", {}),
    "context model, embedded": ("embedded.onnx", {}),
}


def make_models(folder: Path, matrices: int) -> int:
    """Writes all models; returns the bytes of packed weights."""
    rng = np.random.default_rng(1)
    workload = Workload(1, DIM, DIM, BLOCK_SIZE)
    original = folder / "original.onnx"
    save_model(original, [random_weights(workload, rng) for _ in range(matrices)])
    onnxruntime_ep_mlas.compile_model(original, folder / "embedded.onnx", embed=True)
    side = onnxruntime_ep_mlas.compile_model(original, folder / "side.onnx")
    tiny = [random_weights(Workload(1, 32, 32, 32), rng)]
    save_model(folder / "tiny.onnx", tiny)
    return side.packed_bytes


def create_session(path: Path, options: dict[str, str] | None) -> onnxruntime.InferenceSession:
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = 1
    if options is None:
        return onnxruntime.InferenceSession(
            path, session_options, providers=["CPUExecutionProvider"]
        )
    onnxruntime_ep_mlas.register()
    name = onnxruntime_ep_mlas.get_ep_name()
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
    session_options.add_provider_for_devices(devices[:1], options)
    return onnxruntime.InferenceSession(path, session_options)


def memory() -> dict[str, int]:
    """Bytes of this process by the kernel's names of kinds."""
    found = {}
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM", "RssAnon", "RssFile"):
            found[name] = int(value.split()[0]) * 1024
    return found


def settle() -> dict[str, int]:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return memory()


def probe(folder: Path, case: str) -> dict[str, float]:
    """Figures of one session, above what one of a tiny model has taken already."""
    model, options = CASES[case]
    warm = create_session(folder / "tiny.onnx", options)
    warm.run(None, {"A": np.ones((1, 32), np.float32)})
    before = settle()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak, VmHWM

    start = time.perf_counter()
    session = create_session(folder / model, options)
    created = time.perf_counter() - start
    a = np.ones((1, DIM), np.float32)
    start = time.perf_counter()
    session.run(None, {"A": a})
    first_run = time.perf_counter() - start
    peak = memory()["VmHWM"]
    after = settle()
    runs = []
    for _ in range(12):
        start = time.perf_counter()
        session.run(None, {"A": a})
        runs.append(time.perf_counter() - start)
    start = time.perf_counter()
    second = create_session(folder / model, options)
    second_created = time.perf_counter() - start
    second.run(None, {"A": a})
    both = settle()
    return {
        "created": created,
        "first_run": first_run,
        "run": statistics.median(runs),
        "peak": peak - before["VmRSS"],
        "resident": after["VmRSS"] - before["VmRSS"],
        "anonymous": after["RssAnon"] - before["RssAnon"],
        "second_created": second_created,
        "second_resident": both["VmRSS"] - after["VmRSS"],
    }


def measure(folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    samples: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    for _ in range(repeats):
        for case, found in samples.items():
            command = [sys.executable, __file__, "--probe", case, "--folder", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{case}: {done.stderr.strip().splitlines()[-1:]}")
            found.append(json.loads(done.stdout))
    return {
        case: {key: statistics.median(one[key] for one in found) for key in found[0]}
        for case, found in samples.items()
    }


def table(results: dict[str, dict[str, float]], packed_bytes: int) -> str:
    """Times as ratios to packing at start, memory as ratios to the packed weights."""
    packing = results["original model, packed at start"]
    lines = [
        f"Packed weights: {packed_bytes / MIB:.0f} MiB. Times: how many times faster than packing"
        " at start; memory: times the packed weights.",
        "",
        "| session | start | start and first run | run, M = 1 | peak | resident | of it anonymous"
        " | second session's start | it adds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case, found in results.items():
        start = packing["created"] / found["created"]
        both = (packing["created"] + packing["first_run"]) / (found["created"] + found["first_run"])
        cells = [
            *(f"{start:.2f}x", f"{both:.2f}x", f"{packing['run'] / found['run']:.2f}x"),
            *(f"{found[key] / packed_bytes:.2f}" for key in ("peak", "resident", "anonymous")),
            f"{packing['created'] / found['second_created']:.2f}x",
            f"{found['second_resident'] / packed_bytes:.2f}",
        ]
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--matrices", type=int, default=38, help="how many the chain has")
    parser.add_argument("--repeats", type=int, default=5, help="processes per kind of session")
    parser.add_argument(
        "--json", type=Path, help="where to write the medians, in seconds and bytes"
    )
    parser.add_argument("--probe", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.probe:
        print(json.dumps(probe(arguments.folder, arguments.probe)))
        return
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "65536")  # freed memory goes back at once
    with tempfile.TemporaryDirectory(prefix="ort-mlas-context-") as name:
        packed_bytes = make_models(Path(name), arguments.matrices)
        results = measure(Path(name), arguments.repeats)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results, packed_bytes))


if __name__ == "__main__":
    main()
