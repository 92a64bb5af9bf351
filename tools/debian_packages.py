"""Debian packages unpacked into a folder, without touching the machine's own package state.

apt resolves and downloads with a configuration, a package list and an (empty) status of its own, so
neither root nor the machine's release or architecture matters. The mirror is the one that the
machine's own apt sources name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

MIRROR_VARIABLE = "ORT_MLAS_DEBIAN_MIRROR"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Never read by the programs that are unpacked here, and half of their bytes.
UNUSED = ("./usr/share/doc", "./usr/share/locale", "./usr/share/icons", "./usr/share/man")


class PackageError(RuntimeError):
    """Packages can't be had; the message says why and what to do."""


def _source_entries(folder: Path) -> Iterator[tuple[str, str]]:
    """(URI, suite) pairs of the apt sources in `folder`, in both of apt's file formats."""
    for path in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]:
        for line in path.read_text().splitlines() if path.exists() else ():
            words = line.split("#")[0].replace("]", "] ").split()
            if words[:1] != ["deb"]:
                continue
            while len(words) > 1 and (words[1].startswith("[") or "=" in words[1]):
                del words[1]
            if len(words) >= 3:
                yield words[1], words[2]
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        for stanza in path.read_text().split("\n\n"):
            lines = [line for line in stanza.splitlines() if not line.startswith("#")]
            fields = dict(line.split(":", 1) for line in lines if ":" in line and line[0] != " ")
            if "deb" not in fields.get("Types", "").split():
                continue
            for uri in fields.get("URIs", "").split():
                for suite in fields.get("Suites", "").split():
                    yield uri, suite


def _codename() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    return ""


def mirror(apt_folder: Path = Path("/etc/apt")) -> str:
    """URI of the Debian archive that this machine uses.

    Raises:
        PackageError: no source of this machine serves its own Debian release.
    """
    if named := os.environ.get(MIRROR_VARIABLE):
        return named
    release = _codename()
    for uri, suite in _source_entries(apt_folder):
        if release and suite == release:
            return uri
    raise PackageError(
        f"no apt source under {apt_folder} serves this machine's release "
        f"'{release}'; set {MIRROR_VARIABLE} to the URI of a Debian archive"
    )


def _run(
    command: Sequence[str | Path], environment: dict[str, str], folder: Path | None = None
) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise PackageError(
            f"{command[0]} {command[1]} failed with exit code {done.returncode}:\n{tail}"
        )


def unpack(
    names: Sequence[str],
    suite: str,
    root: Path,
    work: Path,
    *,
    architecture: str = "amd64",
    dependencies: bool = True,
    members: Sequence[str] = (),
) -> None:
    """Downloads `names` and all that they depend on from `suite`, and unpacks them as `root`.

    `root` appears only when it is complete. `work` holds the downloads, which are removed after.
    Without `dependencies` only `names` are taken. `members` are the files to unpack, as they stand
    in the archives ("./usr/bin/x"); empty means all but documentation.

    Raises:
        PackageError: a tool is missing, or apt or dpkg-deb failed.
    """
    for tool in ("apt-get", "dpkg-deb", "tar"):
        if shutil.which(tool) is None:
            raise PackageError(
                f"'{tool}' not found: {', '.join(names)} come from Debian's packages"
            )
    shutil.rmtree(work, ignore_errors=True)
    archives = work / "cache/archives"
    for folder in (work / "state/lists/partial", archives / "partial", work / "root"):
        folder.mkdir(parents=True)
    environment = _apt_environment(suite, work, architecture)
    _run(["apt-get", "update", "-q", "--error-on=any"], environment)
    if dependencies:
        command = ["install", "-y", "--download-only", "--no-install-recommends"]
    else:
        command = ["download"]
    _run(["apt-get", *command, "-q", *names], environment, folder=archives)
    for archive in sorted(archives.glob("*.deb")):
        _unpack_archive(archive, work / "root", members)
    missing = [member for member in members if not (work / "root" / member).exists()]
    if missing:
        raise PackageError(f"{', '.join(names)} of Debian {suite} hold no {', '.join(missing)}")
    shutil.rmtree(root, ignore_errors=True)
    (work / "root").rename(root)
    shutil.rmtree(work)


def _apt_environment(suite: str, work: Path, architecture: str) -> dict[str, str]:
    """Environment in which apt knows `suite` alone and writes nowhere but below `work`."""
    (work / "status").touch()
    signed = f" [signed-by={KEYRING}]" if KEYRING.exists() else ""
    (work / "sources.list").write_text(f"deb{signed} {mirror()} {suite} main\n")
    settings = {
        "Dir::State": work / "state",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "APT::Architecture": architecture,
        "APT::Sandbox::User": "",
    }
    # The machine's own list of architectures would otherwise be fetched as well.
    lines = ["#clear APT::Architectures;", f'APT::Architectures:: "{architecture}";']
    lines += [f'{key} "{value}";' for key, value in settings.items()]
    configuration = work / "apt.conf"
    configuration.write_text("\n".join(lines) + "\n")
    return {**os.environ, "APT_CONFIG": str(configuration), "LC_ALL": "C"}


def _unpack_archive(archive: Path, root: Path, members: Sequence[str]) -> None:
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE
    ) as source:
        chosen = members or [f"--exclude={folder}" for folder in UNUSED]
        done = subprocess.run(
            ["tar", "-x", "--no-same-owner", "-C", root, *chosen],
            stdin=source.stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
    # Wanted members may lie in another of the archives: tar then fails, and the caller looks again.
    if source.returncode or (done.returncode and not members):
        raise PackageError(f"can't unpack {archive.name}: {done.stderr.strip()}")
