"""Completion of a line that is being typed: what each shell is answered, and what a real shell makes of it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.cli import CompletionItem
from runyard.cli.parsing.completion import answer_shell, complete, split_line
from tests import debian
from tests.cli.test_parsing import launch, tool

# Type a line up to its cursor, as readline would, and print what the shell would offer.
BASH = """
eval "$(runyard completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_CWORD=0 COMP_WORDS=(runyard)
_runyard_completion runyard
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(line: str) -> list[str]:
    words, incomplete = split_line(line)
    return [item.value for item in complete(tool, words[1:], incomplete)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tool ", ["do", "leave"]),
        ("tool l", ["leave"]),
        ("tool -", ["--version", "-h", "--help"]),
        ("tool zzz ", []),
        ("tool do ", ["apple:1", "apricot", "plum"]),
        ("tool do ap", ["apple:1", "apricot"]),
        ("tool do 'ap", ["apple:1", "apricot"]),
        ("tool do --co", ["--count", "--colour"]),
        ("tool do --up --", ["--count", "--even", "--ratio", "--colour", "--tag", "--loud", "--quick", "--up", "--down",
                             "--all", "--old", "--file", "--port", "--json", "--help"]),
        ("tool do --colour ", ["red", "green"]),
        ("tool do --colour=g", ["--colour=green"]),
        ("tool do x --wrong --colour g", ["green"]),
        ("tool do -lt pl", ["plum"]),
        ("tool do -t plum ", ["apple:1", "apricot", "plum"]),
        ("tool do x ", []),
        ("tool do -- --co", []),
        ("tool do --count ", []),
        ("tool leave ", []),
        ("tool leave --n", ["--name"]),
    ],
)  # fmt: skip
def test_the_word_at_the_end_is_completed(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", ([], "")),
        ("a", ([], "a")),
        ("a b ", (["a", "b"], "")),
        ("a\nb\n", (["a", "b"], "")),
        ("a 'b c' d", (["a", "b c"], "d")),
        ("a 'b c", (["a"], "b c")),
        ('a "b', (["a"], "b")),
        ("a b\\ ", (["a"], "b ")),
        ("a #b", (["a"], "#b")),
        ("a b\\", (["a"], "b")),
    ],
)
def test_a_line_is_split_as_shells_do_it(line: str, expected: tuple[list[str], str]) -> None:
    assert split_line(line) == expected


@pytest.mark.parametrize(
    ("shell", "line", "expected"),
    [
        ("bash", "tool do ap", "plain,apple:1\nplain,apricot\n"),
        ("bash", "tool do apple:", "plain,1\n"),
        ("bash", "tool do --colour=", "plain,red\nplain,green\n"),
        ("bash", "tool do --file x", "file,x\n"),
        ("zsh", "tool do ap", "plain\napple:1\na word\nplain\napricot\na word\n"),
        ("zsh", "tool do --colour=g", "plain\n--colour=green\n\n"),
        ("fish", "tool do ap", "plain,apple:1\ta word\nplain,apricot\ta word\n"),
        ("fish", "tool do --file ", "file,\n"),
    ],
)
def test_each_shell_is_answered_in_its_form(shell: str, line: str, expected: str) -> None:
    assert answer_shell(tool, {"_RUNYARD_COMPLETE": f"{shell}_complete", "COMP_WORDS": line}) == expected


def test_words_of_the_users_own_program_are_files() -> None:
    assert complete(launch, ["train.py", "--"], "--b") == [CompletionItem("--b", kind="file")]
    assert [item.value for item in complete(launch, [], "--b")] == ["--before"]


@pytest.fixture
def on_path(home: Path, tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PATH has the program."""
    program = tmp_path / "runyard"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m runyard.cli "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}


def test_bash_offers_what_the_program_answers(on_path: dict[str, str]) -> None:
    lines = ["runyard runs d", "runyard runs list --view=a", "runyard completion "]
    offered = [output_of(["bash", "-c", BASH, "bash", line], on_path) for line in lines]

    assert offered == [["download", "delete"], ["active", "archived", "all"], ["bash", "fish", "zsh"]]


@pytest.mark.external
def test_fish_offers_what_the_program_answers(on_path: dict[str, str]) -> None:
    debian.install("fish")
    code = "runyard completion fish | source; complete -C $argv[1]"

    assert output_of(["fish", "-c", code, "runyard runs list --view=a"], on_path) == [
        "--view=active",
        "--view=archived",
        "--view=all",
    ]
    assert "--source" in output_of(["fish", "-c", code, "runyard submit --so"], on_path)


@pytest.mark.external
def test_zsh_offers_what_the_program_answers(on_path: dict[str, str], tmp_path: Path) -> None:
    debian.install("zsh")
    (tmp_path / ".zshrc").write_text("eval \"$(runyard completion zsh)\"\nPS1='ready '\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-i"], {**on_path, "ZDOTDIR": str(tmp_path), "TERM": "xterm"})
    try:
        read_until(terminal, b"ready ")
        os.write(terminal, b"runyard runs d\t")

        offered = read_until(terminal, b"Delete runs.")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    assert b"download  -- Download files of a run." in offered


def output_of(command: list[str], environ: dict[str, str]) -> list[str]:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def read_until(terminal: int, end: bytes) -> bytes:
    said = b""
    while end not in said:
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, said
        said += os.read(terminal, 65536)
    return said
