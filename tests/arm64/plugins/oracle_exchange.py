"""pytest plugin: products that the oracle computed in one run serve another.

The oracle's float64 arithmetic is a hundred times slower under emulation. A run on the host with
ORACLE_RECORD=FILE.npz keeps each product by a digest of its inputs; a run with
ORACLE_REPLAY=FILE.npz:... takes them from there, and computes what it doesn't find.

The file holds, for record i: keys[i], the digest, uint8 [16]; shapes[i] = (M, N); starts[i], where
its numbers begin in `data`, float64, to which float32 and bool convert without loss.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

RECORD_VARIABLE = "ORACLE_RECORD"
REPLAY_VARIABLE = "ORACLE_REPLAY"
DIGEST_BYTES = 16

Numbers = npt.NDArray[np.float64]


class Exchange:
    """Records by digest, and how often they served."""

    def __init__(self) -> None:
        self.records: dict[bytes, tuple[tuple[int, int], Numbers]] = {}
        self.hits = 0
        self.misses = 0

    def load(self, path: Path) -> None:
        with np.load(path) as file:
            keys, shapes, starts, data = (file[x] for x in ("keys", "shapes", "starts", "data"))
        ends = [*starts[1:].tolist(), len(data)]
        for key, shape, start, end in zip(
            keys, shapes.tolist(), starts.tolist(), ends, strict=True
        ):
            self.records[key.tobytes()] = ((shape[0], shape[1]), data[start:end])

    def save(self, path: Path) -> None:
        numbers = [data for _, data in self.records.values()]
        sizes = [len(data) for data in numbers]
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(
                file,
                keys=np.frombuffer(b"".join(self.records), np.uint8).reshape(-1, DIGEST_BYTES),
                shapes=np.array([shape for shape, _ in self.records.values()], np.int64),
                starts=np.cumsum([0, *sizes], dtype=np.int64)[:-1],
                data=np.concatenate(numbers) if numbers else np.zeros(0),
            )
        part.rename(path)


exchange = Exchange()


def _feed(digest: Any, value: Any) -> None:
    """Adds a value to a digest such that different values give different bytes."""
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif is_dataclass(value):
        for field in fields(value):
            digest.update(field.name.encode())
            _feed(digest, getattr(value, field.name))
    else:
        digest.update(f"{type(value).__name__} {value!r} ".encode())


def digest_of(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
    digest = hashlib.blake2b(name.encode(), digest_size=DIGEST_BYTES)
    for value in arguments:
        _feed(digest, value)
    for key in sorted(keywords):
        digest.update(key.encode())
        _feed(digest, keywords[key])
    return digest.digest()


def _flatten(result: Any) -> tuple[tuple[int, int], Numbers]:
    parts = (
        result if isinstance(result, tuple) else [getattr(result, f.name) for f in fields(result)]
    )
    numbers = np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])
    m, n = parts[0].shape
    return (m, n), numbers


def _reference(shape: tuple[int, int], data: Numbers) -> Any:
    import oracle

    return oracle.Reference(*data.reshape(3, *shape).copy())


def _product_and_rows(shape: tuple[int, int], data: Numbers) -> Any:
    product, rows = np.split(data, [shape[0] * shape[1]])
    return product.reshape(shape).astype(np.float32), rows != 0


# The oracle's entry points, and how their results are put together again.
ENTRY_POINTS: dict[str, Callable[[tuple[int, int], Numbers], Any]] = {
    "matmul_fp32": _reference,
    "matmul_int8": _reference,
    "matmul_int8_float32": _product_and_rows,
}


def _exchanged(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compute)
    def product(*arguments: Any, **keywords: Any) -> Any:
        key = digest_of(name, arguments, keywords)
        record = exchange.records.get(key)
        if record is not None:
            exchange.hits += 1
            return ENTRY_POINTS[name](*record)
        exchange.misses += 1
        result = compute(*arguments, **keywords)
        if RECORD_VARIABLE in os.environ:
            exchange.records[key] = _flatten(result)
        return result

    return product


def pytest_configure() -> None:
    import oracle

    for path in filter(None, os.environ.get(REPLAY_VARIABLE, "").split(os.pathsep)):
        exchange.load(Path(path))
    for name in ENTRY_POINTS:
        setattr(oracle, name, _exchanged(name, getattr(oracle, name)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    if path := os.environ.get(RECORD_VARIABLE):
        exchange.save(Path(path))
