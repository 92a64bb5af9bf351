"""Runs x86-64 code for instruction sets that this machine lacks, on an emulated CPU.

    python tools/x86_bed/bed.py build                 all that a run needs, under build/x86-bed
    python tools/x86_bed/bed.py cpus                  the emulated CPUs
    python tools/x86_bed/bed.py run CPU PROGRAM ...   one static program on one of them

README.md beside this file says what it is made of. Python's standard library is all that it needs.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import debian_packages  # noqa: E402
import machine  # noqa: E402
from debian_packages import PackageError  # noqa: E402
from machine import BedError  # noqa: E402

BUILD = Path(os.environ.get("X86_BED_BUILD_DIR", PROJECT / "build/x86-bed"))

# The oldest stable release whose Bochs (3.0) has a CPU with AVX-VNNI.
SUITE = "trixie"
PACKAGES = ("bochs", "bochs-term", "bochsbios", "ncurses-base")
ROOT = BUILD / f"bochs-{SUITE}"
GUEST = BUILD / "guest"
RUNNER = BUILD / "runner"


@dataclass(frozen=True)
class Cpu:
    """A CPU model of Bochs and the operating system's choice of register state."""

    name: str
    model: str  # as `bochs --help cpu` lists it
    isas: tuple[str, ...]  # what the project must find usable on it, slowest first
    exclude: tuple[str, ...] = ()
    xcr0: int = machine.XCR0_AVX512


CPUS = (
    Cpu("penryn", "core2_penryn_t9600", ("portable",)),
    Cpu("sandy-bridge", "corei7_sandy_bridge_2600k", ("portable",)),
    Cpu("haswell", "corei7_haswell_4770", ("portable", "avx2")),
    Cpu("ryzen", "ryzen", ("portable", "avx2")),
    Cpu("skylake-x", "corei7_skylake_x", ("portable", "avx2", "avx512bw")),
    Cpu("icelake", "corei7_icelake_u", ("portable", "avx2", "avx512bw", "avx512vnni")),
    Cpu("arrow-lake", "arrow_lake", ("portable", "avx2", "avxvnni")),
    Cpu(
        "sapphire-rapids",
        "sapphire_rapids",
        ("portable", "avx2", "avxvnni", "avx512bw", "avx512vnni"),
    ),
    # CPUs whose operating system or hypervisor leaves state off that CPUID advertises.
    Cpu(
        "icelake-os-without-avx512",
        "corei7_icelake_u",
        ("portable", "avx2"),
        xcr0=machine.XCR0_AVX,
    ),
    Cpu("icelake-os-without-avx", "corei7_icelake_u", ("portable",), xcr0=machine.XCR0_SSE),
    Cpu("icelake-os-without-xsave", "corei7_icelake_u", ("portable",), xcr0=0),
)


def cpu_named(name: str) -> Cpu:
    for cpu in CPUS:
        if cpu.name == name:
            return cpu
    raise BedError(f"no CPU '{name}'; the names are {', '.join(cpu.name for cpu in CPUS)}")


def run_program(
    cpu: Cpu,
    program: Path,
    arguments: Sequence[str] = (),
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    time_limit: float = 300.0,
) -> machine.Outcome:
    """Runs a static x86-64 Linux program on `cpu`. The bed must have been built.

    The program sees its arguments, environment, descriptors 0 to 2, memory and nothing else: no
    files, threads or clocks.
    """
    disk = machine.boot_disk(
        (GUEST / "supervisor.bin").read_bytes(),
        program.read_bytes(),
        arguments=[program.name, *arguments],
        environment=environment or {},
        stdin=stdin,
        xcr0=cpu.xcr0,
    )
    return machine.run(
        ROOT,
        GUEST / "reset.bin",
        disk,
        model=cpu.model,
        exclude=cpu.exclude,
        time_limit=time_limit,
    )


