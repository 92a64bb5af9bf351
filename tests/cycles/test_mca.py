"""Prices by llvm-mca: known throughputs, and refusals where a model would be guessing."""

from __future__ import annotations

import dataclasses
import re

import pytest
from cycles import mca
from cycles.cores import core_named

SDOT_BY_ELEMENT = "sdot v0.4s, v1.16b, v2.4b[1]"


def independent(form: str, count: int = 16) -> list[str]:
    return [form.format(register=register) for register in range(count)]


@pytest.mark.parametrize(
    ("core", "per_cycle"), [("neoverse-n2", 2), ("neoverse-v2", 4), ("oryon-1", 4)]
)
def test_independent_dots_fill_the_pipes(core: str, per_cycle: int) -> None:
    body = independent("sdot v{register}.4s, v30.16b, v31.16b")
    price = mca.price(core_named(core), body)
    # An accumulator is ready again long before its next turn.
    assert price.cycles == pytest.approx(16 / per_cycle, rel=0.05)
    assert price.bottleneck == "vector pipes"


def test_a_chain_of_dots_takes_their_latency() -> None:
    chain = ["mul v0.4s, v0.4s, v1.4s"] * 8
    price = mca.price(core_named("neoverse-n2"), chain)
    assert price.cycles > 2 * price.vector_cycles
    assert "data dependencies" in price.bottleneck


def test_more_micro_ops_than_dispatch_takes() -> None:
    body = independent("add x{register}, x29, #1", 15)
    price = mca.price(core_named("neoverse-n1"), body)
    assert price.cycles == pytest.approx(5, rel=0.05)
    assert price.bottleneck == "dispatch width"


def test_what_the_core_lacks_is_refused() -> None:
    body = ["ldr q1, [x0]", "smmla v0.4s, v1.16b, v2.16b"]
    with pytest.raises(mca.UnmodelledError, match="neoverse-n1 has no i8mm"):
        mca.price(core_named("neoverse-n1"), body)


def test_what_the_model_lacks_is_refused() -> None:
    core = core_named("oryon-1")
    bare = dataclasses.replace(core, substitutions=())
    with pytest.raises(mca.UnmodelledError, match=r"no schedule for 'sdot.*4b\[1\]'"):
        mca.price(bare, ["add x0, x0, #1", SDOT_BY_ELEMENT])
    with pytest.raises(mca.UnmodelledError, match="no schedule for 'prfm"):
        mca.price(core, ["prfm pldl1keep, [x0]", SDOT_BY_ELEMENT])


def test_a_declared_substitution_is_used_and_named() -> None:
    price = mca.price(core_named("oryon-1"), [SDOT_BY_ELEMENT])
    assert price.cycles == pytest.approx(3, rel=0.05)  # its latency
    assert len(price.substitutions) == 1
    assert re.search("dot by element", price.substitutions[0])


def test_substitutions_keep_the_registers() -> None:
    lines, _ = mca.substitute(
        core_named("oryon-1"),
        [SDOT_BY_ELEMENT, "ldr w3, [x5, #8]", "ldr q3, [x5, #16]", "scvtf v4.4s, v5.4s"],
    )
    assert lines == [
        "sdot v0.4s, v1.16b, v2.16b",
        "ldur x3, [x5]",
        "ldr q3, [x5, #16]",
        "fcvtl v4.4s, v5.4h",
    ]
