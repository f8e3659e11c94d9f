"""A41, A45: what a user writes becomes no command, no option and no line of a script; what a submitter's shell has set
reaches neither the server nor a supervisor.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, ScriptRunConfig, Workspace
from runyard.client.private_server import connect
from runyard.compute.ray.backend import RayBackend, bridge_variables
from runyard.compute.slurm.backend import SlurmBackend
from runyard.compute.ssh.backend import SshBackend
from runyard.compute.ssh.client import Host, SshClient
from runyard.core.compute_options import check_options, check_resources
from runyard.core.config.settings import Settings, read_settings
from runyard.core.errors import InvalidArgument, UserError
from runyard.core.names import check_run_id, make_run_id
from runyard.core.specs import DistributionSpec, EnvironmentSpec, JobSpec, ResourceSpec
from tests.attacks.weak_shell import weak_script
from tests.compute.test_sbatch import a_job
from tests.compute.test_slurm import Site

SHELL = [
    "$(touch {canary})",
    "`touch {canary}`",
    "x; touch {canary}",
    "x\ntouch {canary}\n",
    "x' ; touch {canary} ; '",
    'x" ; touch {canary} ; "',
    "x | touch {canary}",
    "x && touch {canary} #",
    "END_OF_NODE_START\ntouch {canary}",
    "END_OF_NODE_START\n)\ntouch {canary}\n: $(cat <<'END_OF_NODE_START'",
]
OPTIONS = [
    "-oProxyCommand=touch {canary}",
    "--wrap=touch {canary}",
    "-x",
    "--uid=0",
    "x\n#SBATCH --uid=0",
    "#SBATCH --wrap=true",
    "x --uid=0",
    "\x00",
    "x\r\n#SBATCH --uid=0",
    "{{0.__class__}}",
    "%(touch)s",
]
SUBMITTERS = {
    "LD_PRELOAD": "/nowhere/evil.so",
    "LD_LIBRARY_PATH": "/nowhere",
    "BASH_ENV": "/nowhere/evil.sh",
    "ENV": "/nowhere/evil.sh",
    "PYTHONSTARTUP": "/nowhere/evil.py",
    "PYTHONPATH": "/nowhere",
    "GIT_SSH_COMMAND": "touch /nowhere/canary",
    "SSH_ASKPASS": "/nowhere/evil",
    "SBATCH_WRAP": "true",
    "SLURM_CONF": "/nowhere/slurm.conf",
}


def hostile(canary: Path) -> list[str]:
    return [text.format(canary=canary) for text in SHELL + OPTIONS]


def hostile_job(texts: list[str]) -> JobSpec:
    """Everywhere that a user may write what they like."""
    spec = replace(
        a_job().spec,
        target="cluster",
        arguments=texts,
        variables={f"V{number}": text for number, text in enumerate(texts) if "\0" not in text},
        environment=EnvironmentSpec(name=texts[0], pip_packages=texts),
        definition={"tags": dict(enumerate(texts)), "note": texts},
        distribution=DistributionSpec("pytorch", node_count=2),
    )
    return replace(a_job(), spec=spec, experiment=texts[0], submitter=dict.fromkeys(SUBMITTERS, texts[0]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A machine with stand-ins for Slurm's commands, whose server was started from a hostile shell."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for name, value in SUBMITTERS.items():
        if not name.startswith("LD_"):  # the loader would complain in every command of this test
            monkeypatch.setenv(name, value)
    return Site(folder)


def test_a41_nothing_a_user_writes_is_in_a_slurm_job_and_its_script_does_nothing_else(
    site: Site, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    backend = SlurmBackend(Settings(home=tmp_path), {"partition": "gpu"})
    try:
        backend.submit(backend.plan(hostile_job(hostile(canary))))
    finally:
        backend.close()
    [[words, _, script]] = site.calls("sbatch")

    assert not [text for text in hostile(canary) if len(text) > 3 and text in script + "\n".join(words)]
    assert not [line for line in script.splitlines() if line.lstrip().startswith("#SBATCH")]
    assert [word for word in words if not word.startswith("--")] == []
    run_script(site, script)
    assert not canary.exists()


def run_script(site: Site, script: str) -> None:
    """Execute a batch script as Slurm would; the node's Python and srun are stand-ins that do nothing."""
    for name in ("srun", "python3", "scontrol"):
        (site.folder / name).write_text("#!/bin/sh\nexit 0\n")
        (site.folder / name).chmod(0o755)
    variables = {"PATH": f"{site.folder}:/usr/bin:/bin", "SLURM_JOB_ID": "1"}
    subprocess.run(["/bin/bash", "-s"], input=script, text=True, env=variables, timeout=20, check=False)


@pytest.mark.parametrize("text", SHELL[:6])
def test_a41_control_the_same_texts_bite_where_a_script_is_put_together_carelessly(
    site: Site, tmp_path: Path, text: str
) -> None:
    canary = tmp_path / "canary"
    run_script(site, weak_script(text.format(canary=canary)))

    assert canary.exists()


WORDS = [
    ("slurm", "partition"),
    ("slurm", "account"),
    ("slurm", "qos"),
    ("slurm", "constraint"),
    ("slurm", "mpi"),
    ("ray", "address"),
    ("ssh", "username"),
]


@pytest.mark.parametrize(("kind", "option"), WORDS)
def test_a41_an_option_of_a_target_or_a_run_is_one_word_or_refused(kind: str, option: str, tmp_path: Path) -> None:
    for text in hostile(tmp_path / "canary"):
        with pytest.raises(InvalidArgument):
            check_options(kind, {option: text})
        if kind == "slurm" and option != "mpi":
            with pytest.raises(InvalidArgument):
                check_resources(ResourceSpec(cluster_options={option: text}))
    good = {"address": "head:6379"}.get(option, "gpu")
    assert check_options(kind, {option: good}) == {option: good}


