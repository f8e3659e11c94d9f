"""Pages are played in an empty folder, with a HOME and a RUNYARD_HOME of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.guides.page import find_missing, read_steps
from tests.guides.play import MARK

ROOT = Path(__file__).parent.parent.parent
Player = Callable[..., str]


@pytest.fixture
def play_page(home: Path, tmp_path: Path) -> Player:
    """Return a function that plays a page and returns its output; it fails with the block that did not work."""

    def play(page: str, *, python: str = sys.executable) -> str:
        steps = [step for step in read_steps((ROOT / page).read_text()) if step.kind != "shown"]
        for name in ("empty", "user"):
            (tmp_path / name).mkdir()
        (tmp_path / "steps.json").write_text(json.dumps([asdict(step) for step in steps]))
        environ = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        folders = [str(Path(python).parent), str(Path(sys.executable).parent), environ["PATH"]]
        environ.update(HOME=str(tmp_path / "user"), PAGE_STATE=str(tmp_path / "state"), PATH=":".join(folders))
        environ.update(PYTHONUNBUFFERED="1", BROWSER="true", NO_COLOR="1", COLUMNS="120")
        done = subprocess.run(
            [python, str(Path(__file__).parent / "play.py"), str(tmp_path / "steps.json")],
            cwd=tmp_path / "empty",
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        said = [part.partition("\n")[2] for part in done.stdout.split(MARK)[1:]]
        if done.returncode:
            step = steps[done.returncode - 1]
            pytest.fail(f"{page}:{step.line} failed\n{step.text}\n{said[-1][-5000:]}", pytrace=False)
        for step, output in zip(steps, said):
            missing = find_missing(step.expected, output)
            if missing is not None:
                pytest.fail(f"{page}:{step.line} does not print: {missing}\n{step.text}\n{output}", pytrace=False)
        return "\n".join(said)

    return play
