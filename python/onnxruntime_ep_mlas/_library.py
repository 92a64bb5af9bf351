"""Where the provider library lies, and its registration with ONNX Runtime."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from types import ModuleType

EP_NAME = "MlasExecutionProvider"
_LIBRARY_NAME = {
    "darwin": "libonnxruntime_providers_mlas.dylib",
    "win32": "onnxruntime_providers_mlas.dll",
}.get(sys.platform, "libonnxruntime_providers_mlas.so")
# The first version whose C API lets a library bring a provider.
_MIN_ONNXRUNTIME = "1.23"
_registration = threading.Lock()


def get_library_path() -> str:
    """Path of the provider library, for `onnxruntime.register_execution_provider_library`.

    Raises:
        FileNotFoundError: the package was installed without it.
    """
    # An editable installation spreads the package over several folders.
    folders = [Path(folder).absolute() for folder in sys.modules[__package__].__path__]
    for folder in folders:
        if (folder / _LIBRARY_NAME).is_file():
            return str(folder / _LIBRARY_NAME)
    raise FileNotFoundError(
        f"provider library {_LIBRARY_NAME} is missing from {' and '.join(map(str, folders))}: "
        "reinstall onnxruntime-ep-mlas with ORT_MLAS_BUILD_PROVIDER on (the default)"
    )


def get_ep_name() -> str:
    """Name of the execution provider in the library: "MlasExecutionProvider"."""
    return EP_NAME


def get_ep_names() -> list[str]:
    """Names of all execution providers in the library."""
    return [EP_NAME]


def import_onnxruntime() -> ModuleType:
    """The module onnxruntime, whichever distribution brings it.

    Raises:
        ImportError: it isn't installed.
        RuntimeError: it is too old for plugin execution providers.
    """
    try:
        onnxruntime = importlib.import_module("onnxruntime")
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise
        raise ImportError(
            "onnxruntime isn't installed: pip install 'onnxruntime-ep-mlas[onnxruntime]', or "
            "another distribution of it such as onnxruntime-gpu"
        ) from error
    if not hasattr(onnxruntime, "register_execution_provider_library"):
        raise RuntimeError(
            f"onnxruntime {onnxruntime.__version__} can't load plugin execution providers; "
            f"install version {_MIN_ONNXRUNTIME} or later"
        )
    return onnxruntime


def register() -> None:
    """Registers the provider library with this process's ONNX Runtime, unless it is already.

    There is no way back: unregistering a library while a session still uses it crashes the process.

    Raises:
        ImportError: onnxruntime isn't installed.
        RuntimeError: onnxruntime is too old, or refuses the library.
        FileNotFoundError: the package was installed without the library.
    """
    onnxruntime = import_onnxruntime()
    with _registration:
        if any(device.ep_name == EP_NAME for device in onnxruntime.get_ep_devices()):
            return
        path = get_library_path()
        try:
            onnxruntime.register_execution_provider_library(EP_NAME, path)
        except Exception as error:
            raise RuntimeError(
                f"onnxruntime {onnxruntime.__version__} refuses the provider library {path}: "
                f"{error}"
            ) from error
