"""Quantisers of weight matrices and the operator's weight layout."""

# The modules of quantisers register them when they are imported.
from onnxruntime_ep_mlas.quantize import round_to_nearest, squared_error
from onnxruntime_ep_mlas.quantize.algorithm import (
    Algorithm,
    CodedColumns,
    Columns,
    algorithms,
    default_algorithm,
    find_algorithm,
    register_algorithm,
)
from onnxruntime_ep_mlas.quantize.driver import quantize_weights
from onnxruntime_ep_mlas.quantize.layout import pack_fields, unpack_fields
from onnxruntime_ep_mlas.quantize.quantized_weights import QuantizedWeights

__all__ = [
    "Algorithm",
    "CodedColumns",
    "Columns",
    "QuantizedWeights",
    "algorithms",
    "default_algorithm",
    "find_algorithm",
    "pack_fields",
    "quantize_weights",
    "register_algorithm",
    "round_to_nearest",
    "squared_error",
    "unpack_fields",
]
