"""tools/compare_sweeps.py: which rows it calls slower, and which files it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tool_modules
from onnxruntime_ep_mlas.bench import results
from onnxruntime_ep_mlas.bench.timing import Samples

QUIET = (100.0, 101.0, 102.0, 103.0, 104.0)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tool_modules.load("compare_sweeps")


def sweep(rows: dict[str, tuple[float, ...]], cpu: str = "cpu 1") -> dict[str, Any]:
    """The part of a result that the tool reads; times in microseconds."""
    benchmarks = []
    for name, times in rows.items():
        for time in times:
            benchmarks.append({"run_type": "iteration", "run_name": name, "real_time": time})
        # Aggregates are not repetitions.
        benchmarks.append({"run_type": "aggregate", "run_name": name, "real_time": 1e9})
    return {"context": {"cpu": cpu}, "benchmarks": benchmarks}


def write(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def times(factor: float, of: tuple[float, ...] = QUIET) -> tuple[float, ...]:
    return tuple(factor * time for time in of)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (QUIET, QUIET, 0),
        (QUIET, times(0.5), 0),
        (QUIET, times(1.24), 0),
        (QUIET, times(1.3), 1),
        # The median grew by half, but the quartiles of the noisy run reach down to the other's.
        (QUIET, (98.0, 99.0, 150.0, 160.0, 170.0), 0),
        ((90.0, 100.0, 100.0, 200.0, 210.0), times(1.5), 0),
        # One slow repetition before doesn't hide that all of them are slow now.
        ((100.0, 100.0, 100.0, 100.0, 900.0), times(1.5), 1),
        ((100.0,), (126.0,), 1),
    ],
)
def test_slower_is_more_than_the_threshold_and_apart(
    before: tuple[float, ...],
    after: tuple[float, ...],
    code: int,
    tool: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = [
        write(tmp_path / "before.json", sweep({"same": QUIET, "row": before})),
        write(tmp_path / "after.json", sweep({"same": QUIET, "row": after})),
    ]
    assert tool.main([str(path) for path in paths]) == code
    printed = capsys.readouterr()
    assert ("slower: row takes" in printed.err) == bool(code)
    assert "slower: same" not in printed.err


def test_threshold_is_an_option(tool: ModuleType, tmp_path: Path) -> None:
    before = write(tmp_path / "before.json", sweep({"row": QUIET}))
    after = write(tmp_path / "after.json", sweep({"row": times(1.3)}))
    assert tool.main([str(before), str(after), "--threshold", "1.4"]) == 0
    with pytest.raises(SystemExit):
        tool.main([str(before), str(after), "--threshold", "0.9"])


def test_another_cpu_is_shown_and_not_judged(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = write(tmp_path / "before.json", sweep({"row": QUIET}, "cpu 1"))
    after = write(tmp_path / "after.json", sweep({"row": times(3)}, "cpu 2"))
    assert tool.main([str(before), str(after)]) == 0
    out = capsys.readouterr().out
    assert "CPU was cpu 1, is cpu 2" in out
    assert "| 3.00 |  |" in out


def test_folders_and_the_table(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "before" / "a.json", sweep({"row": QUIET, "old": QUIET}))
    write(tmp_path / "after" / "a.json", sweep({"row": times(2)}))
    write(tmp_path / "after" / "b.json", sweep({"added": QUIET}))
    table = tmp_path / "table.md"
    table.write_text("kept\n", encoding="utf-8")
    folders = [str(tmp_path / "before"), str(tmp_path / "after")]
    assert tool.main([*folders, "--markdown", str(table)]) == 1
    out = capsys.readouterr().out
    assert table.read_text(encoding="utf-8") == "kept\n" + out
    assert "| row | 102.0 (101.0 to 103.0) | 204.0 (202.0 to 206.0) | 2.00 | slower |" in out
    assert "new: added" in out
    assert "gone: old" in out


def test_reads_what_the_benchmarks_write(tool: ModuleType, tmp_path: Path) -> None:
    samples = Samples((1e-6, 2e-6, 4e-6), (1e-6, 2e-6, 4e-6), 1)
    result = results.Result(suite="gemm", group="g", backend="mlas", samples=samples)
    path = write(tmp_path / "run.json", results.to_google_benchmark([result], {}))
    assert tool.read_sweep(path).times == {result.name: pytest.approx([1.0, 2.0, 4.0])}
    assert tool.main([str(path), str(path)]) == 0


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("not json", "is no result of ort-mlas bench"),
        ("[]", "is no result of ort-mlas bench"),
        ('{"context": {}, "benchmarks": []}', "'cpu'"),
        (json.dumps(sweep({"other": QUIET})), "no row in common"),
        (json.dumps(sweep({"row": (0.0, 1.0)})), "row row has a time that is not positive"),
        (None, "can't read"),
    ],
)
def test_unusable_files_are_refused(
    content: str | None,
    text: str,
    tool: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = write(tmp_path / "good.json", sweep({"row": QUIET}))
    bad = tmp_path / "bad.json"
    if content is not None:
        bad.write_text(content, encoding="utf-8")
    assert tool.main([str(good), str(bad)]) == 2
    assert text in capsys.readouterr().err


def test_folders_without_one_cpu_are_refused(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert tool.main([str(folder), str(folder)]) == 2
    assert "holds no .json file" in capsys.readouterr().err
    write(folder / "a.json", sweep({"row": QUIET}, "cpu 1"))
    write(folder / "b.json", sweep({"row": QUIET}, "cpu 2"))
    assert tool.main([str(folder), str(folder)]) == 2
    assert "several CPUs" in capsys.readouterr().err
