"""Runs ARM64 code, Python with its packages included, on emulated CPUs of an x86-64 machine.

    python tools/arm64/bed.py build                    all that a run needs, under build/arm64-bed
    python tools/arm64/bed.py cpus                     the emulated CPUs
    python tools/arm64/bed.py run CPU PROGRAM ...      an ARM64 Linux program on one of them
    python tools/arm64/bed.py python CPU ARGUMENT ...  the ARM64 Python on one of them

README.md beside this file says what it is made of. Python's standard library and pip are all that
it needs.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import debian_packages  # noqa: E402
import project_table  # noqa: E402
from debian_packages import PackageError  # noqa: E402

BUILD = Path(os.environ.get("ARM64_BED_BUILD_DIR", PROJECT / "build/arm64-bed"))

# QEMU 10 knows no SME2, and 7 crashes in onnxruntime. Debian builds the user-mode emulators static.
QEMU_SUITE = "forky"
QEMU = BUILD / f"qemu-{QEMU_SUITE}/usr/bin/qemu-aarch64"

# The Python for which the ARM64 wheel is built and tested, and the Debian release that has it.
PYTHON_VERSION = "3.11"
PYTHON_SUITE = "bookworm"
ROOT = BUILD / f"root-{PYTHON_SUITE}"
PYTHON = ROOT / f"usr/bin/python{PYTHON_VERSION}"
PYTHON_INCLUDE = BUILD / f"python{PYTHON_VERSION}-include"
MULTIARCH = "aarch64-linux-gnu"

# glibc of the root is 2.36, so that wheels for any older one run there.
GLIBC_MINORS = range(36, 16, -1)
# Behaviour of the stock provider is tested against, hence one release of it.
PINNED = ("onnxruntime==1.32.0",)

SITE = BUILD / "site"  # packages that the project depends on
PACKAGE = BUILD / "package"  # the project's own wheel
LAUNCHERS = BUILD / "launchers"


class BedError(RuntimeError):
    """The bed can't be built or run; the message says what to do."""


@dataclass(frozen=True)
class Cpu:
    """A CPU of QEMU and what the project must find usable on it."""

    name: str
    model: str  # argument of -cpu
    isas: tuple[str, ...]  # slowest first
    stands_for: str


_NEON = ("portable", "neon")
_DOTPROD = (*_NEON, "neon_dotprod")
_I8MM = (*_DOTPROD, "neon_i8mm")

# Models that QEMU lacks are its "max" with less. Code that signs no pointers doesn't need pauth,
# whose architected cipher is slow to emulate. midr is what the core answers when asked who it is.
_ORYON = "max,midr=0x511f0011,pauth=off,sve=off,sme=off"
_M4 = "max,midr=0x611f0520,pauth=off,sve=off,sme_fa64=off,sme512=on"
CPUS = (
    Cpu("cortex-a53", "cortex-a53", _NEON, "Raspberry Pi 3; as the Cortex-A72 of a Pi 4"),
    Cpu("neoverse-n1", "neoverse-n1", _DOTPROD, "Graviton 2, Ampere Altra; as Cortex-A76"),
    Cpu("oryon", _ORYON, _I8MM, "Snapdragon X: neither SVE nor SME; as Apple M2"),
    Cpu("neoverse-n2", "neoverse-n2", _I8MM, "Azure Cobalt 100: SVE2"),
    Cpu("m4", _M4, _I8MM, "Apple M4: SME2 without SVE"),
)


def cpu_named(name: str) -> Cpu:
    for cpu in CPUS:
        if cpu.name == name:
            return cpu
    raise BedError(f"no CPU '{name}'; the names are {', '.join(cpu.name for cpu in CPUS)}")


def why_not_here() -> str:
    """Why this machine can't have the bed; empty when it can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "the ARM64 bed runs on x86-64 Linux"
    if shutil.which("apt-get") is None:
        return "the ARM64 bed consists of Debian's packages; this system has no apt-get"
    return ""


# --- running -------------------------------------------------------------------------------------


def command(cpu: Cpu, program: Path | str, *arguments: str) -> list[str]:
    """The command by which the host runs an ARM64 program on `cpu`."""
    return [str(QEMU), "-L", str(ROOT), "-cpu", cpu.model, str(program), *arguments]


def python_command(cpu: Cpu, *arguments: str) -> list[str]:
    return command(cpu, PYTHON, *arguments)


def python_environment(
    cpu: Cpu, *folders: Path, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Environment of the ARM64 Python: `folders`, the installed wheel and its dependencies.

    The guest's sys.executable is a launcher that the host can execute, so that tests may start
    further interpreters.
    """
    path = [*folders, PACKAGE, SITE, HERE / "guest"]
    inherited = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR") if key in os.environ}
    return {
        **inherited,
        "LC_ALL": "C.UTF-8",
        # numpy's OpenBLAS takes a CPU with SME for one with SVE. It isn't what is tested here.
        "OPENBLAS_CORETYPE": "ARMV8",
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONNOUSERSITE": "1",
        # Compiling takes seconds under emulation, so every run profits from the first.
        "PYTHONPYCACHEPREFIX": str(BUILD / "pycache"),
        "ARM64_BED_LAUNCHER": str(LAUNCHERS / cpu.name),
        **(environment or {}),
    }


def run_python(
    cpu: Cpu,
    arguments: Sequence[str],
    *folders: Path,
    environment: Mapping[str, str] | None = None,
    time_limit: float = 600.0,
) -> subprocess.CompletedProcess[str]:
    """Runs the ARM64 Python to its end; stdout and stderr are captured, its status is not judged.

    Raises:
        BedError: it took longer than `time_limit` seconds.
    """
    try:
        return subprocess.run(
            python_command(cpu, *arguments),
            env=python_environment(cpu, *folders, environment=environment),
            capture_output=True,
            text=True,
            timeout=time_limit,
        )
    except subprocess.TimeoutExpired as error:
        raise BedError(f"Python on {cpu.name} did not end in {time_limit:.0f} s") from error


