"""Session-wide test set-up: hypothesis profiles and the account of executed kernel rows."""

from __future__ import annotations

import zlib
from collections.abc import Generator

import hypothesis
import pytest

import isa_support

# Timing on a shared machine says nothing about a kernel, so no example has a deadline. CI must give
# the same answer twice; instrumented code runs some ten times slower, hence fewer examples.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile(
    "sanitizers",
    deadline=None,
    derandomize=True,
    max_examples=10,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# The oracle's answers are computed in one run and used in another, which must make the same inputs.
hypothesis.settings.register_profile(
    "emulated",
    deadline=None,
    derandomize=True,
    max_examples=10,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="run one test in N, always the same ones: for emulated and instrumented runs, which "
        "are tens of times slower",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    count = config.getoption("sample")
    left = [item for item in items if zlib.crc32(item.nodeid.encode()) % count != 0]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % count == 0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.passed and isinstance(item, pytest.Function):
        callspec = getattr(item, "callspec", None)
        for value in callspec.params.values() if callspec else ():
            if isinstance(value, isa_support.KernelRow):
                isa_support.record_executed(value.name)
    return report


def _missing_executions() -> list[str]:
    if not isa_support.required_isas():
        return []
    try:
        return isa_support.missing_executions()
    except ImportError as error:
        return [f"the package can't be imported, so no required ISA was executed: {error}"]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    collected_only = session.config.getoption("collectonly")
    if finished and not collected_only and _missing_executions():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("collectonly"):
        return
    try:
        rows = isa_support.kernel_rows()
    except ImportError:
        rows = ()
    executed = isa_support.executed_rows()
    # A run without kernel tests has nothing to say about rows unless it had to execute some.
    if executed or isa_support.required_isas():
        terminalreporter.section("kernel rows")
        emulated = sum(row.name in executed and bool(row["unavailable_reason"]) for row in rows)
        where = f" ({emulated} of them on emulated CPUs only)" if emulated else ""
        terminalreporter.line(f"executed: {len(executed)} of {len(rows)}{where}")
        for row in rows:
            if row.name not in executed:
                reason = row["unavailable_reason"] or "usable here, but no test of this run used it"
                terminalreporter.line(f"not executed: {row.name} ({reason})")
    for sentence in _missing_executions():
        terminalreporter.line(f"FAILED {isa_support.REQUIRED_ISAS_VARIABLE}: {sentence}", red=True)
