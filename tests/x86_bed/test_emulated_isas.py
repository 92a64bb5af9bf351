"""Kernels for instruction sets that few machines have, executed on emulated CPUs (tools/x86_bed).

Each CPU runs the whole list of cases in one boot; the tests then judge the answers row by row. With
X86_BED_NATIVE=1, what the host can execute itself is not emulated.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

import isa_support
import oracle
from emulated_cases import (
    Answer,
    ProductCase,
    QuantiserCase,
    decode,
    product_cases,
    quantiser_cases,
)
from isa_support import KernelRow

if TYPE_CHECKING:
    from types import ModuleType

# The ISAs under test and the CPU that has them and as little else as possible.
CPU_OF_ISA = {
    "avx2": "haswell",
    "avx512bw": "skylake-x",
    "avx512vnni": "icelake",
    "avxvnni": "arrow-lake",
}
ISAS = tuple(CPU_OF_ISA)
ROWS = [row for row in isa_support.kernel_rows() if row["isa"] in ISAS]
NATIVE_ONLY = os.environ.get("X86_BED_NATIVE", "") not in ("", "0")

Case = ProductCase | QuantiserCase
Answers = list[dict[str, Answer]]


@functools.cache
def all_cases() -> list[Case]:
    return [*product_cases(), *quantiser_cases()]


def runs_of(case: Case, isa: str) -> list[str]:
    """The ISA by its name, which leaves the choice of rows to the library, and each of its rows."""
    if isinstance(case, QuantiserCase):
        return [isa]
    wanted = (isa, case.compute, case.weights.bits)
    rows = isa_support.kernel_rows()
    return [isa, *(r.name for r in rows if (r["isa"], r["compute"], r["bits"]) == wanted)]


@pytest.fixture(scope="module")
def bed() -> ModuleType:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        pytest.skip("the x86 bed runs on x86-64 Linux")
    if shutil.which("apt-get") is None:
        pytest.skip("the x86 bed takes Bochs from Debian's packages; this system has no apt-get")
    import bed as module

    module.build()
    return module


def run_natively(bed: ModuleType, isa: str) -> bytes:
    stdin = b"".join(case.encode(runs_of(case, isa)) for case in all_cases())
    done = subprocess.run([bed.RUNNER, "cases"], input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def run_emulated(bed: ModuleType, isa: str) -> bytes:
    stdin = b"".join(case.encode(runs_of(case, isa)) for case in all_cases())
    cpu = bed.cpu_named(CPU_OF_ISA[isa])
    outcome = bed.run_program(cpu, bed.RUNNER, ["cases"], stdin=stdin)
    stdout: bytes = outcome.check().stdout
    return stdout


@pytest.fixture(scope="module")
def answers(bed: ModuleType) -> Mapping[str, Answers]:
    """What the rows of each ISA answered to `all_cases`."""
    usable = isa_support.usable_isas()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        futures: dict[str, Future[bytes]] = {}
        for isa in ISAS:
            here = NATIVE_ONLY and isa in usable
            futures[isa] = pool.submit(run_natively if here else run_emulated, bed, isa)
        futures["portable"] = pool.submit(run_natively, bed, "portable")
        return {
            isa: decode(future.result(), all_cases(), [runs_of(case, isa) for case in all_cases()])
            for isa, future in futures.items()
        }


def test_the_emulator_answers_as_the_host_does(
    bed: ModuleType, answers: Mapping[str, Answers]
) -> None:
    """Bochs itself under test: every case of AVX2, NaN's bits included."""
    isa_support.need_isa("avx2")
    cases = all_cases()
    native = decode(run_natively(bed, "avx2"), cases, [runs_of(case, "avx2") for case in cases])
    for case, here, emulated in zip(cases, native, answers["avx2"], strict=True):
        for run, answer in here.items():
            assert answer.used == emulated[run].used
            for array in ("c", "q", "scales", "sums", "fp32_rows"):
                ours, theirs = getattr(answer, array), getattr(emulated[run], array)
                assert (ours is None) == (theirs is None)
                if ours is not None:
                    assert ours.tobytes() == theirs.tobytes(), f"{run}: {array}, {case}"


