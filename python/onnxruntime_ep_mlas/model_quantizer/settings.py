"""Which nodes to quantise and how, by patterns of their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from onnxruntime_ep_mlas.quantize import default_algorithm, find_algorithm
from onnxruntime_ep_mlas.quantize.layout import check_bits_and_block_size

_OVERRIDABLE = ("algorithm", "bits", "block_size", "accuracy_level")


@dataclass(frozen=True)
class NodeSettings:
    """How one node is quantised; without an algorithm by that of its width."""

    algorithm: str | None
    bits: int
    block_size: int
    accuracy_level: int

    def __post_init__(self) -> None:
        check_bits_and_block_size(self.bits, self.block_size)
        find_algorithm(self.algorithm_name, self.bits)
        if self.accuracy_level not in range(5):
            raise ValueError(f"accuracy_level is {self.accuracy_level!r}; it must be 0 to 4")

    @property
    def algorithm_name(self) -> str:
        return default_algorithm(self.bits) if self.algorithm is None else self.algorithm


class Selection:
    """Answers per node; remembers which patterns never matched, as those are typing errors."""

    def __init__(
        self,
        defaults: NodeSettings,
        include: Sequence[str],
        exclude: Sequence[str],
        overrides: Mapping[str, Mapping[str, Any]],
    ) -> None:
        for argument, patterns in (("include", include), ("exclude", exclude)):
            if isinstance(patterns, str):
                raise ValueError(f"{argument} is one string; it must be a list of patterns")
        self._defaults = defaults
        self._include = tuple(include)
        self._exclude = tuple(exclude)
        self._overrides = dict(overrides)
        self._unmatched = dict.fromkeys((*include, *exclude, *overrides))
        for pattern, values in self._overrides.items():
            unknown = sorted(set(values) - set(_OVERRIDABLE))
            if unknown:
                raise ValueError(
                    f"override {pattern!r} sets {', '.join(unknown)}; it may set "
                    f"{', '.join(_OVERRIDABLE)}"
                )
            self._combine(defaults, pattern)

    def settings_for(self, name: str) -> NodeSettings | str:
        """How to quantise the node of that name, or why not to."""
        if self._include and not self._any_matches(name, self._include):
            return "its name matches no include pattern"
        excluding = self._any_matches(name, self._exclude)
        if excluding:
            return f"its name matches exclude pattern {excluding!r}"
        settings = self._defaults
        for pattern in self._overrides:
            if self._matches(name, pattern):
                settings = self._combine(settings, pattern)
        return settings

    def check_every_pattern_matched(self) -> None:
        """Raises ValueError when a pattern matched none of the nodes asked about."""
        if self._unmatched:
            raise ValueError(
                f"no MatMul or Gemm node has a name that matches {', '.join(self._unmatched)}"
            )

    def _combine(self, settings: NodeSettings, pattern: str) -> NodeSettings:
        try:
            return replace(settings, **self._overrides[pattern])
        except ValueError as error:
            raise ValueError(f"override {pattern!r}: {error}") from None

    def _any_matches(self, name: str, patterns: Sequence[str]) -> str:
        # Every pattern is tried, or an earlier one would hide that a later one matches.
        matching = [pattern for pattern in patterns if self._matches(name, pattern)]
        return matching[0] if matching else ""

    def _matches(self, name: str, pattern: str) -> bool:
        matches = fnmatchcase(name, pattern)
        if matches:
            self._unmatched.pop(pattern, None)
        return matches
