"""Pairs that stay with the CPU provider, each with its reason in the report, and right as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import models
import oracle
import qdq_models

K, N = 64, 33


def unoptimised(options: onnxruntime.SessionOptions) -> None:
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def pair_of(seed: int = 0, **arguments: Any) -> qdq_models.Pair:
    weight_type = arguments.pop("weight_type", TensorProto.INT4)
    rng = np.random.default_rng([12, seed])
    return qdq_models.random_pair(rng, K, N, weight_type, **arguments)


def declined(
    model: onnx.ModelProto, reason: str, folder: Path, **arguments: Any
) -> onnxruntime.InferenceSession:
    """A session on a model whose pair this provider leaves alone, for this reason."""
    path = folder / "report.json"
    sess = models.session(model, options={"report": str(path)}, **arguments)
    report = models.report_nodes(path)["product"]
    assert not report["taken"]
    assert reason in report["reason"]
    assert (report["packed_bytes"], report["kernels"]) == (0, [])
    assert models.PROVIDER not in qdq_models.owners(sess).values()
    return sess


def assert_near(y: models.Array, expected: oracle.Reference) -> None:
    """The CPU provider may round as its int8 arithmetic does: near enough to rule a fault out."""
    assert y.shape == expected.value.shape
    assert np.all(np.abs(y - expected.value) <= 0.05 * expected.magnitude.max())


def activations(m: int = 3) -> oracle.Float32Array:
    return np.random.default_rng(13).standard_normal((m, K)).astype(np.float32)


@pytest.mark.parametrize("name", ["W", "scale", "zero_point"])
@pytest.mark.parametrize("overridable", [False, True])
def test_run_time_constants(name: str, overridable: bool, tmp_path: Path) -> None:
    pair = pair_of(weight_type=TensorProto.INT8)
    model = pair.model()
    (tensor,) = (t for t in model.graph.initializer if t.name == name)
    model.graph.input.append(models.value_info(name, list(tensor.dims), tensor.data_type))
    feeds = {"A": activations()}
    if not overridable:
        model.graph.initializer.remove(tensor)
        feeds[name] = numpy_helper.to_array(tensor)
    sess = declined(model, f"'{name}'", tmp_path)
    assert_near(models.run(sess, feeds), qdq_models.reference(pair, feeds["A"], 32))


@pytest.mark.parametrize("block_size", [8, 12, 20, 40])
def test_blocks_that_kernels_do_not_have(block_size: int, tmp_path: Path) -> None:
    pair = pair_of(1, block_size=block_size)
    sess = declined(pair.model(), f"block_size = {block_size} is not a multiple of 16", tmp_path)
    a = activations()
    expected = a.astype(np.float64) @ dequantized(pair)
    assert np.all(np.abs(models.run(sess, {"A": a}) - expected) <= 0.05 * np.abs(expected).max())


def dequantized(pair: qdq_models.Pair) -> oracle.Float64Array:
    """[K, N], for blocks that aren't a whole number of MatMulNBits'."""
    group = np.arange(pair.k) // pair.block_size
    assert pair.zero_point is not None
    return (pair.q - pair.zero_point[group]) * pair.scale[group].astype(np.float64)


def test_blocks_along_n(tmp_path: Path) -> None:
    pair = pair_of(2)
    model = pair.model()
    model.graph.node[0].attribute[0].i = 1
    assert model.graph.node[0].attribute[0].name == "axis"
    scale = np.random.default_rng(0).uniform(0.1, 0.5, (K, oracle.ceil_div(N, 32)))
    zero = qdq_models.integer_tensor(
        "zero_point", pair.weight_type, np.zeros(scale.shape, np.int64)
    )
    del model.graph.initializer[1:]
    model.graph.initializer.extend(
        [numpy_helper.from_array(scale.astype(np.float32), "scale"), zero]
    )
    sess = declined(model, "its blocks lie along N", tmp_path)
    a = activations()
    expected = a @ (pair.q * np.repeat(scale, 32, axis=1)[:, :N])
    assert np.all(np.abs(models.run(sess, {"A": a}) - expected) <= 0.05 * np.abs(expected).max())


def test_scale_per_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pair = pair_of(3, granularity="column", zero_points=False)
    pair.scale = rng.uniform(0.1, 0.5, K).astype(np.float32)
    pair.dequantize_attributes = {"axis": 0}
    sess = declined(pair.model(), "its scales differ along K", tmp_path)
    a = activations()
    expected = a @ (pair.q * pair.scale[:, None])
    assert np.all(np.abs(models.run(sess, {"A": a}) - expected) <= 0.05 * np.abs(expected).max())


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_weights_that_are_no_matrix(rank: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    shape = {1: (K,), 3: (2, K, N), 4: (1, 2, K, N)}[rank]
    q = rng.integers(-128, 128, shape)
    model = qdq_models.make_model(
        [
            helper.make_node("DequantizeLinear", ["W", "scale"], ["D"], name="dq"),
            helper.make_node("MatMul", ["A", "D"], ["Y"], name="product"),
        ],
        [models.value_info("A", None)],
        [models.value_info("Y", None)],
        [
            qdq_models.integer_tensor("W", TensorProto.INT8, q),
            numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
        ],
    )
    sess = declined(model, f"has shape [{','.join(map(str, shape))}], not two dims", tmp_path)
    a = activations()
    expected = a @ (q * 0.5)
    assert np.all(np.abs(models.run(sess, {"A": a}) - expected) <= 1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("attributes", "bias", "reason"),
    [
        ({"transA": 1}, None, "Gemm has transA = 1"),
        ({"alpha": 0.5}, None, "Gemm has alpha = 0.5, not 1"),
        ({"beta": 2.0}, (N,), "Gemm has beta = 2, not 1"),
        ({}, (3, N), f"input C ('bias') has shape [3,{N}] where [{N}] is needed"),
        ({}, (3, 1), f"input C ('bias') has shape [3,1] where [{N}] is needed"),
    ],
)
def test_gemm(
    attributes: dict[str, Any], bias: tuple[int, ...] | None, reason: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    pair = pair_of(5, product="Gemm", attributes=attributes)
    c = None if bias is None else rng.standard_normal(bias).astype(np.float32)
    pair.bias = c
    sess = declined(pair.model(), reason, tmp_path)
    pair.bias = None
    a = activations()
    y = models.run(sess, {"A": a.T.copy() if "transA" in attributes else a})
    expected = attributes.get("alpha", 1) * qdq_models.reference(pair, a, 32).value
    if c is not None:
        expected = expected + attributes.get("beta", 1) * c
    assert np.all(np.abs(y - expected) <= 0.05 * np.abs(expected).max())


def test_run_time_bias_of_gemm(tmp_path: Path) -> None:
    pair = pair_of(6, product="Gemm", bias=True)
    model = pair.model()
    (bias,) = (t for t in model.graph.initializer if t.name == "bias")
    model.graph.initializer.remove(bias)
    model.graph.input.append(models.value_info("bias", [N]))
    sess = declined(model, "input C ('bias') is not constant", tmp_path)
    a = activations()
    y = models.run(sess, {"A": a, "bias": numpy_helper.to_array(bias)})
    assert_near(y, qdq_models.reference(pair, a, 32))


def test_integers_of_other_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    q = rng.integers(-1000, 1000, (K, N)).astype(np.int16)
    model = qdq_models.make_model(
        [
            helper.make_node("DequantizeLinear", ["W", "scale"], ["D"], name="dq"),
            helper.make_node("MatMul", ["A", "D"], ["Y"], name="product"),
        ],
        [models.value_info("A", None)],
        [models.value_info("Y", None)],
        [
            numpy_helper.from_array(q, "W"),
            numpy_helper.from_array(np.array(0.5, np.float32), "scale"),
        ],
    )
    reason = "holds other elements than int2, uint2, int4, uint4, int8 or uint8"
    sess = declined(model, reason, tmp_path)
    a = activations()
    expected = a @ (q * 0.5)
    assert np.all(np.abs(models.run(sess, {"A": a}) - expected) <= 1e-5 * np.abs(expected).max())


def quantized_activations(pair: qdq_models.Pair) -> onnx.ModelProto:
    """A is quantised and dequantised before the product, as static quantisation leaves it."""
    q_type = TensorProto.UINT8
    nodes = [
        helper.make_node("QuantizeLinear", ["A", "a_scale", "a_zero"], ["A_q"], name="a_q"),
        helper.make_node("DequantizeLinear", ["A_q", "a_scale", "a_zero"], ["A_d"], name="a_dq"),
        *pair.nodes("A_d"),
    ]
    tensors = [
        numpy_helper.from_array(np.array(1 / 16, np.float32), "a_scale"),
        qdq_models.integer_tensor("a_zero", q_type, np.array(128)),
    ]
    return qdq_models.make_model(
        nodes,
        [models.value_info("A", ["M", K])],
        [models.value_info("Y", None)],
        [*pair.initializers(), *tensors],
    )


def grid(m: int = 3) -> oracle.Float32Array:
    """Multiples of 1/16 below 7, which the quantiser above keeps."""
    return (np.random.default_rng(8).integers(-112, 112, (m, K)) / 16).astype(np.float32)


def test_both_operands_of_8_bits(tmp_path: Path) -> None:
    pair = pair_of(8, weight_type=TensorProto.INT8, granularity="column", zero_points=False)
    sess = declined(quantized_activations(pair), "input A is dequantised from 8 bits too", tmp_path)
    a = grid()
    assert_near(models.run(sess, {"A": a}), qdq_models.reference(pair, a, 32))


@pytest.mark.parametrize("weight_type", [TensorProto.INT4, TensorProto.INT8])
def test_quantized_activations_beside_blocks(weight_type: int) -> None:
    """The CPU provider has no integer product of these, so they are taken."""
    pair = pair_of(9, weight_type=weight_type)
    sess = models.session(quantized_activations(pair))
    assert qdq_models.owners(sess)["product"] == models.PROVIDER
    a = grid()
    qdq_models.assert_right(pair, a, models.run(sess, {"A": a}), 32)


# --- values that others need ---------------------------------------------------------------------
# ONNX Runtime gives every user of a DequantizeLinear a copy of its own before this provider is
# asked, whatever the optimisation level, unless it is told to leave QDQ nodes alone.

SHARED = {"session.disable_quant_qdq": "1"}


def with_outputs(
    pair: qdq_models.Pair, names: Sequence[str], extra: Sequence[onnx.NodeProto] = ()
) -> onnx.ModelProto:
    outputs = [models.value_info(name, None) for name in ("Y", *names)]
    return qdq_models.make_model(
        [*pair.nodes(), *extra],
        [models.value_info("A", ["M", K]), models.value_info("B", None, TensorProto.BOOL)][
            : 2 if any(node.op_type == "If" for node in extra) else 1
        ],
        outputs,
        pair.initializers(),
    )


@pytest.mark.parametrize("name", ["D", "DT"])
def test_dequantized_weight_is_a_graph_output(name: str, tmp_path: Path) -> None:
    pair = pair_of(10, transposed=name == "DT")
    model = with_outputs(pair, [name])
    sess = declined(model, f"'{name}' has 2 uses", tmp_path, configure=unoptimised, config=SHARED)
    a = activations()
    y, weight = sess.run(["Y", name], {"A": a})
    assert_near(y, qdq_models.reference(pair, a, 32))
    np.testing.assert_allclose(weight, pair.weights(32).dequantize().T, rtol=1e-6)


def test_tied_weights_without_optimisation(tmp_path: Path) -> None:
    pair = pair_of(11)
    second = helper.make_node("MatMul", ["A", "D"], ["Z"], name="second")
    model = with_outputs(pair, ["Z"], [second])
    sess = declined(model, "'D' has 2 uses", tmp_path, configure=unoptimised, config=SHARED)
    a = activations()
    for y in sess.run(["Y", "Z"], {"A": a}):
        assert_near(y, qdq_models.reference(pair, a, 32))


def test_weights_times_themselves(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    pair = qdq_models.random_pair(rng, K, K, TensorProto.INT4)
    nodes = pair.nodes("D")
    model = qdq_models.make_model(nodes, [], [models.value_info("Y", None)], pair.initializers())
    sess = declined(model, "'D' has 2 uses", tmp_path, configure=unoptimised, config=SHARED)
    w = pair.weights(32).dequantize().T
    expected = w @ w
    np.testing.assert_allclose(models.run(sess, {}), expected, atol=1e-5 * np.abs(expected).max())


def test_dequantized_weight_is_read_in_the_body_of_if(tmp_path: Path) -> None:
    pair = pair_of(13)
    bodies = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Identity", [source], [f"{name}_out"])],
            name,
            [],
            [models.value_info(f"{name}_out", None)],
        )
        for name, source in (("then", "D"), ("else", "A"))
    }
    branch = helper.make_node("If", ["B"], ["Z"], name="if", **bodies)
    model = with_outputs(pair, ["Z"], [branch])
    sess = declined(model, "'D' has 2 uses", tmp_path, configure=unoptimised, config=SHARED)
    a = activations()
    y, weight = sess.run(["Y", "Z"], {"A": a, "B": np.array(True)})
    assert_near(y, qdq_models.reference(pair, a, 32))
    np.testing.assert_allclose(weight, pair.weights(32).dequantize().T, rtol=1e-6)


def product_before_add(model: onnx.ModelProto) -> None:
    model.graph.output.append(models.value_info("T", None))


def longer_bias(model: onnx.ModelProto) -> None:
    (bias,) = (t for t in model.graph.initializer if t.name == "bias")
    model.graph.initializer.remove(bias)
    values = numpy_helper.to_array(bias)
    model.graph.initializer.append(numpy_helper.from_array(values[None, None, :], "bias"))


def run_time_bias(model: onnx.ModelProto) -> None:
    """An initializer that a run may replace."""
    model.graph.input.append(models.value_info("bias", [N]))


@pytest.mark.parametrize("change", [product_before_add, longer_bias, run_time_bias])
def test_additions_that_stay_apart(
    change: Callable[[onnx.ModelProto], None], tmp_path: Path
) -> None:
    """The pair is taken without an Add that widens the shape or whose input is needed."""
    pair = pair_of(14, bias=True, add=True)
    model = pair.model()
    change(model)
    path = tmp_path / "report.json"
    sess = models.session(model, options={"report": str(path)}, configure=unoptimised)
    report = models.report_nodes(path)["product"]
    assert (report["taken"], report["op_type"]) == (True, "DequantizeLinear+MatMul")
    assert qdq_models.owners(sess)["add"] == models.STOCK
    a = activations()
    y, *product = sess.run(None, {"A": a})
    assert y.ndim == (3 if change is longer_bias else 2)
    oracle.assert_matches(y.reshape(-1, N), qdq_models.reference(pair, a, 32))
    if product:
        assert pair.bias is not None
        pair.bias = None
        qdq_models.assert_right(pair, a, product[0], 32)
