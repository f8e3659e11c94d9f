"""The run outside a run: exactly Azure's members and printed lines."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from runyard.sdk.exceptions import RunEnvironmentException
from runyard.sdk.runs.context import _OfflineRun, get_context

MEMBERS = {
    "id",
    "add_properties",
    "set_tags",
    "tag",
    "complete",
    "fail",
    "cancel",
    "log",
    "log_list",
    "log_row",
    "log_table",
    "log_image",
    "log_residuals",
    "log_predictions",
    "log_accuracy_table",
    "log_confusion_matrix",
    "upload_file",
    "upload_files",
    "upload_folder",
    "child_run",
    "flush",
}


@pytest.fixture
def run() -> _OfflineRun:
    return _OfflineRun("OfflineRun_1")


def test_outside_a_run_the_context_is_offline() -> None:
    run = get_context()

    assert isinstance(run, _OfflineRun)
    assert re.fullmatch(r"OfflineRun_[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", run.id)


def test_outside_a_run_a_real_context_can_be_insisted_on() -> None:
    with pytest.raises(RunEnvironmentException, match=r"experiment\.submit"):
        get_context(allow_offline=False)


def test_it_has_exactly_the_members_that_azure_has(run: _OfflineRun) -> None:
    assert {name for name in dir(run) if not name.startswith("_")} == MEMBERS


@pytest.mark.parametrize("name", ["experiment", "parent", "get_metrics", "get_status", "input_datasets", "tags"])
def test_what_needs_a_server_is_an_attribute_error(run: _OfflineRun, name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(run, name)


def test_its_log_takes_no_step(run: _OfflineRun) -> None:
    with pytest.raises(TypeError):
        run.log("acc", 0.5, step=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        (lambda run: run.log("acc", 0.5), "Attempted to log scalar metric acc:\n0.5\n"),
        (lambda run: run.log("acc", 0.5, "description"), "Attempted to log scalar metric acc:\n0.5\n"),
        (lambda run: run.log_list("l", [1, 2]), "Attempted to log list metric l:\n[1, 2]\n"),
        (lambda run: run.log_row("r", "d", a=1, b=2), "Attempted to log row metric r:\n{'a': 1, 'b': 2}\n"),
        (lambda run: run.log_table("t", {"a": [1]}), "Attempted to log table metric t:\n{'a': [1]}\n"),
        (lambda run: run.log_image("i", path="x.png"), "Attempted to log image metric i:\nx.png\n"),
        (lambda run: run.log_image("i", plot="a plot"), "Attempted to log image metric i:\na plot\n"),
        (lambda run: run.log_residuals("n", {"a": 1}), "Attempted to log residual metric n:\n{'a': 1}\n"),
        (lambda run: run.log_predictions("n", {}), "Attempted to log predictions metric n:\n{}\n"),
        (lambda run: run.log_accuracy_table("n", {}), "Attempted to log accuracy_table metric n:\n{}\n"),
        (lambda run: run.log_confusion_matrix("n", {}), "Attempted to log confusion_matrix metric n:\n{}\n"),
        (lambda run: run.upload_file("f", "x.txt"), "Attempted to track file f at x.txt\n"),
        (
            lambda run: run.upload_files(["a"], ["x"], timeout_seconds=5),
            "Attempted to track files ['a'] at ['x'] with timeout 5s\n",
        ),
        (lambda run: run.upload_folder("f", "x"), "Attempted to track folder f at x\n"),
        (lambda run: run.tag("k", "v"), "Attempted to add tag k with value v\n"),
        (lambda run: run.tag("k"), "Attempted to add tag k with value None\n"),
        (lambda run: run.set_tags({"a": 1}), "Attempted to set tags {'a': 1}\n"),
        (lambda run: run.add_properties({"p": "q"}), "Attempted to add properties {'p': 'q'}\n"),
        (lambda run: run.flush(), "Attempted to flush run with id OfflineRun_1\n"),
        (lambda run: run.fail("why", "code"), "Run failed with error code code:\nwhy\n"),
        (lambda run: run.complete(), ""),
        (lambda run: run.cancel(), ""),
    ],
)
def test_each_call_prints_what_it_would_have_done(
    run: _OfflineRun, capsys: pytest.CaptureFixture[str], call: Callable[[_OfflineRun], None], printed: str
) -> None:
    call(run)

    assert capsys.readouterr().out == printed


def test_a_child_is_offline_too_and_its_block_prints_start_and_stop(
    run: _OfflineRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with run.child_run() as child:
        assert isinstance(child, _OfflineRun)
        assert child.id.startswith("OfflineRun_1.")

    assert capsys.readouterr().out == f"[START] Run {child.id} context\n[STOP] Run {child.id} context\n"


def test_an_exception_leaves_the_block(run: _OfflineRun) -> None:
    with pytest.raises(ValueError, match="out"):
        with run:
            raise ValueError("out")
