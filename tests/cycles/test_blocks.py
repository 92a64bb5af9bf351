"""The passage through one block, found in traces made up here."""

from __future__ import annotations

import pytest
from cycles.blocks import Passage, check_products, steady_passage
from cycles.program import CyclesError

START, UNIT, FLUSH, END = [1, 2], [10, 11, 12], [20, 21, 22, 23], [30]


def tile(blocks: int, units: int = 2) -> list[int]:
    return [*START, *([*(UNIT * units), *FLUSH] * blocks), *END]


def rotated(passage: tuple[int, ...], expected: list[int]) -> bool:
    doubled = expected * 2
    return len(passage) == len(expected) and any(
        doubled[i : i + len(passage)] == list(passage) for i in range(len(expected))
    )


@pytest.mark.parametrize("tiles", [1, 4])
def test_a_passage_holds_all_units_and_the_flush(tiles: int) -> None:
    passage = steady_passage(tile(16) * tiles, 16 * tiles, 16)
    assert passage.blocks == 1
    assert rotated(passage.addresses, UNIT * 2 + FLUSH)


def test_a_peeled_passage() -> None:
    trace = [*START, 50, 51, *((UNIT * 2 + FLUSH) * 15), *END]
    passage = steady_passage(trace, 16, 16)
    assert rotated(passage.addresses, UNIT * 2 + FLUSH)


def test_two_blocks_per_passage() -> None:
    twice = [*UNIT, *FLUSH, 60, 61, 62, *(address + 50 for address in FLUSH)]
    passage = steady_passage([*START, *(twice * 8), *END], 16, 16)
    assert passage.blocks == 2
    assert rotated(passage.addresses, twice)


def test_passages_that_differ_are_refused() -> None:
    trace = list(START)
    for block in range(16):
        trace += UNIT * (1 + block % 2) + FLUSH
    with pytest.raises(CyclesError, match="passages through the block loop differ"):
        steady_passage([*trace, *END], 16, 16)


def test_no_mark() -> None:
    with pytest.raises(CyclesError, match="no instruction is executed once per block"):
        steady_passage([1, 2, 3] * 7, 16, 16)


@pytest.mark.parametrize(
    ("text", "macs", "duplicated"),
    [
        ("sdot v0.4s, v1.16b, v2.16b", 32, 1),
        ("smmla v0.4s, v1.16b, v2.16b", 64, 1),
        ("smmla v0.4s, v1.16b, v2.16b", 32, 2),
        ("smlal2 v0.8h, v1.16b, v2.16b", 16, 1),
    ],
)
def test_products(text: str, macs: int, duplicated: int) -> None:
    passage = Passage((1, 2), 1)
    check_products(passage, macs, duplicated, lambda _: text)
    with pytest.raises(CyclesError, match="products"):
        check_products(passage, macs + 1, duplicated, lambda _: text)
