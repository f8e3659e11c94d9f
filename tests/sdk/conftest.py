"""The SDK against a real private server: a workspace, an experiment named after the test, and a script to submit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace.from_config()


@pytest.fixture
def experiment(workspace: Workspace, request: pytest.FixtureRequest) -> Experiment:
    return Experiment(workspace, re.sub(r"\W", "_", request.node.name)[:100])


@pytest.fixture
def submit(experiment: Experiment, tmp_path: Path) -> Callable[..., Run]:
    def go(
        script: str,
        *arguments: Any,
        files: Mapping[str, str] = MappingProxyType({}),
        tags: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> Run:
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        for name, text in {"train.py": script, **files}.items():
            (project / name).write_text(textwrap.dedent(text))
        return experiment.submit(ScriptRunConfig(str(project), "train.py", list(arguments), **config), tags=tags)

    return go
