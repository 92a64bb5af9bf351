"""Sessions in which every MatMulNBits provably runs on this provider."""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from onnxruntime_ep_mlas._library import EP_NAME, import_onnxruntime, register

if TYPE_CHECKING:
    import onnxruntime

# Nodes of this operator run on the provider, or the session is refused. DequantizeLinear + MatMul
# pairs may stay with the CPU provider, which does those well that are quantised for integers.
_REQUIRED_OP_TYPE = "MatMulNBits"

# More nodes than this in one message help nobody.
_MAX_LISTED = 20


@dataclass(frozen=True)
class NodeAssignment:
    """One node, or group of nodes that run as one, of the operators that the provider has.

    Attributes:
        name: the node's name, which may be ""; of a group, that of MatMul or Gemm.
        op_type: "MatMulNBits", or the nodes that run as one, such as "DequantizeLinear+MatMul".
        graph: "" for the main graph, else the path of a subgraph, e.g. "if_3/then_branch".
        output: name of the node's, or the group's, first output.
        taken: whether the provider runs it.
        reason: why not, "" when taken.
        details: everything that the provider says about the node: n, k, bits, block_size,
            accuracy_level, compute, format, scale_type, zero_point_kind, kernels, packed_bytes...
    """

    name: str
    op_type: str
    graph: str
    output: str
    taken: bool
    reason: str
    details: Mapping[str, Any]


@dataclass(frozen=True)
class SessionReport:
    """What the provider did with a model.

    Attributes:
        provider: "MlasExecutionProvider".
        version: the provider's version.
        isa: the instruction set that its kernels use.
        nodes: every node of the operators that it has, taken or not.
    """

    provider: str
    version: str
    isa: str
    nodes: tuple[NodeAssignment, ...]

    @property
    def taken(self) -> tuple[NodeAssignment, ...]:
        return tuple(node for node in self.nodes if node.taken)

    @property
    def declined(self) -> tuple[NodeAssignment, ...]:
        return tuple(node for node in self.nodes if not node.taken)


_reports: weakref.WeakKeyDictionary[Any, SessionReport] = weakref.WeakKeyDictionary()


def InferenceSession(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    sess_options: onnxruntime.SessionOptions | None = None,
    *,
    provider_options: Mapping[str, str | int | Path] | None = None,
    allow_fallback: bool = False,
    **kwargs: Any,
) -> onnxruntime.InferenceSession:
    """An ordinary ONNX Runtime session with this provider first and the CPU provider behind it.

    Args:
        model: path, serialised model, or model.
        sess_options: options of the session. The provider is added to them, so that they serve
            this one session.
        provider_options: options of the provider: "isa", "accuracy_level", "qdq_accuracy_level",
            "report".
        allow_fallback: accept that MatMulNBits nodes which the provider declines run on the CPU
            provider, as DequantizeLinear + MatMul pairs may in any case; `session_report` lists
            both.
        **kwargs: further arguments of `onnxruntime.InferenceSession`, except providers.

    Returns:
        The session; `session_report` says what runs where in it.

    Raises:
        ImportError: onnxruntime isn't installed.
        RuntimeError: the provider couldn't be loaded or refuses the model or an option; or a
            MatMulNBits node would run elsewhere (its name and the reason are in the message).
        ValueError: `sess_options` or `kwargs` name providers.
    """
    if "providers" in kwargs:
        raise ValueError(
            f"providers can't be chosen here: the session gets {EP_NAME} and CPUExecutionProvider; "
            "use onnxruntime.InferenceSession for others"
        )
    ort = import_onnxruntime()
    register()
    options = ort.SessionOptions() if sess_options is None else sess_options
    if options.has_providers():
        raise ValueError(
            "sess_options already have providers, from an earlier session or call; pass new ones"
        )
    devices = [device for device in ort.get_ep_devices() if device.ep_name == EP_NAME]
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    # The provider's fallback would hide its errors behind a session that lacks it.
    arguments = {"enable_fallback": 0, **kwargs}
    with tempfile.TemporaryDirectory(prefix="ort-mlas-") as folder:
        settings = {key: str(value) for key, value in (provider_options or {}).items()}
        report_path = Path(settings.setdefault("report", str(Path(folder) / "report.json")))
        options.add_provider_for_devices(devices, settings)
        try:
            session = ort.InferenceSession(source, options, **arguments)
        except Exception as error:
            raise RuntimeError(f"can't create a session with {EP_NAME}: {error}") from error
        if EP_NAME not in session.get_providers():
            raise RuntimeError(
                f"onnxruntime {ort.__version__} made the session without {EP_NAME}; it has "
                f"{', '.join(session.get_providers())}"
            )
        report = _parse(report_path)
    elsewhere = [node for node in report.declined if node.op_type == _REQUIRED_OP_TYPE]
    if elsewhere and not allow_fallback:
        raise RuntimeError(_declined_message(report, elsewhere))
    _reports[session] = report
    return session


def session_report(session: onnxruntime.InferenceSession) -> SessionReport:
    """What the provider did with the model of a session made by this package's `InferenceSession`.

    Raises:
        ValueError: the session was made in another way.
    """
    report = _reports.get(session)
    if report is None:
        raise ValueError(
            "there is no report on this session; make it with onnxruntime_ep_mlas.InferenceSession"
        )
    return report


def _parse(path: Path) -> SessionReport:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        nodes = tuple(
            NodeAssignment(
                name=node["name"],
                op_type=node["op_type"],
                graph=node["graph"],
                output=node["output"],
                taken=node["taken"],
                reason=node["reason"],
                details=node,
            )
            for node in content["nodes"]
        )
        return SessionReport(content["provider"], content["version"], content["isa"], nodes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RuntimeError(
            f"can't read {EP_NAME}'s report {path}: {error!r}; the provider library and this "
            "package may be of different versions"
        ) from error


def _declined_message(report: SessionReport, declined: Sequence[NodeAssignment]) -> str:
    count = sum(node.op_type == _REQUIRED_OP_TYPE for node in report.nodes)
    lines = [f"{len(declined)} of {count} {_REQUIRED_OP_TYPE} nodes would not run on {EP_NAME}:"]
    for node in declined[:_MAX_LISTED]:
        where = f" in {node.graph}" if node.graph else ""
        lines.append(f"  {(node.name or node.output)!r}{where}: {node.reason}")
    if len(declined) > _MAX_LISTED:
        lines.append(f"  and {len(declined) - _MAX_LISTED} more")
    lines.append("Pass allow_fallback=True to run them on the CPU provider.")
    return "\n".join(lines)
