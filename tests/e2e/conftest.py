"""Whole journeys against a real private server: one home for the session, a project folder per test."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The default workspace of the session's private server, with a short grace for scripts that ignore TERM."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNYARD_GRACE", "2")
    return Workspace.from_config()


@pytest.fixture
def experiment(workspace: Workspace, request: pytest.FixtureRequest) -> Experiment:
    return Experiment(workspace=workspace, name=request.node.name.partition("[")[0][:100])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


Submit = Callable[..., Run]


@pytest.fixture
def submit(experiment: Experiment, project: Path) -> Submit:
    """Write `script` as train.py and submit it with the interpreter of the tests."""

    def go(script: str, *arguments: Any, **config: Any) -> Run:
        (project / "train.py").write_text(textwrap.dedent(script))
        environment = Environment("user-managed-env")
        environment.python.user_managed_dependencies = True
        source = ScriptRunConfig(
            source_directory=str(project),
            script="train.py",
            compute_target="local",
            environment=environment,
            arguments=list(arguments),
            **config,
        )
        return experiment.submit(source)

    return go


def finish(run: Run) -> dict[str, Any]:
    return run.wait_for_completion(raise_on_error=False)


def log_of(run: Run) -> str:
    return run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
