"""Cases for tools/x86_bed/runner and its answers, encoded as runner/cases.cpp says."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

import oracle
from cases import ZERO_POINT_CASES, ScaleCase, random_activations, random_weights
from oracle import Float32Array, Int32Array, Weights

Compute = Literal["int8", "fp32"]
BITS = (2, 4, 8)
BLOCK_LENGTHS = (16, 32, 64, 128, 256)
SPECIAL_VALUES = (np.nan, np.inf, -np.inf, 1e-45, 3e38, -0.0)


@dataclass(frozen=True)
class ProductCase:
    a: Float32Array  # [M, K]
    weights: Weights
    bias: Float32Array | None  # [N]
    compute: Compute
    lda: int
    ldc: int

    @property
    def m(self) -> int:
        return int(self.a.shape[0])

    def __str__(self) -> str:
        w = self.weights
        zero_points = "none" if w.zero_points is None else str(w.zero_points.dtype)
        return (
            f"{self.compute} M={self.m} N={w.n} K={w.k} {w.bits} bits block {w.block_size} "
            f"zero points {zero_points} bias {self.bias is not None} lda {self.lda} ldc {self.ldc}"
        )

    def encode(self, runs: Sequence[str]) -> bytes:
        w, m = self.weights, self.m
        if w.zero_points is None:
            kind, zero_points = 0, b""
        else:
            kind = 1 if oracle.is_packed(w.zero_points) else 2
            zero_points = w.zero_points.tobytes()
        shape = (0, m, w.n, w.k, w.bits, w.block_size)
        fields = (*shape, self.lda, self.ldc, int(self.compute == "fp32"))
        bias = b"" if self.bias is None else self.bias.tobytes()
        header = struct.pack("<12I", *fields, kind, int(self.bias is not None), len(runs))
        names = b"".join(_encode_string(run) for run in runs)
        arrays = self.a.tobytes() + w.codes.tobytes() + w.scales.tobytes() + zero_points + bias
        return header + names + arrays


@dataclass(frozen=True)
class QuantiserCase:
    a: Float32Array
    block_size: int
    lda: int

    def __str__(self) -> str:
        return f"quantise {self.a.shape} in blocks of {self.block_size}"

    def encode(self, runs: Sequence[str]) -> bytes:
        m, k = self.a.shape
        shape = (1, m, 1, k, 2, self.block_size)
        header = struct.pack("<12I", *shape, self.lda, 0, 0, 0, 0, len(runs))
        return header + b"".join(_encode_string(run) for run in runs) + self.a.tobytes()


@dataclass
class Answer:
    error: str
    used: list[str] = field(default_factory=list)  # kernel rows
    damage: str = ""
    c: Float32Array | None = None  # [M, N]
    q: npt.NDArray[np.int8] | None = None  # [M, padded K]
    scales: Float32Array | None = None  # [M, k_blocks]
    sums: Int32Array | None = None
    fp32_rows: npt.NDArray[np.bool_] | None = None  # [M]


def _encode_string(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        assert len(taken) == size, "the runner's answers end in the middle of one"
        self.at += size
        return taken

    def string(self) -> str:
        (size,) = struct.unpack("<I", self.take(4))
        return self.take(size).decode()


def decode(
    data: bytes, cases: Sequence[ProductCase | QuantiserCase], runs: Sequence[Sequence[str]]
) -> list[dict[str, Answer]]:
    """Answers by run, one dictionary per case; `runs` are the names sent with each case."""
    reader = _Reader(data)
    answers: list[dict[str, Answer]] = []
    for case, names in zip(cases, runs, strict=True):
        by_run: dict[str, Answer] = {}
        for name in names:
            answer = by_run[name] = Answer(reader.string())
            if answer.error:
                continue
            answer.used = reader.string().split()
            answer.damage = reader.string()
            if isinstance(case, ProductCase):
                shape = (case.m, case.weights.n)
                (same_as_first,) = struct.unpack("<I", reader.take(4))
                if same_as_first:
                    answer.c = next(one.c for one in by_run.values() if one.c is not None)
                    continue
                raw = reader.take(4 * shape[0] * shape[1])
                answer.c = np.frombuffer(raw, np.float32).reshape(shape)
            else:
                m, blocks = len(case.a), oracle.ceil_div(case.a.shape[1], case.block_size)
                raw = reader.take(m * blocks * case.block_size)
                answer.q = np.frombuffer(raw, np.int8).reshape(m, -1)
                raw = reader.take(4 * m * blocks)
                answer.scales = np.frombuffer(raw, np.float32).reshape(m, blocks)
                raw = reader.take(4 * m * blocks)
                answer.sums = np.frombuffer(raw, np.int32).reshape(m, blocks)
                answer.fp32_rows = np.frombuffer(reader.take(m), np.uint8) != 0
        answers.append(by_run)
    assert reader.at == len(data), "the runner answered more than it was asked"
    return answers


# --- the grid ------------------------------------------------------------------------------------


def _activations(rng: np.random.Generator, m: int, k: int, special: bool) -> Float32Array:
    a = random_activations(rng, m, k)
    if special:
        for value in SPECIAL_VALUES:
            a[rng.integers(m), rng.integers(k)] = value
    return a


def _case(
    rng: np.random.Generator,
    compute: Compute,
    m: int,
    n: int,
    k: int,
    block: int,
    bits: int,
    index: int,
) -> ProductCase:
    zero_points = ZERO_POINT_CASES[index % len(ZERO_POINT_CASES)]
    scales: ScaleCase = "fp16" if index % 3 else "fp32"
    weights = random_weights(rng, n, k, block, bits=bits, zero_points=zero_points, scales=scales)
    bias = rng.standard_normal(n).astype(np.float32) if index % 2 else None
    a = _activations(rng, m, k, special=index % 4 == 3)
    lda, ldc = k + int(rng.integers(0, 5)), n + int(rng.integers(0, 5))
    return ProductCase(a, weights, bias, compute, lda, ldc)


@functools.cache
def product_cases() -> tuple[ProductCase, ...]:
    """Every width, block length, zero-point kind and compute type over remainders of M, N and K."""
    rng = np.random.default_rng(512)
    ns = (1, 7, 15, 16, 17, 31, 32, 33, 48, 50, 63, 65, 80)
    ms = (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 17, 24, 25)
    cases: list[ProductCase] = []
    computes: tuple[Compute, ...] = ("int8", "fp32")
    for compute in computes:
        for block in BLOCK_LENGTHS:
            ks = (1, block - 1, block, block + 1, 2 * block, 2 * block + 5, 3 * block - 3)
            # Shapes run through their values at their own pace; kinds at theirs, so all pairs meet.
            for index in range(48):
                n, m = ns[(index + block) % len(ns)], ms[(2 * index + block) % len(ms)]
                k, bits = ks[index % len(ks)], BITS[(index + index // 15) % len(BITS)]
                cases.append(_case(rng, compute, m, n, k, block, bits, index // 7 + index))
        for bits in BITS:
            # K over more than one panel, N over several column groups, M over one pass of rows.
            cases.append(_case(rng, compute, 13, 33, 1700, 32, bits, 2))
            cases.append(_case(rng, compute, 13, 70, 1700, 16, bits, 5))
            cases.append(_case(rng, compute, 258, 17, 40, 16, bits, 1))
            cases.append(_case(rng, compute, 25, 200, 300, 128, bits, 4))
            # Three of four vectors of the last strip, where a vector has four columns.
            cases.append(_case(rng, compute, 7, 11, 90, 32, bits, 2))
            cases.append(_case(rng, compute, 9, 42, 90, 64, bits, 5))
            if bits != 2:
                # Blocks that are stored in parts.
                cases.append(_case(rng, compute, 9, 33, 1300, 512, bits, 3))
                cases.append(_case(rng, compute, 9, 33, 600, 1024, bits, 2))
    return tuple(cases)


@functools.cache
def quantiser_cases() -> tuple[QuantiserCase, ...]:
    rng = np.random.default_rng(513)
    cases = []
    for block in BLOCK_LENGTHS:
        for k in (1, 15, block - 1, block, block + 1, 2 * block + 7):
            a = _activations(rng, 6, k, special=k % 2 == 1)
            # Values half-way between two integers after scaling, where rounding modes differ.
            a[0] = (rng.integers(-127, 127, k) + 0.5).astype(np.float32)
            a[0, ::block] = 127.0
            cases.append(QuantiserCase(a, block, k + 3))
    return tuple(cases)
