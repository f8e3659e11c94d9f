"""`env.build(ws)`, and what a run of a built environment says that it used; packages come from small wheels."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import ActivityFailedException, UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace
from tests.environments.wheels import make_wheel


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "wheels", "alpha", "1.5", requires=("beta",))
    make_wheel(tmp_path / "wheels", "beta", "2.0")
    return tmp_path / "wheels"


def offline(wheels: Path, *packages: str) -> Environment:
    environment = Environment("small")
    options = ["--no-index", f"--find-links {wheels}"]
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=[*packages, *options])
    return environment


def test_a_build_shows_its_log_and_says_what_it_made(
    workspace: Workspace, wheels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = offline(wheels, "alpha", "azureml-defaults")
    assert environment.get_image_details(workspace)["imageExistsInRegistry"] is False
    build = environment.build(workspace)
    assert build.wait_for_completion(show_output=True) is build

    assert build.status == "Succeeded"
    assert (build.environment_name, build.environment_version) == ("small", None)
    assert "Building environment `small`" in build.get_log() and "azureml-defaults" in build.get_log()
    assert build.get_log().splitlines()[0] in capsys.readouterr().out
    assert build.run.experiment.name == "prepare_image"
    details = offline(wheels, "alpha", "azureml-defaults").get_image_details(workspace)
    assert details.imageExistsInRegistry is True and details["runId"] == build.run.id
    assert details.pythonEnvironment["packages"] == {"alpha": "1.5", "beta": "2.0"}
    assert environment.clone("other").get_image_details(workspace).runId == build.run.id  # the content counts
    with pytest.raises(AttributeError, match="nothing"):
        _ = details.nothing


def test_a_build_that_fails_raises_with_the_resolvers_words(workspace: Workspace, wheels: Path) -> None:
    build = offline(wheels, "alpha>3").build(workspace)

    with pytest.raises(ActivityFailedException, match=r"could not be built(.|\n)*alpha>3"):
        build.wait_for_completion()
    assert build.status == "Failed" and "alpha>3" in build.get_log()
    assert "status: Failed" in repr(build)


def test_a_local_build_waits_and_prints(workspace: Workspace, wheels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert offline(wheels, "beta").build_local(workspace, useDocker=False).status == "Succeeded"
    assert "beta" in capsys.readouterr().out


def test_a_run_tells_what_it_really_used(
    submit: Callable[..., Run], wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = submit("import alpha; print('alpha', alpha.version)", environment=offline(wheels, "alpha"))
    run.wait_for_completion(show_output=True)
    used = run.get_environment()

    assert "alpha 1.5" in capsys.readouterr().out
    assert used.packages == {"alpha": "1.5", "beta": "2.0"}
    assert used.python.conda_dependencies.pip_packages == ["alpha==1.5", "beta==2.0"]
    assert used.python.conda_dependencies.pip_options == ["--no-index", f"--find-links {wheels}"]
    assert used.python.user_managed_dependencies is False
    assert used.interpreter is not None and used.interpreter.endswith("/bin/python")
    assert used.lock_file is not None
    run.download_file(used.lock_file, str(tmp_path / "lock.txt"))
    lock = (tmp_path / "lock.txt").read_text()
    assert re.search(r"^alpha==1\.5 ", lock, re.MULTILINE) and "--hash=sha256:" in lock
    again = submit("import beta; print('beta', beta.version)", environment=used)
    again.wait_for_completion()
    assert again.get_environment().packages == used.packages


def test_mistakes_are_found_before_a_build_starts(workspace: Workspace) -> None:
    environment = Environment("old")
    environment.python.conda_dependencies.set_python_version("2.7")

    with pytest.raises(Exception, match=r"asks for Python 2\.7"):
        environment.build(workspace)
    with pytest.raises(UserErrorException, match="cannot be registered"):
        environment.inferencing_stack_version = object()  # type: ignore[assignment]
        environment.register(workspace)
