"""Provider options and the environment variable ORT_MLAS_ISA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cases
import models


def small_node(**arguments: object) -> models.Node:
    rng = np.random.default_rng(31)
    return models.Node(cases.random_weights(rng, 16, 64, 32), **arguments)  # type: ignore[arg-type]


def activations() -> models.Array:
    return cases.random_activations(np.random.default_rng(32), 3, 64)


@pytest.mark.parametrize("key", ["thread", "ISA", "accuracy", "report_path", ""])
def test_unknown_key_is_refused(key: str) -> None:
    with pytest.raises(
        Exception, match=rf"unknown option '{key}'.*isa, accuracy_level, qdq_accuracy_level, report"
    ):
        models.session(models.model_of(small_node()), options={key: "1"})


@pytest.mark.parametrize("value", ["5", "-1", "four", "", "4 ", "04", "1.0"])
def test_bad_accuracy_level_is_refused(value: str) -> None:
    pattern = rf"option 'accuracy_level'.*'{value}' is not one of 0, 1, 2, 3, 4"
    with pytest.raises(Exception, match=pattern):
        models.session(models.model_of(small_node()), options={"accuracy_level": value})


@pytest.mark.parametrize("value", ["avx3", "AVX2", "sse"])
def test_unknown_isa_is_refused(value: str) -> None:
    with pytest.raises(Exception, match=rf"option 'isa'.*{value}"):
        models.session(models.model_of(small_node()), options={"isa": value})


def test_same_key_through_session_configuration() -> None:
    with pytest.raises(Exception, match="unknown option 'colour'"):
        models.session(
            models.model_of(small_node()), config={"ep.mlasexecutionprovider.colour": "red"}
        )


def test_isa_option_is_used(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    node, a = small_node(), activations()
    sess = models.session(models.model_of(node), options={"isa": "portable", "report": str(path)})
    models.assert_right(node, a, models.run(sess, node.feeds(a)))
    assert models.read_report(path)["isa"] == "portable"
    kernels = models.report_nodes(path)["mm"]["kernels"]
    assert kernels
    assert all("_portable_" in name for name in kernels)


def test_isa_from_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    monkeypatch.setenv("ORT_MLAS_ISA", "portable")
    node, a = small_node(), activations()
    sess = models.session(models.model_of(node), options={"report": str(path)})
    models.assert_right(node, a, models.run(sess, node.feeds(a)))
    assert models.read_report(path)["isa"] == "portable"

    monkeypatch.setenv("ORT_MLAS_ISA", "bogus")
    with pytest.raises(Exception, match="bogus"):
        models.session(models.model_of(node))
    # The option goes before the environment.
    models.session(models.model_of(node), options={"isa": "portable", "report": str(path)})
    assert models.read_report(path)["isa"] == "portable"


@pytest.mark.parametrize(("attribute", "option"), [(None, "4"), (0, "4"), (4, "0"), (4, "3")])
def test_accuracy_level_override(attribute: int | None, option: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    a = activations()
    y = models.run_ours(
        small_node(accuracy_level=attribute),
        a,
        options={"accuracy_level": option, "report": str(path)},
    )
    models.assert_right(small_node(accuracy_level=int(option)), a, y)
    report = models.report_nodes(path)["mm"]
    assert report["accuracy_level"] == int(option)
    assert report["compute"] == ("int8" if option == "4" else "fp32")


def test_report_path_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "no_such_folder" / "report.json"
    with pytest.raises(Exception, match=r"option 'report'.*no_such_folder.*No such file"):
        models.session(models.model_of(small_node()), options={"report": str(path)})


def test_empty_report_path_is_refused() -> None:
    with pytest.raises(Exception, match=r"option 'report'.*path is empty"):
        models.session(models.model_of(small_node()), options={"report": ""})
