"""Nothing around an array is touched: guard bytes find writes, untouchable pages find reads."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import guard_pages
import isa_support
import oracle
from cases import ZERO_POINT_CASES, random_activations, random_weights
from isa_support import KernelRow
from native_calls import Guarded, pack_for, with_row_gap
from onnxruntime_ep_mlas import _native


@pytest.mark.parametrize("row", isa_support.executable_kernel_rows(family="qnbit"), ids=repr)
def test_only_the_product_and_the_workspace_are_written(row: KernelRow) -> None:
    rng = np.random.default_rng(3)
    height, compute = row["tile_rows"], row["compute"]
    shapes = [(1, 1, 1, 16, 0), (height, 16, 64, 32, 4), (height + 1, 33, 100, 64, 12)]
    shapes += [(2 * height - 1, 31, 47, 16, 20), (0, 5, 20, 16, 0), (height, 130, 260, 256, 36)]
    for index, (m, n, k, block, offset) in enumerate(shapes):
        weights = random_weights(
            *(rng, n, k, block),
            bits=row["bits"],
            zero_points=ZERO_POINT_CASES[index % len(ZERO_POINT_CASES)],
        )
        use_gather = index % 2 == 1
        a_columns = k + 7 if use_gather else k
        gather = rng.integers(-1, a_columns, k).astype(np.int32) if use_gather else None
        values = with_row_gap(random_activations(rng, m, a_columns), 5 * (index % 3))
        packed = pack_for(row, weights)
        needed = _native.workspace_bytes(
            m, packed, kernel=row.name, compute=compute, gather=use_gather
        )
        a, b = Guarded(values, offset), Guarded(packed)
        bias = Guarded(rng.standard_normal(n).astype(np.float32), offset)
        out = Guarded(with_row_gap(np.zeros((m, n), np.float32), 3 * (index % 3)), offset)
        workspace = Guarded(rng.integers(0, 256, needed, dtype=np.uint8))
        indices = Guarded(gather, offset) if gather is not None else None
        c = _native.matmul_nbits(
            a.array,
            b.array,
            bias=bias.array,
            gather=indices.array if indices else None,
            out=out.array,
            workspace=workspace.array,
            kernel=row.name,
            compute=compute,
        )
        plain = values if gather is None else oracle.gather_columns(values, gather)
        expected = oracle.matmul(plain, weights, bias.array, compute=compute)
        oracle.assert_matches(c, expected, f"{row.name} {shapes[index]}")
        a.check("a")
        b.check("packed")
        bias.check("bias")
        if indices:
            indices.check("gather")
        out.check("out", contents_may_change=True)
        workspace.check("workspace", contents_may_change=True)


def test_guards_notice_a_stray_write() -> None:
    strided = with_row_gap(np.zeros((2, 3), np.float32), 2)
    for before_or_after in (-1, 6, 3):
        guarded = Guarded(strided)
        flat = np.lib.stride_tricks.as_strided(guarded.array, (10,), (4,))
        if before_or_after == 6:
            flat[8] = 1
        elif before_or_after == 3:
            flat[3] = 1
        else:
            np.lib.stride_tricks.as_strided(flat[::-1], (11,), (-4,))[10] = 1
        with pytest.raises(AssertionError, match="surroundings"):
            guarded.check("it", contents_may_change=True)
    guarded = Guarded(strided)
    guarded.array[1, 2] = 5
    guarded.check("it", contents_may_change=True)
    guarded.array[1, 2] = 5
    with pytest.raises(AssertionError):
        guarded.check("it")


# What the operating system ends a process with: STATUS_ACCESS_VIOLATION on Windows, else a signal.
ENDS_OF_A_FORBIDDEN_ACCESS = (
    {0xC0000005}
    if sys.platform == "win32"
    else {-signal.SIGSEGV, -signal.SIGBUS}  # macOS sends SIGBUS
)


def run_guard_pages(what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(Path(guard_pages.__file__)), what],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("what", [*isa_support.usable_isas(), "packing"])
def test_no_access_past_the_ends_of_arrays(what: str) -> None:
    result = run_guard_pages(what)
    cases = result.stdout.splitlines()
    assert result.returncode == 0, (
        f"ended with {result.returncode} in the case: {cases[-1] if cases else 'none'}\n"
        f"{result.stderr[-2000:]}"
    )
    assert cases[-1] == "done"


def test_untouchable_pages_are_untouchable() -> None:
    result = run_guard_pages("touch")
    assert result.stdout.splitlines() == ["touching"]
    # A sanitizer turns the signal into an exit code of its own.
    assert result.returncode in ENDS_OF_A_FORBIDDEN_ACCESS or "SEGV" in result.stderr
