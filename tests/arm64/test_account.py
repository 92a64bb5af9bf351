"""What makes an emulated run fail, and the exchange of the oracle's products between runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import oracle
from cases import random_activations, random_weights

PLUGINS = Path(__file__).resolve().parent / "plugins"
ROWS = [
    {"name": "a", "isa": "portable"},
    {"name": "b", "isa": "neon"},
    {"name": "c", "isa": "neon_dotprod"},
]


@pytest.fixture
def run_tests() -> ModuleType:
    from arm64 import run_tests as module

    return module


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PLUGINS))
    import oracle_exchange as module

    monkeypatch.setattr(module, "exchange", module.Exchange())
    return module


def finished_run(run_tests: ModuleType, executed: list[str], hits: int = 9, status: int = 0) -> Any:
    account = {"executed_rows": executed, "oracle": {"hits": hits, "misses": 0}}
    return run_tests.Run("a run", (), "0/1", status=status, account=account)


def test_a_run_of_every_usable_row_is_good(run_tests: ModuleType) -> None:
    cpu = run_tests.bed.cpu_named("cortex-a53")
    assert run_tests.faults(cpu, [finished_run(run_tests, ["a", "b"])], ROWS) == []
    shares = [finished_run(run_tests, ["a"]), finished_run(run_tests, ["b"], hits=0)]
    assert run_tests.faults(cpu, shares, ROWS) == []


def test_a_usable_row_that_did_not_run_is_a_fault(run_tests: ModuleType) -> None:
    cpu = run_tests.bed.cpu_named("neoverse-n1")
    (sentence,) = run_tests.faults(cpu, [finished_run(run_tests, ["a", "b"])], ROWS)
    assert "kernel row c" in sentence


def test_a_declared_isa_without_rows_is_a_fault(run_tests: ModuleType) -> None:
    cpu = run_tests.bed.cpu_named("neoverse-n1")
    (sentence,) = run_tests.faults(cpu, [finished_run(run_tests, ["a", "b"])], ROWS[:2])
    assert "no kernel row of ISA neon_dotprod" in sentence


def test_a_process_that_fails_or_dies_is_a_fault(run_tests: ModuleType) -> None:
    cpu = run_tests.bed.cpu_named("cortex-a53")
    good = finished_run(run_tests, ["a", "b"])
    (sentence,) = run_tests.faults(cpu, [good, finished_run(run_tests, ["a"], status=1)], ROWS)
    assert "failed with exit code 1" in sentence
    dead = run_tests.Run("another", (), "0/1", status=-4)
    (sentence,) = run_tests.faults(cpu, [good, dead], ROWS)
    assert "died with exit code -4" in sentence


def test_a_host_run_that_was_of_no_use_is_a_fault(run_tests: ModuleType) -> None:
    cpu = run_tests.bed.cpu_named("cortex-a53")
    (sentence,) = run_tests.faults(cpu, [finished_run(run_tests, ["a", "b"], hits=0)], ROWS)
    assert "nothing that the host computed" in sentence


def test_products_come_back_as_they_were(
    exchange: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    weights = random_weights(rng, 5, 40, 16, zero_points="float")
    a, bias = random_activations(rng, 3, 40), rng.standard_normal(5).astype(np.float32)
    a[1, 7] = np.nan
    calls = [(name, (a, weights, bias)) for name in exchange.ENTRY_POINTS]
    expected = [getattr(oracle, name)(*arguments) for name, arguments in calls]

    monkeypatch.setenv(exchange.RECORD_VARIABLE, str(tmp_path / "products.npz"))
    for name, arguments in calls:
        exchange._exchanged(name, getattr(oracle, name))(*arguments)
    exchange.exchange.save(tmp_path / "products.npz")
    monkeypatch.setattr(exchange, "exchange", exchange.Exchange())
    exchange.exchange.load(tmp_path / "products.npz")

    def refuse(*_: object) -> None:
        raise AssertionError("computed anew")

    for (name, arguments), wanted in zip(calls, expected, strict=True):
        found = exchange._exchanged(name, refuse)(*arguments)
        assert type(found) is type(wanted)
        pairs = (
            zip(found, wanted, strict=True)
            if isinstance(wanted, tuple)
            else [(getattr(found, f), getattr(wanted, f)) for f in ("value", "bound", "magnitude")]
        )
        for one, other in pairs:
            np.testing.assert_array_equal(one, other, strict=True)
    assert (exchange.exchange.hits, exchange.exchange.misses) == (3, 0)


def test_other_inputs_have_another_digest(exchange: ModuleType) -> None:
    rng = np.random.default_rng(8)
    weights = random_weights(rng, 5, 40, 16, zero_points="per_block")
    a = random_activations(rng, 3, 40)
    nudged = a.copy()
    nudged[2, 39] = np.nextafter(nudged[2, 39], np.float32(9))
    other = oracle.Weights(weights.codes, weights.scales, None, 40, 16)
    digests = {
        exchange.digest_of("matmul_int8", (a, weights), {}),
        exchange.digest_of("matmul_fp32", (a, weights), {}),
        exchange.digest_of("matmul_int8", (nudged, weights), {}),
        exchange.digest_of("matmul_int8", (a, other), {}),
        exchange.digest_of("matmul_int8", (a, weights, None), {}),
        exchange.digest_of("matmul_int8", (a, weights), {"fractional": True}),
        exchange.digest_of("matmul_int8", (a, weights), {"fractional": False}),
        exchange.digest_of("matmul_int8", (a.reshape(40, 3), weights), {}),
    }
    assert len(digests) == 8


def test_wheels_of_another_processor_are_refused(run_tests: ModuleType, tmp_path: Path) -> None:
    wheel = tmp_path / "onnxruntime_ep_mlas-1-cp311-cp311-manylinux_2_28_x86_64.whl"
    wheel.touch()
    with pytest.raises(run_tests.bed.BedError, match="not a wheel for ARM64 Linux"):
        run_tests.bed.install(wheel)


def test_unknown_cpus_are_refused_with_the_known_ones() -> None:
    program = Path(__file__).resolve().parents[2] / "tools/arm64/bed.py"
    done = subprocess.run(
        [sys.executable, program, "python", "cortex-m0"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no CPU 'cortex-m0'; the names are cortex-a53, neoverse-n1" in done.stderr
