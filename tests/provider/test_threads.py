"""Thread counts and concurrent runs: same bits, no shared state."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cases
import models


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng([71, *seed])


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("m", [1, 3, 16, 65])
@pytest.mark.parametrize("run_time", [(), ("B", "scales", "zero_points")])
def test_bits_do_not_depend_on_threads(m: int, level: int, run_time: tuple[str, ...]) -> None:
    rng = generator(m, level)
    weights = cases.random_weights(rng, 515, 300, 32, zero_points="per_block", scales="fp32")
    node = models.Node(weights, accuracy_level=level, run_time=run_time)
    a = cases.random_activations(rng, m, 300)
    results = [models.run_ours(node, a, threads=threads) for threads in (1, 2, 4)]
    models.assert_right(node, a, results[0])
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("run_time", [(), ("B", "scales")])
@pytest.mark.parametrize("grouped", [False, True])
def test_concurrent_runs(threads: int, run_time: tuple[str, ...], grouped: bool) -> None:
    rng = generator(1)
    n, k = 200, 128
    g_idx = cases.random_g_idx(rng, k, 32) if grouped else None
    bias = rng.standard_normal(n).astype(np.float32)
    node = models.Node(
        cases.random_weights(rng, n, k, 32), bias=bias, g_idx=g_idx, run_time=run_time
    )
    sess = models.session(models.model_of(node), threads=threads)
    inputs = [cases.random_activations(rng, m, k) for m in (1, 2, 7, 33)]
    expected = [models.run(sess, node.feeds(a)) for a in inputs]
    for a, y in zip(inputs, expected, strict=True):
        models.assert_right(node, a, y)
    start = threading.Barrier(4)

    def work(worker: int) -> None:
        start.wait()
        for turn in range(40):
            index = (worker + turn) % len(inputs)
            y = models.run(sess, node.feeds(inputs[index]))
            np.testing.assert_array_equal(y, expected[index])

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, worker) for worker in range(4)]:
            future.result()


@pytest.mark.uninstrumented
@pytest.mark.skipif(sys.platform != "linux", reason="reads the threads' CPU time from /proc")
def test_intra_op_threads_are_used() -> None:
    """One run on two session threads spends CPU time on a thread other than the caller's."""
    rng = generator(2)
    node = models.Node(cases.random_weights(rng, 2048, 2048, 32), accuracy_level=0)
    a = cases.random_activations(rng, 64, 2048)

    def cpu_ticks_of_others() -> int:
        own, ticks = threading.get_native_id(), 0
        for task in Path("/proc/self/task").iterdir():
            if int(task.name) != own:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks

    def others_work_in(threads: int) -> int:
        sess = models.session(
            models.model_of(node),
            threads=threads,
            config={"session.intra_op.allow_spinning": "0"},
        )
        sess.run(None, {"A": a})
        before = cpu_ticks_of_others()
        for _ in range(30):
            sess.run(None, {"A": a})
        return cpu_ticks_of_others() - before

    assert others_work_in(1) <= 1
    assert others_work_in(2) >= 3
