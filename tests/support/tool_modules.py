"""Loads the programs in tools/, which are no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import binaries


def load(name: str) -> ModuleType:
    """tools/NAME.py, loaded once."""
    if name in sys.modules:
        return sys.modules[name]
    path = binaries.REPOSITORY / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
