"""matmul_nbits and its sisters name a wrong argument before they touch memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isa_support
import oracle
from cases import random_activations, random_weights
from native_calls import Guarded, pack
from onnxruntime_ep_mlas import _native

N, K = 20, 50
PACKED = pack(random_weights(np.random.default_rng(1), N, K, 16))


def floats(*shape: int) -> oracle.Float32Array:
    return np.zeros(shape, np.float32)


def misaligned_floats(*shape: int) -> oracle.Float32Array:
    size = int(np.prod(shape)) * 4
    return np.zeros(size + 1, np.uint8)[1:].view(np.float32).reshape(shape)


def read_only(array: oracle.Float32Array) -> oracle.Float32Array:
    array.flags.writeable = False
    return array


SHARED = floats(3, K + N)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.zeros((3, K))}, "a must have dtype float32, float16 or bfloat16, got float64"),
        ({"a": np.zeros((3, K), ">f4")}, "a must have dtype float32"),
        ({"a": floats(K)}, "a must have 2 dim"),
        ({"a": floats(1, 3, K)}, "a must have 2 dim"),
        ({"a": floats(3, K - 1)}, "a must have at least k = 50 columns"),
        ({"a": floats(K, 3).T}, "a must have contiguous columns"),
        ({"a": floats(3, 2 * K)[:, ::2]}, "a must have contiguous columns"),
        ({"a": floats(3, K)[::-1]}, "row stride"),
        ({"a": np.broadcast_to(floats(1, K), (3, K))}, "row stride"),
        ({"a": misaligned_floats(3, K)}, "address"),
        ({"bias": floats(N + 1)}, r"bias must have shape \[20\], got \[21\]"),
        ({"bias": floats(1, N)}, "bias must have 1 dim"),
        ({"bias": np.zeros(N)}, "bias must have dtype float32"),
        ({"bias": floats(2 * N)[::2]}, "bias must be C-contiguous"),
        ({"compute": "int4"}, "compute must be"),
        ({"compute": ""}, "compute must be"),
        ({"isa": "mmx"}, "mmx"),
        ({"kernel": "mmx"}, "there is no kernel"),
        ({"threads": 0}, "threads must lie in"),
        ({"threads": -1}, "threads must lie in"),
        ({"threads": 257}, "threads must lie in"),
        ({"gather": np.zeros(K - 1, np.int32)}, "gather must have shape"),
        ({"gather": np.zeros(K, np.int64)}, "gather must have dtype int32"),
        ({"out": floats(3, N + 1)}, r"out must have shape \[3, 20\]"),
        ({"out": floats(2, N)}, r"out must have shape \[3, 20\]"),
        ({"out": np.zeros((3, N))}, "out must have dtype float32"),
        ({"out": floats(N, 3).T}, "out must have contiguous columns"),
        ({"out": floats(6, N)[::-2]}, "row stride"),
        ({"out": read_only(floats(3, N))}, "read-only"),
        ({"out": misaligned_floats(3, N)}, "address"),
        ({"workspace": np.zeros(0, np.uint8)}, "workspace must have at least"),
        ({"workspace": np.zeros(1 << 20, np.int8)}, "workspace must have dtype uint8"),
        ({"workspace": Guarded(np.zeros(1 << 16, np.uint8), 32).array}, "multiple of 64"),
        ({"a": SHARED[:, :K], "out": SHARED[:, K:]}, "must not overlap a"),
        ({"out": PACKED[64 : 64 + 240].view(np.float32).reshape(3, N)}, "must not overlap packed"),
        ({"bias": SHARED[1, :N], "out": SHARED[:, K:]}, "must not overlap bias"),
    ],
)
def test_products(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"a": floats(3, K), "packed": PACKED, "isa": "portable"}
    _native.matmul_nbits(**arguments)
    before = PACKED.copy()
    with pytest.raises(ValueError, match=message):
        _native.matmul_nbits(**{**arguments, **change})
    np.testing.assert_array_equal(PACKED, before)
    assert not SHARED.any()


@pytest.mark.parametrize("argument", ["a", "packed", "bias", "out", "workspace", "gather"])
def test_things_that_are_no_arrays(argument: str) -> None:
    arguments: dict[str, Any] = {"a": floats(3, K), "packed": PACKED}
    for value in ([1.0, 2.0], "text", 3):
        with pytest.raises((TypeError, ValueError)):
            _native.matmul_nbits(**{**arguments, argument: value})


def test_workspace_may_be_no_longer_than_stated() -> None:
    a = random_activations(np.random.default_rng(2), 5, K)
    for isa in isa_support.usable_isas():
        for compute in ("int8", "fp32"):
            needed = _native.workspace_bytes(5, PACKED, compute=compute, isa=isa)
            workspace = Guarded(np.zeros(needed, np.uint8))
            options = {"compute": compute, "isa": isa}
            c = _native.matmul_nbits(a, PACKED, workspace=workspace.array, **options)
            np.testing.assert_array_equal(c, _native.matmul_nbits(a, PACKED, **options))
            if needed:
                with pytest.raises(ValueError, match=f"at least {needed} bytes"):
                    _native.matmul_nbits(a, PACKED, workspace=workspace.array[:-1], **options)
    assert _native.workspace_bytes(0, PACKED) == 0


def test_out_is_returned_and_filled() -> None:
    a = random_activations(np.random.default_rng(3), 4, K)
    out = np.full((4, N), np.nan, np.float32)
    assert _native.matmul_nbits(a, PACKED, out=out) is out
    np.testing.assert_array_equal(out, _native.matmul_nbits(a, PACKED))


def test_no_rows() -> None:
    for compute in ("int8", "fp32"):
        assert _native.matmul_nbits(floats(0, K), PACKED, compute=compute).shape == (0, N)
    assert _native.kernels_for(0, PACKED) == []


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (_native.workspace_bytes, {"m": -1}, "m must lie in"),
        (_native.kernels_for, {"m": 2**50}, "m must lie in"),
        (_native.workspace_bytes, {"m": 1, "compute": "x"}, "compute must be"),
        (_native.workspace_bytes, {"m": 1, "kernel": "x"}, "there is no kernel"),
        (_native.kernels_for, {"m": 1, "isa": "x"}, "x"),
    ],
)
def test_questions(function: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(packed=PACKED, **arguments)


def test_timing_counts_every_call() -> None:
    a = floats(2, K)
    other = pack(random_weights(np.random.default_rng(4), N, K, 32, zero_points="float"))
    for packed in (PACKED, [PACKED], [PACKED, other, PACKED]):
        seconds = _native.time_matmul(a, packed, compute="int8", threads=2, calls=7)
        assert len(seconds) == 7
        assert all(value > 0 for value in seconds)
    narrow = pack(random_weights(np.random.default_rng(4), N - 1, K, 16))
    for packed, calls, message in (
        ([], 1, "at least one"),
        ([PACKED, narrow], 1, "same n"),
        (PACKED, 0, "calls must lie in"),
    ):
        with pytest.raises(ValueError, match=message):
            _native.time_matmul(a, packed, compute="int8", calls=calls)
    with pytest.raises(ValueError, match="compute must be"):
        _native.time_matmul(a, PACKED, compute="bf16", calls=1)
