"""MatMulNBits in a session against the float64 oracle: every variant of the operator we claim."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import cases
import models
import oracle

BLOCK_SIZES = (16, 32, 64, 128, 256)


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([7, *seed])


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero_points", cases.ZERO_POINT_CASES)
def test_zero_points_and_block_sizes(
    bits: int, block_size: int, level: int, zero_points: cases.ZeroPointCase
) -> None:
    rng = generator(block_size, level)
    k = 2 * block_size + 24  # the last block is short and its codes past K are junk
    weights = cases.random_weights(rng, 37, k, block_size, bits=bits, zero_points=zero_points)
    node = models.Node(weights, accuracy_level=level)
    for m in (1, 5):
        a = cases.random_activations(rng, m, k)
        models.assert_right(node, a, models.run_ours(node, a), f"M = {m}")


@pytest.mark.parametrize("level", [None, -1, 0, 1, 2, 3, 4, 5])
def test_accuracy_levels(level: int | None) -> None:
    rng = generator(1)
    node = models.Node(cases.random_weights(rng, 16, 64, 32), accuracy_level=level)
    a = cases.random_activations(rng, 3, 64)
    y = models.run_ours(node, a)
    models.assert_right(node, a, y)
    # The two compute types are far enough apart to tell which one ran.
    other = models.reference(node, a, 0 if level == 4 else 4)
    with pytest.raises(AssertionError, match="outside the error bound"):
        oracle.assert_matches(y, other)


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize(
    "shape", [(64,), (1, 64), (7, 64), (2, 3, 64), (2, 1, 3, 64), (0, 64), (2, 0, 64), (1, 1, 64)]
)
def test_ranks(shape: tuple[int, ...], level: int) -> None:
    rng = generator(2)
    bias = rng.standard_normal(20).astype(np.float32)
    node = models.Node(cases.random_weights(rng, 20, 64, 32), bias=bias, accuracy_level=level)
    a = cases.random_activations(rng, int(np.prod(shape[:-1])), 64).reshape(shape)
    models.assert_right(node, a, models.run_ours(node, a))


@pytest.mark.parametrize("run_time", [(), ("bias",)])
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_bias(run_time: tuple[str, ...], level: int, threads: int) -> None:
    rng = generator(3)
    bias = rng.standard_normal(200).astype(np.float32) * 10
    node = models.Node(
        cases.random_weights(rng, 200, 64, 32), bias=bias, accuracy_level=level, run_time=run_time
    )
    a = cases.random_activations(rng, 9, 64)
    models.assert_right(node, a, models.run_ours(node, a, threads=threads))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero_points", ["per_block", "float"])
def test_flat_scales_and_zero_points(
    bits: int, level: int, zero_points: cases.ZeroPointCase
) -> None:
    rng = generator(4)
    weights = cases.random_weights(rng, 18, 96, 32, bits=bits, zero_points=zero_points)
    assert weights.zero_points is not None
    node = models.Node(
        weights,
        accuracy_level=level,
        tensors={"scales": weights.scales.ravel(), "zero_points": weights.zero_points.ravel()},
    )
    a = cases.random_activations(rng, 4, 96)
    models.assert_right(node, a, models.run_ours(node, a))


@pytest.mark.parametrize("run_time", [(), ("zero_points",)])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_narrow_float_zero_points(kind: int, run_time: tuple[str, ...]) -> None:
    """Multiples of 1/8 below 16 are exact in both, so that the wide oracle stands."""
    rng = generator(5)
    weights = cases.random_weights(rng, 18, 96, 32, zero_points="float")
    zero_points = weights.zero_points
    assert zero_points is not None
    node = models.Node(weights, run_time=run_time)
    a = cases.random_activations(rng, 4, 96)
    if kind == TensorProto.FLOAT16:
        node.tensors = {"zero_points": zero_points.astype(np.float16)}
        models.assert_right(node, a, models.run_ours(node, a))
        return
    bits = (zero_points.view(np.uint32) >> 16).astype(np.uint16)
    tensor = helper.make_tensor("zero_points", kind, bits.shape, bits.tobytes(), raw=True)
    model = models.model_of(node)
    if run_time:
        model.graph.input[1].type.tensor_type.elem_type = kind
    else:
        del model.graph.initializer[2]
        model.graph.initializer.append(tensor)
    sess = models.session(model)
    assert models.owners(sess) == {"mm": models.PROVIDER}
    feeds = {"A": onnxruntime.OrtValue.ortvalue_from_numpy(a)}
    if run_time:
        feeds["zero_points"] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind)
    (y,) = sess.run_with_ort_values(["Y"], feeds)
    models.assert_right(node, a, y.numpy())


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 8, 0), (3, 0, 32), (0, 8, 32), (0, 0, 0), (2, 0, 0)])
def test_empty_dims(m: int, n: int, k: int, bias: bool, level: int) -> None:
    rng = generator(6)
    k_blocks = oracle.ceil_div(k, 32)
    weights = oracle.Weights(
        np.zeros((n, k_blocks, 8), np.uint8), np.ones((n, k_blocks), np.float32), None, k, 32
    )
    values = rng.standard_normal(n).astype(np.float32)
    node = models.Node(weights, bias=values if bias else None, accuracy_level=level)
    y = models.run_ours(node, np.zeros((m, k), np.float32))
    expected = np.broadcast_to(values, (m, n)) if bias else np.zeros((m, n), np.float32)
    np.testing.assert_array_equal(y, expected, strict=True)


def test_extreme_values_stay_ieee() -> None:
    rng = generator(8)
    weights = cases.random_weights(rng, 16, 64, 32, scales="power_of_two")
    for level in (0, 4):
        node = models.Node(weights, accuracy_level=level)
        a = np.where(rng.random((4, 64)) < 0.5, np.float32(3e38), np.float32(-1e-40))
        models.assert_right(node, a, models.run_ours(node, a), f"level {level}")


def test_constant_activations() -> None:
    """A as an initializer, with the optimisers that would fold the node away switched off."""
    rng = generator(9)
    node = models.Node(cases.random_weights(rng, 16, 64, 32))
    a = cases.random_activations(rng, 3, 64)
    model = models.make_model(
        [node.node_proto()],
        [],
        [models.value_info("Y", None)],
        [*node.initializers(), helper.make_tensor("A", TensorProto.FLOAT, a.shape, a.ravel())],
    )

    def no_optimisation(options: onnxruntime.SessionOptions) -> None:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    sess = models.session(model, configure=no_optimisation)
    assert models.owners(sess) == {"mm": models.PROVIDER}
    models.assert_right(node, a, models.run(sess, {}))


def test_two_nodes_share_weights_and_chain() -> None:
    """One initializer, two consumers; the second reads the first one's output."""
    rng = generator(10)
    weights = cases.random_weights(rng, 64, 64, 32, scales="power_of_two")
    node = models.Node(weights, accuracy_level=0)
    first, second = node.node_proto("A", "T"), node.node_proto("T", "Y")
    first.name, second.name = "first", "second"
    model = models.make_model(
        [first, second],
        [models.value_info("A", ["M", 64])],
        [models.value_info("Y", None), models.value_info("T", None)],
        node.initializers(),
    )
    sess = models.session(model)
    assert models.owners(sess) == {"first": models.PROVIDER, "second": models.PROVIDER}
    a = cases.random_activations(rng, 3, 64)
    y, t = sess.run(["Y", "T"], {"A": a})
    models.assert_right(node, a, t)
    models.assert_right(node, t, y)


