"""ONNX Runtime plugin execution provider with MLAS-style low-bit GEMM kernels for MatMulNBits.

    import onnxruntime_ep_mlas as mlas

    mlas.quantize_model("model.onnx", "model-w2.onnx")
    session = mlas.InferenceSession("model-w2.onnx")
    outputs = session.run(None, inputs)

Nothing here imports onnxruntime until a function needs it; quantising works without it.
"""

from typing import TYPE_CHECKING

from onnxruntime_ep_mlas._library import get_ep_name, get_ep_names, get_library_path, register
from onnxruntime_ep_mlas.context_model import CompiledModel, compile_model
from onnxruntime_ep_mlas.model_quantizer import (
    NodeResult,
    QuantizationReport,
    quantize_model,
)
from onnxruntime_ep_mlas.packing import cpu_features, kernels, matmul_nbits, pack, unpack
from onnxruntime_ep_mlas.quantize import (
    Algorithm,
    QuantizedWeights,
    algorithms,
    quantize_weights,
    register_algorithm,
)
from onnxruntime_ep_mlas.session import (
    InferenceSession,
    NodeAssignment,
    SessionReport,
    session_report,
)

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    # pyproject.toml alone states the version; the installed metadata carries it.
    if name == "__version__":
        from importlib.metadata import version

        return version("onnxruntime-ep-mlas")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Algorithm",
    "CompiledModel",
    "InferenceSession",
    "NodeAssignment",
    "NodeResult",
    "QuantizationReport",
    "QuantizedWeights",
    "SessionReport",
    "__version__",
    "algorithms",
    "compile_model",
    "cpu_features",
    "get_ep_name",
    "get_ep_names",
    "get_library_path",
    "kernels",
    "matmul_nbits",
    "pack",
    "quantize_model",
    "quantize_weights",
    "register",
    "register_algorithm",
    "session_report",
    "unpack",
]
