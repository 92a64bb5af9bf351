"""Every combination of what MatMulNBits can say, each with two of many shapes.

Widths x block lengths x levels x kinds of zero points x types x groupings x bias x constant or
run-time weights: over ten thousand products against the oracle, many nodes to a session. The number
of them and the worst error as a share of what is allowed are printed at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import cases
import models
import oracle
from narrow_types import narrowed
from qdq_models import float_tensor, representable

FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
WIDTHS = {2: (16, 32, 64, 128, 256), 4: (16, 32, 64, 128, 256, 512), 8: (16, 32, 64, 128, 256, 512)}
# M, N and K in blocks and k beyond them; K is never more than two blocks and a bit.
SHAPES = (
    *((1, 1, 0, 1), (1, 16, 1, 0), (2, 17, 1, 3), (3, 5, 2, 0), (1, 33, 1, 7), (7, 16, 0, 9)),
    *((0, 8, 1, 0), (5, 31, 1, 15), (1, 2, 2, 1), (4, 32, 1, 5), (9, 7, 1, 1), (2, 48, 0, 16)),
)
NODES_PER_SESSION = 90
TOTAL = 10_000

pytestmark = pytest.mark.uninstrumented


@dataclass
class Case:
    node: models.Node
    kind: int
    a: models.Array
    index: int

    def __str__(self) -> str:
        w = self.node.weights
        return (
            f"{w.bits} bits block {w.block_size} level {self.node.accuracy_level} M={len(self.a)} "
            f"N={w.n} K={w.k} type {self.kind} g_idx {self.node.g_idx is not None} bias "
            f"{self.node.bias is not None} at run time {self.node.run_time}"
        )


@dataclass
class Account:
    products: int = 0
    worst: float = 0.0
    where: str = ""


_account = Account()
_done: set[tuple[int, int]] = set()


def all_cases(bits: int, kind: int) -> Iterator[Case]:
    rng = np.random.default_rng([51, bits, kind])
    shapes = itertools.cycle(SHAPES)
    combinations = itertools.product(
        WIDTHS[bits],
        (0, 4),
        cases.ZERO_POINT_CASES,
        ("none", "identity", "permuted"),
        (False, True),
        (False, True),
        range(2),
    )
    for index, combination in enumerate(combinations):
        block, level, zero_points, grouping, bias, run_time, _ = combination
        m, n, blocks, rest = next(shapes)
        k = blocks * block + rest
        weights = cases.random_weights(rng, n, k, block, bits=bits, zero_points=zero_points)
        points = weights.zero_points
        if points is not None and points.dtype == np.float32:
            points = representable(points, kind)
        weights = oracle.Weights(
            weights.codes, representable(weights.scales, kind), points, k, block, bits
        )
        g_idx = np.arange(k) // block
        if grouping == "permuted":
            g_idx = rng.permutation(g_idx)
        node = models.Node(
            weights,
            bias=representable(rng.standard_normal(n), kind) if bias else None,
            g_idx=None if grouping == "none" else g_idx.astype(np.int32),
            accuracy_level=level,
            name=f"n{index}",
            prefix=f"n{index}_",
        )
        if run_time:
            node.run_time = tuple(name for name in node.values() if name != "g_idx" or index % 2)
        # Sums of 8-bit codes must fit float16.
        exponent = rng.integers(-2, 3) - (4 if bits == 8 else 0)
        a = representable(rng.standard_normal((m, k)) * 2.0**exponent, kind)
        yield Case(node, kind, a, index)
        # An odd step, so that a combination's two shapes are not always the same two.
        if index % 11 == 0:
            next(shapes)


def tensor_of(name: str, value: models.Array, kind: int) -> Any:
    if value.dtype == np.float32:
        return float_tensor(name, kind, value)
    element_type = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor(name, element_type, value.shape, value.tobytes(), raw=True)


def run(batch: list[Case]) -> list[models.Array]:
    """Each node on its own A, cast to its type and back; run-time tensors come by way of casts."""
    nodes, inputs, outputs, initializers = [], [], [], []
    feeds: dict[str, models.Array] = {}

    def cast(source: str, target: str, kind: int) -> None:
        nodes.append(helper.make_node("Cast", [source], [target], to=kind))

    for case in batch:
        prefix = case.node.prefix
        inputs.append(models.value_info(f"{prefix}wide", case.a.shape))
        feeds[f"{prefix}wide"] = case.a
        cast(f"{prefix}wide", f"{prefix}A", case.kind)
        for name, value in case.node.values().items():
            if name not in case.node.run_time:
                initializers.append(tensor_of(prefix + name, value, case.kind))
            elif value.dtype == np.float32:
                inputs.append(models.value_info(f"{prefix}{name}_wide", value.shape))
                feeds[f"{prefix}{name}_wide"] = value
                cast(f"{prefix}{name}_wide", prefix + name, case.kind)
            else:
                element_type = helper.np_dtype_to_tensor_dtype(value.dtype)
                inputs.append(models.value_info(prefix + name, value.shape, element_type))
                feeds[prefix + name] = value
        nodes.append(case.node.node_proto(f"{prefix}A", f"{prefix}y"))
        cast(f"{prefix}y", f"{prefix}Y", FLOAT)
        outputs.append(models.value_info(f"{prefix}Y", None))
    sess = models.session(models.make_model(nodes, inputs, outputs, initializers))
    assert set(models.owners(sess).values()) == {models.PROVIDER}
    assert len(models.owners(sess)) == len(batch)
    return [np.asarray(y) for y in sess.run([output.name for output in outputs], feeds)]


def check(case: Case, y: models.Array) -> None:
    assert y.shape == (len(case.a), case.node.weights.n), str(case)
    _account.products += 1
    if not y.size:
        return
    expected = models.reference(case.node, case.a)
    if case.kind != FLOAT:
        expected = narrowed(expected, case.kind)
    oracle.assert_matches(y, expected, str(case))
    share = float((np.abs(y - expected.value) / expected.bound).max())
    if share > _account.worst:
        _account.worst, _account.where = share, str(case)


@pytest.mark.parametrize("kind", [FLOAT, FLOAT16, BFLOAT16], ids=["float", "float16", "bfloat16"])
@pytest.mark.parametrize("bits", sorted(WIDTHS))
def test_all_combinations(bits: int, kind: int) -> None:
    remaining = all_cases(bits, kind)
    while batch := list(itertools.islice(remaining, NODES_PER_SESSION)):
        for case, y in zip(batch, run(batch), strict=True):
            check(case, y)
    _done.add((bits, kind))


def test_account(capsys: pytest.CaptureFixture[str]) -> None:
    if len(_done) < 3 * len(WIDTHS):
        pytest.skip("counts the products of the tests above, which did not all run")
    with capsys.disabled():
        print(
            f"\nmatrix: {_account.products} products, worst error {_account.worst:.3f} of what is "
            f"allowed ({_account.where})"
        )
    assert _account.products >= TOTAL
    assert 0 < _account.worst <= 1
