"""Pairs in float16 and bfloat16.

Error model. Scales, bias and A hold 16-bit values, which float32 holds exactly. Codes times scales
stay in float32, as does the sum: what the float32 oracle allows stands, and the result is rounded
once, to the nearest of its type: by half a unit in the last place, or half the smallest denormal.
DequantizeLinear itself would round each weight as well. A product of such weights therefore differs
by another u * sum_k |a_k| |w_k| (and half the smallest denormal per weight), where u is the type's
unit roundoff: `of_rounded_weights` below.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import models
import oracle
import qdq_models
from narrow_types import limits, narrowed

K, N = 75, 33
TYPES = [TensorProto.FLOAT16, TensorProto.BFLOAT16]


def unoptimised(options: onnxruntime.SessionOptions) -> None:
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def of_rounded_weights(
    expected: oracle.Reference, a: oracle.Float32Array, element_type: int
) -> oracle.Reference:
    roundoff, half_denormal, _ = limits(element_type)
    rounding = roundoff * expected.magnitude + half_denormal * np.abs(a).sum(axis=1)[:, None]
    return oracle.Reference(expected.value, expected.bound + rounding, expected.magnitude)


def activations(seed: int, m: int, element_type: int) -> oracle.Float32Array:
    rng = np.random.default_rng([15, seed])
    a: oracle.Float32Array = qdq_models.representable(rng.standard_normal((m, K)), element_type)
    return a


@pytest.mark.parametrize("element_type", TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("weight_type", qdq_models.WEIGHT_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("granularity", ["tensor", "column", "blocks"])
@pytest.mark.parametrize("product", ["MatMul", "Gemm"])
@pytest.mark.parametrize("level", [0, 4])
def test_types(
    element_type: int,
    weight_type: int,
    granularity: qdq_models.Granularity,
    product: Literal["MatMul", "Gemm"],
    level: int,
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng([16, weight_type])
    for zero_points, bias, transposed in ((True, True, False), (False, False, True)):
        pair = qdq_models.random_pair(
            rng,
            K,
            N,
            weight_type,
            granularity,
            zero_points=zero_points,
            bias=bias,
            transposed=transposed,
            product=product,
            add=bias and product == "MatMul",
            element_type=element_type,
        )
        path = tmp_path / "report.json"
        options = {"report": str(path), "qdq_accuracy_level": str(level)}
        sess = models.session(pair.model(), options=options, configure=unoptimised)
        report = models.report_nodes(path)["product"]
        assert (report["taken"], report["op_type"]) == (True, pair.op_type())
        assert qdq_models.owners(sess)["product"] == models.PROVIDER
        for m in (1, 6):
            a = activations(m, m, element_type)
            expected = qdq_models.reference(pair, a, report["block_size"], level)
            oracle.assert_matches(
                models.run(sess, {"A": a}), narrowed(expected, element_type), f"M = {m}"
            )


@pytest.mark.parametrize("weight_type", [TensorProto.INT4, TensorProto.UINT8])
def test_agreement_with_rounded_weights(weight_type: int) -> None:
    """The CPU provider's DequantizeLinear, whose weights are float16, against the model above."""
    rng = np.random.default_rng(17)
    pair = qdq_models.random_pair(rng, K, N, weight_type, element_type=TensorProto.FLOAT16)
    model = pair.model()
    model.graph.output.append(models.value_info("D", None, TensorProto.FLOAT16))
    sess = models.session(model)
    assert qdq_models.owners(sess)["product"] == models.PROVIDER
    a = activations(0, 5, TensorProto.FLOAT16)
    y, weight = sess.run(["Y", "D"], {"A": a})
    expected = narrowed(qdq_models.reference(pair, a, 32), TensorProto.FLOAT16)
    oracle.assert_matches(y, expected)
    exact = oracle.Reference(
        a.astype(np.float64) @ weight.astype(np.float64), expected.bound, expected.magnitude
    )
    oracle.assert_matches(y, of_rounded_weights(exact, a, TensorProto.FLOAT16))


