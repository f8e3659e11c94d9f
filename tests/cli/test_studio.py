"""`runyard studio`: a link that signs in, and a browser that is opened without telling others the link."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path

import pytest

from runyard.cli.app import run
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace

LINK = re.compile(r"http://127\.0\.0\.1:\d+/signin/[\w\-]{43}\?next=(\S+)\n")


@pytest.fixture(autouse=True)
def in_a_folder(shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


def test_without_a_screen_the_link_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    opened = run(["studio"])
    said = capsys.readouterr()
    match = LINK.fullmatch(said.out)

    assert opened == 0 and match is not None and match.group(1) == "%2F"
    assert "works once" in said.err


def test_a_runs_page(capsys: pytest.CaptureFixture[str]) -> None:
    one = Experiment(Workspace.from_config(), "shown").start_logging()
    one.complete()

    assert run(["studio", one.id, "--no-browser"]) == 0
    match = LINK.fullmatch(capsys.readouterr().out)
    assert match is not None and match.group(1) == f"%2Fruns%2F{one.id}"
    assert run(["studio", "nobody"]) == 1
    assert "There is no run `nobody`." in capsys.readouterr().err


@pytest.mark.parametrize(("works", "words"), [(True, "A browser was opened"), (False, "Open it in a browser")])
def test_a_browser_is_given_a_private_file_and_not_the_link(
    shared_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, works: bool, words: str
) -> None:
    """Its arguments can be read by all users of the machine."""
    given: list[str] = []

    def take(address: str) -> bool:
        given.append(address)
        return works

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", take)
    assert run(["studio"]) == 0
    said = capsys.readouterr()
    path = shared_home / "open.html"

    assert given == [path.as_uri()] and words in said.err
    assert path.stat().st_mode & 0o777 == 0o600
    assert f"url={said.out.strip()}" in path.read_text().replace("&amp;", "&")
