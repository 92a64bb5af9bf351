"""The column format against its restatement, and its products against those of the quad format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import column_format
import isa_support
import oracle
import quad_format
from cases import (
    SCALE_CASES,
    ZERO_POINT_CASES,
    ScaleCase,
    ZeroPointCase,
    random_activations,
    random_weights,
)
from isa_support import KernelRow
from native_calls import Guarded, pack, run_row
from onnxruntime_ep_mlas import _native

BLOCK_LENGTHS = (16, 32, 64, 128, 256)
column_rows = isa_support.executable_kernel_rows(format="column")
every_column_row = pytest.mark.parametrize("row", column_rows, ids=repr)


def assert_same_bytes(weights: oracle.Weights, *, general: bool, threads: int = 1) -> None:
    packed = pack(weights, general=general, threads=threads, format="column")
    expected = column_format.pack(weights, general=general)
    assert quad_format.read_header(packed) == quad_format.read_header(expected)
    np.testing.assert_array_equal(packed, expected)


def assert_round_trip(weights: oracle.Weights, *, general: bool) -> None:
    packed = pack(weights, general=general, format="column")
    restated = column_format.unpack(packed)
    codes = oracle.unpack_codes(weights.codes, weights.k)
    np.testing.assert_array_equal(restated[0], codes)
    unpacked = _native.unpack(packed)
    np.testing.assert_array_equal(
        oracle.unpack_codes(unpacked[0], weights.k_blocks * weights.block_size),
        np.pad(codes, [(0, 0), (0, weights.k_blocks * weights.block_size - weights.k)]),
    )
    for found in (restated, unpacked):
        np.testing.assert_array_equal(found[1].view(np.uint32), weights.scales.view(np.uint32))
        np.testing.assert_array_equal(found[2], weights.zero_point_values())


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("scales", SCALE_CASES)
@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
@pytest.mark.parametrize("block", BLOCK_LENGTHS)
def test_bytes_are_the_stated_format(
    block: int, zero_points: ZeroPointCase, scales: ScaleCase, general: bool
) -> None:
    shapes = [(1, 1), (15, block), (16, block + 1), (17, 3 * block - 1), (33, 2 * block + 5)]
    for n, k in [*shapes, (18, 64), (18, 65), (34, 127), (5, 128)]:
        weights = random_weights(
            np.random.default_rng([n, k]), n, k, block, zero_points=zero_points, scales=scales
        )
        assert_same_bytes(weights, general=general)
        assert_round_trip(weights, general=general)


@given(
    n=st.integers(1, 70),
    k=st.integers(1, 600),
    block=st.sampled_from(BLOCK_LENGTHS),
    zero_points=st.sampled_from(ZERO_POINT_CASES),
    scales=st.sampled_from(SCALE_CASES),
    general=st.booleans(),
    threads=st.sampled_from([1, 2, 5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_packs_to_the_stated_format(
    n: int,
    k: int,
    block: int,
    zero_points: ZeroPointCase,
    scales: ScaleCase,
    general: bool,
    threads: int,
    seed: int,
) -> None:
    weights = random_weights(
        np.random.default_rng(seed), n, k, block, zero_points=zero_points, scales=scales
    )
    assert_same_bytes(weights, general=general, threads=threads)
    assert_round_trip(weights, general=general)


def test_packed_info_names_the_format() -> None:
    weights = random_weights(np.random.default_rng(1), 3, 40, 16)
    for name in ("quad", "column"):
        packed = pack(weights, format=name)
        assert _native.packed_info(packed)["format"] == name
    assert _native.packed_info(pack(weights))["format"] == "quad"
    with pytest.raises(ValueError, match='format must be "quad" or "column", got "row"'):
        pack(weights, format="row")


# --- products ------------------------------------------------------------------------------------


@every_column_row
@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
@pytest.mark.parametrize("block", BLOCK_LENGTHS)
def test_rows_do_the_stated_sequence_of_float_operations(
    row: KernelRow, block: int, zero_points: ZeroPointCase
) -> None:
    """Bit by bit, over every remainder of tile, strip, group and block."""
    rng = np.random.default_rng(block)
    height = row["tile_rows"]
    depths = (1, block - 1, block, block + 3, 2 * block, 3 * block - 5, 4 * block, 5 * block + 9)
    for index, k in enumerate(depths):
        n = (1, 3, 4, 7, 8, 13, 16, 29)[(index + block // 16) % 8]
        general, scales = index % 2 == 1, SCALE_CASES[index % len(SCALE_CASES)]
        weights = random_weights(rng, n, k, block, zero_points=zero_points, scales=scales)
        a = random_activations(rng, height + index % (height + 1), k)
        bias = rng.standard_normal(n).astype(np.float32) if index % 3 else None
        fractional = zero_points == "float" or (general and zero_points == "float_integers")
        expected, stated = oracle.matmul_int8_float32(a, weights, bias, fractional=fractional)
        assert stated.all()
        c = run_row(row, a, pack(weights, general=general, format="column"), bias=bias)
        np.testing.assert_array_equal(c, expected, err_msg=f"N={n} K={k} general={general}")


@every_column_row
def test_every_number_of_columns(row: KernelRow) -> None:
    rng = np.random.default_rng(6)
    for n in range(1, 34):
        weights = random_weights(rng, n, 90, 16, zero_points="per_block")
        a, bias = random_activations(rng, 3, 90), rng.standard_normal(n).astype(np.float32)
        expected, _ = oracle.matmul_int8_float32(a, weights, bias)
        c = run_row(row, a, pack(weights, format="column"), bias=bias)
        np.testing.assert_array_equal(c, expected, err_msg=f"N={n}")


@pytest.mark.parametrize("isa", isa_support.usable_isas())
@pytest.mark.parametrize("compute", ["int8", "fp32"])
@pytest.mark.parametrize("zero_points", ZERO_POINT_CASES)
def test_products_are_those_of_the_quad_format(
    isa: str, compute: str, zero_points: ZeroPointCase
) -> None:
    """Bit by bit, also in rows of A that int8 leaves to fp32, for any M and number of threads."""
    rng = np.random.default_rng(3)
    for m, n, k, block in (
        (1, 33, 77, 16),
        (13, 70, 1700, 32),
        (40, 17, 300, 64),
        (9, 300, 513, 256),
    ):
        weights = random_weights(rng, n, k, block, zero_points=zero_points, scales="fp32")
        a, bias = random_activations(rng, m, k), rng.standard_normal(n).astype(np.float32)
        if m > 1:
            a[1, k // 2] = np.inf
            a[4, 3] = np.nan
            a[7, :block] = 1e-41
        options = {"bias": bias, "isa": isa, "compute": compute}
        expected = _native.matmul_nbits(a, pack(weights), **options)
        column = pack(weights, format="column")
        for threads in (1, 3):
            c = _native.matmul_nbits(a, column, threads=threads, **options)
            np.testing.assert_array_equal(c.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_kernels_chosen(isa: str) -> None:
    """Int8 rows are the ISA's own for the format or else the portable ones."""
    packed = pack(random_weights(np.random.default_rng(4), 40, 200, 32), format="column")
    known = {row.name: row for row in isa_support.kernel_rows()}
    own = {row.name for row in column_rows if row["isa"] == isa}
    usable = own or {row.name for row in column_rows if row["isa"] == "portable"}
    for m in (1, 2, 3, 16, 33):
        assert set(_native.kernels_for(m, packed, isa=isa)) <= usable
        for name in _native.kernels_for(m, packed, compute="fp32", isa=isa):
            assert known[name]["path"] == "panel"
            assert known[name]["compute"] == "fp32"


def test_a_header_that_names_the_other_format_is_refused() -> None:
    """Where K is padded further in one format than in the other, sizes tell them apart."""
    weights = random_weights(np.random.default_rng(5), 17, 40, 16)
    for name, other in (("quad", 2), ("column", 1)):
        packed = pack(weights, format=name)
        header = replace(quad_format.read_header(packed), format=other)
        forged = quad_format.seal(header, packed[quad_format.HEADER_BYTES :].tobytes())
        with pytest.raises(ValueError, match="can't hold"):
            _native.packed_info(Guarded(forged).array)


def test_damage_is_found() -> None:
    packed = pack(random_weights(np.random.default_rng(5), 17, 70, 32), format="column")
    rng = np.random.default_rng(6)
    for index in range(packed.size):
        damaged = Guarded(packed).array
        damaged[index] ^= np.uint8(1 << rng.integers(8))
        with pytest.raises(ValueError, match=r".+"):
            _native.packed_info(damaged)
