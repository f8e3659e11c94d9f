"""A configuration becomes a plan; every mistake is found before anything is copied."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from runyard.client.address import Address
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.core.errors import InvalidArgument, RunyardError, SubmitRejected
from runyard.core.formats.plain import to_plain
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import (
    MpiConfiguration,
    PyTorchConfiguration,
    RunConfiguration,
    TensorflowConfiguration,
)
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.submit.arguments import argument_texts, command_text
from runyard.sdk.submit.checks import check_script
from runyard.sdk.submit.submission import Plan, plan_submission, submitter_variables


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('hello')")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "deep.py").write_text("print('deep')")
    return tmp_path


def plan(project: Path, **config: Any) -> Plan:
    if "command" not in config:
        config.setdefault("script", "train.py")
    return plan_submission(ScriptRunConfig(source_directory=str(project), **config))


def user_managed(**python: Any) -> Environment:
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    for name, value in python.items():
        setattr(environment.python, name, value)
    return environment


def test_the_grace_is_the_submitters(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_GRACE", "2.5")

    assert plan(project).spec.grace_s == 2.5


def test_the_documented_example_becomes_a_spec(project: Path) -> None:
    made = plan(
        project,
        compute_target="local",
        environment=user_managed(),
        arguments=["--alpha", 0.5],
        max_run_duration_seconds=600,
    )
    spec = made.spec

    assert made.source_directory == str(project)
    assert (spec.target, spec.script, spec.command) == ("local", "train.py", None)
    assert spec.arguments == ["--alpha", "0.5"]
    assert spec.time_limit_s == 600.0
    assert spec.environment.kind == "system" and spec.environment.interpreter == sys.executable
    assert spec.environment.name == "mine"
    assert spec.output_folders == ["outputs", "logs"]
    assert spec.definition["arguments"] == ["--alpha", "0.5"]
    assert spec.definition["maxRunDurationSeconds"] == 600
    assert spec.definition["environment"]["python"]["userManagedDependencies"] is True


def test_without_an_environment_the_submitting_interpreter_is_used(project: Path) -> None:
    environment = plan(project).spec.environment

    assert (environment.name, environment.kind, environment.interpreter) == (
        "default-environment",
        "system",
        sys.executable,
    )
    assert environment.variables == {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}


def test_without_a_limit_a_run_may_take_thirty_days(project: Path) -> None:
    assert plan(project).spec.time_limit_s == 2592000
    assert plan(project, run_config=RunConfiguration()).spec.time_limit_s == 2592000


def test_script_and_arguments_win_over_those_of_run_config(project: Path) -> None:
    given = RunConfiguration(script="other.py", arguments=["a"])
    spec = plan(project, arguments=["b"], run_config=given).spec

    assert (spec.script, spec.arguments) == ("train.py", ["b"])
    assert (given.script, given.arguments) == ("other.py", ["a"])


def test_run_config_alone_may_name_the_script(project: Path) -> None:
    given = RunConfiguration(script="train.py", arguments=["a", 1])
    given.environment_variables = {"N": 3}  # type: ignore[dict-item]  # users do
    spec = plan_submission(ScriptRunConfig(str(project), run_config=given)).spec

    assert (spec.script, spec.arguments, spec.variables) == ("train.py", ["a", "1"], {"N": "3"})


@pytest.mark.parametrize(
    ("script", "expected"),
    [("./train.py", "train.py"), ("src/deep.py", "src/deep.py"), ("src/../train.py", "train.py")],
)
def test_a_script_is_named_relative_to_its_source(project: Path, script: str, expected: str) -> None:
    assert plan(project, script=script).spec.script == expected
    assert plan(project, script=str(project / script)).spec.script == expected


@pytest.mark.parametrize(
    ("command", "expected"), [("python train.py $X", "python train.py $X"), (["echo", "$HOME", 3], "echo $HOME 3")]
)
def test_a_command_is_run_by_a_shell_as_it_stands(project: Path, command: Any, expected: str) -> None:
    spec = plan(project, command=command).spec

    assert (spec.command, spec.script) == (expected, None)
    assert spec.definition["command"] == expected


def error_of(project: Path, **config: Any) -> RunyardError:
    with pytest.raises(RunyardError) as caught:
        plan(project, **config)
    return caught.value


def test_a_missing_script_is_told_with_near_names(project: Path) -> None:
    error = error_of(project, script="trian.py")

    assert isinstance(error, SubmitRejected)
    assert error.what == "The script `trian.py` does not exist in the source directory."
    assert str(project / "trian.py") in error.why
    assert error.hint == "Did you mean `train.py`?"


def test_a_script_in_another_folder_is_found_for_the_hint(project: Path) -> None:
    assert "`src/deep.py`" in error_of(project, script="deep.py").hint


def test_a_script_outside_the_source_is_refused(project: Path) -> None:
    (project.parent / "outside.py").write_text("")
    error = error_of(project, script="../outside.py")

    assert isinstance(error, SubmitRejected)
    assert error.what == "The script `../outside.py` is outside the source directory."


@pytest.mark.parametrize("ignored", ["*.py", "src/", "deep.py"])
def test_a_script_that_is_ignored_would_not_travel(project: Path, ignored: str) -> None:
    (project / ".amlignore").write_text(f"{ignored}\n")
    error = error_of(project, script="src/deep.py")

    assert isinstance(error, SubmitRejected)
    assert error.what == "The script `src/deep.py` would not travel with the run."
    assert f"by line 1 of `.amlignore`, `{ignored}`" in error.why and "!/src" in error.hint


def test_a_folder_is_no_script(project: Path) -> None:
    assert "is a folder" in error_of(project, script="src").what


def test_a_missing_source_directory_is_refused(project: Path) -> None:
    error = error_of(project / "nowhere")

    assert isinstance(error, SubmitRejected)
    assert "does not exist" in error.what and str(project / "nowhere") in error.why


def test_a_file_as_source_directory_is_refused(project: Path) -> None:
    error = error_of(project / "train.py", script="x.py")

    assert "is not a folder" in error.what and "script='train.py'" in error.hint


def test_nothing_to_run_is_refused(project: Path) -> None:
    assert "nothing to run" in error_of(project, script=None).what
    assert "Both script and command" in error_of(project, script="train.py", command="x").what
    assert "arguments go with a script" in error_of(project, command="x", arguments=["y"]).what


@pytest.mark.parametrize("path", ["/does/not/exist/python", "python9.99", "./train.py"])
def test_an_interpreter_that_does_not_exist_is_refused(
    project: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    error = error_of(project, environment=user_managed(interpreter_path=path))

    assert isinstance(error, SubmitRejected)
    assert error.what == f"The interpreter `{path}` does not exist."


def test_an_interpreter_is_found_on_the_path_and_made_absolute(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = project / "mypython"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.chdir(project)

    for given in ("mypython", "./mypython", str(program)):
        made = plan(project, environment=user_managed(interpreter_path=given))
        assert made.spec.environment.interpreter == str(program)


def test_packages_that_runyard_provides_need_no_installation(project: Path) -> None:
    own = "{}.{}".format(*sys.version_info[:2])
    environment = Environment("mine")
    environment.python.conda_dependencies = CondaDependencies.create(
        pip_packages=["azureml-defaults", "azureml_core==1.5", "azureml-sdk[notebooks]"],
        conda_packages=["pip"],
        python_version=own,
    )
    spec = plan(project, environment=environment).spec.environment

    assert spec.interpreter == sys.executable
    assert spec.pip_packages == ["azureml-defaults", "azureml_core==1.5", "azureml-sdk[notebooks]"]
    assert spec.kind == "system" and spec.conda_packages == []
    assert spec.definition["python"]["condaDependencies"]["dependencies"][1] == {
        "pip": ["azureml-defaults", "azureml_core==1.5", "azureml-sdk[notebooks]"]
    }


def test_user_managed_packages_are_only_noted(project: Path) -> None:
    environment = user_managed(conda_dependencies=CondaDependencies.create(pip_packages=["torch"]))

    assert plan(project, environment=environment).spec.environment.pip_packages == ["torch"]


@pytest.mark.parametrize(
    ("distribution", "text"),
    [
        (MpiConfiguration(0, 1), "process_count_per_node is 0"),
        (MpiConfiguration(1, -1), "node_count is -1"),
        (PyTorchConfiguration("nccl", 3, 2), "3 processes cannot be spread evenly over 2 nodes"),
        (TensorflowConfiguration(2, -1), "parameter_server_count is -1"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else type(value).__name__,
)
def test_impossible_distributions_are_refused(project: Path, distribution: Any, text: str) -> None:
    error = error_of(project, distributed_job_config=distribution)

    assert isinstance(error, SubmitRejected) and text in error.what


def test_several_nodes_need_a_way_to_find_each_other(project: Path) -> None:
    config = RunConfiguration()
    config.node_count = 2
    error = error_of(project, run_config=config)

    assert isinstance(error, SubmitRejected) and "PyTorchConfiguration(node_count=2)" in error.hint


@pytest.mark.parametrize(
    ("distribution", "command", "expected"),
    [
        (MpiConfiguration(2, 3), None, DistributionSpec("mpi", 3, 2)),
        (
            PyTorchConfiguration("Nccl", 4, 2),
            None,
            DistributionSpec("pytorch", 2, 2, {"backend": "nccl", "world_size": 4, "per_node": False}),
        ),
        (
            PyTorchConfiguration("gloo", None, 2),
            None,
            DistributionSpec("pytorch", 2, 1, {"backend": "gloo", "world_size": 2, "per_node": True}),
        ),
        (
            PyTorchConfiguration("gloo", 4, 2),
            "torchrun train.py",
            DistributionSpec("pytorch", 2, 1, {"backend": "gloo", "world_size": 4, "per_node": True}),
        ),
        (
            TensorflowConfiguration(2, 1),
            None,
            DistributionSpec("tensorflow", 2, 2, {"worker_count": 2, "parameter_server_count": 1}),
        ),
    ],
    ids=["mpi", "pytorch", "one-per-node", "a-command-per-node", "tensorflow"],
)
def test_the_shape_of_a_distributed_job(
    project: Path, distribution: Any, command: str | None, expected: DistributionSpec
) -> None:
    options = {"command": command, "script": None} if command else {}

    assert plan(project, distributed_job_config=distribution, **options).spec.distribution == expected


def test_tasks_may_share_a_node_but_no_node_stays_empty(project: Path) -> None:
    config = RunConfiguration(framework="TensorFlow", communicator="ParameterServer", script="train.py")
    config.tensorflow = TensorflowConfiguration(2, 1)
    assert plan(project, run_config=config).spec.distribution.processes_per_node == 3

    config.node_count = 4
    assert "3 tasks cannot fill 4 nodes" in error_of(project, run_config=config).what


@pytest.mark.parametrize("seconds", [0, -1, "600", True, float("inf"), float("nan")])
def test_an_impossible_time_limit_is_refused(project: Path, seconds: Any) -> None:
    with pytest.raises(UserErrorException, match="max_run_duration_seconds"):
        plan(project, max_run_duration_seconds=seconds)


@pytest.mark.parametrize("folder", ["..", "/etc", "../up", "."])
def test_a_watched_folder_stays_inside_the_work_folder(project: Path, folder: str) -> None:
    config = RunConfiguration()
    config.history.directories_to_watch = [folder]

    assert isinstance(error_of(project, run_config=config), SubmitRejected)


def test_watched_folders_are_collected(project: Path) -> None:
    config = RunConfiguration()
    config.history.directories_to_watch = ["logs", "./tb/"]

    assert plan(project, run_config=config).spec.output_folders == ["outputs", "logs", "tb"]


def test_variables_that_no_process_can_have_are_refused(project: Path) -> None:
    config = RunConfiguration()
    config.environment_variables = {"A=B": "x"}

    with pytest.raises(UserErrorException, match="'A=B'"):
        plan(project, run_config=config)


def test_only_script_run_configs_can_be_submitted() -> None:
    with pytest.raises(UserErrorException, match="found dict"):
        plan_submission({})


def test_arguments_become_texts_as_str_gives_them() -> None:
    import numpy as np

    found = argument_texts(["--a", 1, 0.5, True, "", "$HOME", PurePosixPath("x/y"), np.int64(3), np.float32(0.5)])

    assert found == ["--a", "1", "0.5", "True", "", "$HOME", "x/y", "3", "0.5"]
    assert argument_texts(None) == []
    assert argument_texts(("a",)) == ["a"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--alpha 0.5", "arguments must be a list, found str"),
        ({"--alpha": 0.5}, "arguments must be a list, found dict"),
        (3, "arguments must be a list, found int"),
        (["--layers", [64, 32]], r"arguments\[1\] is a list"),
        ([None], r"arguments\[0\] is a NoneType"),
        ([{"a": 1}], r"arguments\[0\] is a dict"),
        ([b"x"], r"arguments\[0\] is a bytes"),
        ([object], r"arguments\[0\] is a type"),
        (["a\0b"], "NUL"),
        (["\udc80"], "not valid text"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_arguments_that_no_command_line_can_carry_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(UserErrorException, match=text):
        argument_texts(arguments)


def test_a_command_must_be_text() -> None:
    with pytest.raises(UserErrorException, match="command must be a text"):
        command_text(3)  # type: ignore[arg-type]


def test_the_submitters_variables_travel_on_one_machine_but_not_those_that_are_no_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_SETTING", "kept")
    monkeypatch.setitem(os.environ, "ODD", os.fsdecode(b"\xff"))
    here = Client(Transport(Address("unix", path="/s", token="t")))
    elsewhere = Client(Transport(Address("tcp", host="team.example", port=8787, token="t", tls=True)))
    found = submitter_variables(here, RunSpec())

    assert found is not None and found["MY_SETTING"] == "kept"
    assert submitter_variables(elsewhere, RunSpec()) is None
    assert submitter_variables(here, RunSpec(target="pool")) is None
    assert "ODD" not in found and "'ODD' is not valid UTF-8" in caplog.text


def test_an_unreadable_script_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.touch()
        script.chmod(0)
        os.chmod(folder, 0o755)
        said = as_somebody(lambda: check_script(folder, "train.py"))

    assert said == f"The script `train.py` cannot be read.\nhint: chmod u+r {script}"


def as_somebody(check: Callable[[], object]) -> str:
    """Return what `check` raises in a process that is not root, which reads everything."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            check()
        except RunyardError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with open(reader, encoding="utf-8") as file:
        return file.read()


def test_plain_errors_are_ours_as_well() -> None:
    with pytest.raises((InvalidArgument, UserErrorException)):
        argument_texts(3)


def test_files_to_keep_are_paths_below_the_work_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    spec = plan_submission(ScriptRunConfig(str(tmp_path), "train.py", keep=["./runs/", "*.pt", "runs"])).spec
    alone = plan_submission(ScriptRunConfig(str(tmp_path), "train.py", keep="model.pt")).spec  # type: ignore[arg-type]

    assert spec.keep == ["runs", "*.pt"] and alone.keep == ["model.pt"]
    assert "keep" not in to_plain(RunSpec()), "servers of 0.2 refuse it"
    for wrong in (["/tmp/x"], ["../x"], [3], [""]):
        with pytest.raises(UserErrorException, match="below the run's work folder"):
            ScriptRunConfig(str(tmp_path), "train.py", keep=wrong)  # type: ignore[arg-type]
