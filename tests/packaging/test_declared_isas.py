"""The account of ISAs that a run declares: parsing, and agreement with the operating system."""

from __future__ import annotations

import re

import pytest

import binaries
import isa_support

HASWELL = "processor\t: 0\nflags\t\t: fpu avx avx2 fma f16c\n"
ZEN4 = HASWELL[:-1] + " avx512f avx512bw avx512dq avx512vl avx512_vnni\n"

NEOVERSE_N1 = "processor\t: 0\nFeatures\t: fp asimd evtstrm aes crc32 atomics asimdrdm asimddp\n"
NEOVERSE_N2 = NEOVERSE_N1[:-1] + " sve asimdfhm sve2 svei8mm svebf16 i8mm bf16\n"


def test_host_is_read_from_cpuinfo() -> None:
    assert isa_support.parse_required("host", HASWELL) == {"portable", "avx2"}
    assert isa_support.parse_required("host", ZEN4) == {
        "portable",
        "avx2",
        "avx512bw",
        "avx512vnni",
    }
    assert isa_support.parse_required("host", NEOVERSE_N1) == {"portable", "neon", "neon_dotprod"}
    assert isa_support.parse_required("host", NEOVERSE_N2) == {
        "portable",
        "neon",
        "neon_dotprod",
        "neon_i8mm",
    }


def test_a_flag_that_is_a_prefix_of_another_is_not_taken_for_it() -> None:
    cpuinfo = "flags : avx2 fma f16c avx_vnni_int8\n"
    assert "avxvnni" not in isa_support.isas_by_cpuinfo(cpuinfo)
    assert "neon_i8mm" not in isa_support.isas_by_cpuinfo("Features : asimd asimddp svei8mm\n")


def test_names_add_up_and_blanks_are_ignored() -> None:
    assert isa_support.parse_required(" host, avxvnni,", HASWELL) == {"portable", "avx2", "avxvnni"}
    assert isa_support.parse_required("", HASWELL) == frozenset()


def test_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown ISA 'avx3'"):
        isa_support.parse_required("avx3", HASWELL)


def test_workflows_declare_known_isas_and_always_the_portable_one() -> None:
    declared = []
    for workflow in (binaries.REPOSITORY / ".github/workflows").glob("*.yml"):
        text = workflow.read_text(encoding="utf-8")
        declared += re.findall(r"^ +isas: *(.+)$", text, re.MULTILINE)
    assert len(declared) >= 5
    for value in declared:
        names = value.split(",")
        assert isa_support.parse_required(value, "") == set(names)
        assert names[0] == "portable"


@pytest.mark.parametrize("isa", sorted(isa_support.required_isas()))
def test_declared_isa_is_usable(isa: str) -> None:
    assert isa_support.isa_unavailable_reasons()[isa] == ""
    assert isa_support.executable_kernel_rows(isa=isa), f"no kernel row of {isa} is usable"
