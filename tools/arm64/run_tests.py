"""Runs the project's kernel and provider tests on emulated ARM64 CPUs.

    python tools/arm64/run_tests.py                 builds the wheel, then all CPUs
    python tools/arm64/run_tests.py --wheel FILE    an aarch64 wheel that exists
    python tools/arm64/run_tests.py --cpu m4 ...    some CPUs; --whole runs all tests on each

One CPU runs all tests that the sample takes, the others those of SUBSET, which execute every kernel
row. Needs the
package and its test requirements in the running Python: the same tests are first run here, to
compute what is expected (tests/arm64/plugins).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from arm64 import bed  # noqa: E402
from debian_packages import PackageError  # noqa: E402
from release import build_wheels  # noqa: E402

PLUGINS = PROJECT / "tests/arm64/plugins"
RUNS = bed.BUILD / "runs"

WHOLE = ("tests/kernels", "tests/provider")
# Dispatch, each kernel row at every boundary that it has, a session per accuracy level. What starts
# further interpreters takes minutes; tests/arm64 forces ISAs on every CPU instead.
SUBSET = (
    "tests/kernels/test_isa.py::test_rows_are_usable_where_their_isa_is",
    "tests/kernels/test_isa.py::test_usable_isas_are_those_of_the_operating_system",
    "tests/kernels/test_isa.py::test_cpu_features",
    "tests/kernels/test_isa.py::test_a_product_runs_on_the_isa_chosen_for_its_rows",
    "tests/kernels/test_rows.py",
    "tests/provider/test_operator.py::test_accuracy_levels",
)
# No SVE and no SME: what runs here can't lean on either.
WHOLE_CPU = "oryon"
SHARES = 4  # of the whole run; more processes cost their start-up, fewer leave one to wait for
PARALLEL = 2
TIME_LIMIT = 3000.0
COMMON = (
    *("-v", "--durations=20", "-p", "no:cacheprovider", "-m", "not uninstrumented"),
    *("--hypothesis-profile=emulated", "-p", "oracle_exchange", "-p", "run_account"),
    # Every test runs natively; here one in three, which is what the time allows.
    "--sample=3",
)


@dataclass
class Run:
    """One pytest process: on an emulated CPU, or on the host to rehearse."""

    name: str
    tests: Sequence[str]
    share: str
    cpu: bed.Cpu | None = None
    status: int = 0
    seconds: float = 0.0
    account: dict[str, Any] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return RUNS / f"{self.name}.log"

    @property
    def oracle_file(self) -> Path:
        return RUNS / f"{self.name}.npz"


def _execute(
    run: Run, python: Sequence[str], options: Sequence[str], environment: dict[str, str]
) -> None:
    account = RUNS / f"{run.name}.json"
    account.unlink(missing_ok=True)
    environment |= {"RUN_SHARE": run.share, "RUN_ACCOUNT": str(account)}
    # A crash would take the name of the test in a buffer with it.
    environment |= {"PYTHONUNBUFFERED": "1"}
    start = time.monotonic()
    with run.log.open("w") as log:
        try:
            run.status = subprocess.run(
                [*python, "-m", "pytest", *COMMON, *options, *run.tests],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TIME_LIMIT,
            ).returncode
        except subprocess.TimeoutExpired:
            log.write(f"\nended after {TIME_LIMIT:.0f} s\n")
            run.status = -1
    run.seconds = time.monotonic() - start
    if account.exists():
        run.account = json.loads(account.read_text())


def registry(cpu: bed.Cpu) -> dict[str, Any]:
    """Kernel rows and ISAs of the installed wheel, as `cpu` sees them.

    Raises:
        bed.BedError: the wheel can't be imported there.
    """
    program = (
        "import json\nfrom onnxruntime_ep_mlas import _native\n"
        "print(json.dumps({'kernels': _native.kernels(), 'isas': _native.isas()}))\n"
    )
    done = bed.run_python(cpu, ["-c", program])
    if done.returncode:
        raise bed.BedError(f"the wheel can't be imported on {cpu.name}:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rehearse(run: Run) -> None:
    """Runs tests on the host for what they ask the oracle; their outcome doesn't matter."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(PLUGINS), os.environ.get("PYTHONPATH")])),
        "REHEARSAL_REGISTRY": str(RUNS / "registry.json"),
        "ORACLE_RECORD": str(run.oracle_file),
    }
    environment.pop("ORT_MLAS_REQUIRED_ISAS", None)
    _execute(run, [sys.executable], ["-p", "rehearsal"], environment)


def emulate(run: Run, oracle_files: Sequence[Path]) -> None:
    assert run.cpu is not None
    environment = bed.python_environment(
        run.cpu,
        PLUGINS,
        environment={
            "ORACLE_REPLAY": os.pathsep.join(map(str, oracle_files)),
            "ORT_MLAS_REQUIRED_ISAS": ",".join(run.cpu.isas),
        },
    )
    # Rewriting assertions takes longer than all that they judge.
    _execute(run, bed.python_command(run.cpu), ["--assert=plain"], environment)


