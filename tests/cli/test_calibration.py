"""Peaks of this machine: measured ones are plausible, impossible ones are refused."""

from __future__ import annotations

import pytest

import isa_support
from onnxruntime_ep_mlas import _native
from onnxruntime_ep_mlas.bench.calibration import Peaks

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


X86 = "vpdpbusd_zmm" in OPS
only_x86 = pytest.mark.skipif(not X86, reason="names x86-64 instructions; this build is for ARM64")
only_arm64 = pytest.mark.skipif(X86, reason="names ARM64 instructions; this build is for x86-64")


@only_x86
@pytest.mark.parametrize(
    ("instruction", "steps_per_cycle"),
    [
        ("vpdpbusd_zmm", 1.0),  # Zen 4
        ("vpdpbusd_zmm", 2.0),  # Intel servers
        ("vpdpbusd_ymm_evex", 2.0),
        ("vpmaddubsw_sequence_ymm", 0.25),  # Zen 1: one 128-bit multiplier
        ("vpmaddubsw_sequence_ymm", 1.0),
        ("vpmaddubsw_sequence_zmm", 2 / 3),  # three instructions on two ports
        ("vpmaddubsw_int16_zmm", 0.734),  # Zen 4: additions take the multipliers' time
        ("fma_ymm", 0.5),
        ("vpdpbusd_zmm", 0.97),  # a little off: the clock moved
    ],
)
def test_rates_of_real_x86_cores_are_accepted(instruction, steps_per_cycle):
    _native.check_peak(instruction, steps_per_cycle * CLOCK * OPS[instruction], CLOCK)


@only_arm64
@pytest.mark.parametrize(
    ("instruction", "steps_per_cycle"),
    [
        ("smlal", 0.5),  # Cortex-A53: vector units of 64 bits
        ("sdot", 2.0),  # Neoverse N1
        ("sdot", 4.0),  # Apple, Oryon, Neoverse V2
        ("smmla", 2.0),  # Oryon
        ("fmla", 6.0),  # Cortex-X925
        ("fmla", 3.9),
    ],
)
def test_rates_of_real_arm64_cores_are_accepted(instruction, steps_per_cycle):
    _native.check_peak(instruction, steps_per_cycle * CLOCK * OPS[instruction], CLOCK)


@only_arm64
@pytest.mark.parametrize(
    ("instruction", "steps_per_cycle"),
    [("sdot", 1.5), ("sdot", 0.3), ("smmla", 3.5), ("fmla", 7.0), ("smlal", 2.5)],
)
def test_impossible_rates_on_arm64_are_refused(instruction, steps_per_cycle):
    with pytest.raises(RuntimeError, match=f"{instruction}: .* is impossible"):
        _native.check_peak(instruction, steps_per_cycle * CLOCK * OPS[instruction], CLOCK)


@only_x86
@pytest.mark.parametrize(
    ("instruction", "steps_per_cycle"),
    [
        ("vpdpbusd_zmm", 0.24),  # the same loop from a compiler that adds register moves
        ("vpdpbusd_zmm", 1.25),
        ("vpdpbusd_ymm_vex", 1.75),
        ("fma_zmm", 5.0),
        ("vpmaddubsw_sequence_ymm", 0.42),
        ("vpmaddubsw_int16_zmm", 0.42),
    ],
)
def test_impossible_rates_on_x86_are_refused(instruction, steps_per_cycle):
    with pytest.raises(RuntimeError, match=f"{instruction}: .* is impossible"):
        _native.check_peak(instruction, steps_per_cycle * CLOCK * OPS[instruction], CLOCK)


@pytest.mark.parametrize(("ops", "clock"), [(0.0, CLOCK), (1e9, 0.0), (float("nan"), CLOCK)])
def test_rates_that_are_none_are_refused(ops, clock):
    with pytest.raises(ValueError, match="must be positive"):
        _native.check_peak(next(iter(OPS)), ops, clock)


@pytest.mark.uninstrumented
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
    with pytest.raises(ValueError, match=f"unknown instruction 'nop'; known: {next(iter(OPS))}"):
        _native.peak_ops("nop")


@pytest.mark.parametrize("isa", isa_support.isas_of_this_build())
@pytest.mark.parametrize("compute", ["int8", "fp32"])
def test_every_isa_but_the_reference_has_a_peak(isa, compute):
    every = Peaks(frozenset(OPS), lambda _: 1.0)
    assert (every.instruction(isa, compute) is None) == (isa == "portable")


@pytest.mark.uninstrumented
def test_clock():
    assert 0.5e9 < _native.clock_hz() < 8e9


@pytest.mark.uninstrumented
def test_read_bandwidth():
    assert 0.5e9 < _native.read_bandwidth(1 << 20) < 1e13
    with pytest.raises(ValueError, match="at least 4096"):
        _native.read_bandwidth(100)
