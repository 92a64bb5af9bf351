"""Builds static ARM64 programs from the project's sources with the release compiler; runs them.

Zig's clang compiles the kernel library by the project's own CMake files, so the instructions that
are counted and modelled are those that ship.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from arm64 import bed  # noqa: E402
from release import build_wheels  # noqa: E402

BUILD = Path(os.environ.get("ORT_MLAS_CYCLES_BUILD_DIR", PROJECT / "build/cycles"))
# musl links statically, which glibc's stubs in Zig don't; kernels call no C library.
TARGET = "aarch64-linux-musl"
# Has every feature that a row may need, but for pauth's slow cipher: nothing signs pointers.
CPU = "max,pauth=off"
# As CMakeLists.txt has them for every file, and at fixed addresses.
_COMPILE_FLAGS = ("-O3", "-DNDEBUG", "-std=c++20", "-ffp-contract=off", "-fno-pie")
_LINK_FLAGS = ("-no-pie", "-static")


class CyclesError(RuntimeError):
    """Something can't be built, traced or modelled; the message says what and why."""


def _run(words: Sequence[str | Path], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=PROJECT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise CyclesError(f"{words[0]} failed:\n{done.stdout[-4000:]}")


def _environment() -> dict[str, str]:
    caches = BUILD / "zig-cache"
    return {
        **os.environ,
        "PATH": f"{build_wheels.TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "ZIG_GLOBAL_CACHE_DIR": str(caches / "global"),
        "ZIG_LOCAL_CACHE_DIR": str(caches / "local"),
    }


def _zig() -> Path:
    build_wheels.install_tools()
    (program,) = build_wheels.TOOLS.glob("lib/python*/site-packages/ziglang/zig")
    return program


def compile_object(name: str, source: Path, flags: Sequence[str]) -> Path:
    """An object file from `source`.

    Raises:
        CyclesError: the compiler's messages.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    result = BUILD / name
    part = BUILD / f"part.{name}"
    compiler: list[str | Path] = [_zig(), "c++", "-target", TARGET, *_COMPILE_FLAGS]
    _run([*compiler, *flags, "-c", source, "-o", part], _environment())
    part.rename(result)
    return result


def compile_program(name: str, sources: Sequence[Path], flags: Sequence[str]) -> Path:
    """A static program from `sources`.

    Raises:
        CyclesError: the compiler's messages.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / name
    part = BUILD / f"{name}.part"
    compiler: list[str | Path] = [_zig(), "c++", "-target", TARGET, *_COMPILE_FLAGS, *_LINK_FLAGS]
    _run([*compiler, *flags, *sources, "-o", part], _environment())
    part.rename(program)
    return program


def build_probe() -> Path:
    """The kernel library with probe.cpp.

    Raises:
        CyclesError: the compiler's or CMake's messages.
    """
    folder = BUILD / "kernels"
    environment = _environment()
    defines = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TOOLCHAIN_FILE": PROJECT / "cmake/zig_toolchain.cmake",
        "ORT_MLAS_ZIG": _zig(),
        "ORT_MLAS_ZIG_TARGET": TARGET,
        "ORT_MLAS_BUILD_PROVIDER": "OFF",
        "ORT_MLAS_BUILD_BINDINGS": "OFF",
    }
    options = [f"-D{key}={value}" for key, value in defines.items()]
    _run(["cmake", "-G", "Ninja", "-S", PROJECT, "-B", folder, *options], environment)
    library = "onnxruntime_mlas_kernels"
    _run(["cmake", "--build", folder, "--target", library, "-j", "2"], environment)
    sources = [HERE / "probe.cpp", folder / f"onnxruntime_mlas/lib{library}.a"]
    includes = [f"-I{PROJECT / path}" for path in ("onnxruntime_mlas/include", "onnxruntime_mlas")]
    return compile_program("probe", sources, includes)


def run(program: Path, *arguments: str, options: Sequence[str] = ()) -> str:
    """Standard output of `program` under emulation; `options` are QEMU's.

    Raises:
        CyclesError: it failed.
    """
    bed.build_emulator()
    words = [str(bed.QEMU), "-cpu", CPU, *options, str(program), *arguments]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise CyclesError(f"{program.name} {' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
    return done.stdout