@hypothesis.settings(max_examples=40)
@hypothesis.given(
    m=st.integers(0, 40),
    n=st.integers(1, 70),
    k=st.integers(1, 300),
    block_size=st.sampled_from(BLOCK_SIZES),
    level=st.sampled_from([0, 4]),
    zero_points=st.sampled_from(cases.ZERO_POINT_CASES),
    scales=st.sampled_from(cases.SCALE_CASES),
    bias=st.booleans(),
    grouped=st.booleans(),
    run_time=st.sets(st.sampled_from(["B", "scales", "zero_points", "g_idx", "bias"])),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_combination(
    m: int,
    n: int,
    k: int,
    block_size: int,
    level: int,
    zero_points: cases.ZeroPointCase,
    scales: cases.ScaleCase,
    bias: bool,
    grouped: bool,
    run_time: set[str],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    node = models.Node(
        cases.random_weights(rng, n, k, block_size, zero_points=zero_points, scales=scales),
        bias=rng.standard_normal(n).astype(np.float32) if bias else None,
        g_idx=cases.random_g_idx(rng, k, block_size) if grouped else None,
        accuracy_level=level,
    )
    node.run_time = tuple(
        name for name in models.INPUT_NAMES if name in run_time & {*node.values()}
    )
    a = cases.random_activations(rng, m, k)
    models.assert_right(node, a, models.run_ours(node, a))
