"""A row of the product depends on that row, the weights, the ISA and the compute type alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import isa_support
import oracle
from cases import ZERO_POINT_CASES, ZeroPointCase, random_activations, random_weights
from native_calls import pack, pack_for, run_row
from onnxruntime_ep_mlas import _native

# Shapes that split by columns, by rows and not at all, and whose K takes several panels; M, N, K,
# block length, bits.
SHAPES = [
    (70, 300, 1000, 32, 2),
    (40, 17, 77, 16, 4),
    (200, 48, 513, 256, 2),
    (33, 1030, 64, 64, 8),
    (40, 100, 1100, 512, 8),
    (70, 300, 1100, 128, 4),
]


def choices() -> list[str | None]:
    """Every usable ISA, and None where the machine's own choice is another for one row."""
    choice = _native.isa_choice()
    mixed = len({choice["one_row"], choice["few_rows"], choice["many_rows"]}) > 1
    return [*isa_support.usable_isas(), *([None] if mixed else [])]


@pytest.mark.parametrize("isa", choices())
@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("zero_points", ["uniform", "per_block", "float"])
def test_bits_do_not_depend_on_m_kernel_or_threads(
    isa: str | None, compute: str, zero_points: ZeroPointCase
) -> None:
    rng = np.random.default_rng(1)
    for m, n, k, block, bits in SHAPES:
        weights = random_weights(
            rng, n, k, block, bits=bits, zero_points=zero_points, scales="fp32"
        )
        packed, bias = pack(weights), rng.standard_normal(n).astype(np.float32)
        a = random_activations(rng, m, k)
        a[5, k // 2] = np.inf
        a[7, :block] = 1e-41
        options = {"bias": bias, "isa": isa, "compute": compute}
        one_by_one = np.concatenate(
            [_native.matmul_nbits(a[row : row + 1], packed, **options) for row in range(m)]
        )
        expected = oracle.matmul(a, weights, bias, compute=compute)
        oracle.assert_matches(one_by_one, expected, f"{isa} {compute} {(m, n, k, block, bits)}")
        for rows in (2, 3, 5, 8, 13, m):
            for first in (0, m - rows):
                c = _native.matmul_nbits(a[first : first + rows], packed, **options)
                np.testing.assert_array_equal(c, one_by_one[first : first + rows])
        for threads in (2, 3, 16):
            c = _native.matmul_nbits(a, packed, threads=threads, **options)
            np.testing.assert_array_equal(c, one_by_one)
        for row in isa_support.executable_kernel_rows(isa=isa, compute=compute, bits=bits):
            c = run_row(row, a, pack_for(row, weights), bias=bias, threads=2)
            np.testing.assert_array_equal(c, one_by_one, err_msg=row.name)


@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
def test_int8_bits_do_not_depend_on_the_isa(zero_points: ZeroPointCase) -> None:
    isas = isa_support.usable_isas()
    rng = np.random.default_rng(2)
    for m, n, k, block, bits in SHAPES:
        weights = random_weights(rng, n, k, block, bits=bits, zero_points=zero_points)
        packed = pack(weights)
        a = random_activations(rng, m, k)
        # Magnitudes for which products and sums round, underflow and lose bits.
        a[3] *= np.float32(1e-30)
        a[4] *= np.float32(1e30)
        results = [_native.matmul_nbits(a, packed, isa=isa) for isa in isas]
        for isa, result in zip(isas, results, strict=True):
            np.testing.assert_array_equal(result, results[0], err_msg=isa)


@pytest.mark.parametrize("isa", isa_support.usable_isas())
@pytest.mark.parametrize("general", [False, True])
def test_general_packing_multiplies_to_the_same_bits(isa: str, general: bool) -> None:
    """Scales of 16 or 32 bits and the kind of integer zero points are storage, not arithmetic."""
    rng = np.random.default_rng(3)
    a = random_activations(rng, 5, 200)
    for compute in ("int8", "fp32"):
        for zero_points in ("none", "uniform", "per_block"):
            weights = random_weights(rng, 40, 200, 32, zero_points=zero_points)
            as_floats = oracle.Weights(
                weights.codes,
                weights.scales,
                weights.zero_point_values().astype(np.float32),
                200,
                32,
            )
            options = {"isa": isa, "compute": compute}
            c = _native.matmul_nbits(a, pack(weights, general=general), **options)
            same = _native.matmul_nbits(a, pack(as_floats), **options)
            np.testing.assert_array_equal(c, same)


def test_concurrent_products_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(4)
    weights = random_weights(rng, 300, 512, 32, zero_points="per_block")
    packed = pack(weights)
    inputs = [random_activations(rng, m, 512) for m in (1, 2, 7, 16, 33, 64)]
    for compute in ("int8", "fp32"):

        def product(a: oracle.Float32Array, threads: int) -> oracle.Float32Array:
            return _native.matmul_nbits(a, packed, compute=compute, threads=threads)  # noqa: B023

        expected = [product(a, 1) for a in inputs]
        with ThreadPoolExecutor(6) as pool:
            for threads in (1, 3):
                jobs = [
                    (index, pool.submit(product, inputs[index], threads))
                    for _ in range(20)
                    for index in range(len(inputs))
                ]
                for index, job in jobs:
                    np.testing.assert_array_equal(job.result(), expected[index])


def test_a_used_workspace_leaves_no_trace() -> None:
    rng = np.random.default_rng(5)
    packed = pack(random_weights(rng, 40, 100, 32, zero_points="float"))
    size = _native.workspace_bytes(9, packed)
    a = random_activations(rng, 9, 100)
    clean = _native.matmul_nbits(a, packed)
    memory = np.empty(size + 64, np.uint8)
    workspace = memory[-memory.ctypes.data % 64 :][:size]
    for fill in (0x00, 0xFF, 0x7F):
        workspace[:] = fill
        c = _native.matmul_nbits(a, packed, workspace=workspace)
        np.testing.assert_array_equal(c, clean)