def _log_tail(run: Run, lines: int = 60) -> str:
    return "\n".join(run.log.read_text(errors="replace").splitlines()[-lines:])


def faults(cpu: bed.Cpu, runs: Sequence[Run], rows: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong with the runs on one CPU, in sentences."""
    found = []
    for run in runs:
        if run.status:
            why = "failed" if run.account else "died"
            found.append(f"{run.name} {why} with exit code {run.status}; see {run.log}")
    executed = {name for run in runs for name in run.account.get("executed_rows", ())}
    for row in rows:
        if row["isa"] in cpu.isas and row["name"] not in executed:
            found.append(f"no test on {cpu.name} executed kernel row {row['name']}")
    for isa in cpu.isas:
        if not any(row["isa"] == isa for row in rows):
            found.append(f"the wheel has no kernel row of ISA {isa}, which {cpu.name} declares")
    if not sum(run.account.get("oracle", {}).get("hits", 0) for run in runs):
        found.append(f"nothing that the host computed was of use on {cpu.name}")
    return found


def summary(cpu: bed.Cpu, runs: Sequence[Run], rows: Sequence[dict[str, Any]]) -> str:
    outcomes: collections.Counter[str] = collections.Counter()
    oracle: collections.Counter[str] = collections.Counter()
    executed: set[str] = set()
    for run in runs:
        outcomes.update(run.account.get("outcomes", {}))
        oracle.update(run.account.get("oracle", {}))
        executed.update(run.account.get("executed_rows", ()))
    by_isa = {
        isa: (
            sum(row["isa"] == isa and row["name"] in executed for row in rows),
            sum(row["isa"] == isa for row in rows),
        )
        for isa in cpu.isas
    }
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    executed_text = ", ".join(f"{isa} {ran} of {of}" for isa, (ran, of) in by_isa.items())
    return (
        f"{cpu.name} ({cpu.model}): {counts} in {sum(run.seconds for run in runs):.0f} s\n"
        f"  kernel rows executed: {executed_text}\n"
        f"  oracle: {oracle['hits']} products from the host, {oracle['misses']} computed here"
    )


def run_all(cpus: Sequence[bed.Cpu], whole: Sequence[str]) -> bool:
    """Rehearses, emulates and reports; whether all went well."""
    RUNS.mkdir(parents=True, exist_ok=True)
    found = registry(bed.cpu_named(WHOLE_CPU))
    (RUNS / "registry.json").write_text(json.dumps(found))
    some_whole = any(cpu.name in whole for cpu in cpus)
    tests = WHOLE if some_whole else SUBSET
    rehearsals = [Run(f"rehearsal-{i}", tests, f"{i}/{PARALLEL}") for i in range(PARALLEL)]
    runs = [
        Run(f"{cpu.name}-{i}", WHOLE, f"{i}/{SHARES}", cpu)
        for cpu in cpus
        if cpu.name in whole
        for i in range(SHARES)
    ]
    runs += [Run(cpu.name, SUBSET, "0/1", cpu) for cpu in cpus if cpu.name not in whole]
    with ThreadPoolExecutor(PARALLEL) as pool:
        print("rehearsing on the host", flush=True)
        list(pool.map(rehearse, rehearsals))
        for run in rehearsals:
            if not run.oracle_file.exists():
                print(_log_tail(run), f"\nFAILED: {run.name} recorded nothing", flush=True)
                return False
        oracle_files = [run.oracle_file for run in rehearsals]
        print(f"  {max(run.seconds for run in rehearsals):.0f} s", flush=True)
        list(pool.map(lambda run: emulate(run, oracle_files), runs))

    good = True
    print("\nARM64 tests under emulation")
    for cpu in cpus:
        mine = [run for run in runs if run.cpu is cpu]
        for run in mine:
            if run.status:
                print(f"--- {run.name}\n{_log_tail(run)}")
        print(summary(cpu, mine, found["kernels"]))
        for sentence in faults(cpu, mine, found["kernels"]):
            good = False
            print(f"  FAILED: {sentence}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="aarch64 wheel to test instead of building one")
    parser.add_argument("--cpu", action="append", metavar="CPU", help="a CPU; default: all")
    parser.add_argument("--whole", action="store_true", help="all tests on each of the CPUs")
    options = parser.parse_args()
    if why_not := bed.why_not_here():
        print(f"ARM64 tests under emulation: not run, {why_not}")
        return 0
    try:
        bed.build()
        wheel = options.wheel or build_wheels.build_wheel(
            build_wheels.target_of("aarch64"), bed.BUILD / "wheel"
        )
        bed.install(wheel)
        cpus = [bed.cpu_named(name) for name in options.cpu] if options.cpu else list(bed.CPUS)
        whole = [cpu.name for cpu in cpus] if options.whole else [WHOLE_CPU]
        return 0 if run_all(cpus, whole) else 1
    except (bed.BedError, PackageError, build_wheels.ReleaseError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
