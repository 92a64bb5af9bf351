"""The named suites: which cases answer which question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .. import _native
from .cold import measure_cold
from .groups import CaseSpec, Group, measure_groups
from .results import Result
from .session_cost import measure_session
from .settings import Progress, Settings, Silent
from .workload import Workload, ZeroPoints

__all__ = ["SUITES", "Suite", "run"]

_BITS = (2, 4, 8)
_ZERO_POINTS: tuple[ZeroPoints, ...] = ("none", "uint8", "float")
_BLOCK_SIZES = (16, 32, 64, 128, 256)
_ROWS = (1, 8, 64, 256)
_DIM = 4096  # N and K of the hidden layers of a model of 7 billion weights
_ENCODER = ((384, 384), (1536, 384), (384, 1536))  # (N, K) of MiniLM's linear layers


@dataclass(frozen=True)
class Suite:
    """A question and how it is answered."""

    name: str
    question: str
    measure: Callable[[Settings, Progress], list[Result]]


def _group(
    workload: Workload,
    cases: Sequence[CaseSpec],
    settings: Settings,
    *,
    baseline: str = "ort",
    note: str = "",
) -> Group:
    chosen = [c for c in cases if settings.backends is None or c.backend in settings.backends]
    name = (
        f"n:{workload.n}/k:{workload.k}/block:{workload.block_size}/m:{workload.m}"
        f"/level:{workload.accuracy_level}{note}"
    )
    return Group(name, workload, tuple(chosen), baseline)


def _cases(settings: Settings, *names: str) -> list[CaseSpec]:
    return [CaseSpec(name, settings.threads) for name in names]


def _measure_gemm(settings: Settings, progress: Progress) -> list[Result]:
    groups = [
        _group(
            Workload(m, settings.n or _DIM, settings.k or _DIM, block),
            _cases(settings, "mlas", "mlas-ep", "ort"),
            settings,
        )
        for block in settings.block_sizes or _BLOCK_SIZES
        for m in settings.m or _ROWS
    ]
    return measure_groups("gemm", groups, settings, progress)


def _measure_fp32(settings: Settings, progress: Progress) -> list[Result]:
    groups = [
        _group(
            Workload(m, settings.n or _DIM, settings.k or _DIM, block, accuracy_level=0),
            _cases(settings, "mlas", "mlas-ep", "ort-fp32"),
            settings,
            baseline="ort-fp32",
        )
        for block in settings.block_sizes or _BLOCK_SIZES
        for m in settings.m or (1, 256)
    ]
    return measure_groups("fp32", groups, settings, progress)


def _measure_threads(settings: Settings, progress: Progress) -> list[Result]:
    several = max(2, settings.threads)
    cases = [CaseSpec(b, t) for t in (1, several) for b in ("mlas-ep", "ort")]
    groups = [
        _group(Workload(m, settings.n or _DIM, settings.k or _DIM, block), cases, settings)
        for block in settings.block_sizes or (32,)
        for m in settings.m or _ROWS
    ]
    return measure_groups("threads", groups, settings, progress)


def _measure_encoder(settings: Settings, progress: Progress) -> list[Result]:
    groups = [
        _group(Workload(m, n, k, block), _cases(settings, "mlas", "mlas-ep", "ort"), settings)
        for block in settings.block_sizes or (32,)
        for m in settings.m or (32, 64, 128)
        for n, k in (*_ENCODER, (_DIM, _DIM))
    ]
    return measure_groups("encoder", groups, settings, progress)


def _measure_widths(settings: Settings, progress: Progress) -> list[Result]:
    # Hundreds of groups, in some of which stock takes 100 times as long as in others.
    brief = replace(
        settings, repeats=min(settings.repeats, 7), max_seconds=min(settings.max_seconds, 0.5)
    )
    groups = [
        _group(
            Workload(
                *(m, settings.n or _DIM, settings.k or _DIM, block, bits, level), zero_points=kind
            ),
            _cases(settings, "mlas-ep", "ort"),
            settings,
            note=f"/bits:{bits}/zp:{kind}",
        )
        for bits in settings.bits or _BITS
        for block in settings.block_sizes or (32, 64, 128)
        for m in settings.m or (1, 8, 64)
        for level in (4, 0)
        for kind in _ZERO_POINTS
        if (bits, kind) != (8, "float")  # which the stock provider doesn't run
    ]
    return measure_groups("widths", groups, brief, progress)


def _measure_isa(settings: Settings, progress: Progress) -> list[Result]:
    # The portable reference is for correctness; measuring it would take most of the time.
    usable = [
        isa["name"]
        for isa in _native.isas()
        if not isa["unavailable_reason"] and isa["name"] != "portable"
    ]
    groups = [
        _group(
            Workload(m, settings.n or _DIM, settings.k or _DIM, block),
            [CaseSpec("mlas", settings.threads, isa)],
            settings,
            note=f"/isa:{isa}",
        )
        for isa in usable
        for block in settings.block_sizes or (64,)
        for m in settings.m or (8, 64, 256)
    ]
    return measure_groups("isa", groups, settings, progress)


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "gemm",
            "How fast is accuracy_level 4, over block lengths and rows, against the stock "
            "provider and the instruction's peak?",
            _measure_gemm,
        ),
        Suite(
            "fp32",
            "How fast is accuracy_level 0 against the stock provider's float32 MatMul?",
            _measure_fp32,
        ),
        Suite(
            "widths",
            "How fast are 2, 4 and 8 bits with each kind of zero points, at accuracy_level 4 and "
            "0, against the stock provider's own kernels for them?",
            _measure_widths,
        ),
        Suite("threads", "What do more threads give?", _measure_threads),
        Suite(
            "encoder",
            "Do the small layers of an encoder run at the rate of large ones?",
            _measure_encoder,
        ),
        Suite("isa", "How fast is each instruction set that this machine has?", _measure_isa),
        Suite(
            "cold",
            "How much of the read bandwidth does M = 1 use when weights are not in the cache?",
            measure_cold,
        ),
        Suite(
            "session",
            "What do session creation, packed weights and memory cost?",
            measure_session,
        ),
    )
}


def run(names: Sequence[str], settings: Settings, progress: Progress | None = None) -> list[Result]:
    """Measures the named suites in turn.

    Raises ValueError for an unknown suite or ISA, BenchmarkError when a result of ours is wrong.
    """
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        raise ValueError(f"unknown suite {', '.join(unknown)}; known: {', '.join(SUITES)}")
    results: list[Result] = []
    for name in names:
        results += SUITES[name].measure(settings, progress or Silent())
    return results
