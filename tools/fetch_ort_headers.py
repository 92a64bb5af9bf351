#!/usr/bin/env python3
"""Fetches the ONNX Runtime C API headers from Debian into a folder, leaving the system as it is.

Debian's stable releases carry headers that are too old for plugin execution providers; its testing
and unstable suites don't. Adding such a suite to the machine's own package lists would offer it a
new libc, so this uses an apt of its own: a private sources list built from the machine's mirror and
keyring, private package lists and a private cache. The one package is unpacked, never installed.

Prints the folder that holds onnxruntime_c_api.h. Needs apt-get and dpkg, but neither root nor any
Python package.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "libonnxruntime-dev"
# Oldest first: the oldest API that suffices runs in most releases of the runtime.
SUITES = ("forky", "sid")
APT_SOURCES = Path("/etc/apt")


class FetchError(Exception):
    """The headers can't be had this way; the text says why."""


def api_version(header: Path) -> int:
    """ORT_API_VERSION of an onnxruntime_c_api.h, 0 when it states none."""
    match = re.search(
        r"^#define\s+ORT_API_VERSION\s+(\d+)", header.read_text(errors="replace"), re.MULTILINE
    )
    return int(match.group(1)) if match else 0


def find_header(folder: Path, minimum_api: int) -> Path | None:
    """The onnxruntime_c_api.h below `folder` whose API is new enough, or None."""
    for header in sorted(folder.rglob("onnxruntime_c_api.h")):
        if api_version(header) >= minimum_api:
            return header
    return None


def deb822_stanzas(text: str) -> list[dict[str, str]]:
    """Stanzas of a .sources file: lower-case field names, continuation lines kept."""
    stanzas: list[dict[str, str]] = []
    for block in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields:
            stanzas.append(fields)
    return stanzas


def one_line_stanzas(text: str) -> list[dict[str, str]]:
    """The entries of a one-line-style .list file in the form that deb822_stanzas gives."""
    stanzas = []
    pattern = re.compile(r"^(deb)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)$")
    for line in text.splitlines():
        match = pattern.match(line.strip())
        if not match:
            continue
        kind, options, uri, suite, components = match.groups()
        stanza = {"types": kind, "uris": uri, "suites": suite, "components": components}
        for option in (options or "").split():
            key, _, value = option.partition("=")
            stanza[key.lower()] = value
        stanzas.append(stanza)
    return stanzas


def debian_archive(etc_apt: Path) -> dict[str, str]:
    """The stanza of the machine's own Debian archive (not its security or update archives)."""
    stanzas: list[dict[str, str]] = []
    parts = etc_apt / "sources.list.d"
    for path in sorted(parts.glob("*.sources")) if parts.is_dir() else []:
        stanzas += deb822_stanzas(path.read_text(errors="replace"))
    for path in [etc_apt / "sources.list", *sorted(parts.glob("*.list"))]:
        if path.is_file():
            stanzas += one_line_stanzas(path.read_text(errors="replace"))
    for stanza in stanzas:
        uri = stanza.get("uris", "").split()[:1]
        usable = (
            stanza.get("enabled", "yes").lower() not in ("no", "false", "0")
            and "deb" in stanza.get("types", "").split()
            and "main" in stanza.get("components", "").split()
            and uri
            and uri[0].rstrip("/").endswith("/debian")
        )
        if usable:
            return {**stanza, "uris": uri[0]}
    raise FetchError(f"no Debian archive with component main among the apt sources in {etc_apt}")


def run(command: list[str], cwd: Path | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except OSError as error:
        raise FetchError(f"can't run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        tail = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise FetchError(f"{command[0]} {command[-1]} failed: " + " / ".join(tail))
    return done.stdout


def private_apt(work: Path, archive: dict[str, str], suite: str) -> list[str]:
    """Options that make apt-get use `suite` alone and write nowhere but below `work`."""
    for folder in ("sources", "lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    lines = ["Types: deb", f"URIs: {archive['uris']}", f"Suites: {suite}", "Components: main"]
    if archive.get("signed-by"):
        lines.append(f"Signed-By: {archive['signed-by']}")
    (work / "sources" / "private.sources").write_text("\n".join(lines) + "\n")
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": str(work / "sources"),
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::lists": str(work / "lists"),
        "Dir::Cache": str(work / "cache"),
        "Acquire::Languages": "none",
        "Acquire::PDiffs": "false",
        "Acquire::Retries": "2",
        # The private folders belong to the caller: apt's own download user couldn't write there.
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",
    }
    # A hook of the machine's configuration may act on the system after an update.
    clears = ["APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success"]
    config = [f'{key} "{value}";' for key, value in settings.items()]
    config += [f"#clear {key};" for key in clears]
    (work / "apt.conf").write_text("\n".join(config) + "\n")
    return ["apt-get", "-c", str(work / "apt.conf"), "-q"]


def fetch(destination: Path, minimum_api: int, etc_apt: Path) -> Path:
    """Downloads and unpacks the headers below `destination`; returns the C API header's path."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise FetchError(f"this system has no {tool}")
    archive = debian_archive(etc_apt)
    reasons = []
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".ort-headers-", dir=destination.parent) as scratch:
        for suite in SUITES:
            work = Path(scratch) / suite
            unpacked = work / "unpacked"
            try:
                apt = private_apt(work, archive, suite)
                run([*apt, "update"])
                run([*apt, "download", PACKAGE], cwd=work)
                package = next(work.glob(f"{PACKAGE}_*.deb"), None)
                if package is None:
                    raise FetchError(f"apt-get download left no {PACKAGE}")
                run(["dpkg-deb", "-x", str(package), str(unpacked)])
                header = find_header(unpacked, minimum_api)
                if header is None:
                    raise FetchError(f"{package.name} has no C API >= {minimum_api}")
            except FetchError as error:
                reasons.append(f"{suite}: {error}")
                continue
            relative = header.relative_to(unpacked)
            if destination.exists():
                shutil.rmtree(destination)
            unpacked.rename(destination)
            return destination / relative
    raise FetchError("; ".join(reasons))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("destination", type=Path, help="folder to unpack to; reused if it is good")
    parser.add_argument("--minimum-api", type=int, default=23, help="lowest ORT_API_VERSION")
    arguments = parser.parse_args()
    destination = arguments.destination.resolve()
    try:
        header = find_header(destination, arguments.minimum_api) if destination.is_dir() else None
        if header is None:
            header = fetch(destination, arguments.minimum_api, APT_SOURCES)
    except (FetchError, OSError) as error:
        print(f"fetch_ort_headers: {error}", file=sys.stderr)
        return 1
    print(header.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
