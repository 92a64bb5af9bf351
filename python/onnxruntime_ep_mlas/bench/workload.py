"""Shapes to measure, random weights for them and the ONNX models that hold those."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..parity import Compute

__all__ = [
    "RandomWeights",
    "Workload",
    "ZeroPoints",
    "random_activations",
    "random_weights",
    "save_model",
]

_OPSET = 17

# None given, packed integers, fractional numbers.
ZeroPoints = Literal["none", "uint8", "float"]


@dataclass(frozen=True)
class Workload:
    """One MatMulNBits: A [m, k] x weights [k, n]."""

    m: int
    n: int
    k: int
    block_size: int
    bits: int = 2
    accuracy_level: int = 4
    zero_points: ZeroPoints = "none"

    @property
    def ops(self) -> int:
        """Multiplications and additions of the product."""
        return 2 * self.m * self.n * self.k

    @property
    def compute(self) -> Compute:
        return "int8" if self.accuracy_level == 4 else "fp32"


@dataclass(frozen=True)
class RandomWeights:
    """Weights in the operator's layout; see `onnxruntime_ep_mlas.pack`."""

    codes: npt.NDArray[np.uint8]  # [N, k_blocks, block_size * bits / 8]
    scales: npt.NDArray[np.float32]  # [N, k_blocks], representable in fp16
    zero_points: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None
    n: int
    k: int
    block_size: int
    bits: int


def random_weights(workload: Workload, rng: np.random.Generator) -> RandomWeights:
    """Random codes with mean 0 and about the gain 1, so that chained products stay in range."""
    bits, block = workload.bits, workload.block_size
    k_blocks = -(-workload.k // block)
    middle = 1 << (bits - 1)
    fields = rng.integers(1, 2 * middle, (workload.n, k_blocks * block // (8 // bits), 8 // bits))
    shifts = np.arange(0, 8, bits)
    codes = (fields << shifts).sum(axis=2).astype(np.uint8).reshape(workload.n, k_blocks, -1)
    spread = float(np.sqrt(((middle - 1) * middle) / 3))
    gain = 1.0 / (spread * float(np.sqrt(workload.k)))
    scales = rng.uniform(0.5, 1.4, (workload.n, k_blocks)) * gain
    zero_points: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None = None
    if workload.zero_points == "uint8":
        shape = (workload.n, -(-k_blocks * bits // 8))
        zero_points = rng.integers(0, 256, shape, dtype=np.uint8)
    elif workload.zero_points == "float":
        # Fractional, so that no packer takes them for integers.
        middles = rng.integers(0, 2 * middle, (workload.n, k_blocks)) + 0.5
        zero_points = middles.astype(np.float32)
    return RandomWeights(
        codes,
        scales.astype(np.float16).astype(np.float32),
        zero_points,
        workload.n,
        workload.k,
        block,
        bits,
    )


def random_activations(workload: Workload, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    return rng.standard_normal((workload.m, workload.k)).astype(np.float32)


def save_model(
    path: Path,
    weights: list[RandomWeights] | npt.NDArray[np.float32],
    *,
    accuracy_level: int = 4,
) -> None:
    """Writes a chain of MatMulNBits with these weights, or a float32 MatMul with a [K, N] matrix.

    Input "A" [M, K], output "Y" [M, N]. Large models keep their weights in a file beside `path`.
    """
    nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []
    if isinstance(weights, np.ndarray):
        k, n = weights.shape
        initializers.append(numpy_helper.from_array(weights, "B"))
        nodes.append(helper.make_node("MatMul", ["A", "B"], ["Y"], name="MatMul"))
    else:
        k, n = weights[0].k, weights[-1].n
        source = "A"
        for index, matrix in enumerate(weights):
            target = "Y" if index == len(weights) - 1 else f"Y{index}"
            nodes.append(_node(index, matrix, source, target, accuracy_level, initializers))
            source = target
    graph = helper.make_graph(
        nodes,
        "bench",
        [helper.make_tensor_value_info("A", TensorProto.FLOAT, ["M", k])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["M", n])],
        initializers,
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    external = len(initializers) > 8
    onnx.save(
        model,
        str(path),
        save_as_external_data=external,
        location=f"{path.name}.data" if external else None,
    )


def _node(
    index: int,
    weights: RandomWeights,
    source: str,
    target: str,
    accuracy_level: int,
    initializers: list[onnx.TensorProto],
) -> onnx.NodeProto:
    inputs = [source, f"B{index}", f"scales{index}"]
    initializers.append(numpy_helper.from_array(weights.codes, inputs[1]))
    initializers.append(numpy_helper.from_array(weights.scales, inputs[2]))
    if weights.zero_points is not None:
        inputs.append(f"zero_points{index}")
        initializers.append(numpy_helper.from_array(weights.zero_points, inputs[3]))
    return helper.make_node(
        "MatMulNBits",
        inputs,
        [target],
        name=f"MatMulNBits{index}",
        domain="com.microsoft",
        K=weights.k,
        N=weights.n,
        bits=weights.bits,
        block_size=weights.block_size,
        accuracy_level=accuracy_level,
    )
