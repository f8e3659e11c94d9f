"""The programs of a build: output by lines, exit codes, nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.environments.base import never
from runyard.environments.process import run_program
from tests.supervisor.supervised import lives
from tests.waiting import wait_for


class Enough(Exception):
    pass


def run(script: str, *, feed: str = "") -> tuple[int, list[str]]:
    lines: list[str] = []
    code = run_program(
        ["/bin/sh", "-c", script], environ={"PATH": os.environ["PATH"]}, say=lines.append, check=never, feed=feed
    )
    return code, lines


@pytest.mark.parametrize(
    ("script", "code", "lines"),
    [
        ("echo a; echo b >&2; printf c; exit 3", 3, ["a", "b", "c"]),
        ("cat; pwd", 0, ["fed", "in", "/"]),
        ("printf 'x\\377y\\n'", 0, ["x\ufffdy"]),
        ("exec >&- 2>&-; sleep 0.3; exit 5", 5, []),
        ("kill -9 $$", -9, []),
        ("true", 0, []),
    ],
)
def test_lines_and_exit_codes(script: str, code: int, lines: list[str]) -> None:
    assert run(script, feed="fed\nin\n") == (code, lines)


def test_what_a_program_leaves_running_ends_with_it(tmp_path: Path) -> None:
    code, lines = run(f"sleep 60 & echo $! > {tmp_path / 'pid'}; echo done")

    assert (code, lines) == (0, ["done"])
    wait_for(lambda: not lives(int((tmp_path / "pid").read_text())))


def test_a_check_that_raises_ends_the_program_and_all_below_it(tmp_path: Path) -> None:
    def check() -> None:
        if (tmp_path / "pid").exists():
            raise Enough

    script = f"sleep 60 & echo $! > {tmp_path / 'new'}; mv {tmp_path / 'new'} {tmp_path / 'pid'}; wait"
    with pytest.raises(Enough):
        run_program(["/bin/sh", "-c", script], environ={"PATH": os.environ["PATH"]}, say=print, check=check)
    wait_for(lambda: not lives(int((tmp_path / "pid").read_text())))


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_program(["/no/such/program"], environ={}, say=print, check=never)
