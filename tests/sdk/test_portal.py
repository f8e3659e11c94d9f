"""Addresses for people: those that sign in are for somebody who is there, never for a log."""

from __future__ import annotations

import io
import re
import sys
from types import ModuleType

import pytest

from runyard.sdk.runs.details import page_url, portal_url
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.experiment import Experiment

SIGNS_IN = re.compile(r"http://127\.0\.0\.1:\d+/signin/[\w-]{43}\?next=")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    made = experiment.start_logging()
    made.complete()
    return made


def test_at_a_terminal_and_in_a_notebook_an_address_signs_in(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Terminal())
        assert SIGNS_IN.match(run.get_portal_url())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
        assert SIGNS_IN.match(run.get_portal_url())
        assert SIGNS_IN.match(run.experiment.get_portal_url())


@pytest.mark.parametrize("out", [io.StringIO(), None, object()], ids=["file", "none", "odd"])
def test_in_a_log_it_signs_nobody_in(run: Run, out: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", out)
    plain = page_url(run._client, f"/runs/{run.id}")

    assert run.get_portal_url() == plain and "/signin/" not in run.experiment.get_portal_url()
    assert portal_url(run._client, f"/runs/{run.id}") == plain


def test_the_output_that_is_waited_for_holds_no_code(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.wait_for_completion(show_output=True)
    said = capsys.readouterr()

    assert f"/runs/{run.id}\n" in said.out and "/signin/" not in said.out + said.err
