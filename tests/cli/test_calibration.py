"""Peaks of this machine: measured ones are plausible, impossible ones are refused."""

from __future__ import annotations

import pytest

from onnxruntime_ep_mlas import _native

CLOCK = 3.7e9
OPS = {row["name"]: row["ops"] for row in _native.peak_instructions()}
ATTEMPTS = 5  # a measurement that other work on the machine disturbs is refused, not wrong


def retry(measure):
    for _ in range(ATTEMPTS - 1):
        try:
            return measure()
        except RuntimeError:
            continue
    return measure()


@pytest.mark.parametrize(
    ("instruction", "steps_per_cycle"),
    [
        ("vpdpbusd_zmm", 1.0),  # Zen 4
        ("vpdpbusd_zmm", 2.0),  # Intel servers
        ("vpdpbusd_ymm_evex", 2.0),
        ("vpmaddubsw_sequence_ymm", 0.25),  # Zen 1: one 128-bit multiplier
        ("vpmaddubsw_sequence_ymm", 1.0),
        ("vpmaddubsw_sequence_zmm", 2 / 3),  # three instructions on two ports
        ("fma_ymm", 0.5),
        ("vpdpbusd_zmm", 0.97),  # a little off: the clock moved
    ],
)
def test_rates_of_real_cores_are_accepted(instruction, steps_per_cycle):
    _native.check_peak(instruction, steps_per_cycle * CLOCK * OPS[instruction], CLOCK)


@pytest.mark.parametrize(
    ("instruction", "steps_per_cycle"),
    [
        ("vpdpbusd_zmm", 0.24),  # the same loop from a compiler that adds register moves
        ("vpdpbusd_zmm", 1.25),
        ("vpdpbusd_ymm_vex", 1.75),
        ("fma_zmm", 5.0),
        ("vpmaddubsw_sequence_ymm", 0.42),
    ],
)
def test_impossible_rates_are_refused(instruction, steps_per_cycle):
    with pytest.raises(RuntimeError, match=f"{instruction}: .* is impossible"):
        _native.check_peak(instruction, steps_per_cycle * CLOCK * OPS[instruction], CLOCK)


@pytest.mark.parametrize(("ops", "clock"), [(0.0, CLOCK), (1e9, 0.0), (float("nan"), CLOCK)])
def test_rates_that_are_none_are_refused(ops, clock):
    with pytest.raises(ValueError, match="must be positive"):
        _native.check_peak("fma_ymm", ops, clock)


@pytest.mark.parametrize("instruction", OPS)
def test_measured_peak_or_reason(instruction):
    (row,) = [row for row in _native.peak_instructions() if row["name"] == instruction]
    if row["unavailable_reason"]:
        with pytest.raises(RuntimeError, match="can't run here"):
            _native.peak_ops(instruction)
        return
    ops = retry(lambda: _native.peak_ops(instruction))
    assert 0.1e9 < ops / row["ops"] < 40e9


def test_unknown_instruction():
    with pytest.raises(ValueError, match="unknown instruction 'nop'; known: vpdpbusd_zmm"):
        _native.peak_ops("nop")


def test_clock():
    assert 0.5e9 < _native.clock_hz() < 8e9


def test_read_bandwidth():
    assert 0.5e9 < _native.read_bandwidth(1 << 20) < 1e13
    with pytest.raises(ValueError, match="at least 4096"):
        _native.read_bandwidth(100)
