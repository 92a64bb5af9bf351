"""DequantizeLinear + MatMul or Gemm, run as one, against the oracle on dequantised weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import hypothesis
import hypothesis.strategies as st
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import cases
import models
import oracle
import qdq_models

LEVELS = onnxruntime.GraphOptimizationLevel
GRANULARITIES: tuple[qdq_models.Granularity, ...] = ("tensor", "column", "blocks")

# Releases before this one move a Transpose over a DequantizeLinear with a scale per column and end
# the process over that, whoever runs the nodes.
TRANSPOSE_OF_COLUMNS_ABORTS = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32)


def unoptimised(options: onnxruntime.SessionOptions) -> None:
    options.graph_optimization_level = LEVELS.ORT_DISABLE_ALL


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([11, *seed])


class Claimed:
    """A session in which the one pair of the model, and nothing else, runs on this provider."""

    def __init__(
        self,
        pair: qdq_models.Pair,
        folder: Path,
        *,
        level: int | None = None,
        model: onnx.ModelProto | Path | None = None,
        **arguments: Any,
    ) -> None:
        options = {"report": str(folder / "report.json")}
        if level is not None:
            options["qdq_accuracy_level"] = str(level)
        self.pair, self.level = pair, level or 0
        self.session = models.session(model or pair.model(), options=options, **arguments)
        assert set(qdq_models.owners(self.session).values()) == {models.PROVIDER}
        (self.report,) = models.report_nodes(folder / "report.json").values()
        assert self.report["taken"]

    def check(self, a: models.Array, context: str = "") -> None:
        y = models.run(self.session, {"A": a})
        block_len = self.report["block_size"]
        qdq_models.assert_right(self.pair, a, y, block_len, self.level, context)


@pytest.mark.parametrize("weight_type", qdq_models.WEIGHT_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("transposed", [False, True], ids=["KN", "NK"])
@pytest.mark.parametrize("product", ["MatMul", "Gemm"])
@pytest.mark.parametrize("zero_points", [False, True], ids=["symmetric", "zero_points"])
def test_types_and_shapes(
    weight_type: int,
    granularity: qdq_models.Granularity,
    transposed: bool,
    product: Literal["MatMul", "Gemm"],
    zero_points: bool,
    tmp_path: Path,
) -> None:
    """Odd K and N put rows of narrow codes at every offset within a byte."""
    rng = generator(weight_type)
    for (k, n), bias, level in (((75, 33), True, 0), ((128, 32), False, 4), ((33, 1), True, 4)):
        pair = qdq_models.random_pair(
            rng,
            k,
            n,
            weight_type,
            granularity,
            zero_points=zero_points,
            bias=bias,
            transposed=transposed,
            product=product,
            add=bias and product == "MatMul",
        )
        claimed = Claimed(pair, tmp_path, level=level, configure=unoptimised)
        assert claimed.report["op_type"] == pair.op_type()
        for m in (1, 6):
            claimed.check(cases.random_activations(rng, m, k), f"K = {k}, N = {n}, M = {m}")


def test_report(tmp_path: Path) -> None:
    """A pair is reported with the fields of a MatMulNBits node."""
    rng = generator(1)
    pair = qdq_models.random_pair(rng, 96, 40, TensorProto.INT4)
    report = Claimed(pair, tmp_path, level=4).report
    expected = {
        "name": "product",
        "op_type": "DequantizeLinear+MatMul",
        "graph": "",
        "output": "Y",
        "taken": True,
        "reason": "",
        "n": 40,
        "k": 96,
        "bits": 4,
        "block_size": 32,
        "accuracy_level": 4,
        "compute": "int8",
        "weights": "constant",
        "format": "quad",
        "scale_type": "fp32",
        "zero_point_kind": "per_block",
    }
    assert {key: report[key] for key in expected} == expected
    assert all(name.startswith("qnbit_int8_w4_quad_") for name in report["kernels"])
    assert report["packed_bytes"] >= 48 * 96 // 2
    node = models.Node(cases.random_weights(rng, 16, 64, 32))
    path = tmp_path / "node.json"
    models.session(models.model_of(node), options={"report": str(path)})
    assert set(report) == set(models.report_nodes(path)["mm"])


@pytest.mark.parametrize("level", [None, 0, 3, 4])
def test_accuracy_level(level: int | None, tmp_path: Path) -> None:
    rng = generator(2)
    pair = qdq_models.random_pair(rng, 64, 24, TensorProto.UINT8)
    claimed = Claimed(pair, tmp_path, level=level)
    a = cases.random_activations(rng, 3, 64)
    claimed.check(a)
    # The two compute types are far enough apart to tell which one ran.
    other = qdq_models.reference(pair, a, 32, 0 if level == 4 else 4)
    with pytest.raises(AssertionError, match="outside the error bound"):
        oracle.assert_matches(models.run(claimed.session, {"A": a}), other)


def test_accuracy_level_of_matmul_nbits_is_another_option(tmp_path: Path) -> None:
    pair = qdq_models.random_pair(generator(3), 64, 24, TensorProto.INT8)
    path = tmp_path / "report.json"
    models.session(pair.model(), options={"report": str(path), "accuracy_level": "4"})
    assert models.report_nodes(path)["product"]["compute"] == "fp32"


@pytest.mark.parametrize("value", ["5", "-1", "", "four"])
def test_values_that_are_no_accuracy_level(value: str) -> None:
    pair = qdq_models.random_pair(generator(4), 32, 16, TensorProto.INT8)
    with pytest.raises(Exception, match=r"'qdq_accuracy_level': '.*' is not one of 0, 1, 2, 3, 4"):
        models.session(pair.model(), options={"qdq_accuracy_level": value})


@pytest.mark.parametrize(
    ("block_size", "block_len"),
    [
        (16, 16),
        (32, 32),
        (128, 128),
        # Cut into blocks that the kernels have.
        (48, 16),
        (96, 32),
        (160, 32),
        (256, 128),
        (384, 128),
        # One block: the length is free.
        (400, 32),
        (512, 32),
        (2**20, 32),
    ],
)
@pytest.mark.parametrize("weight_type", [TensorProto.INT4, TensorProto.UINT8])
@pytest.mark.parametrize("level", [0, 4])
def test_block_sizes(
    block_size: int, block_len: int, weight_type: int, level: int, tmp_path: Path
) -> None:
    rng = generator(5)
    pair = qdq_models.random_pair(rng, 400, 20, weight_type, block_size=block_size)
    claimed = Claimed(pair, tmp_path, level=level)
    assert claimed.report["block_size"] == block_len
    claimed.check(cases.random_activations(rng, 3, 400))


@pytest.mark.parametrize(
    ("k", "block_len"), [(1, 32), (32, 32), (64, 64), (75, 32), (320, 64), (1000, 128), (4096, 128)]
)
@pytest.mark.parametrize("granularity", ["tensor", "column"])
def test_block_length_of_one_scale(
    k: int, block_len: int, granularity: qdq_models.Granularity, tmp_path: Path
) -> None:
    """Long enough that scales take little, short enough that K isn't padded by much."""
    rng = generator(6)
    pair = qdq_models.random_pair(rng, k, 19, TensorProto.INT8, granularity)
    claimed = Claimed(pair, tmp_path, level=4)
    assert claimed.report["block_size"] == block_len
    claimed.check(cases.random_activations(rng, 3, k))


