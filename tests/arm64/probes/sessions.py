"""Runs on an emulated CPU: sessions of models made on the host.

usage: sessions.py FOLDER; for each *.onnx in the folder, runs it on the provider with the input A
of inputs.npz, writes its output to results.npz under the file's stem, and prints the provider's
report of each model as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

import onnxruntime_ep_mlas


def main() -> None:
    folder = Path(sys.argv[1])
    with np.load(folder / "inputs.npz") as file:
        a = file["A"]
    onnxruntime_ep_mlas.register()
    devices = [
        device
        for device in onnxruntime.get_ep_devices()
        if device.ep_name == onnxruntime_ep_mlas.get_ep_name()
    ]
    results, reports = {}, {}
    for model in sorted(folder.glob("*.onnx")):
        report = model.with_suffix(".json")
        options = onnxruntime.SessionOptions()
        options.add_provider_for_devices(devices[:1], {"report": str(report)})
        session = onnxruntime.InferenceSession(str(model), options)
        (results[model.stem],) = session.run(None, {"A": a})
        reports[model.stem] = json.loads(report.read_text())
    np.savez(folder / "results.npz", **results)
    print(json.dumps(reports))


if __name__ == "__main__":
    main()
