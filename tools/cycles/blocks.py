"""Finds the passage through one block in a kernel's trace.

A kernel loops over the blocks of a tile; block length and zero points are run-time values to it, so
the passage holds inner loops. Some instruction of the block loop is executed once per block: what
lies between two of its executions is one whole passage, scales and starting values included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cycles.program import CyclesError

# Products per instruction, by mnemonic.
_DOT_PRODUCTS = {"sdot": 16, "usdot": 16, "smmla": 32, "usmmla": 32}
_BYTE_PRODUCTS = {"smull": 8, "smull2": 8, "smlal": 8, "smlal2": 8}
PRODUCTS = {**_DOT_PRODUCTS, **_BYTE_PRODUCTS}
# A compiler may take several blocks per passage.
_MAX_BLOCKS = 8


@dataclass(frozen=True)
class Passage:
    """Instructions of one passage through a block loop."""

    addresses: tuple[int, ...]
    blocks: int  # that it covers


def steady_passage(trace: Sequence[int], passages: int, tile_passages: int) -> Passage:
    """A passage from the middle of the first tile.

    `trace` executes `passages` blocks in all, `tile_passages` of them in each tile.

    Raises:
        CyclesError: no instruction marks the passages, or two neighbouring ones differ.
    """
    counts = Counter(trace)
    tiles = passages // tile_passages
    for blocks in range(1, _MAX_BLOCKS + 1):
        # The first or last passage of a tile may have been peeled off the loop.
        for peeled in (0, tiles):
            wanted, rest = divmod(passages - peeled, blocks)
            marks = [address for address, count in counts.items() if count == wanted]
            if rest or not marks or wanted < 4 * tiles:
                continue
            mark = max(marks)
            at = [i for i, address in enumerate(trace) if address == mark]
            middle = tile_passages // blocks // 2
            first, second, third = at[middle - 1 : middle + 2]
            if trace[first:second] != trace[second:third]:
                raise CyclesError("neighbouring passages through the block loop differ")
            return Passage(tuple(trace[first:second]), blocks)
    raise CyclesError(
        f"no instruction is executed once per block ({passages} times) or per 2 to "
        f"{_MAX_BLOCKS} blocks"
    )


def check_products(
    passage: Passage, macs: int, duplicated: int, instruction: Callable[[int], str]
) -> None:
    """Checks that the passage multiplies as often as its blocks need.

    `macs` of one block; `duplicated` is 2 where an instruction computes everything twice.

    Raises:
        CyclesError: it holds more or fewer products, so it isn't what it was taken for.
    """
    names = Counter(instruction(address).split()[0] for address in passage.addresses)
    table = _DOT_PRODUCTS if any(name in _DOT_PRODUCTS for name in names) else _BYTE_PRODUCTS
    products = sum(table.get(name, 0) * count for name, count in names.items())
    if products != macs * passage.blocks * duplicated:
        raise CyclesError(
            f"a passage holds {products} products where {passage.blocks} blocks need "
            f"{macs * passage.blocks * duplicated}"
        )
