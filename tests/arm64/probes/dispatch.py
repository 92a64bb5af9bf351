"""Runs on an emulated CPU: what the library finds there, chooses and computes.

usage: dispatch.py FOLDER; the folder holds inputs.npz with a [M, K], packed and bias [N]. Prints
facts as JSON and writes results.npz: a product per usable ISA, compute type and number of rows.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from onnxruntime_ep_mlas import _native

ROWS = (1, 2, 64)
COMPUTES = ("int8", "fp32")


def refusal(call: Any, **arguments: Any) -> str:
    try:
        call(**arguments)
    except ValueError as error:
        return str(error)
    return ""


def main() -> None:
    folder = Path(sys.argv[1])
    with np.load(folder / "inputs.npz") as file:
        a, packed, bias = (file[name] for name in ("a", "packed", "bias"))
    # Packed buffers must lie on a multiple of 64, which a file's contents in memory need not.
    memory = np.empty(packed.size + 64, np.uint8)
    aligned = memory[-memory.ctypes.data % 64 :][: packed.size]
    aligned[:] = packed

    unavailable = {isa["name"]: isa["unavailable_reason"] for isa in _native.isas()}
    results = {}
    for isa, reason in unavailable.items():
        for compute in COMPUTES:
            for m in ROWS:
                if not reason:
                    results[f"{isa} {compute} {m}"] = _native.matmul_nbits(
                        a[:m], aligned, bias=bias, isa=isa, compute=compute
                    )
    kernels = {
        f"{compute} {m}": _native.kernels_for(m, aligned, compute=compute)
        for compute in COMPUTES
        for m in ROWS
    }
    refused = {
        isa: refusal(_native.matmul_nbits, a=a, packed=aligned, isa=isa)
        for isa, reason in unavailable.items()
        if reason
    }
    environment = {}
    for isa in unavailable:
        os.environ["ORT_MLAS_ISA"] = isa
        environment[isa] = refusal(_native.select_isa) or _native.select_isa()
    np.savez(folder / "results.npz", **results)
    facts = {
        "features": _native.cpu_features(),
        "unavailable": unavailable,
        "kernels": kernels,
        "isa_of_row": {row["name"]: row["isa"] for row in _native.kernels()},
        "refused": refused,
        "environment": environment,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
