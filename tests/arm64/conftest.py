from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))


@pytest.fixture(scope="session")
def bed() -> ModuleType:
    """tools/arm64/bed.py, built."""
    from arm64 import bed as module

    if why_not := module.why_not_here():
        pytest.skip(why_not)
    module.build()
    return module


@pytest.fixture(scope="session")
def wheel(bed: ModuleType) -> Path:
    """The aarch64 wheel, built from the sources at hand and installed in the bed."""
    from release import build_wheels

    if named := os.environ.get("ORT_MLAS_ARM64_WHEEL"):
        path = Path(named)
    else:
        target = build_wheels.target_of("aarch64")
        path = build_wheels.build_wheel(target, bed.BUILD / "wheel")
    bed.install(path)
    return path