@pytest.mark.parametrize(
    ("opset", "weight_type"),
    [
        (opset, weight_type)
        for weight_type in qdq_models.WEIGHT_TYPES
        for opset in (17, 19, 21, 23, 24, 25)
        if opset >= {2: 25, 4: 21, 8: 17}[qdq_models.BITS[weight_type]]
    ],
)
def test_opsets(opset: int, weight_type: int, tmp_path: Path) -> None:
    rng = generator(7)
    granularity = GRANULARITIES[1 if opset < 21 else 2]
    pair = qdq_models.random_pair(rng, 64, 21, weight_type, granularity, opset=opset)
    Claimed(pair, tmp_path).check(cases.random_activations(rng, 2, 64))


@pytest.mark.parametrize("weight_type", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
def test_contrib_operator(weight_type: int, tmp_path: Path) -> None:
    """com.microsoft::DequantizeLinear had 4-bit types before ONNX did."""
    rng = generator(8)
    pair = qdq_models.random_pair(rng, 64, 21, weight_type, "column")
    model = pair.model()
    model.graph.node[0].domain = "com.microsoft"
    Claimed(pair, tmp_path, model=model).check(cases.random_activations(rng, 2, 64))


@pytest.mark.parametrize(
    "shape", [(64,), (1, 64), (7, 64), (2, 3, 64), (2, 1, 3, 64), (0, 64), (2, 0, 64)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_ranks(shape: tuple[int, ...], bias: bool, tmp_path: Path) -> None:
    rng = generator(9)
    pair = qdq_models.random_pair(rng, 64, 21, TensorProto.INT4, bias=bias, add=bias)
    a = cases.random_activations(rng, int(np.prod(shape[:-1])), 64).reshape(shape)
    Claimed(pair, tmp_path).check(a)


@pytest.mark.parametrize("shape", [(33,), (1, 33), (), (1,), (1, 1)])
def test_shapes_of_gemm_bias(shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = generator(10)
    pair = qdq_models.random_pair(rng, 64, 33, TensorProto.INT4, product="Gemm")
    pair.bias = np.asarray(rng.standard_normal(shape), np.float32)
    Claimed(pair, tmp_path).check(cases.random_activations(rng, 3, 64))


def test_negative_axis(tmp_path: Path) -> None:
    rng = generator(11)
    for granularity, axis in (("column", -1), ("blocks", -2)):
        pair = qdq_models.random_pair(rng, 64, 33, TensorProto.INT4, granularity)
        pair.dequantize_attributes = {"axis": axis}
        Claimed(pair, tmp_path).check(cases.random_activations(rng, 3, 64))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_packed_by_several_threads(
    threads: int, transposed: bool, bits: int, tmp_path: Path
) -> None:
    rng = generator(12)
    weight_type = TensorProto.INT4 if bits == 4 else TensorProto.UINT8
    pair = qdq_models.random_pair(rng, 1537, 1601, weight_type, bias=True, transposed=transposed)
    pair.add = True
    claimed = Claimed(pair, tmp_path, threads=threads, configure=unoptimised)
    claimed.check(cases.random_activations(rng, 5, 1537))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(
    "level",
    [
        LEVELS.ORT_DISABLE_ALL,
        LEVELS.ORT_ENABLE_BASIC,
        LEVELS.ORT_ENABLE_EXTENDED,
        LEVELS.ORT_ENABLE_ALL,
    ],
    ids=lambda level: str(level).rpartition("_")[2],
)
def test_optimisation_levels(
    level: onnxruntime.GraphOptimizationLevel, add: bool, transposed: bool, tmp_path: Path
) -> None:
    """What optimisers make of the pair before this provider is asked is claimed as well."""

    def configure(options: onnxruntime.SessionOptions) -> None:
        options.graph_optimization_level = level

    rng = generator(13)
    for weight_type in (TensorProto.INT4, TensorProto.INT8):
        for granularity in GRANULARITIES:
            if transposed and granularity == "column" and TRANSPOSE_OF_COLUMNS_ABORTS:
                continue
            for shape in ((3, 64), (2, 3, 64)):
                pair = qdq_models.random_pair(
                    rng, 64, 33, weight_type, granularity, bias=add, add=add, transposed=transposed
                )
                model = pair.model(["batch", "rows", 64][-len(shape) :])
                claimed = Claimed(pair, tmp_path, model=model, configure=configure)
                claimed.check(rng.standard_normal(shape).astype(np.float32))


def test_external_data(tmp_path: Path) -> None:
    rng = generator(14)
    pair = qdq_models.random_pair(rng, 256, 65, TensorProto.INT4, bias=True, add=True)
    path = tmp_path / "model.onnx"
    onnx.save_model(
        pair.model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    Claimed(pair, tmp_path, model=path).check(cases.random_activations(rng, 3, 256))


def two_products(pair: qdq_models.Pair) -> onnx.ModelProto:
    """A -> Y and, by the same dequantised weights, B -> Z."""
    nodes = [*pair.nodes(), helper.make_node("MatMul", ["B", "D"], ["Z"], name="second")]
    values = [models.value_info(name, None) for name in "ABYZ"]
    return qdq_models.make_model(nodes, values[:2], values[2:], pair.initializers())


def test_tied_weights() -> None:
    """ONNX Runtime gives each product a DequantizeLinear of its own, and each pair is taken."""
    rng = generator(15)
    pair = qdq_models.random_pair(rng, 64, 33, TensorProto.INT4)
    sess = models.session(two_products(pair))
    assert set(qdq_models.owners(sess).values()) == {models.PROVIDER}
    a, b = (cases.random_activations(rng, m, 64) for m in (2, 5))
    y, z = sess.run(["Y", "Z"], {"A": a, "B": b})
    qdq_models.assert_right(pair, a, y, 32)
    qdq_models.assert_right(pair, b, z, 32)


def test_dequantized_weight_that_others_need_too() -> None:
    rng = generator(19)
    pair = qdq_models.random_pair(rng, 64, 33, TensorProto.INT4)
    model = pair.model()
    model.graph.output.append(models.value_info("D", None))
    sess = models.session(model)
    assert qdq_models.owners(sess)["product"] == models.PROVIDER
    a = cases.random_activations(rng, 3, 64)
    y, weight = sess.run(["Y", "D"], {"A": a})
    qdq_models.assert_right(pair, a, y, 32)
    np.testing.assert_allclose(weight, pair.weights(32).dequantize().T, rtol=1e-6)


@pytest.mark.parametrize(("m", "n", "k"), [(3, 8, 0), (3, 0, 32), (0, 8, 32), (0, 0, 0), (2, 0, 0)])
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("bias", [False, True])
def test_empty_dims(
    m: int, n: int, k: int, granularity: qdq_models.Granularity, bias: bool, tmp_path: Path
) -> None:
    pair = qdq_models.random_pair(
        generator(20), k, n, TensorProto.INT8, granularity, bias=bias, add=bias
    )
    claimed = Claimed(pair, tmp_path, configure=unoptimised)
    y = models.run(claimed.session, {"A": np.zeros((m, k), np.float32)})
    expected = np.zeros((m, n), np.float32) if pair.bias is None else np.tile(pair.bias, (m, 1))
    np.testing.assert_array_equal(y, expected, strict=True)


def test_constant_activations(tmp_path: Path) -> None:
    rng = generator(16)
    pair = qdq_models.random_pair(rng, 64, 33, TensorProto.INT8)
    a = cases.random_activations(rng, 3, 64)
    model = qdq_models.make_model(
        pair.nodes(),
        [],
        [models.value_info("Y", None)],
        [*pair.initializers(), onnx.numpy_helper.from_array(a, "A")],
    )
    claimed = Claimed(pair, tmp_path, model=model, configure=unoptimised)
    qdq_models.assert_right(pair, a, models.run(claimed.session, {}), 32)


@pytest.mark.parametrize("constants_inside", [False, True])
def test_body_of_if(constants_inside: bool, tmp_path: Path) -> None:
    rng = generator(17)
    pair = qdq_models.random_pair(rng, 64, 33, TensorProto.INT4)
    inside = pair.initializers() if constants_inside else []
    body = helper.make_graph(pair.nodes(), "body", [], [models.value_info("Y", None)], inside)
    other = helper.make_graph(
        [helper.make_node("Identity", ["A"], ["E"])], "other", [], [models.value_info("E", None)]
    )
    node = helper.make_node("If", ["choice"], ["Z"], name="if", then_branch=body, else_branch=other)
    model = qdq_models.make_model(
        [node],
        [
            models.value_info("choice", [], TensorProto.BOOL),
            models.value_info("A", ["M", 64]),
        ],
        [models.value_info("Z", None)],
        [] if constants_inside else pair.initializers(),
    )
    path = tmp_path / "report.json"
    sess = models.session(model, options={"report": str(path)})
    assert models.report_nodes(path)["product"]["graph"] == "if/then_branch"
    assert qdq_models.owners(sess)["product"] == models.PROVIDER
    a = cases.random_activations(rng, 3, 64)
    y = models.run(sess, {"A": a, "choice": np.array(True)})
    qdq_models.assert_right(pair, a, y, 32)


def test_chain_of_pairs() -> None:
    rng = generator(18)
    first = qdq_models.random_pair(rng, 64, 48, TensorProto.INT4, prefix="a_", bias=True, add=True)
    second = qdq_models.random_pair(rng, 48, 16, TensorProto.INT8, "column", prefix="b_")
    model = qdq_models.make_model(
        [*first.nodes("A", "H"), *second.nodes("H", "Y")],
        [models.value_info("A", ["M", 64])],
        [models.value_info("Y", None), models.value_info("H", None)],
        [*first.initializers(), *second.initializers()],
    )
    sess = models.session(model)
    assert set(qdq_models.owners(sess).values()) == {models.PROVIDER}
    a = cases.random_activations(rng, 3, 64)
    y, h = sess.run(["Y", "H"], {"A": a})
    qdq_models.assert_right(first, a, h, 32)
    qdq_models.assert_right(second, h, y, 16)


@hypothesis.settings(
    max_examples=60, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(
    m=st.integers(0, 20),
    n=st.integers(1, 300),
    k=st.integers(1, 300),
    weight_type=st.sampled_from(qdq_models.WEIGHT_TYPES),
    granularity=st.sampled_from(GRANULARITIES),
    block_size=st.integers(1, 12).map(lambda blocks: 16 * blocks),
    zero_points=st.booleans(),
    bias=st.booleans(),
    transposed=st.booleans(),
    product=st.sampled_from(["MatMul", "Gemm"]),
    level=st.sampled_from([0, 4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_combination(
    tmp_path: Path,
    m: int,
    n: int,
    k: int,
    weight_type: int,
    granularity: qdq_models.Granularity,
    block_size: int,
    zero_points: bool,
    bias: bool,
    transposed: bool,
    product: Literal["MatMul", "Gemm"],
    level: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    pair = qdq_models.random_pair(
        rng,
        k,
        n,
        weight_type,
        granularity,
        block_size=block_size,
        zero_points=zero_points,
        bias=bias,
        transposed=transposed,
        product=product,
        add=bias and product == "MatMul",
    )
    claimed = Claimed(pair, tmp_path, level=level, configure=unoptimised)
    claimed.check(cases.random_activations(rng, m, k))
