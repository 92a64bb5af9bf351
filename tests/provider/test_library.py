"""The shared library itself: its symbols, its life beyond its registration, its memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cases
import models
import onnxruntime_ep_mlas

SUPPORT = Path(models.__file__).parent


def run_python(code: str) -> str:
    """Runs code in a process of its own, which a crash may end, and returns its output."""
    prologue = f"import sys; sys.path[:0] = {[str(SUPPORT), *sys.path]!r}\n"
    result = subprocess.run(
        [sys.executable, "-c", prologue + code], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def readelf(*arguments: str) -> str:
    if sys.platform != "linux":
        pytest.skip("the library is no ELF file on this system")
    tool = shutil.which("readelf")
    if tool is None:
        pytest.skip("readelf (binutils) is not installed")
    return subprocess.run(
        [tool, *arguments, onnxruntime_ep_mlas.get_library_path()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_exactly_two_exported_symbols() -> None:
    exported = set()
    for line in readelf("--dyn-syms", "--wide").splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            exported.add(fields[7])
    assert exported == {"CreateEpFactories", "ReleaseEpFactory"}


def test_dynamic_section() -> None:
    dynamic = readelf("--dynamic", "--wide")
    assert "NODELETE" in dynamic
    assert "libonnxruntime" not in dynamic.split("SONAME")[0]
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic


def test_session_outlives_the_registration() -> None:
    output = run_python(
        """
import gc
import numpy as np
import onnxruntime
import cases, models
rng = np.random.default_rng(81)
node = models.Node(cases.random_weights(rng, 32, 64, 32))
a = cases.random_activations(rng, 3, 64)
sess = models.session(models.model_of(node))
models.assert_right(node, a, models.run(sess, node.feeds(a)))
onnxruntime.unregister_execution_provider_library(models.PROVIDER)
models.assert_right(node, a, models.run(sess, node.feeds(a)))
del sess
gc.collect()
models.assert_right(node, a, models.run_ours(node, a))  # registered anew
print("done")
"""
    )
    assert output.split() == ["done"]


def test_many_sessions_and_registrations() -> None:
    output = run_python(
        """
import numpy as np
import onnxruntime
import cases, models
rng = np.random.default_rng(82)
node = models.Node(cases.random_weights(rng, 32, 64, 32))
a = cases.random_activations(rng, 3, 64)
alive = []
for turn in range(5):
    alive.append(models.session(models.model_of(node)))
    onnxruntime.unregister_execution_provider_library(models.PROVIDER)
for sess in alive:
    models.assert_right(node, a, models.run(sess, node.feeds(a)))
print("done")
"""
    )
    assert output.split() == ["done"]


def test_provider_by_name() -> None:
    """providers=["MlasExecutionProvider"], as onnxruntime 1.25 and later allow it."""
    output = run_python(
        """
import numpy as np
import onnxruntime
import onnxruntime_ep_mlas
import cases, models
onnxruntime_ep_mlas.register()
rng = np.random.default_rng(83)
node = models.Node(cases.random_weights(rng, 32, 64, 32))
a = cases.random_activations(rng, 3, 64)
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
sess = onnxruntime.InferenceSession(
    models.model_of(node).SerializeToString(), options, providers=[models.PROVIDER, models.STOCK]
)
assert models.owners(sess) == {"mm": models.PROVIDER}
models.assert_right(node, a, models.run(sess, node.feeds(a)))
print("done")
"""
    )
    assert output.split() == ["done"]


@pytest.mark.skipif(
    sys.platform != "linux", reason="reads memory from /proc and trims glibc's heap"
)
@pytest.mark.uninstrumented
def test_resident_memory_is_the_packed_weights(tmp_path: Path) -> None:
    """ONNX Runtime's copy of the weights is gone once the session stands."""
    rng = np.random.default_rng(84)
    n, k, layers = 4096, 4096, 6
    nodes = []
    for layer in range(layers):
        weights = cases.random_weights(rng, n, k, 32)
        nodes.append(models.Node(weights, name=f"mm{layer}", prefix=f"w{layer}_"))
    model = models.make_model(
        [node.node_proto(f"X{i}" if i else "A", f"X{i + 1}") for i, node in enumerate(nodes)],
        [models.value_info("A", ["M", k])],
        [models.value_info(f"X{layers}", None)],
        [tensor for node in nodes for tensor in node.initializers()],
    )
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    output = run_python(
        f"""
import ctypes, gc
from pathlib import Path
import numpy as np
from onnx import helper
import models
folder = Path({str(tmp_path)!r})
a = np.ones((1, {k}), np.float32)

def resident():
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024

relu = helper.make_node("Relu", ["A"], ["Y"])
infos = [models.value_info(name, [1]) for name in "AY"]
tiny = models.session(models.make_model([relu], infos[:1], infos[1:]))
before = resident()
sess = models.session(folder / "model.onnx", options={{"report": str(folder / "report.json")}})
sess.run(None, {{"A": a}})
print(resident() - before)
"""
    )
    report = models.report_nodes(tmp_path / "report.json")
    packed = sum(node["packed_bytes"] for node in report.values())
    assert packed > layers * n * k // 4
    assert int(output) <= 1.1 * packed + 4 * 2**20