@functools.cache
def references() -> list[tuple[oracle.Reference, np.ndarray, np.ndarray]]:
    """Per product case: the exact reference and, for int8, the bits and which rows they are for."""
    judged = []
    for case in product_cases():
        reference = oracle.matmul(case.a, case.weights, case.bias, compute=case.compute)
        bits, rows = np.zeros(reference.value.shape, np.float32), np.zeros(case.m, np.bool_)
        if case.compute == "int8":
            bits, rows = oracle.matmul_int8_float32(case.a, case.weights, case.bias)
        judged.append((reference, bits, rows))
    return judged


def judge(case: ProductCase, index: int, answer: Answer, context: str) -> None:
    assert not answer.error, f"{context}: {answer.error}"
    assert not answer.damage, f"{context}: wrote {answer.damage}"
    assert answer.c is not None
    reference, bits, rows = references()[index]
    oracle.assert_matches(answer.c, reference, context)
    if case.compute == "int8":
        same = answer.c[rows].view(np.int32) == bits[rows].view(np.int32)
        # 0 and -0 may differ where a sum starts; the values are equal.
        equal = same | (answer.c[rows] == bits[rows])
        assert equal.all(), f"{context}: {int((~equal).sum())} elements differ from the int8 rule"


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_row_computes_what_the_operator_says(
    row: KernelRow, answers: Mapping[str, Answers]
) -> None:
    ran = 0
    for index, case in enumerate(product_cases()):
        if (case.compute, case.weights.bits) != (row["compute"], row["bits"]):
            continue
        answer = answers[row["isa"]][index][row.name]
        context = f"{row.name}, case {index}: {case}"
        judge(case, index, answer, context)
        assert all(f"_{row['isa']}_" in name for name in answer.used), context
        assert (row.name in answer.used) == (case.m >= row["tile_rows"]), context
        ran += row.name in answer.used
    assert ran >= 20


@pytest.mark.parametrize("isa", ISAS)
def test_result_does_not_depend_on_the_row(isa: str, answers: Mapping[str, Answers]) -> None:
    for index, case in enumerate(product_cases()):
        by_run = answers[isa][index]
        chosen = by_run[isa]
        judge(case, index, chosen, f"{isa}, case {index}: {case}")
        for name, answer in by_run.items():
            np.testing.assert_array_equal(answer.c, chosen.c, f"{name}, case {index}: {case}")


@pytest.mark.parametrize("isa", ISAS)
def test_int8_equals_the_portable_kernels_bit_by_bit(
    isa: str, answers: Mapping[str, Answers]
) -> None:
    compared = 0
    for index, case in enumerate(product_cases()):
        if case.compute != "int8":
            continue
        # Rows that can't be quantised run as fp32, where only the error bound is promised.
        rows = references()[index][2]
        ours, portable = answers[isa][index][isa].c, answers["portable"][index]["portable"].c
        assert ours is not None
        assert portable is not None
        np.testing.assert_array_equal(ours[rows], portable[rows], f"case {index}: {case}")
        compared += int(rows.sum())
    assert compared > 500


@pytest.mark.parametrize("isa", ISAS)
def test_quantiser(isa: str, answers: Mapping[str, Answers]) -> None:
    first = len(product_cases())
    for index, case in enumerate(quantiser_cases()):
        answer = answers[isa][first + index][isa]
        assert not answer.error
        assert not answer.damage, f"{case}: wrote {answer.damage}"
        expected = oracle.quantize_activations(case.a, case.block_size)
        rows = ~expected.fp32_rows
        np.testing.assert_array_equal(answer.fp32_rows, expected.fp32_rows, str(case))
        assert answer.q is not None
        assert answer.scales is not None
        assert answer.sums is not None
        np.testing.assert_array_equal(answer.q[rows], expected.q[rows], str(case))
        np.testing.assert_array_equal(answer.scales[rows], expected.scales[rows], str(case))
        np.testing.assert_array_equal(answer.sums[rows], expected.sums[rows], str(case))
