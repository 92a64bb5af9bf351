"""What a run may be told, and how it tells what it is doing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

__all__ = ["Progress", "Settings", "Silent"]


@dataclass(frozen=True)
class Settings:
    """`None` leaves a choice to the suite."""

    repeats: int = 9
    min_seconds: float = 0.02  # of one repetition
    max_seconds: float = 3.0  # of all repetitions of one case
    threads: int = 1
    isa: str | None = None  # of our kernels; None: as ORT_MLAS_ISA or the machine says
    m: tuple[int, ...] | None = None
    n: int | None = None
    k: int | None = None
    block_sizes: tuple[int, ...] | None = None
    bits: tuple[int, ...] | None = None  # of suite "widths"; the others are about 2
    backends: tuple[str, ...] | None = None
    cold_bytes: int = 256 << 20  # far above the last-level cache that one core can fill
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Progress(Protocol):
    """Told how far a run has come."""

    def start(self, suite: str, steps: int) -> None:
        """`suite` begins and will take `steps` steps."""

    def step(self, description: str) -> None:
        """The step named `description` is done."""


class Silent:
    """Tells nobody."""

    def start(self, suite: str, steps: int) -> None:
        pass

    def step(self, description: str) -> None:
        pass
