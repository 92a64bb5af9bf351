"""quantize_model's settings: patterns, overrides, progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from float_models import X, check_same_results, grid_weights, model, quantize, run, tensor

node = helper.make_node
RNG = np.random.default_rng(0)


def three_layers() -> onnx.ModelProto:
    nodes = [
        node("MatMul", ["x", "w0"], ["a"], "enc/q_proj"),
        node("MatMul", ["a", "w1"], ["b"], "enc/down_proj"),
        node("MatMul", ["b", "w2"], ["y"], "head"),
    ]
    weights = [tensor(f"w{i}", grid_weights(RNG, 64, 64) / np.float32(16)) for i in range(3)]
    return model(nodes, weights)


def test_include_and_exclude() -> None:
    _, report = check_same_results(three_layers(), include=["enc/*"], exclude=["*down*"])
    assert [r.name for r in report.taken] == ["enc/q_proj"]
    assert {r.name: r.reason for r in report.skipped} == {
        "enc/down_proj": "its name matches exclude pattern '*down*'",
        "head": "its name matches no include pattern",
    }


def test_overrides_by_pattern() -> None:
    overrides = {
        "enc/*": {"block_size": 16, "algorithm": "rtn"},
        "*down*": {"bits": 4, "accuracy_level": 4},
    }
    quantized, report = quantize(three_layers(), overrides=overrides)
    chosen = {r.name: (r.algorithm, r.bits, r.block_size, r.accuracy_level) for r in report.taken}
    assert chosen == {
        "enc/q_proj": ("rtn", 2, 16, 0),
        "enc/down_proj": ("rtn", 4, 16, 4),
        "head": ("mse", 2, 32, 0),
    }
    for changed in quantized.graph.node:
        attributes = {a.name: a.i for a in changed.attribute}
        expected = chosen[changed.name][1:]
        keys = ("bits", "block_size", "accuracy_level")
        assert tuple(attributes[key] for key in keys) == expected
    run(quantized, {"x": X})


def test_every_width_has_an_algorithm_of_its_own() -> None:
    overrides = {"*down*": {"bits": 4, "block_size": 512}, "head": {"bits": 8, "block_size": 64}}
    quantized, report = quantize(three_layers(), overrides=overrides)
    chosen = {r.name: (r.algorithm, r.bits, r.block_size) for r in report.taken}
    assert chosen == {
        "enc/q_proj": ("mse", 2, 32),
        "enc/down_proj": ("mse", 4, 512),
        "head": ("rtn", 8, 64),
    }
    # "rtn" needs no zero points.
    by_name = {changed.name: changed for changed in quantized.graph.node}
    inputs = {name: len(changed.input) for name, changed in by_name.items()}
    assert inputs == {"enc/q_proj": 4, "enc/down_proj": 4, "head": 3}
    run(quantized, {"x": X})
    _, report = quantize(three_layers(), bits=8, overrides={"head": {"bits": 2}})
    assert [r.algorithm for r in report.taken] == ["rtn", "rtn", "mse"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "mse", "bits": 8}, "'mse' can't do 8 bits; choose rtn"),
        ({"algorithm": "mse", "overrides": {"head": {"bits": 8}}}, "override 'head': algorithm"),
        ({"overrides": {"enc*": {"block_size": 512}}}, "at 2 bits it may be 256 at most"),
        ({"include": ["enc*", "dec*"]}, r"no MatMul or Gemm node has a name that matches dec\*"),
        ({"exclude": ["x"], "overrides": {"z": {"bits": 4}}}, "matches x, z"),
        ({"include": "enc*"}, "include is one string"),
        ({"overrides": {"enc*": {"bit": 4}}}, r"override 'enc\*' sets bit; it may set algorithm"),
        ({"overrides": {"enc*": {"bits": 5}}}, r"override 'enc\*': bits is 5"),
        ({"accuracy_level": 5}, "accuracy_level is 5; it must be 0 to 4"),
        ({"algorithm": "none"}, "unknown algorithm 'none'"),
        ({"block_size": 48}, "block_size is 48"),
        ({"external_data": True}, "give an output path"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(three_layers(), **arguments)


def test_progress_is_told_node_by_node() -> None:
    told: list[tuple[int, int, str]] = []
    quantize(three_layers(), on_progress=lambda *args: told.append(args))
    assert told == [(1, 3, "enc/q_proj"), (2, 3, "enc/down_proj"), (3, 3, "head")]


def test_quantising_twice_finds_nothing_more() -> None:
    once, _ = quantize(three_layers())
    twice, report = quantize(once)
    assert report.nodes == ()
    assert twice == once