@contextmanager
def _lock() -> Iterator[None]:
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _command(*words: object) -> None:
    done = subprocess.run(
        [str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise BedError(f"{words[0]} failed:\n{done.stdout[-4000:]}")


def _is_older(target: Path, sources: Sequence[Path]) -> bool:
    return not target.exists() or target.stat().st_mtime < max(p.stat().st_mtime for p in sources)


def build_guest() -> None:
    """Firmware and supervisor."""
    source = HERE / "guest"
    GUEST.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CXX", "g++")
    reset, supervisor = GUEST / "reset.bin", GUEST / "supervisor.bin"
    if _is_older(reset, [source / "reset.S"]):
        _command("as", "--32", source / "reset.S", "-o", GUEST / "reset.o")
        _command(
            *("ld", "-m", "elf_i386", "--oformat", "binary", "-Ttext", "0"),
            *(GUEST / "reset.o", "-o", GUEST / "reset.part"),
        )
        (GUEST / "reset.part").rename(reset)
    parts = [source / name for name in ("start.S", "supervisor.cpp", "supervisor.ld")]
    if _is_older(supervisor, parts):
        # No floating-point registers: they belong to the program. No red zone: exceptions would
        # overwrite it.
        _command(
            *(compiler, "-std=c++20", "-O2", "-ffreestanding", "-fno-exceptions", "-fno-rtti"),
            *("-mgeneral-regs-only", "-mno-red-zone", "-fno-pic", "-fno-stack-protector"),
            *("-fno-asynchronous-unwind-tables", "-fcf-protection=none"),
            *("-static", "-nostdlib", "-no-pie", "-Wl,--build-id=none"),
            *(f"-Wl,-T,{parts[2]}", parts[0], parts[1], "-o", GUEST / "supervisor.part"),
        )
        (GUEST / "supervisor.part").rename(supervisor)


def _kernel_library(compiler: str) -> Path:
    """The static kernel library: that of the build named by ORT_MLAS_BUILD_DIR, else its own."""
    name = "libonnxruntime_mlas_kernels.a"
    if built := os.environ.get("ORT_MLAS_BUILD_DIR"):
        for archive in (PROJECT / built).rglob(name):
            return archive
    cmake = shutil.which("cmake") or str(Path(sys.executable).with_name("cmake"))
    library = BUILD / "library"
    _command(
        *(cmake, "-S", PROJECT, "-B", library, "-DCMAKE_BUILD_TYPE=Release"),
        *("-DORT_MLAS_BUILD_PROVIDER=OFF", "-DORT_MLAS_BUILD_BINDINGS=OFF"),
        f"-DCMAKE_CXX_COMPILER={compiler}",
    )
    _command(cmake, "--build", library, "--target", "onnxruntime_mlas_kernels", "-j", "2")
    return next(library.rglob(name))


def build_runner() -> None:
    """The kernel library, from the objects that the product is made of, in a static program."""
    compiler = os.environ.get("CXX", "g++")
    archive = _kernel_library(compiler)
    headers = PROJECT / "onnxruntime_mlas/include"
    sources = sorted((HERE / "runner").glob("*.cpp"))
    inputs = [archive, *sources, *(HERE / "runner").glob("*.h"), *headers.rglob("*.h")]
    if _is_older(RUNNER, inputs):
        part = RUNNER.with_suffix(".part")
        _command(
            *(compiler, "-std=c++20", "-O2", "-Wall", "-Wextra", "-static", "-no-pie"),
            *("-I", headers, *sources, archive, "-o", part),
        )
        part.rename(RUNNER)


def build() -> None:
    """Makes or brings up to date all that `run_program` and the tests need.

    Raises:
        BedError: a compilation failed.
        PackageError: a tool is missing, or a download failed.
    """
    with _lock():
        if not ROOT.exists():
            print("x86 bed: fetching Bochs (about 70 MB)", file=sys.stderr, flush=True)
            debian_packages.unpack(PACKAGES, SUITE, ROOT, BUILD / "download")
        build_guest()
        build_runner()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="fetch and compile what a run needs")
    commands.add_parser("cpus", help="list the emulated CPUs and the ISAs usable on them")
    run = commands.add_parser("run", help="run a static program on an emulated CPU")
    run.add_argument("cpu", metavar="CPU")
    run.add_argument("program", metavar="PROGRAM", type=Path)
    run.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER)
    run.add_argument("--input", type=Path, help="file that the program reads as standard input")
    options = parser.parse_args()
    try:
        if options.command == "build":
            build()
        elif options.command == "cpus":
            for cpu in CPUS:
                print(f"{cpu.name:28} {cpu.model:28} {' '.join(cpu.isas)}")
        else:
            stdin = options.input.read_bytes() if options.input else b""
            outcome = run_program(
                cpu_named(options.cpu), options.program, options.arguments, stdin=stdin
            )
            sys.stdout.buffer.write(outcome.stdout)
            sys.stderr.write(outcome.stderr)
            if outcome.fault is not None:
                raise BedError(str(outcome.fault))
            return outcome.status or 0
    except (BedError, PackageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
