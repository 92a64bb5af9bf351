"""What pyproject.toml states, for the tools that need it without installing the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10; pytest brings the same module there
    import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def _table() -> dict[str, Any]:
    with PYPROJECT.open("rb") as file:
        return tomllib.load(file)


def requirements(*extras: str) -> list[str]:
    """The project's dependencies and those of `extras`."""
    project = _table()["project"]
    names = list(project["dependencies"])
    for extra in extras:
        names += project["optional-dependencies"][extra]
    return names


def build_requirements() -> list[str]:
    return list(_table()["build-system"]["requires"])
