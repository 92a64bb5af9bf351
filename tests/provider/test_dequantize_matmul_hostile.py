"""Pairs whose constants disagree: left to the CPU provider's checks, never read past an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cases
import models
import qdq_models

K, N = 64, 33


def pair_of(seed: int = 0, **arguments: Any) -> qdq_models.Pair:
    rng = np.random.default_rng([14, seed])
    return qdq_models.random_pair(rng, K, N, TensorProto.INT4, **arguments)


def replace(model: onnx.ModelProto, tensor: onnx.TensorProto) -> None:
    (old,) = (t for t in model.graph.initializer if t.name == tensor.name)
    old.CopyFrom(tensor)


def refused(model: onnx.ModelProto, folder: Path) -> None:
    """ONNX Runtime refuses the model or its run; this provider, where it was asked, declined."""
    path = folder / "report.json"

    def use() -> None:
        sess = models.session(model, options={"report": str(path)})
        sess.run(None, {"A": np.ones((2, K), np.float32)})

    with pytest.raises(Exception, match=r".+"):
        use()
    if not path.exists():
        return  # the model was refused before there was a provider
    for node in models.read_report(path)["nodes"]:
        assert not node["taken"]
        assert node["reason"]


@pytest.mark.parametrize(
    "shape",
    [(1, N), (3, N), (2, N - 1), (2, N + 1), (2,), (N + 1,), (2, N, 1), (0, N), (2, 0), (0,)],
)
@pytest.mark.parametrize("both", [False, True], ids=["scale", "with_zero_point"])
def test_scale_of_another_shape(shape: tuple[int, ...], both: bool, tmp_path: Path) -> None:
    model = pair_of().model()
    replace(model, numpy_helper.from_array(np.ones(shape, np.float32), "scale"))
    if both:
        zeros = qdq_models.integer_tensor("zero_point", TensorProto.INT4, np.zeros(shape, np.int64))
        replace(model, zeros)
    refused(model, tmp_path)


@pytest.mark.parametrize("shape", [(1, N), (3, N), (2, N - 1), (), (N,), (2, N, 1), (0,)])
def test_zero_point_of_another_shape(shape: tuple[int, ...], tmp_path: Path) -> None:
    model = pair_of().model()
    zeros = qdq_models.integer_tensor("zero_point", TensorProto.INT4, np.zeros(shape, np.int64))
    replace(model, zeros)
    refused(model, tmp_path)


def test_zero_point_of_another_type(tmp_path: Path) -> None:
    model = pair_of().model()
    zeros = qdq_models.integer_tensor("zero_point", TensorProto.UINT4, np.zeros((2, N), np.int64))
    replace(model, zeros)
    refused(model, tmp_path)


@pytest.mark.parametrize("block_size", [-32, -1, 16, 31, 64, 2**40])
def test_block_size_of_another_grid(block_size: int, tmp_path: Path) -> None:
    pair = pair_of(1)
    pair.dequantize_attributes = {"block_size": block_size}
    refused(pair.model(), tmp_path)


@pytest.mark.parametrize("axis", [-3, 2, 2**40])
def test_axis_that_does_not_exist(axis: int, tmp_path: Path) -> None:
    pair = pair_of(2)
    pair.dequantize_attributes = {"axis": axis}
    refused(pair.model(), tmp_path)


@pytest.mark.parametrize("perm", [[0, 1], [0], [1, 0, 2], [1, 1], [-1, 0]])
def test_permutations(perm: list[int], tmp_path: Path) -> None:
    pair = pair_of(3, transposed=True)
    model = pair.model()
    model.graph.node[1].attribute.append(helper.make_attribute("perm", perm))
    refused(model, tmp_path)


@pytest.mark.parametrize(
    "dims", [(2**40, 2**40), (2**62, 2), (2**31, 2**31), (2**63 - 1, 1), (-1, N), (K, -1)]
)
def test_weight_larger_than_its_data(dims: tuple[int, int], tmp_path: Path) -> None:
    model = pair_of(4).model()
    model.graph.initializer[0].dims[:] = dims
    refused(model, tmp_path)


@pytest.mark.parametrize("missing", [1, 16, K * N // 2])
def test_truncated_weight(missing: int, tmp_path: Path) -> None:
    model = pair_of(5).model()
    weight = model.graph.initializer[0]
    weight.raw_data = weight.raw_data[:-missing]
    refused(model, tmp_path)


@pytest.mark.parametrize("shape", [(2, 63), (2, 65), (63,), (2, 0), (0, 63), (1, 2, 32), ()])
def test_activations_of_another_shape(shape: tuple[int, ...]) -> None:
    pair = pair_of(7)
    sess = models.session(pair.model())
    text = ",".join(map(str, shape))
    where = r"DequantizeLinear\+MatMul node 'product': input A \('A'\)"
    pattern = rf"{where} has shape \[{text}\], but K = 64"
    with pytest.raises(Exception, match=pattern):
        sess.run(None, {"A": np.ones(shape, np.float32)})
    a = np.ones((2, K), np.float32)
    qdq_models.assert_right(pair, a, models.run(sess, {"A": a}), 32, context="after a refused run")


@pytest.mark.parametrize("shape", [(K,), (2, 3, K), (2, 65)])
def test_activations_that_gemm_does_not_take(shape: tuple[int, ...]) -> None:
    pair = pair_of(8, product="Gemm")
    sess = models.session(pair.model())
    assert set(qdq_models.owners(sess).values()) == {models.PROVIDER}
    pattern = rf"Gemm node 'product': input A \('A'\) has shape \[{','.join(map(str, shape))}\]"
    with pytest.raises(Exception, match=pattern):
        sess.run(None, {"A": np.ones(shape, np.float32)})
    a = np.ones((2, K), np.float32)
    qdq_models.assert_right(pair, a, models.run(sess, {"A": a}), 32, context="after a refused run")


def test_non_finite_scales_stay_in_their_columns() -> None:
    pair = pair_of(9)
    pair.scale[0, 3], pair.scale[1, 5] = np.nan, np.inf
    a = cases.random_activations(np.random.default_rng(0), 3, K)
    a[a == 0] = 1
    y = models.run(models.session(pair.model()), {"A": a})
    kept = [column for column in range(N) if column not in (3, 5)]
    assert not np.isfinite(y[:, [3, 5]]).any()
    pair.q, pair.scale = pair.q[:, kept], pair.scale[:, kept]
    assert pair.zero_point is not None
    pair.zero_point = pair.zero_point[:, kept]
    qdq_models.assert_right(pair, a, y[:, kept], 32)


def test_truncated_external_data(tmp_path: Path) -> None:
    pair = pair_of(10)
    path = tmp_path / "model.onnx"
    onnx.save_model(
        pair.model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    data = tmp_path / "weights.bin"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(Exception, match=r"weights\.bin|out of bounds|external"):
        models.session(path)
