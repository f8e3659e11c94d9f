"""Each command of the guide on submitting is planned as it stands there; its job files are read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from runyard.cli import main

GUIDE = (Path(__file__).parent.parent / "docs/guides/submit.md").read_text()
COMMANDS = [line for line in re.findall(r"^runyard .*$", GUIDE, re.MULTILINE) if "bayesian" not in line]
JOBS = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
FILES = {
    "train.py": "print(1)\n",
    "package/__init__.py": "",
    "package/train.py": "",
    "train.ipynb": '{"cells": []}',
    "prepare.sh": "echo 1\n",
    "simulate": "#!/bin/sh\n",
    "uv.lock": 'version = 1\n[[package]]\nname = "p"\nversion = "1"\nsource = { virtual = "." }\n'
    '[package.metadata]\nprovides-extras = ["gpu"]\n',
    "pyproject.toml": '[project]\nname = "p"\n[dependency-groups]\ndev = []\n',
    "requirements.txt": "six\n",
    "Dockerfile": "FROM python:3.12\n",
    ".env": "A=1\n",
    "job.yml": JOBS[0],
    "sweep.yml": JOBS[1],
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_guide_works(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "simulate").chmod(0o755)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text("#!/bin/sh\n")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    _, command, *words = shlex.split(line, comments=True)
    if command == "sweep":
        words.append("--dry-run")
    else:
        words = ["--dry-run", *(word for word in words if word != "--dry-run")]

    with pytest.raises(SystemExit) as left:
        main([command, *words])

    said = capfd.readouterr()
    assert left.value.code == 0, said.err
    assert "experiment" in said.out
