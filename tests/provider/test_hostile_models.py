"""Models whose attributes and tensors disagree: refused in words, and never read past an end."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cases
import models
import oracle

N, K, BLOCK_SIZE = 16, 64, 32


def node_with(tensors: dict[str, Any] | None = None, **arguments: Any) -> models.Node:
    rng = np.random.default_rng(61)
    weights = cases.random_weights(rng, N, K, BLOCK_SIZE, zero_points="per_block")
    return models.Node(weights, tensors=tensors or {}, **arguments)


def refuse(node: models.Node, pattern: str) -> None:
    with pytest.raises(Exception, match=pattern) as caught:
        models.session(models.model_of(node))
    assert "mm" in str(caught.value)


ones = np.ones


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("B", ones((N, 2, 7), np.uint8), r"\[16,2,8\]"),
        ("B", ones((N, 1, 8), np.uint8), r"\[16,2,8\]"),
        ("B", ones((N - 1, 2, 8), np.uint8), r"\[16,2,8\]"),
        ("B", ones((N, 2, 9), np.uint8), r"\[16,2,8\]"),
        ("B", ones((N, 2, 0), np.uint8), r"\[16,2,8\]"),
        ("B", ones((N * 16,), np.uint8), r"\[16,2,8\]"),
        ("scales", ones((N, 1), np.float32), r"\[16,2\] or \[32\]"),
        ("scales", ones((N, 3), np.float32), r"\[16,2\] or \[32\]"),
        ("scales", ones((31,), np.float32), r"\[16,2\] or \[32\]"),
        ("scales", ones((), np.float32), r"\[16,2\] or \[32\]"),
        ("scales", ones((2, N), np.float32), r"\[16,2\] or \[32\]"),
        ("zero_points", ones((N, 2), np.uint8), r"\[16,1\] or \[16\]"),
        ("zero_points", ones((15,), np.uint8), r"\[16,1\] or \[16\]"),
        ("zero_points", ones((N, 1), np.float32), r"\[16,2\] or \[32\]"),
        ("zero_points", ones((16,), np.float16), r"\[16,2\] or \[32\]"),
        ("g_idx", ones((63,), np.int32), r"\[64\]"),
        ("g_idx", ones((1, 64), np.int32), r"\[64\]"),
        ("bias", ones((15,), np.float32), r"\[16\]"),
        ("bias", ones((1,), np.float32), r"\[16\]"),
        ("bias", ones((1, 16), np.float32), r"\[16\]"),
    ],
)
def test_constant_of_another_shape(name: str, value: models.Array, needed: str) -> None:
    shape = ",".join(map(str, value.shape))
    ours = rf"input {name} \('{name}'\) has shape \[{shape}\], but N = 16, K = 64.*{needed}"
    # ONNX Runtime's own shape inference comes first for bias, and words it less well.
    refuse(node_with({name: value}), rf"{ours}|bias shape must be" if name == "bias" else ours)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("B", ones((N, 2, 7), np.uint8)),
        ("B", ones((N - 1, 2, 8), np.uint8)),
        ("scales", ones((N, 1), np.float32)),
        ("zero_points", ones((N, 2), np.uint8)),
        ("g_idx", ones((63,), np.int32)),
    ],
)
def test_run_time_input_of_another_shape(name: str, value: models.Array) -> None:
    node = node_with(run_time=(name,))
    if name == "g_idx":
        node = dataclasses.replace(node, g_idx=(np.arange(K) // BLOCK_SIZE).astype(np.int32))
    sess = models.session(models.model_of(node))
    a = np.ones((2, K), np.float32)
    shape = ",".join(map(str, value.shape))
    pattern = rf"'mm': input {name} \('{name}'\) has shape \[{shape}\], but N = 16, K = 64"
    with pytest.raises(Exception, match=pattern):
        sess.run(None, {"A": a, name: value})
    models.assert_right(node, a, models.run(sess, node.feeds(a)), "after a refused run")


@pytest.mark.parametrize("shape", [(2, 63), (2, 65), (63,), (2, 0), (0, 63), (1, 2, 32)])
def test_activations_of_another_shape(shape: tuple[int, ...]) -> None:
    node = node_with()
    model = models.model_of(node)
    sess = models.session(model)
    text = ",".join(map(str, shape))
    with pytest.raises(Exception, match=rf"input A \('A'\) has shape \[{text}\], but K = 64"):
        sess.run(None, {"A": np.ones(shape, np.float32)})


def test_scalar_activations() -> None:
    sess = models.session(models.model_of(node_with()))
    with pytest.raises(Exception, match=r"shape \[\], but K = 64"):
        sess.run(None, {"A": np.array(1, np.float32)})


@pytest.mark.parametrize(
    ("attributes", "pattern"),
    [
        ({"N": 17}, r"N = 17, K = 64.*\[17,2,8\]"),
        ({"N": 2**40}, r"input B .* has shape \[16,2,8\], but N = 1099511627776"),
        ({"K": 96}, r"N = 16, K = 96.*\[16,3,8\]"),
        ({"K": 2**40}, r"input B .* has shape \[16,2,8\], but N = 16, K = 1099511627776"),
        ({"K": 65}, r"\[16,3,8\]"),
        ({"block_size": 64}, r"\[16,1,16\]"),
        ({"block_size": 16}, r"\[16,4,4\]"),
        ({"N": -16}, r"must not be negative"),
        ({"K": -64}, r"must not be negative"),
        ({"N": 2**62}, r"more weights than can be addressed"),
        ({"K": 2**63 - 1}, r"more weights than can be addressed"),
        ({"N": 2**33, "K": 2**33}, r"more weights than can be addressed"),
        ({"N": -(2**63), "K": -(2**63)}, r"must not be negative"),
    ],
)
def test_overstated_attributes(attributes: dict[str, int], pattern: str) -> None:
    refuse(node_with(attributes=attributes), pattern)


@pytest.mark.parametrize("block_size", [0, -32, 1, 2, 8, 15, 24, 48, 257, 512, 2**31, -(2**63)])
def test_block_sizes_that_do_not_exist(block_size: int) -> None:
    refuse(
        node_with(attributes={"block_size": block_size}),
        rf"block_size = {block_size} must be a power of two from 16 to 256 where bits = 2",
    )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block_size", [0, -32, 8, 48, 2**31 - 1, -(2**63)])
def test_block_sizes_of_other_widths(block_size: int, bits: int) -> None:
    refuse(
        node_with(attributes={"block_size": block_size, "bits": bits}),
        rf"block_size = {block_size} must be a power of two from 16 to 65536 where bits = {bits}",
    )


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_another_width(bits: int) -> None:
    """Codes of 2 bits in a node that claims more of them than there are."""
    refuse(node_with(attributes={"bits": bits}), rf"input B.* bits = {bits} need")


def test_truncated_external_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(62)
    node = models.Node(cases.random_weights(rng, 64, 1024, 32), accuracy_level=0)
    path = tmp_path / "model.onnx"
    onnx.save_model(
        models.model_of(node),
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    a = cases.random_activations(rng, 2, 1024)
    sess = models.session(path)
    assert models.owners(sess) == {"mm": models.PROVIDER}
    models.assert_right(node, a, models.run(sess, {"A": a}))
    del sess
    data = tmp_path / "weights.bin"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(Exception, match=r"weights\.bin|out of bounds|external"):
        models.session(path)


def test_refusal_leaves_the_process_usable() -> None:
    for _ in range(3):
        refuse(node_with({"scales": ones((N, 1), np.float32)}), "scales")
    node = node_with()
    a = np.ones((2, K), np.float32)
    models.assert_right(node, a, models.run_ours(node, a))


def test_malformed_node_beside_good_ones() -> None:
    """Compile fails after some nodes were compiled: those must be released once."""
    rng = np.random.default_rng(63)
    good = [
        models.Node(cases.random_weights(rng, 64, 64, 32), name=f"g{i}", prefix=f"g{i}_")
        for i in range(2)
    ]
    bad = models.Node(
        cases.random_weights(rng, 64, 64, 32),
        name="mm",
        prefix="bad_",
        tensors={"scales": ones((64, 1), np.float32)},
    )
    chain = [good[0].node_proto("A", "T"), bad.node_proto("T", "U"), good[1].node_proto("U", "Y")]
    model = models.make_model(
        chain,
        [models.value_info("A", ["M", 64])],
        [models.value_info("Y", None)],
        [tensor for node in (*good, bad) for tensor in node.initializers()],
    )
    with pytest.raises(Exception, match=r"'mm': input scales \('bad_scales'\) has shape \[64,1\]"):
        models.session(model)


def test_non_finite_scales_stay_in_their_columns() -> None:
    rng = np.random.default_rng(64)
    weights = cases.random_weights(rng, N, K, BLOCK_SIZE)
    weights.scales[3, 0] = np.nan
    weights.scales[5, 1] = np.inf
    node = models.Node(weights)
    a = cases.random_activations(rng, 3, K)
    y = models.run_ours(node, a)
    kept = [column for column in range(N) if column not in (3, 5)]
    part = oracle.Weights(
        weights.codes[kept], weights.scales[kept], None, K, BLOCK_SIZE, weights.bits
    )
    models.assert_right(models.Node(part), a, y[:, kept])
    assert not np.isfinite(y[:, [3, 5]]).any()
