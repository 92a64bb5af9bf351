"""Peak of resident bytes that a session on external data adds, and its packed bytes, as JSON.

`peak_memory_probe.py MODEL REPORT`, in a process of its own.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import cases
import models


def status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def main(model: Path, report: Path) -> None:
    tiny = models.Node(cases.random_weights(np.random.default_rng(1), 16, 32, 32))
    models.run(models.session(models.model_of(tiny)), {"A": np.ones((1, 32), np.float32)})
    gc.collect()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak, VmHWM
    sess = models.session(model, options={"report": str(report)})
    peak = status("VmHWM") - before
    k = sess.get_inputs()[0].shape[1]
    sess.run(None, {"A": np.ones((1, k), np.float32)})
    packed = sum(node["packed_bytes"] for node in models.report_nodes(report).values())
    print(json.dumps({"peak": peak, "packed": packed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
