"""LLVM's command-line tools from Debian's packages, unpacked under build/llvm-22.

    python tools/llvm.py                       fetch them (about 100 MB, once)
    python tools/llvm.py llvm-mca ARGUMENT ... run one

Nothing is installed and root is not needed: the programs run through the unpacked loader, so the
machine's own release does not matter. They are of the LLVM release whose clang Zig holds
(tools/release), hence they know the same instructions and CPUs.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import debian_packages

PROJECT = Path(__file__).resolve().parents[1]
RELEASE = 22
SUITE = "forky"
ROOT = Path(os.environ.get("ORT_MLAS_LLVM_DIR", PROJECT / f"build/llvm-{RELEASE}"))
LOADER = ROOT / "usr/lib64/ld-linux-x86-64.so.2"
LIBRARIES = ROOT / "usr/lib/x86_64-linux-gnu"
PROGRAMS = ROOT / f"usr/lib/llvm-{RELEASE}/bin"


def fetch() -> None:
    """Unpacks the tools unless they are there.

    Raises:
        debian_packages.PackageError: a download failed, or a tool to unpack with is missing.
    """
    if PROGRAMS.exists():
        return
    ROOT.parent.mkdir(parents=True, exist_ok=True)
    with ROOT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not PROGRAMS.exists():
            print(f"llvm: fetching LLVM {RELEASE}'s tools", file=sys.stderr, flush=True)
            work = ROOT.with_suffix(".download")
            debian_packages.unpack([f"llvm-{RELEASE}"], SUITE, ROOT, work)


def command(name: str, *arguments: str) -> list[str]:
    """The command that runs the tool `name` of LLVM, e.g. llvm-mca."""
    return [str(LOADER), "--library-path", str(LIBRARIES), str(PROGRAMS / name), *arguments]


def run(name: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end on `text` as standard input; its exit status is not judged."""
    return subprocess.run(command(name, *arguments), input=text, capture_output=True, text=True)


def main() -> int:
    try:
        fetch()
    except debian_packages.PackageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if len(sys.argv) == 1:
        return 0
    return subprocess.run(command(*sys.argv[1:])).returncode


if __name__ == "__main__":
    sys.exit(main())
