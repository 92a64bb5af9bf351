"""Resident bytes after each of several sessions of one model, printed by a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).parent))

import cases
import models


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def main() -> None:
    rng = np.random.default_rng(45)
    node = models.Node(cases.random_weights(rng, 4096, 4096, 32, bits=4))
    model = models.model_of(node).SerializeToString()
    a = cases.random_activations(rng, 1, 4096)
    sessions = []
    for _ in range(4):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_provider_for_devices(models.devices(), {})
        sessions.append(onnxruntime.InferenceSession(model, options))
        y = models.run(sessions[-1], {"A": a})
        print(resident_bytes(), float(np.abs(y).sum()), flush=True)
    # The first goes; what it shares stays.
    expected = y
    del sessions[0]
    for session in sessions:
        assert np.array_equal(models.run(session, {"A": a}), expected)


if __name__ == "__main__":
    main()
