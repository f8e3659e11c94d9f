"""What a type checker makes of a program that uses the native API, as its author sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src"
PROGRAM = """
from datetime import timedelta
from pathlib import Path
from typing import List

import runyard

run = runyard.run("train.py", lr=0.1, layers=[1, 2], gpus=1, time_limit=timedelta(hours=1), environment=["torch"])
run = runyard.run(Path("train.py"), parameters={"name": 1}, tags=["a"], keep="*.pt")
run = runyard.run(["torchrun", "train.py"], resources={"cpus": 4})
reveal_type(run)
reveal_type(run.wait().metrics["loss"])
reveal_type(run.metrics.history("loss"))
reveal_type(run.metrics.points("loss")[0].step)
reveal_type(run.parameters)
reveal_type(run.download("outputs", to=Path("x")))
reveal_type(runyard.wait([run]))
reveal_type(runyard.runs("metrics.loss < 1", sort="-created"))
with runyard.init("x", config={"lr": 0.1}) as current:
    reveal_type(current)
    runyard.log({"loss": 0.1}, step=1)
    runyard.log("loss", 0.1)
    current.log({"loss": 0.1})
runs: List[runyard.RunHandle] = [runyard.get("last"), current]
"""
REVEALED = [
    "runyard.native.handle.RunHandle",
    "Any",
    "list[Any]",
    "int",
    "dict[str, str]",
    "list[pathlib.Path]",
    "list[runyard.native.handle.RunHandle]",
    "list[runyard.native.handle.RunHandle]",
    "runyard.native.beginning.CurrentRun",
]
MISTAKES = {
    'runyard.run("train.py", gpus="two")': "arg-type",
    "runyard.run(5)": "arg-type",
    'runyard.run("train.py").wait(chek=False)': "call-arg",
    'runyard.log("loss")': "call-overload",
    'runyard.log({"loss": 1}, step="one")': "call-overload",
    'runyard.run("train.py").stats': "attr-defined",
    'runyard.runs(limit="5")': "arg-type",
}


@pytest.mark.long
def test_a_program_is_checked_as_its_author_expects(tmp_path: Path) -> None:
    wrong = "".join(f"{line}\n" for line in MISTAKES)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(f"import runyard\n{wrong}")
    # As an installed package is: errors of its own modules are nobody's here, and nothing is found beside it.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-color-output", "program.py", "wrong.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(SOURCE), "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    ours = [line for line in done.stdout.splitlines() if line.startswith(("program.py", "wrong.py"))]

    notes = [line.partition('Revealed type is "')[2].rstrip('"') for line in ours if "Revealed" in line]
    notes = [note.replace("builtins.", "") for note in notes]
    assert notes == REVEALED
    errors = {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in ours if ": error:" in line}
    assert errors == dict(enumerate(MISTAKES.values(), 2)), done.stdout
