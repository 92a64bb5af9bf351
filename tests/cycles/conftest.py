from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from arm64 import bed


@pytest.fixture(scope="session", autouse=True)
def _machine() -> None:
    """The tools run where the ARM64 bed does: they trace under its emulator."""
    if why_not := bed.why_not_here():
        pytest.skip(why_not)
