"""Jobs by their settings: what is run, how many processes, `.env` files, job files and their sweeps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument, NotFound, RunyardError, SubmitRejected
from runyard.core.specs import RunSpec
from runyard.launchers.processes import process_argv
from runyard.sdk.exceptions import HyperDriveConfigException
from runyard.sdk.submit.entry import find_entry, shell_line
from runyard.sdk.submit.env_file import read_env_file
from runyard.sdk.submit.job import JobSettings, plan_job
from runyard.sdk.submit.job_file import read_job
from runyard.sdk.submit.submission import Plan, plan_submission


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "nb.ipynb").write_text("{}")
    (tmp_path / "go.sh").write_text("echo go\n")
    (tmp_path / "prog").write_text("#!/bin/sh\necho prog\n")
    (tmp_path / "prog").chmod(0o755)
    return tmp_path


def plan_of(**settings: object) -> Plan:
    return plan_submission(plan_job(JobSettings(**settings)).config)  # type: ignore[arg-type]  # as they are typed


@pytest.mark.parametrize(
    ("settings", "argv"),
    [
        ({"script": "train.py", "arguments": ["--a", "$X"]}, ["PY", "train.py", "--a", "1"]),
        ({"module": "pkg.mod", "arguments": ["b"]}, ["PY", "-m", "pkg.mod", "b"]),
        ({"script": "nb.ipynb", "arguments": ["a=1"]}, ["PY", "-m", "runyard.runtime.notebook", "nb.ipynb", "a=1"]),
        ({"script": "prog", "arguments": ["a b"]}, ["/bin/sh", "-c", "./prog 'a b'"]),
        ({"command": ["torchrun", "--n", "2", "train.py"]}, ["/bin/sh", "-c", "torchrun --n 2 train.py"]),
        ({"command": ["echo 1; echo 2"]}, ["/bin/sh", "-c", "echo 1; echo 2"]),
        ({"command": ["python", "train.py", "--a"]}, ["PY", "train.py", "--a"]),
    ],
)
def test_what_is_started(project: Path, settings: dict[str, object], argv: list[str]) -> None:
    assert process_argv(plan_of(**settings).spec, "PY", {"X": "1"}) == argv


def test_a_shell_script_is_bash_s_where_there_is_one(project: Path) -> None:
    (project / "go.sh").write_text('printf "%s\\n" "$0" "$@"\n')
    argv = process_argv(RunSpec(script="go.sh", arguments=["a b", "c"]), "PY", {})
    said = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["go.sh", "a b", "c"]


def test_words_of_a_command_reach_it_as_they_are_but_variables(project: Path) -> None:
    words = ["printf", "%s|", "a b", '"`x`', "$KNOWN/y", "${KNOWN}", "$UNKNOWN", "\\$", "it's"]
    said = subprocess.run(
        ["/bin/sh", "-c", shell_line(words)], env={"KNOWN": "k $z"}, capture_output=True, text=True, check=True
    )
    assert said.stdout.split("|")[:-1] == ["a b", '"`x`', "k $z/y", "k $z", "$UNKNOWN", "\\$", "it's"]


def test_the_experiment_is_called_after_what_is_run(project: Path) -> None:
    names = [
        plan_job(JobSettings(**settings)).experiment
        for settings in (
            {"script": "train.py"},
            {"module": "pkg.mod"},
            {"command": ["torchrun", "src/train.py"]},
            {"command": ["ls", "-l"]},
            {"script": "train.py", "experiment": "mine"},
        )
    ]
    assert names == ["train", "mod", "train", "ls", "mine"]


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"processes": 2}, ("pytorch", 1, 2)),
        ({"processes": 2, "nodes": 3}, ("pytorch", 3, 2)),
        ({"nodes": 3}, ("pytorch", 3, 1)),
        ({"processes": 2, "framework": "mpi", "nodes": 2}, ("mpi", 2, 2)),
        ({"framework": "tensorflow", "workers": 3, "parameter_servers": 1, "nodes": 2}, ("tensorflow", 2, 2)),
        ({"framework": "tensorflow", "nodes": 2}, ("tensorflow", 2, 1)),
        ({}, ("single", 1, 1)),
    ],
)
def test_processes_and_frameworks(project: Path, settings: dict[str, object], shape: tuple[str, int, int]) -> None:
    found = plan_of(script="train.py", **settings).spec.distribution
    assert (found.kind, found.node_count, found.processes_per_node) == shape


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"script": "train.py", "workers": 2}, "TensorFlow's"),
        ({"command": ["ls", "-l"], "processes": 2}, "go with a script or a module"),
        ({"script": "train.py", "module": "x"}, "Both script and module"),
        ({"module": "not a module"}, "no name of a module"),
        ({"script": "train.py", "python": "python", "environment": "r.txt"}, "Both a Python and an environment"),
        ({"script": "train.py", "extras": ["gpu"]}, "--environment uv.lock --extra gpu"),
        ({"script": "train.py", "environment": {"pip": ["a"]}, "groups": ["g"]}, "the job lists packages"),
        ({"script": "train.py", "environment": {"file": "uv.lock", "extra": ["g"]}}, "no key `extra` beside `file`"),
        ({}, "nothing to run"),
        ({"script": "trian.py"}, "no script `trian.py`"),
    ],
)
def test_settings_that_contradict_each_other(project: Path, settings: dict[str, object], what: str) -> None:
    with pytest.raises(RunyardError) as error:
        plan_of(**settings)
    assert what in str(error.value)


def test_an_image_means_a_container(project: Path) -> None:
    (project / "r.txt").write_text("six\n")
    plain = plan_of(script="train.py", image="docker.io/library/python:3.12").spec.environment
    added = plan_of(script="train.py", image="python:3.12", environment="r.txt").spec.environment
    assert plain.container is not None and plain.container.image == "docker.io/library/python:3.12"
    assert (plain.kind, plain.pip_packages) == ("container", [])
    assert added.container is not None and (added.container.image, added.pip_packages) == ("python:3.12", ["six"])


def test_extras_and_groups_are_chosen_by_options_and_in_a_job_file(project: Path) -> None:
    lock = '[[package]]\nname = "demo"\nsource = { virtual = "." }\n[package.optional-dependencies]\n'
    lock += "".join(f'{name} = [{{ name = "{name}" }}]\n' for name in ("gpu", "web"))
    lock += '[package.dev-dependencies]\ndev = [{ name = "dev" }]\ntrain = [{ name = "train" }]\n'
    for name in ("gpu", "web", "dev", "train"):
        lock += f'[[package]]\nname = "{name}"\nversion = "1"\nsource = {{ registry = "wheels" }}\n'
    (project / "uv.lock").write_text(lock)
    choice = "extras: [gpu], without_groups: [dev]"
    (project / "job.yml").write_text(f"script: train.py\nenvironment: {{file: uv.lock, {choice}}}\n")
    settings = read_job("job.yml").overridden(JobSettings(extras=("web",), groups=("train",)))
    options = plan_of(script="train.py", environment="uv.lock", extras=("gpu",))

    assert plan_submission(plan_job(settings).config).spec.environment.pip_packages == ["gpu==1", "web==1", "train==1"]
    assert options.spec.environment.pip_packages == ["gpu==1", "dev==1"]


def test_a_script_s_header_is_its_environment_unless_one_is_named(project: Path) -> None:
    (project / "train.py").write_text("# /// script\n# dependencies = ['six']\n# ///\n")
    job = plan_job(JobSettings(script="train.py"))
    assert plan_submission(job.config).spec.environment.pip_packages == ["six"]
    assert job.notes == ["The environment is that of the header of train.py: six."]
    assert plan_of(script="train.py", python="python3").spec.environment.kind == "system"


def test_a_lock_that_is_not_used_is_told(project: Path) -> None:
    (project / "uv.lock").write_text("version = 1\n")
    assert plan_job(JobSettings(script="train.py")).notes == [
        "uv.lock is not used: `--environment uv.lock` runs in exactly those versions."
    ]


def test_notebooks_bring_what_executes_them_where_packages_are_installed(project: Path) -> None:
    (project / "r.txt").write_text("six\nipykernel==6.29\n")
    assert plan_of(script="nb.ipynb", environment="r.txt").spec.environment.pip_packages == [
        "six",
        "ipykernel==6.29",
        "nbclient",
    ]
    assert plan_of(script="train.py", environment="r.txt").spec.environment.pip_packages == ["six", "ipykernel==6.29"]
    assert plan_of(script="nb.ipynb").spec.environment.kind == "system"


def test_variables_of_env_files(project: Path) -> None:
    (project / ".env").write_text(
        '# a comment\n\nA=1\nexport B = two words # said\nC=\'single $A \\n #\'\nD="double \\"q\\" \\n\nline" # x\n'
        "E=\nF=a#b\nG=$(rm -rf /)\n  H=x=y\n"
    )
    assert read_env_file(".env") == {
        "A": "1",
        "B": "two words",
        "C": "single $A \\n #",
        "D": 'double "q" \n\nline',
        "E": "",
        "F": "a#b",
        "G": "$(rm -rf /)",
        "H": "x=y",
    }
    spec = plan_of(script="train.py", env_file=[".env"], variables={"A": "2"}).spec
    assert (spec.variables["A"], spec.variables["H"]) == ("2", "x=y")


@pytest.mark.parametrize(("text", "line"), [("A=1\nnonsense\n", 2), ("A='open\n", 1), ("A='x' y\n", 1), ("1A=2\n", 1)])
def test_a_mistake_in_an_env_file_is_told_without_its_value(project: Path, text: str, line: int) -> None:
    (project / ".env").write_text(text)
    with pytest.raises(InvalidArgument, match=f"line {line} cannot be read") as error:
        read_env_file(".env")
    assert "open" not in str(error.value)
    with pytest.raises(NotFound):
        read_env_file("none.env")


JOB = """
script: train.py
arguments: {lr: 0.1, fast: true, slow: false, layers: [1, 2]}
environment: {pip: [six], python: 3.9, variables: {P: 1}}
target: local
nodes: 2
processes: 2
framework: mpi
gpus: 1
variables: {COLOUR: red, ON: true}
env-file: settings.env
experiment: from-file
display_name: the first
tags: {team: x}
max_attempts: 3
time_limit: 2h
"""


def test_a_job_file_has_the_options_as_keys(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "job.yml").write_text(JOB)
    (project / "settings.env").write_text("X=1\n")
    monkeypatch.chdir(project.parent)
    path = os.path.join(project.name, "job.yml")
    job = plan_job(read_job(path).overridden(JobSettings(variables={"COLOUR": "green"}, nodes=1)))
    plan = plan_submission(job.config)

    assert (job.experiment, job.display_name, job.tags) == ("from-file", "the first", {"team": "x"})
    assert plan.source_directory == str(project)
    spec = plan.spec
    assert (spec.script, spec.arguments) == ("train.py", ["--lr", "0.1", "--fast", "--layers", "1", "2"])
    assert (spec.gpus, spec.max_attempts, spec.time_limit_s) == (1, 3, 7200)
    assert (spec.distribution.kind, spec.distribution.node_count) == ("mpi", 1)
    assert {name: spec.variables[name] for name in ("COLOUR", "ON", "X")} == {"COLOUR": "green", "ON": "true", "X": "1"}
    assert (spec.environment.pip_packages, spec.environment.python_version) == (["six"], "3.9")
    assert spec.environment.variables == {"P": "1"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("script: a.py\nscipt: b.py\n", "line 2: a job has no key `scipt`.\nhint: Did you mean `script`?"),
        ("nodes: two\n", "line 1: `nodes` should be a whole number"),
        ("# x\nframework: horovod\n", "line 2: `framework` should be one of pytorch, mpi, tensorflow"),
        ("time_limit: soon\n", "a time"),
        ("tags: [a]\n", "`name: value` lines"),
        ("script: train.py\nenvironment: {pips: [a]}\n", "`environment` has no key `pips`"),
        ("a: [\n", "job.yml"),
        ("script: train.py\nenvironment: {python: 3.10}\n", 'python: "3.10"'),
        ("name: e\ndependencies: [python=3.10]\n", "`runyard submit --environment job.yml train.py`"),
    ],
)
def test_a_mistake_in_a_job_file_names_its_line(project: Path, text: str, what: str) -> None:
    (project / "job.yml").write_text(text)
    with pytest.raises(InvalidArgument) as error:
        plan_job(read_job("job.yml"))
    assert what in str(error.value)


SWEEP = {
    "sampling": "random",
    "seed": 3,
    "parameters": {"lr": "uniform(0.01, 0.1)", "--batch": [16, 32], "units": {"quniform": [1, 9, 2]}, "fixed": 5},
    "metric": "loss",
    "goal": "minimize",
    "policy": {"bandit": {"slack_factor": 0.5}},
    "max_runs": 4,
    "concurrency": 2,
}


def test_a_sweep_in_a_job_file(project: Path) -> None:
    spec = plan_of(script="train.py", sweep=SWEEP).spec.sweep
    assert spec is not None
    assert spec.space == {
        "--lr": ["uniform", [0.01, 0.1]],
        "--batch": ["choice", [[16, 32]]],
        "--units": ["quniform", [1, 9, 2]],
        "--fixed": ["choice", [[5]]],
    }
    assert (spec.sampling, spec.seed, spec.goal, spec.primary_metric) == ("RANDOM", 3, "MINIMIZE", "loss")
    assert (spec.policy, spec.policy_properties["slack_factor"]) == ("Bandit", 0.5)
    assert (spec.max_total_runs, spec.max_concurrent_runs) == (4, 2)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"metric": None}, "lacks `metric`"),
        ({"sampling": "gird"}, "Did you mean `grid`?"),
        ({"max_run": 3}, "Did you mean `max_runs`?"),
        ({"parameters": {"lr": "unifrom(0, 1)"}}, "Did you mean `uniform`?"),
        ({"parameters": {"lr": "uniform(0)"}}, "uniform() got 1 values"),
        ({"policy": "bandits"}, "Did you mean `bandit`?"),
        ({"policy": {"bandit": {"slak": 1}}}, "slak"),
        ({"goal": "best"}, "MAXIMIZE or MINIMIZE"),
    ],
)
def test_a_mistake_in_a_sweep_is_told(project: Path, change: dict[str, object], what: str) -> None:
    with pytest.raises((InvalidArgument, HyperDriveConfigException)) as error:
        plan_of(script="train.py", sweep={**SWEEP, **change})
    assert what in str(error.value)


def test_a_missing_script_names_those_that_are_there(project: Path) -> None:
    with pytest.raises(SubmitRejected, match=r"train\.py"):
        find_entry("nope.py")
