"""pytest plugin: takes one part of the tests, and writes what became of them as JSON.

RUN_SHARE=i/n keeps every n-th test from the i-th on. RUN_ACCOUNT names the file:
{"outcomes": {"passed": count, ...}, "failed": [test, ...], "executed_rows": [kernel row, ...],
"oracle": {"hits": count, "misses": count}}. A process that dies writes none.
"""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path

import pytest

SHARE_VARIABLE = "RUN_SHARE"
ACCOUNT_VARIABLE = "RUN_ACCOUNT"

_outcomes: collections.Counter[str] = collections.Counter()
_failed: list[str] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    index, _, count = os.environ.get(SHARE_VARIABLE, "0/1").partition("/")
    kept = items[int(index) :: int(count)]
    left = [item for number, item in enumerate(items) if number % int(count) != int(index)]
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.append(report.nodeid)
    if report.when == "call" or report.outcome != "passed":
        _outcomes["error" if report.failed and report.when != "call" else report.outcome] += 1


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    import oracle_exchange

    import isa_support

    path = Path(os.environ[ACCOUNT_VARIABLE])
    account = {
        "outcomes": dict(_outcomes),
        "failed": _failed,
        "executed_rows": sorted(isa_support.executed_rows()),
        "oracle": {
            "hits": oracle_exchange.exchange.hits,
            "misses": oracle_exchange.exchange.misses,
        },
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(account, indent=1))
    part.rename(path)
