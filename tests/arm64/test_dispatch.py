"""What the aarch64 wheel finds, chooses and computes on each emulated CPU."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import models
import oracle
from cases import random_activations, random_weights
from native_calls import pack
from onnxruntime_ep_mlas import _native

PROBES = Path(__file__).resolve().parent / "probes"
ROWS = (1, 2, 64)
COMPUTES = ("int8", "fp32")


@dataclass(frozen=True)
class Expected:
    isas: tuple[str, ...]  # slowest first
    core: str
    chosen: dict[int, str]  # ISA of the int8 kernels, by M


NEON = ("portable", "neon")
DOTPROD = (*NEON, "neon_dotprod")
I8MM = (*DOTPROD, "neon_i8mm")
# SMMLA takes two rows of A; on Oryon it has half the rate of SDOT.
BOTH = {1: "neon_dotprod", 2: "neon_i8mm", 64: "neon_i8mm"}
CPUS = {
    "cortex-a53": Expected(NEON, "cortex_a53", dict.fromkeys(ROWS, "neon")),
    "neoverse-n1": Expected(DOTPROD, "neoverse_n1", dict.fromkeys(ROWS, "neon_dotprod")),
    "oryon": Expected(I8MM, "oryon", dict.fromkeys(ROWS, "neon_dotprod")),
    "neoverse-n2": Expected(I8MM, "neoverse_n2", BOTH),
    "m4": Expected(I8MM, "apple", BOTH),
}
# Encodings (Arm ARM, C7.2) and CPUs that must fault on them or execute them.
SDOT = "4e829420"  # sdot v0.4s, v1.16b, v2.16b
SMMLA = "4e82a420"  # smmla v0.4s, v1.16b, v2.16b
SVE = "04e00000"  # add z0.d, z0.d, z0.d
MISSING = ((SDOT, "cortex-a53"), (SMMLA, "cortex-a53"), (SMMLA, "neoverse-n1"))
MISSING += ((SVE, "oryon"), (SVE, "m4"))
PRESENT = ((SDOT, "neoverse-n1"), (SDOT, "oryon"), (SMMLA, "oryon"), (SMMLA, "neoverse-n2"))
PRESENT += ((SMMLA, "m4"), (SVE, "neoverse-n2"))


@dataclass(frozen=True)
class Product:
    a: oracle.Float32Array
    weights: oracle.Weights
    bias: oracle.Float32Array
    packed: oracle.Uint8Array  # by the host's library


@pytest.fixture(scope="module")
def product() -> Product:
    rng = np.random.default_rng(164)
    weights = random_weights(rng, 70, 520, 64, zero_points="per_block", scales="fp32")
    bias = rng.standard_normal(70).astype(np.float32)
    return Product(random_activations(rng, max(ROWS), 520), weights, bias, pack(weights))


Answer = tuple[dict[str, Any], dict[str, oracle.Float32Array]]


@pytest.fixture(scope="module")
def answers(
    bed: ModuleType, wheel: Path, product: Product, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Answer]:
    """Facts and products by CPU."""
    assert wheel.exists()

    def probe(name: str) -> Answer:
        folder = tmp_path_factory.mktemp(name)
        np.savez(folder / "inputs.npz", a=product.a, packed=product.packed, bias=product.bias)
        done = bed.run_python(bed.cpu_named(name), [str(PROBES / "dispatch.py"), str(folder)])
        assert done.returncode == 0, f"{name}: ended with {done.returncode}\n{done.stderr}"
        with np.load(folder / "results.npz") as file:
            return json.loads(done.stdout), {key: file[key] for key in file}

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CPUS, pool.map(probe, CPUS), strict=True))


def test_every_cpu_of_the_bed_is_tested(bed: ModuleType) -> None:
    assert {cpu.name: cpu.isas for cpu in bed.CPUS} == {
        name: expected.isas for name, expected in CPUS.items()
    }


@pytest.mark.parametrize("name", CPUS)
def test_usable_isas(name: str, answers: Mapping[str, Answer]) -> None:
    facts, _ = answers[name]
    usable = tuple(isa for isa, reason in facts["unavailable"].items() if not reason)
    assert usable == CPUS[name].isas
    assert facts["features"]["core"] == CPUS[name].core


@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize("m", ROWS)
def test_chosen_kernels(name: str, m: int, answers: Mapping[str, Answer]) -> None:
    facts, _ = answers[name]
    for compute in COMPUTES:
        kernels = facts["kernels"][f"{compute} {m}"]
        assert kernels
        isas = {facts["isa_of_row"][kernel] for kernel in kernels}
        # Neither extension has float32 instructions, so FMLA of the baseline runs on every CPU.
        assert isas == {CPUS[name].chosen[m] if compute == "int8" else "neon"}, kernels


@pytest.mark.parametrize("name", CPUS)
def test_buffer_packed_on_x86_gives_right_products(
    name: str, answers: Mapping[str, Answer], product: Product
) -> None:
    _, products = answers[name]
    assert len(products) == len(CPUS[name].isas) * len(COMPUTES) * len(ROWS)
    for compute in COMPUTES:
        expected = oracle.matmul(product.a, product.weights, product.bias, compute=compute)
        for m in ROWS:
            part = oracle.Reference(expected.value[:m], expected.bound[:m], expected.magnitude[:m])
            for isa in CPUS[name].isas:
                c = products[f"{isa} {compute} {m}"]
                oracle.assert_matches(c, part, f"{isa} {compute} M={m} on {name}")


@pytest.mark.parametrize("name", CPUS)
def test_int8_bits_are_those_of_x86(
    name: str, answers: Mapping[str, Answer], product: Product
) -> None:
    _, products = answers[name]
    here = _native.matmul_nbits(product.a, product.packed, bias=product.bias)
    for isa in CPUS[name].isas:
        for m in ROWS:
            np.testing.assert_array_equal(products[f"{isa} int8 {m}"], here[:m], err_msg=isa)


@pytest.mark.parametrize("name", CPUS)
def test_isas_that_the_cpu_lacks_are_refused(name: str, answers: Mapping[str, Answer]) -> None:
    facts, _ = answers[name]
    lacking = set(I8MM) - set(CPUS[name].isas)
    assert lacking <= set(facts["refused"])
    for isa, message in facts["refused"].items():
        assert isa in message
        assert facts["unavailable"][isa] in message
        assert "ORT_MLAS_ISA=" + isa in facts["environment"][isa]
        assert facts["unavailable"][isa] in facts["environment"][isa]
    for isa in CPUS[name].isas:
        assert facts["environment"][isa] == isa


def execute(bed: ModuleType, instruction: str, name: str) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = bed.run_python(
        bed.cpu_named(name), [str(PROBES / "instruction.py"), instruction]
    )
    return done


@pytest.mark.parametrize(("instruction", "name"), MISSING)
def test_the_bed_faults_on_what_the_cpu_lacks(bed: ModuleType, instruction: str, name: str) -> None:
    """Else a kernel with a wrong instruction would pass unnoticed."""
    done = execute(bed, instruction, name)
    assert done.returncode != 0
    assert "Illegal instruction" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(("instruction", "name"), PRESENT)
def test_the_bed_executes_what_the_cpu_has(bed: ModuleType, instruction: str, name: str) -> None:
    done = execute(bed, instruction, name)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("name", ["cortex-a53", "neoverse-n2"])
def test_sessions_at_every_accuracy_level(
    bed: ModuleType, answers: Mapping[str, Answer], name: str, tmp_path: Path
) -> None:
    isa_of_row = answers[name][0]["isa_of_row"]
    rng = np.random.default_rng(165)
    weights = random_weights(rng, 48, 160, 32, zero_points="per_block")
    bias = rng.standard_normal(48).astype(np.float32)
    a = random_activations(rng, 3, 160)
    nodes = {
        f"level{level}": models.Node(weights, bias=bias, accuracy_level=level) for level in range(5)
    }
    for stem, node in nodes.items():
        (tmp_path / f"{stem}.onnx").write_bytes(models.model_of(node).SerializeToString())
    np.savez(tmp_path / "inputs.npz", A=a)
    done = bed.run_python(bed.cpu_named(name), [str(PROBES / "sessions.py"), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    with np.load(tmp_path / "results.npz") as results:
        for level, (stem, node) in enumerate(nodes.items()):
            (entry,) = reports[stem]["nodes"]
            assert entry["taken"], entry["reason"]
            assert entry["compute"] == ("int8" if level == 4 else "fp32")
            assert {isa_of_row[kernel] for kernel in entry["kernels"]} <= set(CPUS[name].isas)
            models.assert_right(node, a, results[stem], f"{stem} on {name}")
