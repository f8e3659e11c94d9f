"""ScriptRunConfig: what it shows, what it passes on, and settings that must not be lost without a word."""

from __future__ import annotations

import logging
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import SubmitRejected
from runyard.sdk.config import texts
from runyard.sdk.config.objects import SealedConfig
from runyard.sdk.environments.environment import Environment
from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration, DockerConfiguration, RunConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.submit.submission import plan_submission


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("pass")
    return str(tmp_path)


def test_it_shows_what_run_config_says_where_it_says_nothing(project: str) -> None:
    given = RunConfiguration("train.py", ["--a", 1])
    config = ScriptRunConfig(project, run_config=given)

    assert (config.script, config.arguments, config.command) == ("train.py", ["--a", 1], "")
    config.arguments.append("b")
    assert plan_submission(config).spec.arguments == ["--a", "1", "b"]
    config.arguments = []
    assert plan_submission(config).spec.arguments == []


def test_a_command_takes_the_place_of_run_configs_script(project: str, caplog: pytest.LogCaptureFixture) -> None:
    given = RunConfiguration("train.py", ["--a"])
    with caplog.at_level(logging.WARNING):
        spec = plan_submission(ScriptRunConfig(project, command=["echo", "$HOME", 3], run_config=given)).spec  # type: ignore[list-item]

    assert (spec.script, spec.command, spec.arguments) == (None, "echo $HOME 3", [])
    assert "wins over run_config.script" in caplog.text and given.script == "train.py"
    given = RunConfiguration(command="ls")
    spec = plan_submission(ScriptRunConfig(project, "train.py", run_config=given)).spec
    assert (spec.script, spec.command) == ("train.py", None)


def test_what_run_config_overrides_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ScriptRunConfig(".", "a.py", run_config=RunConfiguration())
        assert caplog.text == ""
        ScriptRunConfig(
            ".",
            "a.py",
            run_config=RunConfiguration(),
            max_run_duration_seconds=5,
            docker_runtime_config=DockerConfiguration(),
        )

    assert "run_config decides: max_run_duration_seconds, docker_runtime_config are not used beside it." in caplog.text


def test_settings_edited_afterwards_count(project: str) -> None:
    config = ScriptRunConfig(project, "train.py")
    config.run_config.environment = Environment("later")
    config.run_config.environment_variables = {"A": "1"}
    config.run_config.target = None
    spec = plan_submission(config).spec

    assert (spec.environment.name, spec.variables, spec.target) == ("later", {"A": "1"}, "local")
    config.run_config.node_count = 0
    with pytest.raises(SubmitRejected, match="node_count is 0"):
        plan_submission(config)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("environment", "Set `run_config.environment`."),
        ("target", "Set `run_config.target`."),
        ("compute_target", "Set `run_config.target`."),
        ("node_count", "Set `run_config.node_count`."),
        ("docker_runtime_config", "Set `run_config.docker`."),
        ("argumets", "Did you mean `arguments`?"),
    ],
)
def test_a_setting_that_would_be_lost_is_refused(name: str, message: str) -> None:
    config = ScriptRunConfig(".", "a.py")

    with pytest.raises(AttributeError) as caught:
        setattr(config, name, "x")
    assert str(caught.value) == f"ScriptRunConfig has no attribute `{name}`. {message}"


def test_it_can_be_copied_extended_and_given_a_note() -> None:
    class Mine(ScriptRunConfig):
        pass

    config = ScriptRunConfig(".", "a.py", ["x"])
    config.note = "kept"
    copy = deepcopy(config)
    mine = Mine(".", "a.py")
    mine.environment = 3

    assert (copy.script, copy.arguments, copy.note) == ("a.py", ["x"], "kept")  # type: ignore[attr-defined]


def _sections(thing: SealedConfig, path: str) -> list[Any]:
    found = [pytest.param(thing, id=path)]
    for name in thing._names():
        inner = getattr(thing, name)
        if isinstance(inner, SealedConfig):
            found += _sections(inner, f"{path}.{name}")
    return found


@pytest.mark.parametrize(
    "section", [*_sections(RunConfiguration(), "run_config"), *_sections(DataReferenceConfiguration(), "reference")]
)
def test_every_section_names_the_near_attribute(section: SealedConfig) -> None:
    for name in section._names():
        near = name + "x"
        with pytest.raises(AttributeError) as caught:
            setattr(section, near, 1)
        assert f"has no attribute `{near}`. Did you mean `{name}`?" in str(caught.value) or len(name) == 1


def test_settings_that_only_azure_acts_on_are_reported_once(project: str, caplog: pytest.LogCaptureFixture) -> None:
    texts._SAID.clear()
    config = ScriptRunConfig(project, "train.py")
    config.run_config.amlcompute.vm_size = "STANDARD_D2"
    config.run_config.environment.databricks.pypi_libraries = ["x"]
    config.run_config.environment.asset_id = "azureml://x"
    config.run_config.environment.docker.platform.architecture = "arm64"
    config.run_config.environment.inferencing_stack_version = "latest"
    config.run_config.priority = 3
    with caplog.at_level(logging.WARNING):
        plan = plan_submission(config)
        plan_submission(config)

    assert [record.getMessage() for record in caplog.records] == [
        "Without effect here: run_config.priority, run_config.amlcompute, run_config.environment.asset_id, "
        "run_config.environment.docker.platform, run_config.environment.inferencing_stack_version, "
        "run_config.environment.databricks. "
        "Only Azure's services act on them."
    ]
    assert plan.spec.definition["amlcompute"]["vmSize"] == "STANDARD_D2"


def test_an_ordinary_configuration_reports_nothing(project: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        plan_submission(ScriptRunConfig(project, "train.py"))

    assert caplog.text == ""


def test_a_spark_job_is_refused_with_what_to_do(project: str) -> None:
    config = ScriptRunConfig(project, "train.py", run_config=RunConfiguration(framework="PySpark"))

    with pytest.raises(SubmitRejected, match="Spark jobs are not run"):
        plan_submission(config)