# --- building ------------------------------------------------------------------------------------


@contextmanager
def _lock() -> Iterator[None]:
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"arm64 bed: {text}", file=sys.stderr, flush=True)


def build_emulator() -> None:
    if QEMU.exists():
        return
    _say("fetching QEMU (73 MB)")
    binary = f"./{QEMU.relative_to(QEMU.parents[2])}"
    debian_packages.unpack(
        ["qemu-user"],
        QEMU_SUITE,
        QEMU.parents[2],
        BUILD / "download",
        dependencies=False,
        members=[binary],
    )


def build_root() -> None:
    if PYTHON.exists():
        return
    _say(f"fetching the ARM64 Python {PYTHON_VERSION}")
    names = [f"python{PYTHON_VERSION}-minimal", f"libpython{PYTHON_VERSION}-stdlib", "libstdc++6"]
    debian_packages.unpack(names, PYTHON_SUITE, ROOT, BUILD / "download", architecture="arm64")


def build_headers() -> None:
    """The ARM64 Python's headers, in one folder that holds no header of the C library."""
    if PYTHON_INCLUDE.exists():
        return
    _say("fetching the headers of the ARM64 Python")
    unpacked, part = BUILD / "headers", BUILD / "headers.part"
    debian_packages.unpack(
        [f"libpython{PYTHON_VERSION}-dev"],
        PYTHON_SUITE,
        unpacked,
        BUILD / "download",
        architecture="arm64",
        dependencies=False,
        members=["./usr/include"],
    )
    folder = f"python{PYTHON_VERSION}"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(unpacked / "usr/include" / folder, part)
    # Debian's own pyconfig.h includes that of the architecture by its place below /usr/include.
    shutil.copy(unpacked / "usr/include" / MULTIARCH / folder / "pyconfig.h", part)
    part.rename(PYTHON_INCLUDE)
    shutil.rmtree(unpacked)


def build_site() -> None:
    """Wheels of what the package and its tests import, installed by this Python's pip."""
    requirements = [*project_table.requirements("test"), *PINNED]
    digest = hashlib.sha256("\n".join(requirements).encode()).hexdigest()
    stamp = SITE / "requirements.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    _say("fetching aarch64 wheels of " + ", ".join(requirements))
    part = SITE.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    platforms = [f"manylinux_2_{minor}_aarch64" for minor in GLIBC_MINORS]
    options = [f"--platform={name}" for name in (*platforms, "manylinux2014_aarch64")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--target", str(part), "--python-version", PYTHON_VERSION),
            *("--implementation", "cp", "--only-binary=:all:", *options, *requirements),
        ],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise BedError(f"pip can't install the aarch64 wheels:\n{done.stdout[-4000:]}")
    (part / stamp.name).write_text(digest)
    shutil.rmtree(SITE, ignore_errors=True)
    part.rename(SITE)


def build_launchers() -> None:
    """Scripts for the host's shell that run the ARM64 Python on one CPU each."""
    LAUNCHERS.mkdir(parents=True, exist_ok=True)
    for cpu in CPUS:
        text = f'#!/bin/sh\nexec {shlex.join(python_command(cpu))} "$@"\n'
        launcher = LAUNCHERS / cpu.name
        if not launcher.exists() or launcher.read_text() != text:
            part = launcher.with_suffix(".part")
            part.write_text(text)
            part.chmod(0o755)
            part.rename(launcher)


def build() -> None:
    """Makes or brings up to date all that a run needs, except the project's own wheel.

    Raises:
        BedError: pip failed.
        PackageError: a tool is missing, or a download failed.
    """
    with _lock():
        build_emulator()
        build_root()
        build_headers()
        build_site()
        build_launchers()


def install(wheel: Path) -> None:
    """Replaces the installed package by that of an aarch64 wheel.

    Raises:
        BedError: the file is not a wheel for ARM64 Linux.
    """
    if not wheel.name.endswith("aarch64.whl"):
        raise BedError(f"{wheel.name} is not a wheel for ARM64 Linux (…aarch64.whl)")
    with _lock():
        part = PACKAGE.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
        shutil.rmtree(PACKAGE, ignore_errors=True)
        part.rename(PACKAGE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="fetch what a run needs")
    commands.add_parser("cpus", help="list the emulated CPUs and the ISAs usable on them")
    installing = commands.add_parser("install", help="install an aarch64 wheel of this project")
    installing.add_argument("wheel", metavar="WHEEL", type=Path)
    run = commands.add_parser("run", help="run an ARM64 program on an emulated CPU")
    run.add_argument("cpu", metavar="CPU")
    run.add_argument("program", metavar="PROGRAM")
    run.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER)
    python = commands.add_parser("python", help="run the ARM64 Python on an emulated CPU")
    python.add_argument("cpu", metavar="CPU")
    python.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        if options.command == "build":
            build()
        elif options.command == "cpus":
            for cpu in CPUS:
                print(f"{cpu.name:12} {' '.join(cpu.isas):38} {cpu.stands_for}")
        elif options.command == "install":
            build()
            install(options.wheel)
        else:
            cpu = cpu_named(options.cpu)
            build()
            if options.command == "python":
                words = python_command(cpu, *options.arguments)
                environment = python_environment(cpu, environment=os.environ)
                environment["PYTHONPATH"] = python_environment(cpu)["PYTHONPATH"]
            else:
                words, environment = command(cpu, options.program, *options.arguments), None
            return subprocess.run(words, env=environment).returncode
    except (BedError, PackageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
