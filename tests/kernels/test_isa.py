"""The table of kernels, CPU features and the choice of an ISA."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import isa_support
from onnxruntime_ep_mlas import _native

ALL_ISAS = (
    *("portable", "avx2", "avxvnni", "avx512bw", "avx512vnni"),
    *("neon", "neon_dotprod", "neon_i8mm"),
)
NAME = re.compile(
    r"qnbit_(?P<compute>int8|fp32)_w(?P<bits>\d)_(?P<format>quad|column)_(?P<isa>[a-z0-9]+(_dotprod|_i8mm)?)"
    r"_(?P<path>fused|panel)_r(?P<tile_rows>\d+)c(?P<tile_columns>\d+)"
)


def select_with_environment(value: str | None, argument: str | None = None) -> tuple[int, str]:
    environment = {k: v for k, v in os.environ.items() if k != "ORT_MLAS_ISA"}
    if value is not None:
        environment["ORT_MLAS_ISA"] = value
    program = (
        "from onnxruntime_ep_mlas import _native\n"
        f"try: print(_native.select_isa({argument!r}))\n"
        "except ValueError as error: print(error); raise SystemExit(3)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (0, 3), result.stderr
    return result.returncode, result.stdout.strip()


def test_names_say_what_rows_are() -> None:
    rows = [row for row in _native.kernels() if row["family"] == "qnbit"]
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        match = NAME.fullmatch(row["name"])
        assert match, row["name"]
        for field, text in match.groupdict().items():
            assert str(row[field]) == text, row["name"]
        longest = 256 if row["bits"] == 2 else 65536
        assert row["block_lengths"] == [2**i for i in range(4, longest.bit_length())]


def test_every_isa_can_do_any_number_of_rows_in_both_compute_types() -> None:
    single = {(row["isa"], row["compute"]) for row in _native.kernels() if row["tile_rows"] == 1}
    isas = isa_support.isas_of_this_build()
    assert single == {
        (isa_support.isa_of_rows(isa, compute), compute)
        for isa in isas
        for compute in ("int8", "fp32")
    }


def test_isas_are_listed_slowest_first() -> None:
    names = [isa["name"] for isa in _native.isas()]
    assert names == list(ALL_ISAS)
    assert _native.isas()[0]["unavailable_reason"] == ""
    assert all(isa["instructions"] for isa in _native.isas())


def test_isas_of_another_architecture_are_listed_as_such() -> None:
    of_build = isa_support.isas_of_this_build()
    assert len(of_build) > 1
    for name, reason in isa_support.isa_unavailable_reasons().items():
        assert ("this build is for" in reason) == (name not in of_build), (name, reason)


def test_rows_are_usable_where_their_isa_is() -> None:
    reasons = isa_support.isa_unavailable_reasons()
    for row in _native.kernels():
        assert row["unavailable_reason"] == reasons[row["isa"]]


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="no /proc/cpuinfo")
def test_usable_isas_are_those_of_the_operating_system() -> None:
    system = isa_support.isas_by_cpuinfo(Path("/proc/cpuinfo").read_text())
    assert set(isa_support.usable_isas()) == system


def test_cpu_features() -> None:
    features = _native.cpu_features()
    assert isinstance(features.pop("brand"), str)
    assert isinstance(features.pop("core"), str)
    assert all(isinstance(value, bool) for value in features.values())
    if features["avx512_vnni"]:
        assert features["avx512f"]
        assert features["os_zmm"]
    if features["avx2"]:
        assert features["os_ymm"]
    if features["i8mm"]:
        assert features["neon"]


def test_the_default_is_the_rule_for_the_fastest_usable_isa_on_this_core() -> None:
    fastest = isa_support.usable_isas()[-1]
    rule = _native.default_isas(fastest, _native.cpu_features()["core"])
    assert select_with_environment(None) == (0, rule["one_row"])
    assert select_with_environment("") == (0, rule["one_row"])


@pytest.mark.parametrize(
    ("fastest", "core", "one_row", "more_rows"),
    [
        *((isa, "unknown", isa, isa) for isa in ALL_ISAS if isa != "neon_i8mm"),
        ("neon_dotprod", "neoverse_n1", "neon_dotprod", "neon_dotprod"),
        ("neon_i8mm", "unknown", "neon_dotprod", "neon_i8mm"),
        ("neon_i8mm", "neoverse_n2", "neon_dotprod", "neon_i8mm"),
        ("neon_i8mm", "apple", "neon_dotprod", "neon_i8mm"),
        ("neon_i8mm", "oryon", "neon_dotprod", "neon_dotprod"),
    ],
)
def test_rule_by_core_and_rows(fastest: str, core: str, one_row: str, more_rows: str) -> None:
    choice = _native.default_isas(fastest, core)
    assert choice.pop("many_from") >= 2
    assert choice == {"one_row": one_row, "few_rows": more_rows, "many_rows": more_rows}


def test_the_rule_refuses_names_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match='no core type "z80"'):
        _native.default_isas("portable", "z80")
    with pytest.raises(ValueError, match='no ISA "z80"'):
        _native.default_isas("z80", "unknown")


def test_a_product_runs_on_the_isa_chosen_for_its_rows() -> None:
    packed = _native.pack(
        np.zeros((1, 1, 4), np.uint8), np.ones((1, 1), np.float32), k=16, block_size=16
    )
    choice = _native.isa_choice()
    isa_of = {row["name"]: row["isa"] for row in _native.kernels()}
    many = choice["many_from"]
    assert _native.select_isa(m=1) == choice["one_row"]
    assert _native.select_isa(m=many) == choice["many_rows"]
    for m in (0, 1, 2, many - 1, many, 1000):
        isa = _native.select_isa(m=m)
        assert {isa_of[name] for name in _native.kernels_for(m, packed)} <= {isa}, m


@pytest.mark.parametrize("isa", isa_support.usable_isas())
def test_isas_can_be_forced(isa: str) -> None:
    assert _native.select_isa(isa) == isa
    choice = _native.isa_choice(isa)
    assert {choice["one_row"], choice["few_rows"], choice["many_rows"]} == {isa}
    assert select_with_environment(isa) == (0, isa)
    assert select_with_environment("portable", isa) == (0, isa)
    assert select_with_environment("nonsense", isa) == (0, isa)


@pytest.mark.parametrize("value", ["avx9", "AVX2 ", "portable,avx2", "0"])
def test_unknown_isas_are_refused_with_the_known_ones(value: str) -> None:
    code, message = select_with_environment(value)
    assert code == 3
    assert value in message
    assert all(isa["name"] in message for isa in _native.isas())
    with pytest.raises(ValueError, match=re.escape(value)):
        _native.select_isa(value)


def test_unusable_isas_are_refused_with_the_reason() -> None:
    unusable = {name: why for name, why in isa_support.isa_unavailable_reasons().items() if why}
    if not unusable:
        pytest.skip("every ISA of this build can run here")
    for isa, reason in unusable.items():
        code, message = select_with_environment(isa)
        assert code == 3
        assert isa in message
        assert reason in message
        with pytest.raises(ValueError, match=re.escape(reason)):
            _native.select_isa(isa)


def test_the_environment_decides_which_kernels_run() -> None:
    program = (
        "import numpy as np\n"
        "from onnxruntime_ep_mlas import _native\n"
        "packed = _native.pack(np.zeros((1, 1, 4), np.uint8), np.ones((1, 1), np.float32),"
        " k=16, block_size=16)\n"
        "print(*_native.kernels_for(5, packed))\n"
    )
    for isa in isa_support.usable_isas():
        environment = {**os.environ, "ORT_MLAS_ISA": isa}
        names = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
        assert names.split()
        assert all(f"_{isa}_" in name for name in names.split())
