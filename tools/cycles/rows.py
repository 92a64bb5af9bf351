"""Kernel rows of the registry as loops: what one block of a tile executes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cycles import blocks, execution, program

STRIP_COLUMNS = 16


@dataclass(frozen=True)
class Row:
    """A kernel of the registry; `entry` and `unpack` are addresses in the probe."""

    name: str
    isa: str
    format: str
    bits: int
    compute: str
    path: str
    rows: int
    columns: int
    entry: int
    unpack: int


@dataclass(frozen=True)
class Weights:
    """What of a matrix decides which code runs."""

    block_len: int
    zero_points: str = "uniform"  # uniform, per_block, float
    scales: str = "fp16"  # fp16, fp32

    def __str__(self) -> str:
        return f"{self.block_len} {self.zero_points} {self.scales}"


@dataclass(frozen=True)
class Loop:
    """A block loop's body, and the multiply-adds that one passage does."""

    name: str
    body: tuple[str, ...]
    macs: int


@cache
def probe() -> execution.Binary:
    """The program that runs kernel rows."""
    return execution.Binary(program.build_probe())


@cache
def rows() -> tuple[Row, ...]:
    """Every row of the ARM64 ISAs."""
    listed = json.loads(program.run(probe().path, "rows"))
    return tuple(Row(**row) for row in listed if row["isa"] != "portable")


def run_arguments(row: Row, m: int, n: int, k: int, weights: Weights) -> list[str]:
    return ["run", row.name, str(m), str(n), str(k), *str(weights).split()]


def _blocks_traced(row: Row, weights: Weights) -> int:
    """Enough to have a steady state, few enough for one panel of the driver's (24 KiB)."""
    return 16 if row.path == "fused" or weights.block_len <= 64 else 1024 // weights.block_len


@cache
def tile_loop(row: Row, weights: Weights) -> Loop:
    """The loop over the blocks of one whole tile."""
    count = _blocks_traced(row, weights)
    k = count * weights.block_len
    binary = probe()
    arguments = run_arguments(row, row.rows, STRIP_COLUMNS, k, weights)
    executed = execution.executed(binary.path, arguments, binary.with_callees(row.entry))
    tiles = STRIP_COLUMNS // row.columns
    passage = blocks.steady_passage(executed, count * tiles, count)
    macs = row.rows * row.columns * weights.block_len
    # Both rows of a matrix operand are the same one.
    duplicated = 2 if row.isa == "neon_i8mm" and row.rows == 1 else 1
    blocks.check_products(passage, macs, duplicated, binary.instruction)
    body = tuple(execution.assembly(binary, passage.addresses))
    return Loop(row.name, body, macs * passage.blocks)


@cache
def unpack_loop(row: Row, weights: Weights) -> Loop:
    """The loop that unpacks a strip's blocks to a panel; `macs` are those of one row of A."""
    count = _blocks_traced(row, weights)
    k = count * weights.block_len
    binary = probe()
    arguments = run_arguments(row, 1, STRIP_COLUMNS, k, weights)
    executed = execution.executed(binary.path, arguments, binary.with_callees(row.unpack))
    passage = blocks.steady_passage(executed, count, count)
    body = tuple(execution.assembly(binary, passage.addresses))
    macs = STRIP_COLUMNS * weights.block_len * passage.blocks
    return Loop(f"{row.name} unpacking", body, macs)
