"""What a run says: ratios to stock, shares of peak, and rows that can't be right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .results import Result

__all__ = ["Row", "Summary", "summarise", "to_markdown"]

# A kernel may be measured a little above its peak when the clock rises between the two.
_ROUNDING = 0.005
_ENCODER_REFERENCE = 4096


@dataclass(frozen=True)
class Row:
    """A result beside what it is compared with; None where there is nothing to compare."""

    result: Result
    ratio: float | None  # baseline's median / this one's: above 1 is faster
    speedup: float | None  # over the same case with one thread
    relative_rate: float | None  # operations per second over those at N = K = 4096


@dataclass(frozen=True)
class Summary:
    rows: tuple[Row, ...]
    failures: tuple[str, ...]  # sentences; the run must not be believed while there are any


def summarise(
    results: Sequence[Result], *, min_ratio: float | None = None, backend: str = "mlas-ep"
) -> Summary:
    """Compares results of the same group, and finds those that fail.

    A row above what its instruction can do at most fails, and so does a row of `backend` whose
    ratio to the baseline is below `min_ratio`.
    """
    rows = []
    failures = []
    for result in results:
        base = _find(
            results,
            result,
            lambda other, r=result: (  # type: ignore[misc]
                other.group == r.group
                and other.backend == r.baseline
                and other.threads == r.threads
            ),
        )
        single = _find(
            results,
            result,
            lambda other, r=result: (  # type: ignore[misc]
                other.group == r.group and other.backend == r.backend and other.threads == 1
            ),
        )
        ratio = base.samples.median / result.samples.median if base is not None else None
        speedup = None
        if single is not None and result.threads > 1:
            speedup = single.samples.median / result.samples.median
        row = Row(result, ratio, speedup, _relative_rate(results, result))
        rows.append(row)
        failures += _failures(row, min_ratio, backend)
    return Summary(tuple(rows), tuple(failures))


def _find(
    results: Sequence[Result], result: Result, matches: Callable[[Result], bool]
) -> Result | None:
    for other in results:
        if other is not result and other.suite == result.suite and matches(other):
            return other
    return None


def _relative_rate(results: Sequence[Result], result: Result) -> float | None:
    own = result.workload
    if result.suite != "encoder" or own is None:
        return None

    def is_reference(other: Result) -> bool:
        shape = other.workload
        return (
            shape is not None
            and shape.n == shape.k == _ENCODER_REFERENCE
            and (shape.m, shape.block_size) == (own.m, own.block_size)
            and (other.backend, other.threads) == (result.backend, result.threads)
        )

    reference = _find(results, result, is_reference)
    return result.ops_per_second / reference.ops_per_second if reference is not None else None


def _failures(row: Row, min_ratio: float | None, backend: str) -> list[str]:
    result = row.result
    found = []
    fraction = result.fraction_of_ceiling
    if fraction is not None and result.peak is not None and fraction > 1 + _ROUNDING:
        found.append(
            f"{result.name}: {fraction:.1%} of the {result.peak.ceiling_instruction} peak is "
            "impossible; the time or the peak was measured wrongly"
        )
    if (
        min_ratio is not None
        and result.backend == backend
        and row.ratio is not None
        and row.ratio < min_ratio
    ):
        found.append(
            f"{result.name}: {row.ratio:.2f}x {result.baseline} is below the required "
            f"{min_ratio:.2f}x"
        )
    return found


def to_markdown(summary: Summary) -> str:
    """One table per suite, then the failures."""
    parts = []
    for suite in dict.fromkeys(row.result.suite for row in summary.rows):
        rows = [row for row in summary.rows if row.result.suite == suite]
        parts.append(f"## {suite}\n\n{_table(rows)}")
    if summary.failures:
        parts.append("## Failures\n\n" + "\n".join(f"- {text}" for text in summary.failures))
    return "\n\n".join(parts) + "\n"


_Column = tuple[str, Callable[[Row], str]]


def columns_of(rows: Sequence[Row]) -> list[_Column]:
    """Heading and cell text of the columns that at least one row fills."""
    counters = dict.fromkeys(name for row in rows for name in row.result.counters)
    columns: list[_Column] = [
        ("group", lambda row: row.result.group),
        ("backend", lambda row: row.result.backend),
        ("threads", lambda row: str(row.result.threads)),
        ("isa", lambda row: row.result.isa),
        ("median", lambda row: format_seconds(row.result.samples.median)),
        ("MAD", lambda row: f"{row.result.samples.mad / row.result.samples.median:.1%}"),
        ("GOPS", lambda row: _number(row.result.ops_per_second / 1e9, ".1f")),
        ("of peak", lambda row: _percent(row.result.fraction_of_peak)),
        ("peak", lambda row: row.result.peak.instruction if row.result.peak else ""),
        ("of ceiling", _ceiling),
        ("of bandwidth", lambda row: _percent(row.result.fraction_of_bandwidth)),
        ("x stock", lambda row: _number(row.ratio, ".2f")),
        ("x 1 thread", lambda row: _number(row.speedup, ".2f")),
        ("of rate at 4096", lambda row: _percent(row.relative_rate)),
    ]
    for name in counters:
        columns.append((name, lambda row, name=name: _counter(row, name)))  # type: ignore[misc]
    return [(head, cell) for head, cell in columns if any(cell(row) for row in rows)]


def format_seconds(seconds: float) -> str:
    """With three significant digits and a unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _table(rows: Sequence[Row]) -> str:
    columns = columns_of(rows)
    lines = ["| " + " | ".join(head for head, _ in columns) + " |"]
    lines.append("|" + " --- |" * len(columns))
    for row in rows:
        lines.append("| " + " | ".join(cell(row) for _, cell in columns) + " |")
    return "\n".join(lines)


def _ceiling(row: Row) -> str:
    peak = row.result.peak
    if peak is None or peak.ceiling_instruction == peak.instruction:
        return ""
    return f"{_percent(row.result.fraction_of_ceiling)} {peak.ceiling_instruction}"


def _counter(row: Row, name: str) -> str:
    value = row.result.counters.get(name)
    if value is None:
        return ""
    if name.endswith("_bytes"):
        return f"{value / 2**20:.1f} MiB"
    return f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _number(value: float | None, spec: str) -> str:
    return "" if not value else format(value, spec)
