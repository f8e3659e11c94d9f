"""The command lines of podman, docker and apptainer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runyard.environments.container.command import BindMount, Container, remove_command, run_command
from runyard.environments.container.images import (
    APPTAINER,
    DOCKER,
    PODMAN,
    ContainerRuntime,
    client_variables,
    split_arguments,
)

CONTAINER = Container(
    name="runyard-r-1-0",
    image="sha256:1",
    work_folder="/run/work",
    user=(1000, 100),
    mounts=[BindMount("/run", True), BindMount("/injection")],
    shm_size="2g",
)
VARIABLES = {"TOKEN": "hush", "HOME": "/inside", "LD_PRELOAD": "x.so", "RUNYARD_COOKIE": "c"}
CLIENT = {"PATH": "/usr/bin", "HOME": "/home/me"}


def test_docker_runs_as_the_user_with_the_hosts_process_ids_and_network() -> None:
    command = run_command(ContainerRuntime(DOCKER, "/bin/docker"), CONTAINER, ["python", "a.py"], VARIABLES, CLIENT)

    assert command.argv == [
        "/bin/docker", "run", "--rm", "--name", "runyard-r-1-0", "--pull", "never", "--network", "host",
        "--pid", "host", "--log-driver", "none", "--security-opt", "label=disable", "--workdir", "/run/work",
        "--shm-size", "2g", "--user", "1000:100",
        "--mount", "type=bind,source=/run,target=/run",
        "--mount", "type=bind,source=/injection,target=/injection,readonly",
        "--env", "RUNYARD_COOKIE", "--env", "TOKEN", "--env", "HOME=/inside", "--env", "LD_PRELOAD=x.so",
        "--entrypoint", "", "sha256:1", "python", "a.py",
    ]  # fmt: skip


def test_values_are_in_the_engines_own_variables_and_in_no_argument() -> None:
    command = run_command(ContainerRuntime(PODMAN, "/bin/podman"), CONTAINER, ["python"], VARIABLES, CLIENT)

    assert command.variables == {"PATH": "/usr/bin", "HOME": "/home/me", "TOKEN": "hush", "RUNYARD_COOKIE": "c"}
    assert "hush" not in " ".join(command.argv)


def test_a_rootless_engine_keeps_the_users_id() -> None:
    podman = run_command(ContainerRuntime(PODMAN, "podman", is_rootless=True), CONTAINER, ["x"], {}, {}).argv
    docker = run_command(ContainerRuntime(DOCKER, "docker", is_rootless=True), CONTAINER, ["x"], {}, {}).argv

    assert podman[podman.index("--userns") + 1] == "keep-id"
    assert "--user" not in podman
    assert docker[docker.index("--user") + 1] == "0:0"


def test_settings_words_go_before_and_behind_run_and_the_runs_own_come_last() -> None:
    before, behind = split_arguments("--cgroup-manager=cgroupfs -- --ulimit 'nofile=1:1'")
    engine = ContainerRuntime(PODMAN, "podman", before=before, behind=behind)
    argv = run_command(engine, replace(CONTAINER, arguments=["--memory", "1g"]), ["x"], {}, {}).argv

    assert argv[:5] == ["podman", "--cgroup-manager=cgroupfs", "--log-level", "fatal", "run"]
    assert argv[5:7] == ["--ulimit", "nofile=1:1"]
    assert argv[-6:] == ["--memory", "1g", "--entrypoint", "", "sha256:1", "x"]
    assert split_arguments("--ulimit nofile=1:1") == ([], ["--ulimit", "nofile=1:1"])


@pytest.mark.parametrize(
    ("kind", "words"),
    [(PODMAN, ["--device", "nvidia.com/gpu=all"]), (DOCKER, ["--gpus", "all"]), (APPTAINER, ["--nv"])],
)
def test_gpus_are_asked_for_in_each_engines_words(kind: str, words: list[str]) -> None:
    argv = run_command(ContainerRuntime(kind, kind), replace(CONTAINER, has_gpus=True), ["x"], {}, {}).argv
    without = run_command(ContainerRuntime(kind, kind), CONTAINER, ["x"], {}, {}).argv

    at = argv.index(words[0])
    assert argv[at : at + len(words)] == words
    assert words[0] not in without


def test_processes_of_one_run_share_the_hosts_memory() -> None:
    argv = run_command(ContainerRuntime(DOCKER, "docker"), replace(CONTAINER, shares_memory=True), ["x"], {}, {}).argv

    assert argv[argv.index("--ipc") + 1] == "host"
    assert "--shm-size" not in argv


@pytest.mark.parametrize(("program", "prefix"), [("apptainer", "APPTAINERENV_"), ("singularity", "SINGULARITYENV_")])
def test_apptainer_starts_clean_and_takes_variables_by_prefix(program: str, prefix: str) -> None:
    command = run_command(
        ContainerRuntime(APPTAINER, f"/bin/{program}"), CONTAINER, ["python", "a.py"], VARIABLES, CLIENT
    )

    assert command.argv == [
        f"/bin/{program}", "exec", "--cleanenv", "--no-home", "--pwd", "/run/work", "--bind", "/run:/run:rw",
        "--bind", "/injection:/injection:ro", "sha256:1", "python", "a.py",
    ]  # fmt: skip
    assert command.variables[f"{prefix}TOKEN"] == "hush"
    assert command.variables["HOME"] == "/home/me"
    assert command.variables["RUNYARD_COOKIE"] == "c"


def test_what_is_left_is_removed_by_name() -> None:
    assert remove_command(ContainerRuntime(PODMAN, "podman", before=["--root", "/r"]), "n") == [
        "podman", "--root", "/r", "rm", "--force", "--ignore", "--time", "0", "n",
    ]  # fmt: skip
    assert remove_command(ContainerRuntime(DOCKER, "docker"), "n") == ["docker", "rm", "--force", "n"]
    assert remove_command(ContainerRuntime(APPTAINER, "apptainer"), "n") is None


def test_the_engine_itself_gets_only_what_is_for_it() -> None:
    given = {"HOME": "/h", "DOCKER_HOST": "tcp://x", "XDG_RUNTIME_DIR": "/run", "PYTHONPATH": "p", "SECRET": "s"}

    assert client_variables(given) == {
        "PATH": client_variables({})["PATH"], "HOME": "/h", "DOCKER_HOST": "tcp://x", "XDG_RUNTIME_DIR": "/run",
    }  # fmt: skip
