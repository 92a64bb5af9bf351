"""DequantizeLinear + MatMul or Gemm models made in the test, and what they must give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper

import models
import oracle

Granularity = Literal["tensor", "column", "blocks"]

BITS: dict[int, int] = {
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.INT8: 8,
    TensorProto.UINT8: 8,
}
SIGNED = (TensorProto.INT2, TensorProto.INT4, TensorProto.INT8)
WEIGHT_TYPES = tuple(BITS)
# The first that has 2-bit types.
TWO_BIT_OPSET = 25
IR_VERSIONS = {17: 8, 19: 9, 21: 10, 23: 11, 24: 12, 25: 13}


@dataclass
class Pair:
    """A x (q - zero_point) * scale + bias, where q is [K, N] or, `transposed`, stored as [N, K]."""

    q: npt.NDArray[np.int64]  # [K, N]
    weight_type: int
    scale: models.Array  # float32: [], [N] or [ceil(K / block_size), N]
    zero_point: npt.NDArray[np.int64] | None = None  # as scale
    block_size: int = 0
    bias: models.Array | None = None
    transposed: bool = False
    product: Literal["MatMul", "Gemm"] = "MatMul"
    add: bool = False  # bias by an Add node rather than Gemm's C
    opset: int | None = None
    element_type: int = TensorProto.FLOAT  # of scale, bias, A and the product
    attributes: dict[str, Any] = field(default_factory=dict)  # replace those of the product
    dequantize_attributes: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""

    @property
    def k(self) -> int:
        return int(self.q.shape[0])

    @property
    def n(self) -> int:
        return int(self.q.shape[1])

    @property
    def bits(self) -> int:
        return BITS[self.weight_type]

    def weights(self, block_len: int) -> oracle.Weights:
        """The same matrix in MatMulNBits' terms, each scale repeated for every `block_len` k."""
        offset = 2 ** (self.bits - 1) if self.weight_type in SIGNED else 0
        k_blocks = oracle.ceil_div(self.k, block_len)
        codes = np.zeros((self.n, k_blocks * block_len), np.uint8)
        codes[:, : self.k] = (self.q + offset).T
        group = np.zeros(k_blocks, np.int64)
        if self.block_size:
            group = np.arange(k_blocks) * block_len // self.block_size

        def spread(values: models.Array) -> models.Array:
            if self.block_size:
                return values[group].T
            return np.broadcast_to(values.reshape(-1, 1), (self.n, k_blocks))

        zero_point = np.zeros_like(self.scale) if self.zero_point is None else self.zero_point
        packed = oracle.pack_fields(spread(zero_point + offset).astype(np.uint8), self.bits)
        return oracle.Weights(
            oracle.pack_fields(codes, self.bits).reshape(self.n, k_blocks, -1),
            np.ascontiguousarray(spread(self.scale), np.float32),
            packed,
            self.k,
            block_len,
            self.bits,
        )

    def _stored(self, values: models.Array) -> models.Array:
        return values.T if self.transposed and values.ndim == 2 else values

    def initializers(self) -> list[onnx.TensorProto]:
        tensors = [
            integer_tensor(self.prefix + "W", self.weight_type, self._stored(self.q)),
            float_tensor(self.prefix + "scale", self.element_type, self._stored(self.scale)),
        ]
        if self.zero_point is not None:
            tensors.append(
                integer_tensor(
                    self.prefix + "zero_point", self.weight_type, self._stored(self.zero_point)
                )
            )
        if self.bias is not None:
            tensors.append(float_tensor(self.prefix + "bias", self.element_type, self.bias))
        return tensors

    def nodes(self, a: str = "A", y: str = "Y") -> list[onnx.NodeProto]:
        p = self.prefix
        names = [p + "W", p + "scale"] + ([] if self.zero_point is None else [p + "zero_point"])
        attributes: dict[str, Any] = {"axis": 0 if self.transposed else 1}
        if self.block_size:
            attributes = {"axis": 1 if self.transposed else 0, "block_size": self.block_size}
        attributes.update(self.dequantize_attributes)
        nodes = [
            helper.make_node("DequantizeLinear", names, [p + "D"], name=p + "dq", **attributes)
        ]
        right = p + "D"
        attributes = {}
        if self.transposed and self.product == "Gemm":
            attributes["transB"] = 1
        elif self.transposed:
            nodes.append(helper.make_node("Transpose", [right], [p + "DT"], name=p + "transpose"))
            right = p + "DT"
        attributes.update(self.attributes)
        inputs = [a, right]
        if self.bias is not None and not self.add:
            inputs.append(p + "bias")
        result = p + "T" if self.add else y
        nodes.append(
            helper.make_node(self.product, inputs, [result], name=p + "product", **attributes)
        )
        if self.add:
            nodes.append(helper.make_node("Add", [result, p + "bias"], [y], name=p + "add"))
        return nodes

    def model(self, a_shape: list[int | str] | None = None) -> onnx.ModelProto:
        """A -> Y, both float32. `a_shape` None leaves even the rank of A open."""
        nodes = self.nodes()
        if self.element_type != TensorProto.FLOAT:
            nodes = [
                helper.make_node("Cast", ["A"], ["A_cast"], name="to", to=self.element_type),
                *self.nodes("A_cast", "Y_cast"),
                helper.make_node("Cast", ["Y_cast"], ["Y"], name="from", to=TensorProto.FLOAT),
            ]
        return make_model(
            nodes,
            [models.value_info("A", a_shape)],
            [models.value_info("Y", None)],
            self.initializers(),
            self.opset or (TWO_BIT_OPSET if self.bits == 2 else 21),
        )

    def op_type(self) -> str:
        """As the report names the pair in a graph that isn't optimised."""
        return "+".join(node.op_type for node in self.nodes())


