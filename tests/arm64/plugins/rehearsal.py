"""pytest plugin: runs tests here as they will run elsewhere, for the oracle's sake.

REHEARSAL_REGISTRY names a JSON file with the kernel rows and ISAs of another machine. Tests are
collected for those, so that they make the same inputs in the same order; whatever kernel they ask
for, this machine's default one computes. Only what the oracle is asked matters: tests of dispatch
fail in such a run.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

REGISTRY_VARIABLE = "REHEARSAL_REGISTRY"
# Arguments by which a test chooses among kernels.
CHOICES = ("isa", "kernel", "format")
FUNCTIONS = ("matmul_nbits", "pack", "quantize_activations", "workspace_bytes")


def _without_choice(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        kept = {key: value for key, value in keywords.items() if key not in CHOICES}
        return function(*arguments, **kept)

    return call


def pytest_configure() -> None:
    from onnxruntime_ep_mlas import _native

    registry = json.loads(Path(os.environ[REGISTRY_VARIABLE]).read_text())
    _native.kernels = lambda: registry["kernels"]
    _native.isas = lambda: registry["isas"]
    for name in FUNCTIONS:
        setattr(_native, name, _without_choice(getattr(_native, name)))
