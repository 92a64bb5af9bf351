"""tools/fetch_ort_headers.py: the archive that it takes from apt sources, and what it refuses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import binaries


@pytest.fixture(scope="module")
def fetcher() -> ModuleType:
    path = binaries.REPOSITORY / "tools" / "fetch_ort_headers.py"
    spec = importlib.util.spec_from_file_location("fetch_ort_headers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def apt_folder(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_reads_deb822_sources(fetcher: ModuleType, tmp_path: Path) -> None:
    text = (
        "# a comment\nTypes: deb deb-src\nURIs: http://mirror.invalid/debian-security\n"
        "Suites: stable-security\nComponents: main\n\n"
        "Types: deb\nURIs: http://mirror.invalid/debian http://second.invalid/debian\n"
        "Suites: stable stable-updates\nComponents: main contrib\nSigned-By: /keys/debian.gpg\n"
    )
    etc = apt_folder(tmp_path, {"sources.list.d/debian.sources": text})
    archive = fetcher.debian_archive(etc)
    assert archive["uris"] == "http://mirror.invalid/debian"
    assert archive["signed-by"] == "/keys/debian.gpg"


def test_reads_an_inline_key(fetcher: ModuleType, tmp_path: Path) -> None:
    text = (
        "Types: deb\nURIs: http://mirror.invalid/debian/\nSuites: stable\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n AAAA\n"
    )
    etc = apt_folder(tmp_path, {"sources.list.d/debian.sources": text})
    archive = fetcher.debian_archive(etc)
    fetcher.private_apt(tmp_path / "work", archive, "sid")
    written = (tmp_path / "work" / "sources" / "private.sources").read_text()
    assert "Suites: sid\n" in written
    assert "Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n AAAA\n" in written


def test_reads_one_line_sources(fetcher: ModuleType, tmp_path: Path) -> None:
    text = (
        "deb-src http://mirror.invalid/debian stable main\n"
        "# deb http://off.invalid/debian stable main\n"
        "deb [arch=amd64 signed-by=/keys/debian.gpg] http://mirror.invalid/debian stable main\n"
    )
    etc = apt_folder(tmp_path, {"sources.list": text})
    archive = fetcher.debian_archive(etc)
    assert archive["uris"] == "http://mirror.invalid/debian"
    assert archive["signed-by"] == "/keys/debian.gpg"


@pytest.mark.parametrize(
    "text",
    [
        "Types: deb\nURIs: http://mirror.invalid/ubuntu\nSuites: noble\nComponents: main\n",
        "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: stable\nComponents: contrib\n",
        "Enabled: no\nTypes: deb\nURIs: http://m.invalid/debian\nSuites: x\nComponents: main\n",
    ],
    ids=["not Debian", "no main", "disabled"],
)
def test_other_archives_are_not_taken(fetcher: ModuleType, tmp_path: Path, text: str) -> None:
    etc = apt_folder(tmp_path, {"sources.list.d/other.sources": text})
    with pytest.raises(fetcher.FetchError, match="no Debian archive"):
        fetcher.debian_archive(etc)


def test_private_apt_writes_below_its_own_folder(fetcher: ModuleType, tmp_path: Path) -> None:
    archive = {"uris": "http://mirror.invalid/debian"}
    command = fetcher.private_apt(tmp_path, archive, "sid")
    assert command[:2] == ["apt-get", "-c"]
    settings = Path(command[2]).read_text()
    for key in ("Dir::State::lists", "Dir::Cache", "Dir::Etc::SourceParts"):
        assert f'{key} "{tmp_path}/' in settings


def test_finds_only_a_header_that_is_new_enough(fetcher: ModuleType, tmp_path: Path) -> None:
    header = tmp_path / "usr" / "include" / "onnxruntime_c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("#pragma once\n#define ORT_API_VERSION 22\n")
    assert fetcher.find_header(tmp_path, 23) is None
    header.write_text("#pragma once\n#define ORT_API_VERSION 23\n")
    assert fetcher.find_header(tmp_path, 23) == header
