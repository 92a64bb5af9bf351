"""Medians, ratios, shares of peak and failures, on made-up times."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onnxruntime_ep_mlas.bench import (
    Result,
    Settings,
    run,
    summarise,
    to_google_benchmark,
    to_markdown,
)
from onnxruntime_ep_mlas.bench.calibration import Peak, Peaks, best_peak
from onnxruntime_ep_mlas.bench.summary import format_seconds
from onnxruntime_ep_mlas.bench.timing import Case, Samples, interleave, mad
from onnxruntime_ep_mlas.bench.workload import Workload

WORKLOAD = Workload(m=8, n=100, k=1000, block_size=32)  # 1.6e6 operations
VNNI = Peak("vpdpbusd_zmm", 4e9, "vpdpbusd_zmm", 4e9)
SEQUENCE = Peak("vpmaddubsw_sequence_ymm", 2e9, "vpmaddubsw_int16_ymm", 4e9)


def result(backend, *seconds, suite="gemm", workload=WORKLOAD, threads=1, **more):
    samples = Samples(tuple(seconds), tuple(seconds), 10)
    group = f"m:{workload.m}/k:{workload.k}"
    return Result(suite, group, backend, samples, workload, threads, baseline="ort", **more)


def test_ratio_and_fraction_come_from_medians():
    ours = result("mlas-ep", 1e-3, 0.9e-3, 50.0, peak=VNNI, isa="avx512vnni")
    stock = result("ort", 3e-3, 2e-3, 2.5e-3)
    first, second = summarise([ours, stock]).rows
    assert first.ratio == pytest.approx(2.5)
    assert ours.fraction_of_peak == pytest.approx(1.6e6 / 1e-3 / 4e9)
    assert second.ratio is None
    assert stock.fraction_of_peak is None


def test_a_row_above_its_peak_fails():
    impossible = result("mlas", 0.39e-3, peak=VNNI)
    (failure,) = summarise([impossible]).failures
    assert "impossible" in failure
    assert "vpdpbusd_zmm" in failure
    assert summarise([result("mlas", 0.41e-3, peak=VNNI)]).failures == ()


def test_sixteen_bit_sums_may_pass_the_sequence_but_not_their_own_ceiling():
    legitimate = result("mlas", 0.5e-3, peak=SEQUENCE)
    assert legitimate.fraction_of_peak == pytest.approx(1.6)
    summary = summarise([legitimate])
    assert summary.failures == ()
    assert "80% vpmaddubsw_int16_ymm" in to_markdown(summary)
    (failure,) = summarise([result("mlas", 0.39e-3, peak=SEQUENCE)]).failures
    assert "vpmaddubsw_int16_ymm" in failure


def test_the_peak_counts_every_thread():
    assert result("mlas", 0.3e-3, threads=2, peak=VNNI).fraction_of_peak == pytest.approx(2 / 3)


def test_min_ratio_judges_the_session_only():
    rows = [result("mlas", 2e-3), result("mlas-ep", 1e-3), result("ort", 1.5e-3)]
    assert summarise(rows, min_ratio=1.4).failures == ()
    (failure,) = summarise(rows, min_ratio=1.6).failures
    assert "mlas-ep" in failure
    assert "1.50x ort" in failure


def test_speedup_and_rate_of_small_layers():
    rows = [result("mlas-ep", 4e-3), result("mlas-ep", 2.1e-3, threads=2)]
    assert [row.speedup for row in summarise(rows).rows] == [None, pytest.approx(4 / 2.1)]

    small = Workload(32, 384, 384, 32)
    large = Workload(32, 4096, 4096, 32)
    rows = [
        result("mlas", small.ops / 0.9e9, suite="encoder", workload=small),
        result("mlas", large.ops / 1e9, suite="encoder", workload=large),
    ]
    assert summarise(rows).rows[0].relative_rate == pytest.approx(0.9)


def test_groups_and_suites_are_not_mixed():
    other = Workload(m=9, n=100, k=1000, block_size=32)
    rows = [result("mlas-ep", 1e-3), result("ort", 2e-3, workload=other)]
    assert summarise(rows).rows[0].ratio is None
    rows = [result("mlas-ep", 1e-3), result("ort", 2e-3, suite="fp32")]
    assert summarise(rows).rows[0].ratio is None


def test_google_benchmark_document():
    rows = [result("mlas-ep", 1e-3, 2e-3, 4e-3, peak=VNNI, isa="avx2"), result("ort", 3e-3)]
    document = to_google_benchmark(rows, Settings().to_dict())
    json.dumps(document, allow_nan=False)
    assert set(document) == {"context", "benchmarks"}
    assert {"date", "num_cpus", "mhz_per_cpu", "library_version"} <= set(document["context"])
    ours = [row for row in document["benchmarks"] if row["run_name"].startswith(rows[0].name)]
    assert [row["run_type"] for row in ours] == ["iteration"] * 3 + ["aggregate"] * 2
    assert [row["real_time"] for row in ours[:3]] == pytest.approx([1e3, 2e3, 4e3])
    median, deviation = ours[3:]
    assert (median["aggregate_name"], deviation["aggregate_name"]) == ("median", "mad")
    assert median["real_time"] == pytest.approx(2000)
    assert deviation["real_time"] == pytest.approx(1000)
    assert median["ratio_to_ort"] == pytest.approx(1.5)
    assert median["fraction_of_peak"] == pytest.approx(1.6e6 / 2e-3 / 4e9)
    assert all(row["time_unit"] == "us" for row in document["benchmarks"])


def test_mad():
    assert mad([1.0, 2.0, 4.0, 100.0, 3.0]) == 1.0


class FakeCase:
    """A case that takes a known time without taking it."""

    def __init__(self, name, seconds, log):
        self.name, self.seconds, self.log = name, seconds, log

    def run(self, calls):
        self.log.append((self.name, calls))
        return self.seconds * calls


def fake_interleave(seconds, **arguments):
    log = []
    cases = [Case(name, FakeCase(name, s, log).run) for name, s in seconds.items()]
    chosen = {"repeats": 5, "min_seconds": 0.01, "max_seconds": 1.0, **arguments}
    samples = interleave(cases, rng=np.random.default_rng(1), **chosen)
    return samples, log


def test_interleave_repeats_short_cases_and_limits_long_ones():
    samples, _ = fake_interleave({"short": 1e-4, "long": 0.3, "endless": 9.0})
    assert samples["short"].calls == 100
    assert samples["long"].calls == 1
    assert {name: len(s.real) for name, s in samples.items()} == {
        "short": 5,
        "long": 3,
        "endless": 3,
    }
    assert samples["short"].median == pytest.approx(1e-4)


def test_interleave_mixes_the_order():
    _, log = fake_interleave({"a": 0.01, "b": 0.01, "c": 0.01}, repeats=20)
    timed = [name for name, _ in log[-60:]]
    rounds = {tuple(timed[i : i + 3]) for i in range(0, 60, 3)}
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(rounds) > 2


def test_interleave_refuses_what_it_can_not_tell_apart():
    with pytest.raises(ValueError, match="two cases are named a"):
        interleave(
            [Case("a", lambda _: 1.0)] * 2,
            repeats=1,
            min_seconds=0.1,
            max_seconds=1.0,
            rng=np.random.default_rng(0),
        )


def test_peaks_take_the_instruction_that_the_machine_has():
    measured = {"vpdpbusd_ymm_evex": 3e9, "vpmaddubsw_sequence_ymm": 1e9}
    measured |= {"vpmaddubsw_int16_ymm": 2e9, "fma_ymm": 5e8}
    peaks = Peaks(frozenset(measured), measured.__getitem__)
    assert peaks.peak("avxvnni", "int8") == Peak("vpdpbusd_ymm_evex", 3e9, "vpdpbusd_ymm_evex", 3e9)
    assert peaks.peak("avx2", "int8") == Peak(
        "vpmaddubsw_sequence_ymm", 1e9, "vpmaddubsw_int16_ymm", 2e9
    )
    assert peaks.peak("avx2", "fp32") == Peak("fma_ymm", 5e8, "fma_ymm", 5e8)
    assert peaks.peak("avx512vnni", "int8") is None
    assert peaks.peak("portable", "int8") is None


def test_the_higher_of_two_peaks_counts():
    again = Peak("vpmaddubsw_sequence_ymm", 1.9e9, "vpmaddubsw_int16_ymm", 4.1e9)
    best = best_peak([SEQUENCE, again])
    assert (best.ops, best.ceiling_ops) == (2e9, 4.1e9)


def test_unknown_suite_is_refused():
    with pytest.raises(ValueError, match=r"unknown suite nonsense; known: gemm"):
        run(["nonsense"], Settings())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 us"), (3e-8, "30 ns")],
)
def test_format_seconds(seconds, text):
    assert format_seconds(seconds) == text
