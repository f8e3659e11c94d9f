"""A65: names, notes, errors and metrics of others cannot act on a terminal: every reading command, with its control.

Pages are in tests/browser/test_hostile_addresses.py. Logs are made harmless on terminals only: tests/cli/test_text.py.
Nothing here or in the studio writes a table for a spreadsheet, so no cell can be a formula; `--json` is ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.cli.app import run as runyard
from runyard.client import private_server
from tests.attacks.conftest import Team

# Titles, cursor moves, clearing, device reports, links, C1, bidi overrides and isolates, hidden joiners, a bell.
HOSTILE = (
    "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x1b[6n", "\x1b]8;;http://evil.example\x07x\x1b]8;;\x07", "\x1bP$q\x1b\\",
    "\x9b31m", "\x9d0;owned\x9c", "exe\u202egpj", "\u2066x\u2069", "a\u200bb", "\r overwritten", "\x08\x08\x08", "\x7f",
    "\x0e", "two\nlines",
)  # fmt: skip
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
COMMANDS = (
    "runs list", "runs list --columns tags,description", "runs show {id}", "runs metrics {id}",
    "runs files {id}", "experiments list", "models list", "models show odd", "environments list", "datasets list",
    "compute list", "workspaces list", "users list", "server status", "secrets list",
)  # fmt: skip


@pytest.fixture
def odd(team: Team, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A run with such text in all its parts; the commands of this process talk to its server."""
    monkeypatch.setenv("RUNYARD_HOME", str(team.home))
    known: dict[str, object] = {}
    monkeypatch.setattr(private_server, "_known", known)
    client, text = team.client, " ".join(HOSTILE)
    client.runs.update(
        team.first.id,
        display_name=text,
        description=text,
        tags_set=dict.fromkeys(HOSTILE, text),
        properties_add={f"odd {one}": text for one in HOSTILE},
    )
    yield team.first.id
    for one in known.values():
        one.transport.close()  # type: ignore[attr-defined]  # clients


def test_a65_no_reading_command_lets_a_terminal_act(
    odd: str, team: Team, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {}
    for command in COMMANDS:
        runyard(command.format(id=odd).split())
        found = capsys.readouterr()
        said[command] = found.out + found.err
    record = team.client.runs.get(odd)

    assert ACTS.search(record.display_name) and ACTS.search("".join(record.tags))  # the control: it is stored so
    assert {command: ACTS.findall(text) for command, text in said.items() if ACTS.search(text)} == {}
    assert "\\x1b]0;owned\\x07" in said["runs show {id}"] and "\\u202e" in said["runs show {id}"]


def test_a65_an_error_repeats_no_such_text_either(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in HOSTILE[::3]:
        assert runyard(["runs", "show", text]) != 0
        assert runyard(["runs", "list", "--filter", text]) != 0
        assert runyard([text]) != 0
    found = capsys.readouterr()

    assert not ACTS.search(found.out + found.err)
    assert "owned" in found.err
