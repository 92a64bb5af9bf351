"""The aarch64 wheel that tools/release builds: its tags, and what its libraries show and need."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

import binaries

LIBRARY = "onnxruntime_ep_mlas/libonnxruntime_providers_mlas.so"
BINDINGS = "onnxruntime_ep_mlas/_native.cpython-311-aarch64-linux-gnu.so"
# What manylinux_2_28 lets every Linux bring (PEP 600), as far as C++ linked statically needs it.
SYSTEM_LIBRARIES = {
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-aarch64.so.1",
}


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_tags(wheel: Path, unpacked: Path) -> None:
    assert wheel.name.endswith("-cp311-cp311-manylinux_2_28_aarch64.whl")
    (metadata,) = unpacked.glob("*.dist-info/WHEEL")
    tags = re.findall(r"^Tag: (.+)$", metadata.read_text(), re.MULTILINE)
    assert tags == ["cp311-cp311-manylinux_2_28_aarch64"]
    assert "Root-Is-Purelib: false" in metadata.read_text()


def test_files(unpacked: Path) -> None:
    package = unpacked / "onnxruntime_ep_mlas"
    assert {path.name for path in package.glob("*.so")} == {Path(LIBRARY).name, Path(BINDINGS).name}
    assert (package / "py.typed").exists()


@pytest.mark.parametrize("name", [LIBRARY, BINDINGS])
def test_needs_only_glibc_2_28(unpacked: Path, name: str) -> None:
    assert "AArch64" in binaries.run("readelf", "-h", unpacked / name)
    section = binaries.run("readelf", "-d", "-W", unpacked / name)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", section))
    assert "libc.so.6" in needed
    assert needed <= SYSTEM_LIBRARIES
    assert "RPATH" not in section
    assert "RUNPATH" not in section
    versions = re.findall(r"GLIBC_2\.(\d+)", binaries.run("readelf", "-V", "-W", unpacked / name))
    assert versions
    assert max(map(int, versions)) <= 28


@pytest.mark.parametrize("name", [LIBRARY, BINDINGS])
def test_is_stripped(unpacked: Path, name: str) -> None:
    assert ".symtab" not in binaries.run("readelf", "-S", "-W", unpacked / name)


def exported(library: Path) -> set[str]:
    names = set()
    for line in binaries.run("readelf", "--dyn-syms", "-W", library).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] not in ("UND", "ABS"):
            names.add(fields[7].partition("@")[0])
    return names


def test_library_exports_its_two_entry_points_and_stays_loaded(unpacked: Path) -> None:
    assert exported(unpacked / LIBRARY) == {"CreateEpFactories", "ReleaseEpFactory"}
    section = binaries.run("readelf", "-d", "-W", unpacked / LIBRARY)
    assert re.search(r"FLAGS_1.*NODELETE", section)


def test_bindings_export_their_module_function(unpacked: Path) -> None:
    names = exported(unpacked / BINDINGS)
    assert "PyInit__native" in names
    assert not [name for name in names if "onnxruntime_mlas" in name]
