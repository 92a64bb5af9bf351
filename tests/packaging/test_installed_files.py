"""What an installation holds, and what the provider library shows to the program that loads it."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

import binaries
import onnxruntime_ep_mlas
import provider_file

elf_only = pytest.mark.skipif(
    sys.platform != "linux", reason="reads ELF files; this system has another format"
)


@pytest.fixture(scope="module")
def library() -> Path:
    return Path(onnxruntime_ep_mlas.get_library_path())


def dynamic_section(library: Path) -> str:
    return binaries.run("readelf", "-d", "-W", library)


def test_library_lies_beside_the_package(library: Path) -> None:
    assert library.parent == Path(onnxruntime_ep_mlas.__file__).parent
    assert library.name == provider_file.NAME


@elf_only
def test_exports_are_the_two_entry_points(library: Path) -> None:
    listing = binaries.run("nm", "-D", "--defined-only", library)
    # A symbol version is an absolute symbol (A) of its own and a suffix to the names it versions.
    symbols = [line.split() for line in listing.splitlines()]
    names = {fields[-1].split("@")[0] for fields in symbols if fields[-2] != "A"}
    assert names == {"CreateEpFactories", "ReleaseEpFactory"}


@elf_only
def test_needs_no_onnxruntime_and_no_search_path(library: Path) -> None:
    section = dynamic_section(library)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", section)
    assert needed, "readelf printed no needed library, not even libc"
    assert not [name for name in needed if "onnxruntime" in name or "python" in name]
    assert "RPATH" not in section
    assert "RUNPATH" not in section


@elf_only
def test_library_is_never_unloaded(library: Path) -> None:
    assert re.search(r"FLAGS_1.*NODELETE", dynamic_section(library))


@elf_only
def test_binding_exports_its_module_function_only() -> None:
    from onnxruntime_ep_mlas import _native

    listing = binaries.run("nm", "-D", "--defined-only", _native.__file__)
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    assert "PyInit__native" in names
    assert not [name for name in names if "onnxruntime_mlas" in name]


def test_wheel_holds_the_package_and_nothing_of_the_build() -> None:
    files = importlib.metadata.files("onnxruntime-ep-mlas")
    assert files is not None
    names = {str(file) for file in files}
    package = "onnxruntime_ep_mlas/"
    assert {package + "py.typed", package + provider_file.NAME} <= names
    outside = [
        name
        for name in names
        if not name.startswith((package, "onnxruntime_ep_mlas-"))
        and not name.endswith(("/ort-mlas", "/ort-mlas.exe"))
    ]
    assert not outside
    assert not [name for name in names if Path(name).suffix in (".a", ".cpp", ".h", ".cmake", ".o")]


def test_runtime_is_an_extra() -> None:
    """Any build of onnxruntime gives the module, so none may be a hard dependency."""
    requirements = importlib.metadata.requires("onnxruntime-ep-mlas") or []
    hard = [one for one in requirements if "extra ==" not in one]
    assert hard
    assert not [one for one in hard if one.startswith("onnxruntime")]