def make_model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: list[onnx.TensorProto],
    opset: int = 21,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS[opset])


def integer_tensor(name: str, data_type: int, values: models.Array) -> onnx.TensorProto:
    """Elements packed in row-major order over the whole tensor, least significant bits first."""
    bits = BITS[data_type]
    fields = (values.ravel() & (2**bits - 1)).astype(np.uint8)
    packed = oracle.pack_fields(fields, bits)
    return helper.make_tensor(name, data_type, values.shape, packed.tobytes(), raw=True)


def representable(values: models.Array, element_type: int) -> models.Array:
    """float32 values rounded to what the type holds."""
    dtype = helper.tensor_dtype_to_np_dtype(element_type)
    rounded: models.Array = np.asarray(values, np.float32).astype(dtype).astype(np.float32)
    return rounded


def float_tensor(name: str, data_type: int, values: models.Array) -> onnx.TensorProto:
    narrow = np.array(values, order="C").astype(helper.tensor_dtype_to_np_dtype(data_type))
    return helper.make_tensor(name, data_type, narrow.shape, narrow.tobytes(), raw=True)


def random_pair(
    rng: np.random.Generator,
    k: int,
    n: int,
    weight_type: int,
    granularity: Granularity = "blocks",
    *,
    block_size: int = 32,
    zero_points: bool = True,
    bias: bool = False,
    element_type: int = TensorProto.FLOAT,
    **arguments: Any,
) -> Pair:
    """Codes and zero points over the whole range of the type, scales of either sign."""
    bits = BITS[weight_type]
    low = -(2 ** (bits - 1)) if weight_type in SIGNED else 0
    shape: tuple[int, ...] = {
        "tensor": (),
        "column": (n,),
        "blocks": (oracle.ceil_div(k, block_size), n),
    }[granularity]
    scale = rng.uniform(0.01, 0.5, shape).astype(np.float32)
    scale = np.copysign(scale, rng.uniform(-1, 2, shape).astype(np.float32))
    return Pair(
        rng.integers(low, low + 2**bits, (k, n)),
        weight_type,
        representable(scale, element_type),
        np.asarray(rng.integers(low, low + 2**bits, shape)) if zero_points else None,
        block_size if granularity == "blocks" else 0,
        representable(rng.standard_normal(n), element_type) if bias else None,
        element_type=element_type,
        **arguments,
    )


def owners(sess: onnxruntime.InferenceSession) -> dict[str, str]:
    """Provider by name of every node of all graphs."""
    return {
        node.name: subgraph.ep_name
        for subgraph in sess.get_provider_graph_assignment_info()
        for node in subgraph.get_nodes()
    }


def reference(pair: Pair, a: models.Array, block_len: int, level: int = 0) -> oracle.Reference:
    return oracle.matmul(
        a.reshape(-1, pair.k),
        pair.weights(block_len),
        None if pair.bias is None else np.broadcast_to(pair.bias.ravel(), (pair.n,)),
        compute="int8" if level == 4 else "fp32",
    )


def assert_right(
    pair: Pair, a: models.Array, y: models.Array, block_len: int, level: int = 0, context: str = ""
) -> None:
    assert y.shape == (*a.shape[:-1], pair.n), context
    if y.size:
        oracle.assert_matches(y.reshape(-1, pair.n), reference(pair, a, block_len, level), context)
