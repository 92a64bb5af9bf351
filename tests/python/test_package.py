"""The package on its own: names, version, and that it works without onnxruntime."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import onnxruntime_ep_mlas as mlas
import provider_file


def test_names() -> None:
    assert mlas.get_ep_name() == "MlasExecutionProvider"
    assert mlas.get_ep_names() == ["MlasExecutionProvider"]
    path = Path(mlas.get_library_path())
    assert path.is_absolute()
    assert path.is_file()
    assert path.name == provider_file.NAME
    for name in mlas.__all__:
        assert getattr(mlas, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mlas.nothing  # noqa: B018


def test_version_is_the_distributions() -> None:
    assert mlas.__version__ == version("onnxruntime-ep-mlas")


def test_package_is_typed_and_carries_its_libraries() -> None:
    folder = Path(mlas.get_library_path()).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_native.pyi").is_file()


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mlas, "__path__", [str(tmp_path)])
    with pytest.raises(FileNotFoundError, match="reinstall onnxruntime-ep-mlas") as caught:
        mlas.get_library_path()
    assert str(tmp_path) in str(caught.value)


def run_python(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(mlas.__file__).parent.parent)},
    )
    return result.stdout.strip()


def test_quantising_needs_neither_onnxruntime_nor_the_bindings() -> None:
    code = """
import sys
sys.modules["onnxruntime"] = None
import numpy as np
import onnxruntime_ep_mlas as mlas
print(mlas.quantize_weights(np.ones((32, 2), np.float32), algorithm="mse").dequantize().sum())
print("onnxruntime_ep_mlas._native" in sys.modules)
try:
    mlas.register()
except ImportError as error:
    print(error)
"""
    total, native, message = run_python(code).splitlines()
    assert float(total) == 64
    assert native == "False"
    assert "pip install 'onnxruntime-ep-mlas[onnxruntime]'" in message


def test_importing_loads_no_onnxruntime() -> None:
    code = "import sys, onnxruntime_ep_mlas; print('onnxruntime' in sys.modules)"
    assert run_python(code) == "False"


def test_old_onnxruntime_is_refused_in_words() -> None:
    code = """
import sys, types
old = types.ModuleType("onnxruntime")
old.__version__ = "1.20.0"
sys.modules["onnxruntime"] = old
import onnxruntime_ep_mlas as mlas
try:
    mlas.register()
except RuntimeError as error:
    print(error)
"""
    assert "onnxruntime 1.20.0 can't load plugin execution providers" in run_python(code)
