"""What quantize_model did: every MatMul and Gemm node, taken or not, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx


@dataclass(frozen=True)
class NodeResult:
    """One MatMul or Gemm node.

    Attributes:
        name: the node's name, or that of its first output when it has none.
        op_type: "MatMul" or "Gemm".
        graph: "" for the main graph, else the path of a subgraph, e.g. "if_3/then_branch".
        taken: whether the node is a MatMulNBits now.
        reason: why not, "" when taken.
        weight: name of the constant that holds the weights, "" when there is none.
        k, n: dims of the weights as the product A @ W sees them; 0 when not taken, and so are:
        bits, block_size, algorithm, accuracy_level: how it was quantised.
        original_bytes: bytes of the float32 weights.
        quantized_bytes: bytes of codes, scales and zero points. Nodes that share a weight share
            these bytes too.
        relative_error: ||W - dequantised|| / ||W||, Frobenius norms.
    """

    name: str
    op_type: str
    graph: str
    taken: bool
    reason: str = ""
    weight: str = ""
    k: int = 0
    n: int = 0
    bits: int = 0
    block_size: int = 0
    algorithm: str = ""
    accuracy_level: int = 0
    original_bytes: int = 0
    quantized_bytes: int = 0
    relative_error: float = 0.0


@dataclass(frozen=True)
class QuantizationReport:
    """The result of quantize_model.

    Attributes:
        nodes: every MatMul and Gemm node in graph order.
        original_bytes: bytes of the weights of all nodes taken, each weight counted once.
        quantized_bytes: bytes of what replaced them, each counted once.
        input_bytes: bytes of the whole model before, external data included.
        output_bytes: bytes of the whole model after, external data included.
        output: path of the model written, or None.
        external_data: path of the data file beside it, or None when everything is in one file.
        model: the model, when it was not written to a file.
    """

    nodes: tuple[NodeResult, ...]
    original_bytes: int
    quantized_bytes: int
    input_bytes: int
    output_bytes: int
    output: Path | None
    external_data: Path | None
    model: onnx.ModelProto | None

    @property
    def taken(self) -> tuple[NodeResult, ...]:
        """The nodes that are MatMulNBits now."""
        return tuple(node for node in self.nodes if node.taken)

    @property
    def skipped(self) -> tuple[NodeResult, ...]:
        """The nodes left as they were."""
        return tuple(node for node in self.nodes if not node.taken)

    def to_dict(self) -> dict[str, Any]:
        """The report without the model, in types that JSON has."""
        return {
            "nodes": [asdict(node) for node in self.nodes],
            "original_bytes": self.original_bytes,
            "quantized_bytes": self.quantized_bytes,
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
            "output": None if self.output is None else str(self.output),
            "external_data": None if self.external_data is None else str(self.external_data),
        }
