"""Quantises whole ONNX models."""

from onnxruntime_ep_mlas.model_quantizer.quantizer import quantize_model
from onnxruntime_ep_mlas.model_quantizer.report import NodeResult, QuantizationReport

__all__ = ["NodeResult", "QuantizationReport", "quantize_model"]