def test_a41_hosts_ids_names_and_resources_are_what_they_say_or_refused(tmp_path: Path) -> None:
    for text in hostile(tmp_path / "canary"):
        for attempt in (
            lambda text=text: check_options("ssh", {"hosts": [{"address": text}]}),
            lambda text=text: check_options("ssh", {"hosts": [{"address": "a", "port": text}]}),
            lambda text=text: check_options("ray", {"env": {text: "x"}}),
            lambda text=text: check_resources(ResourceSpec(custom={text: 1})),
            lambda text=text: check_resources(ResourceSpec(cluster_options={text: "x"})),
            lambda text=text: check_run_id(text),
        ):
            with pytest.raises(InvalidArgument):
                attempt()
        made = make_run_id(text)  # an experiment has any name, and only this form of it is in paths and commands
        assert check_run_id(made) == made


@pytest.mark.parametrize(
    "extra", ["--wrap=x", "--uid=0", "--export=NONE", "--job-name=x", "--chdir=/tmp", "x", "-n2\n"]
)
def test_a41_more_words_for_sbatch_change_nothing_that_makes_the_job_ours(
    site: Site, tmp_path: Path, extra: str
) -> None:
    backend = SlurmBackend(Settings(home=tmp_path), {})
    try:
        with pytest.raises(UserError):
            job = replace(
                a_job(), spec=replace(a_job().spec, resources=ResourceSpec(cluster_options={"extra": [extra]}))
            )
            check_resources(job.spec.resources)
            backend.plan(job)
        job = replace(
            a_job(), spec=replace(a_job().spec, resources=ResourceSpec(cluster_options={"extra": ["--nice=1"]}))
        )
        assert "--nice=1" in backend.plan(job).argv
    finally:
        backend.close()


def test_a41_ray_and_ssh_are_given_whole_words_that_no_user_wrote(tmp_path: Path) -> None:
    texts = hostile(tmp_path / "canary")
    hosts = [{"address": "hostA", "port": 22, "slots": 2}]
    options: dict[str, Any] = {"hosts": hosts, "username": "me"}
    ray, ssh = RayBackend(Settings(home=tmp_path), {"address": "auto"}), SshBackend(Settings(home=tmp_path), options)
    try:
        job = replace(hostile_job(texts), slots=[0, 1])
        for request in (ray.plan(job), ssh.plan(job)):
            said = json.dumps([request.argv, request.script, request.resources, request.run_folder])
            assert not [text for text in texts if len(text) > 3 and text in said]
            assert not set(SUBMITTERS) & set(said.split('"'))
    finally:
        ray.close()
        ssh.close()
    command = SshClient(Settings(home=tmp_path), options).command(Host("hostA"))
    assert command[0].endswith("ssh") and "--" in command[: command.index("hostA")]


def test_a41_a45_a_run_gets_its_texts_as_they_are_and_its_supervisor_nothing_of_the_shell(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    texts = [text for text in hostile(canary) if "\0" not in text and "$" not in text]
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(
        "import json, os, sys\n"
        "parent = open(f'/proc/{os.getppid()}/environ', 'rb').read().decode()\n"
        "print(json.dumps([sys.argv[1:], dict(os.environ), parent]))\n"
    )
    for name, value in SUBMITTERS.items():
        if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH"):
            monkeypatch.setenv(name, value)
    config = ScriptRunConfig(str(project), "train.py", texts)
    config.run_config.environment_variables = {f"V{number}": text for number, text in enumerate(texts)}
    run = Experiment(Workspace.from_config(), "exp").submit(
        config, tags={f"t{n}": text for n, text in enumerate(texts)}
    )
    run.wait_for_completion()
    arguments, variables, supervisor = json.loads(run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"])
    server = Path(f"/proc/{connect(read_settings()).server.info().pid}/environ").read_text()

    assert arguments == texts and [variables[f"V{number}"] for number in range(len(texts))] == texts
    assert list(run.get_tags().values()) == texts
    assert variables["GIT_SSH_COMMAND"] == SUBMITTERS["GIT_SSH_COMMAND"], "control: the script does get its shell's"
    for process in (supervisor, server):
        assert "RUNYARD_HOME" in process and "PATH=" in process
        assert not [name for name, value in SUBMITTERS.items() if f"\0{name}={value}\0" in f"\0{process}\0"]
    assert not canary.exists()


def test_a45_what_the_servers_shell_had_set_reaches_no_command_of_an_engine(site: Site, tmp_path: Path) -> None:
    backend = SlurmBackend(Settings(home=tmp_path), {})
    try:
        backend.submit(backend.plan(hostile_job(["x"])))
    finally:
        backend.close()

    for name in ("sbatch", "squeue", "sinfo"):
        for _, variables, _ in site.calls(name):
            assert not {"BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONPATH", "GIT_SSH_COMMAND", "SBATCH_WRAP"} & set(
                variables
            )
    assert site.calls("sbatch")
    for variables in (bridge_variables({}), SshClient(Settings(home=tmp_path), {})._variables()):
        assert "PATH" in variables and not set(SUBMITTERS) & set(variables)
    subprocess.run([site.folder / "sbatch"], stdin=subprocess.DEVNULL, check=False)
    assert site.calls("sbatch")[-1][1]["SBATCH_WRAP"] == "true", "control: a child that inherits does have it"
