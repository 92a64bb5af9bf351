"""What is measured: our kernels called directly, our provider and the stock one in a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from .._library import import_onnxruntime
from ..parity import Compute, compare, matmul_nbits_oracle
from ..session import InferenceSession
from .timing import repeat_calls
from .workload import RandomWeights, Workload, save_model

__all__ = [
    "BACKENDS",
    "BenchmarkError",
    "Runnable",
    "bind",
    "create_session",
    "pack",
    "prepare",
    "verify",
]

# Name -> what it is. "ort" and "ort-fp32" are what ratios are taken to.
BACKENDS = {
    "mlas": "our kernels, called directly",
    "mlas-ep": "our provider in an onnxruntime session",
    "ort": "onnxruntime's CPU provider on the same model",
    "ort-fp32": "onnxruntime's CPU provider, float32 MatMul of the same shape",
}

_VERIFIED_ROWS = 4
_VERIFIED_COLUMNS = 64


class BenchmarkError(RuntimeError):
    """A measurement that must not be believed: a wrong result, or faster than possible."""


@dataclass(frozen=True)
class Runnable:
    """`run(calls)` returns seconds; `result()` the product of the last call, [M, N]."""

    run: Callable[[int], float]
    result: Callable[[], npt.NDArray[np.float32]]


def prepare(
    backend: str,
    workload: Workload,
    weights: RandomWeights,
    a: npt.NDArray[np.float32],
    *,
    threads: int,
    isa: str | None,
    folder: Path,
) -> Runnable:
    """Makes one backend ready to run one workload; models are written into `folder`."""
    if backend == "mlas":
        packed = pack(weights)

        def time_kernel(calls: int) -> float:
            seconds = _native.time_matmul(
                a, packed, compute=workload.compute, isa=isa, threads=threads, calls=calls
            )
            return float(sum(seconds))

        return Runnable(
            time_kernel,
            lambda: _native.matmul_nbits(
                a, packed, compute=workload.compute, isa=isa, threads=threads
            ),
        )
    path = folder / f"{backend}-{workload.accuracy_level}.onnx"
    if backend == "ort-fp32":
        save_model(path, _dense(weights))
    elif backend in ("mlas-ep", "ort"):
        save_model(path, [weights], accuracy_level=workload.accuracy_level)
    else:
        raise ValueError(f"unknown backend '{backend}'; known: {', '.join(BACKENDS)}")
    created = create_session(backend, path, threads=threads, isa=isa)
    return bind(created, a, workload.n)


def create_session(backend: str, path: Path, *, threads: int, isa: str | None) -> Any:
    """A session on our provider ("mlas-ep", which must take every node) or the stock one."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Threads that spin after a run would slow the next case, whose session has others.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if backend == "mlas-ep":
        provider_options = {} if isa is None else {"isa": isa}
        return InferenceSession(path, options, provider_options=provider_options)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def pack(weights: RandomWeights) -> npt.NDArray[np.uint8]:
    """Packs into our format."""
    return _native.pack(
        weights.codes,
        weights.scales,
        weights.zero_points,
        k=weights.k,
        block_size=weights.block_size,
        bits=weights.bits,
    )


def verify(
    name: str,
    result: npt.NDArray[np.float32],
    a: npt.NDArray[np.float32],
    weights: RandomWeights,
    compute: Compute,
) -> None:
    """Raises BenchmarkError when a corner of the product is outside the oracle's tolerance."""
    columns = slice(max(0, weights.n - _VERIFIED_COLUMNS), weights.n)
    rows = slice(max(0, a.shape[0] - _VERIFIED_ROWS), a.shape[0])
    oracle = matmul_nbits_oracle(
        a[rows],
        weights.codes[columns],
        weights.scales[columns],
        None if weights.zero_points is None else weights.zero_points[columns],
        k=weights.k,
        block_size=weights.block_size,
        bits=weights.bits,
        compute=compute,
    )
    parity = compare(result[rows, columns], oracle)
    if not parity.passed:
        raise BenchmarkError(
            f"{name}: wrong result, {parity.wrong} of {parity.elements} elements outside the "
            f"tolerance, the worst by a factor of {parity.worst:.3g}"
        )


def bind(created: Any, a: npt.NDArray[np.float32], n: int) -> Runnable:
    """Input and output stay where they are: only the product is measured, no copies."""
    output = np.empty((a.shape[0], n), np.float32)
    binding = created.io_binding()
    ort_value = import_onnxruntime().OrtValue
    source = ort_value.ortvalue_from_numpy(a)
    target = ort_value.ortvalue_from_numpy(output)
    binding.bind_ortvalue_input("A", source)
    binding.bind_ortvalue_output("Y", target)

    def result() -> npt.NDArray[np.float32]:
        created.run_with_iobinding(binding)
        return np.asarray(target.numpy(), np.float32)

    return Runnable(repeat_calls(lambda: created.run_with_iobinding(binding)), result)


def _dense(weights: RandomWeights) -> npt.NDArray[np.float32]:
    """[K, N] of the same magnitude; a float32 product doesn't depend on the values."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((weights.k, weights.n)).astype(np.float32)
    matrix /= np.float32(np.sqrt(weights.k))
    return matrix
