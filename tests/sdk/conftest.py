"""The SDK against a real private server: a workspace, an experiment named after the test, and a script to submit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runyard.sdk.experiment import Experiment
from runyard.sdk.run import Run
from runyard.sdk.script_run_config import ScriptRunConfig
from runyard.sdk.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace.from_config()


@pytest.fixture
def experiment(workspace: Workspace, request: pytest.FixtureRequest) -> Experiment:
    return Experiment(workspace, re.sub(r"\W", "_", request.node.name)[:100])


@pytest.fixture
def submit(experiment: Experiment, tmp_path: Path) -> Callable[..., Run]:
    def go(script: str, *arguments: Any, **config: Any) -> Run:
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        (project / "train.py").write_text(textwrap.dedent(script))
        return experiment.submit(ScriptRunConfig(str(project), "train.py", list(arguments), **config))

    return go