@pytest.mark.parametrize("element_type", TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("shape", [(K,), (2, 3, K), (0, K), (2, 0, K)])
def test_ranks(element_type: int, shape: tuple[int, ...]) -> None:
    pair = qdq_models.random_pair(
        np.random.default_rng(18), K, N, TensorProto.INT8, element_type=element_type
    )
    a = activations(1, 6, element_type)[: int(np.prod(shape[:-1]))].reshape(shape)
    sess = models.session(pair.model(), configure=unoptimised)
    assert qdq_models.owners(sess)["product"] == models.PROVIDER
    y = models.run(sess, {"A": a})
    assert y.shape == (*shape[:-1], N)
    if y.size:
        expected = narrowed(qdq_models.reference(pair, a, 32), element_type)
        oracle.assert_matches(y.reshape(-1, N), expected)


@pytest.mark.parametrize("element_type", TYPES, ids=TensorProto.DataType.Name)
def test_no_weights(element_type: int) -> None:
    pair = qdq_models.random_pair(
        np.random.default_rng(19),
        0,
        N,
        TensorProto.INT8,
        "column",
        bias=True,
        add=True,
        element_type=element_type,
    )
    sess = models.session(pair.model(), configure=unoptimised)
    y = models.run(sess, {"A": np.zeros((3, 0), np.float32)})
    assert pair.bias is not None
    np.testing.assert_array_equal(y, np.tile(pair.bias, (3, 1)), strict=True)


@pytest.mark.parametrize(
    ("weight_type", "zero_points", "scale", "taken"),
    [
        (TensorProto.INT8, False, 500.0, True),
        (TensorProto.INT8, False, 512.0, False),
        (TensorProto.INT8, True, 256.0, True),
        (TensorProto.INT8, True, 257.0, False),
        (TensorProto.UINT4, False, 4360.0, True),
        (TensorProto.UINT4, False, 4372.0, False),
        (TensorProto.INT4, False, np.inf, False),
        (TensorProto.INT4, False, -np.inf, False),
        (TensorProto.INT4, False, np.nan, False),
    ],
)
def test_weights_beyond_the_range_of_float16(
    weight_type: int, zero_points: bool, scale: float, taken: bool, tmp_path: Path
) -> None:
    """DequantizeLinear makes them infinite, which kernels that compute in float32 do not."""
    rng = np.random.default_rng(20)
    pair = qdq_models.random_pair(
        rng, K, N, weight_type, zero_points=zero_points, element_type=TensorProto.FLOAT16
    )
    pair.scale[1, 7] = scale
    path = tmp_path / "report.json"
    models.session(pair.model(), options={"report": str(path)})
    report = models.report_nodes(path)["product"]
    assert report["taken"] == taken
    assert ("makes weights that float16 may not hold" in report["reason"]) != taken


def test_overflow_of_the_product() -> None:
    """A sum beyond float16's range is infinite, and other columns keep theirs."""
    pair = qdq_models.random_pair(
        np.random.default_rng(21),
        K,
        4,
        TensorProto.UINT8,
        "column",
        zero_points=False,
        element_type=TensorProto.FLOAT16,
    )
    pair.q[:] = 255
    pair.scale[:] = [16, -16, 1 / 64, 1 / 64]
    y = models.run(models.session(pair.model()), {"A": np.ones((2, K), np.float32)})
    assert np.all(np.isposinf(y[:, 0]))
    assert np.all(np.isneginf(y[:, 1]))
    np.testing.assert_allclose(y[:, 2:], 255 * K / 64, rtol=2**-11)


def test_types_that_differ(tmp_path: Path) -> None:
    """A scale of a type other than DequantizeLinear's output, as newer opsets allow."""
    pair = qdq_models.random_pair(
        np.random.default_rng(22), 64, N, TensorProto.INT8, opset=23, zero_points=False
    )
    pair.dequantize_attributes = {"output_dtype": TensorProto.FLOAT16}
    pair.element_type = TensorProto.FLOAT16
    model = pair.model()
    scale = next(t for t in model.graph.initializer if t.name == "scale")
    scale.CopyFrom(qdq_models.float_tensor("scale", TensorProto.FLOAT, pair.scale))
    path = tmp_path / "report.json"
    # The CPU provider may not have such a DequantizeLinear.
    with contextlib.suppress(Exception):
        models.session(model, options={"report": str(path)}, configure=unoptimised)
    report = models.report_nodes(path)["product"]
    assert not report["taken"]
    assert "are of different types" in report["reason"]
