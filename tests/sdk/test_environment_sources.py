"""Environments from what a project has: requirements files, conda files and environments, images, Dockerfiles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import ContainerRegistry, Environment
from runyard.sdk.exceptions import UserErrorException


def packages_of(file: Path) -> list[str]:
    found = Environment.from_pip_requirements("e", str(file)).python.conda_dependencies
    return [*found.pip_packages, *found.pip_options]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def test_a_requirements_file_is_read_as_pip_reads_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    (project / "wheels").mkdir()
    (project / "mine").mkdir()
    (project / "a-1.0-py3-none-any.whl").touch()
    (project / "base.txt").write_text("scipy\nnumpy==2.0\n-c limits.txt\n")
    (project / "limits.txt").write_text("joblib<2\n# nothing\nthreadpoolctl\n")
    (project / "requirements.txt").write_text(
        "\ufeff# packages\n"
        "numpy==2.0  # numbers\n"
        "torch==2.2 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n"
        "pandas>=1.0; python_version < '4'\n"
        "-r base.txt\n"
        "-e ./mine[extra]\n"
        "./a-1.0-py3-none-any.whl\n"
        "b @ https://me:${SECRET_TOKEN}@x/b.whl#sha256=00\n"
        "git+https://x/c.git@main#egg=c\n"
        "-i https://i/simple\n"
        "--extra-index-url=https://j/${NOT_SET}\n"
        "-f wheels\n"
        "--pre\n\n",
        encoding="utf-8",
    )

    assert packages_of(project / "requirements.txt") == [
        "numpy==2.0",
        "torch==2.2     --hash=sha256:00     --hash=sha256:11",
        "pandas>=1.0; python_version < '4'",
        "scipy",
        f"{project}/a-1.0-py3-none-any.whl",
        "b @ https://me:s3cret@x/b.whl#sha256=00",
        "git+https://x/c.git@main#egg=c",
        "--constraint joblib<2",
        f"--editable {project}/mine[extra]",
        "--index-url https://i/simple",
        "--extra-index-url https://j/${NOT_SET}",
        f"--find-links {project}/wheels",
        "--pre",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-r none.txt", "none.txt' does not exist.\n{file}, line 1 names it."),
        ("a\n-r requirements.txt", "includes itself ({file}, line 2)"),
        ("-r https://x/y.txt", "line 1: https://x/y.txt is an address"),
        ("-e ./none", "line 1: there is no './none'"),
        ("--target /x", "line 1: the option `--target` has no meaning"),
        ("--index-url", "line 1: `--index-url` has no value"),
        ("-c options.txt", "options.txt holds `--pre`. It may only limit versions"),
    ],
)
def test_a_mistake_in_a_requirements_file_is_named_with_its_line(project: Path, text: str, message: str) -> None:
    file = project / "requirements.txt"
    file.write_text(text)
    (project / "options.txt").write_text("--pre")

    with pytest.raises(UserErrorException) as caught:
        Environment.from_pip_requirements("e", str(file))
    assert message.format(file=file) in caught.value.message


def test_a_requirements_file_that_is_no_text_is_refused(project: Path) -> None:
    (project / "requirements.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserErrorException, match="cannot be read"):
        Environment.from_pip_requirements("e", str(project / "requirements.txt"))
    (project / "requirements.txt").write_text("a" * (1 << 21))
    with pytest.raises(UserErrorException, match="is longer than"):
        Environment.from_pip_requirements("e", str(project / "requirements.txt"))
    with pytest.raises(UserErrorException, match="does not exist"):
        Environment.from_pip_requirements("e", str(project / "none.txt"))


def test_a_pip_version_is_kept_beside_the_packages(project: Path) -> None:
    (project / "requirements.txt").write_text("a")
    found = Environment.from_pip_requirements("e", str(project / "requirements.txt"), pip_version="20.1")

    assert found.python.conda_dependencies.conda_packages[1:] == ["pip=20.1"]


def test_a_conda_file_without_python_gets_the_submitting_one(project: Path) -> None:
    (project / "env.yml").write_text("dependencies:\n- numpy\n- pip:\n  - -r more.txt\n  - joblib\n")
    (project / "more.txt").write_text("scipy>1\n")
    found = Environment.from_conda_specification("e", str(project / "env.yml")).python.conda_dependencies

    assert found.conda_packages == ["python={}.{}".format(*sys.version_info[:2]), "numpy"]
    assert found.pip_packages == ["scipy>1", "joblib"]


def test_an_image_without_packages_keeps_its_own_python() -> None:
    registry = ContainerRegistry()
    registry.address = "registry.example"
    found = Environment.from_docker_image("e", "an/image:1", container_registry=registry)

    assert found.python.user_managed_dependencies is True
    assert (found.docker.base_image, found.docker.base_dockerfile) == ("an/image:1", None)
    assert found.docker.base_image_registry.address == "registry.example"


def test_packages_go_on_top_of_an_image_or_a_dockerfile(project: Path) -> None:
    (project / "requirements.txt").write_text("joblib")
    (project / "env.yml").write_text("dependencies: [python=3.9]")
    (project / "Dockerfile").write_text("# mine\nFROM an/image\n")
    found = Environment.from_docker_image("e", "an/image", pip_requirements=str(project / "requirements.txt"))
    assert found.python.user_managed_dependencies is False
    assert found.python.conda_dependencies.pip_packages == ["joblib"]

    found = Environment.from_dockerfile("e", str(project / "Dockerfile"), conda_specification=str(project / "env.yml"))
    assert found.docker.base_dockerfile == "# mine\nFROM an/image\n" and found.docker.base_image is None
    assert found.python.conda_dependencies.get_python_version() == "3.9"
    assert (
        Environment.from_dockerfile("e", "FROM an/image\nRUN true").docker.base_dockerfile == "FROM an/image\nRUN true"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Environment.from_dockerfile("e", "none/Dockerfile"), "'none/Dockerfile' does not exist"),
        (lambda: Environment.from_dockerfile("e", "RUN x\nRUN y"), "does not begin with FROM"),
        (lambda: Environment.from_docker_image("e", ""), "must be the name of an image"),
        (lambda: Environment.from_docker_image("e", "i", container_registry="r"), "must be a ContainerRegistry"),  # type: ignore[arg-type]
        (lambda: Environment.from_docker_image("e", "i", None, "a", "b"), "Both conda_specification and"),
    ],
)
def test_what_is_no_image_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UserErrorException, match=message):
        make()


def fake_conda(folder: Path, text: str) -> str:
    program = folder / "conda"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def test_an_existing_conda_environment_is_exported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = "name: $5\\nchannels: [c]\\ndependencies:\\n- python=3.9.1\\n- numpy=1.2\\n- pip:\\n  - joblib==1.1\\n"
    asked = '[ "$1 $2 $3 $4" = "env export --no-builds --name" ]'
    monkeypatch.setenv("CONDA_EXE", fake_conda(project, f'{asked} && printf "{exported}"'))
    found = Environment.from_existing_conda_environment("e", "mine")

    assert found is not None and found.name == "e"
    assert found.python.conda_dependencies.as_dict() == {
        "name": "mine",
        "dependencies": ["python=3.9.1", {"pip": ["joblib==1.1"]}, "numpy=1.2"],
        "channels": ["c"],
    }


def test_an_unknown_conda_environment_is_told_in_condas_words(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDA_EXE", fake_conda(project, "echo EnvironmentLocationNotFound >&2; exit 1"))

    with pytest.raises(UserErrorException, match="EnvironmentLocationNotFound"):
        Environment.from_existing_conda_environment("e", "none")


def test_without_conda_there_is_no_environment(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDA_EXE", raising=False)
    monkeypatch.setenv("PATH", str(project))

    assert Environment.from_existing_conda_environment("e", "mine") is None


def test_pip_options_are_set_replaced_and_removed() -> None:
    made = CondaDependencies.create(pip_packages=["a"])
    made.set_pip_index_url("https://i")
    made.set_pip_index_url("https://j")
    made.set_pip_option("--pre")
    made.set_pip_option("--extra-index-url https://k")
    made.set_pip_option("--extra-index-url https://l")

    assert made.pip_options == [
        "--index-url https://j",
        "--pre",
        "--extra-index-url https://k",
        "--extra-index-url https://l",
    ]
    made.remove_pip_option("--extra-index-url https://k")
    made.remove_pip_option("-i")
    assert made.pip_options == ["--pre", "--extra-index-url https://l"]
    with pytest.raises(UserErrorException, match="begins with `-`"):
        made.set_pip_option("pre")


def test_packages_and_channels_are_removed_by_line_or_by_name() -> None:
    made = CondaDependencies.create(
        conda_packages=["numpy=1", "numpy=2", "conda-forge::scipy=1"], pip_packages=["a==1"]
    )
    made.remove_conda_package("numpy=1")
    assert made.conda_packages[1:] == ["numpy=2", "conda-forge::scipy=1"]
    made.remove_conda_package("scipy")
    made.remove_conda_package("numpy")
    assert made.conda_packages[1:] == []
    made.remove_pip_package("A")
    assert made.pip_packages == []
    made.remove_channel("anaconda")
    assert made.conda_channels == ["conda-forge"]


def test_addresses_of_packages_do_not_replace_each_other() -> None:
    made = CondaDependencies.create(pip_packages=[])
    for package in ("git+https://x/a.git", "git+https://x/b.git", "a @ https://x/1", "a @ https://x/2", "./c", "./d"):
        made.add_pip_package(package)

    assert made.pip_packages == ["git+https://x/a.git", "git+https://x/b.git", "a @ https://x/2", "./c", "./d"]


@pytest.mark.parametrize(
    ("core_type", "pip", "conda"),
    [("cpu", "tensorflow==2.1", "tensorflow=2.1"), ("gpu", "tensorflow-gpu==2.1", "tensorflow-gpu=2.1")],
)
def test_tensorflow_and_cntk_have_helpers(core_type: str, pip: str, conda: str) -> None:
    made = CondaDependencies.create(pip_packages=[])
    made.add_tensorflow_pip_package(core_type, "2.1")
    made.add_tensorflow_conda_package(core_type, "2.1")
    made.add_cntk_package(core_type)

    assert made.pip_packages == [pip, "cntk" if core_type == "cpu" else "cntk-gpu"]
    assert made.conda_packages[1:] == [conda]
    with pytest.raises(UserErrorException, match="'cpu' or 'gpu'"):
        made.add_tensorflow_pip_package("tpu")


def test_requirements_of_one_package_are_merged() -> None:
    lines = ["a>1", "b[x]>=2", "A<3", "a>1", "b>=1", "c; python_version<'4'", "c==1", "d (>=1.2)", "git+https://x"]

    assert CondaDependencies.merge_requirements(lines) == [
        "a>1,<3",
        "b[x]>=2",
        "b>=1",
        "c; python_version<'4'",
        "c==1",
        "d>=1.2",
        "git+https://x",
    ]
