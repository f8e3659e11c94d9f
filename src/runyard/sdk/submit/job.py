"""A job by its settings: the options of `runyard submit`, the keys of a job file. It becomes a ScriptRunConfig."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from runyard.core.errors import InvalidArgument
from runyard.core.specs import DEFAULT_TIME_LIMIT_S
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.lock_graph import Chosen
from runyard.sdk.environments.projects import environment_of_file, environment_of_script, lock_in
from runyard.sdk.environments.sources import from_image
from runyard.sdk.run_config.resources import Resources, read_resources
from runyard.sdk.run_config.run_configuration import (
    DockerConfiguration,
    MpiConfiguration,
    PyTorchConfiguration,
    TensorflowConfiguration,
)
from runyard.sdk.run_config.script_run_config import Distribution, ScriptRunConfig
from runyard.sdk.submit.entry import Entry, find_entry

if TYPE_CHECKING:
    from runyard.sdk.sweeps.config import HyperDriveConfig

FRAMEWORKS = ("pytorch", "mpi", "tensorflow")
_INLINE = ("pip", "conda", "channels", "python", "image", "dockerfile", "variables")
_OF_FILE = ("file", "extras", "groups", "without_groups", "pixi_environment")


@dataclass
class JobSettings:
    """None, or empty: not said. Paths start from the current folder."""

    script: Optional[str] = None
    command: Optional[Sequence[str]] = None
    module: Optional[str] = None
    arguments: Sequence[str] = ()
    source: Optional[str] = None
    python: Optional[str] = None
    environment: Union[str, Mapping[str, Any], Environment, None] = None  # a name, a file, packages, or itself
    extras: Sequence[str] = ()  # of the project whose file the environment is
    groups: Sequence[str] = ()
    without_groups: Sequence[str] = ()
    pixi_environment: Optional[str] = None
    image: Optional[str] = None
    target: Optional[str] = None
    nodes: Optional[int] = None
    processes: Optional[int] = None  # on each node
    framework: Optional[str] = None
    workers: Optional[int] = None
    parameter_servers: Optional[int] = None
    gpus: Optional[int] = None  # of each node
    resources: Union[Mapping[str, str], Resources] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    env_file: List[str] = field(default_factory=list)
    keep: List[str] = field(default_factory=list)
    experiment: Optional[str] = None
    display_name: Optional[str] = None
    tags: Mapping[str, str] = field(default_factory=dict)
    max_attempts: Optional[int] = None
    time_limit: Optional[int] = None
    debug: Optional[int] = None  # the port at which the script waits for a debugger
    sweep: Optional[Mapping[str, Any]] = None

    def overridden(self, other: JobSettings) -> JobSettings:
        """Return these settings with what `other` says; its variables, tags and resources are added."""
        found = dict(vars(self))
        starts = ("script", "command", "module")
        if any(getattr(other, name) for name in starts):
            found.update(dict.fromkeys(starts))
        for name, value in vars(other).items():
            if isinstance(value, Mapping) and isinstance(found[name], Mapping):
                found[name] = {**found[name], **value}
            elif name in ("env_file", "keep", "extras", "groups", "without_groups"):
                found[name] = [*found[name], *value]
            elif value is not None and value not in ((), []):
                found[name] = value
        return JobSettings(**found)


class PlannedJob(NamedTuple):
    """What `submit` takes."""

    config: Union[ScriptRunConfig, HyperDriveConfig]
    experiment: str
    tags: Optional[Dict[str, str]]
    display_name: str
    notes: List[str]  # for who submits: what was chosen, and what was not


def plan_job(job: JobSettings) -> PlannedJob:
    """Return the configuration of a job. Touches nothing but to look.

    Raises:
        SubmitRejected, InvalidArgument: the settings contradict each other, or name what is not there.
    """
    entry = find_entry(job.script, module=job.module, command=job.command, arguments=job.arguments, source=job.source)
    notes: List[str] = []
    environment = choose_environment(job, entry, notes.append)
    if job.debug is not None:
        entry = _debugged(job, entry, job.debug, notes)
    in_container = bool(environment is not None and environment.docker.enabled)
    config = ScriptRunConfig(
        source_directory=entry.source,
        script=entry.script,
        command=entry.command,
        arguments=entry.arguments if entry.script else None,
        compute_target=job.target or "local",
        environment=environment,
        max_run_duration_seconds=job.time_limit or DEFAULT_TIME_LIMIT_S,
        distributed_job_config=_distribution(job, entry),
        docker_runtime_config=DockerConfiguration(use_docker=True) if in_container else None,
        max_attempts=job.max_attempts or 1,
        keep=job.keep,
        resources=job.resources if isinstance(job.resources, Resources) else read_resources(job.resources),
    )
    if job.framework == "tensorflow" and job.nodes:
        config.run_config.node_count = job.nodes
    if job.gpus is not None:
        config.run_config.resources.gpus = job.gpus
    config.run_config.environment_variables.update({**_of_files(job.env_file), **job.variables})
    experiment = job.experiment or _experiment_name(entry.name)
    return PlannedJob(_swept(job, config), experiment, dict(job.tags) or None, job.display_name or "", notes)


def _debugged(job: JobSettings, entry: Entry, port: int, notes: List[str]) -> Entry:
    from runyard.sdk.submit.debugging import how_to_attach, under_debugger  # few jobs are debugged

    tasks = (job.nodes or 1) * (job.processes or 1)
    found = under_debugger(entry, port, processes=max(tasks, (job.workers or 1) + (job.parameter_servers or 0)))
    notes += how_to_attach(entry, port, job.target or "local")
    return found


def _of_files(paths: List[str]) -> Dict[str, str]:
    if not paths:
        return {}
    from runyard.sdk.submit.env_file import read_env_files  # few jobs have one

    return read_env_files(paths)


def _swept(job: JobSettings, config: ScriptRunConfig) -> Union[ScriptRunConfig, HyperDriveConfig]:
    if job.sweep is None:
        return config
    from runyard.sdk.submit.job_sweep import make_sweep  # few jobs are sweeps

    return make_sweep(job.sweep, config)


def choose_environment(job: JobSettings, entry: Entry, note: Callable[[str], None]) -> Optional[Environment]:
    """Return the environment that is named, else that of the script's header, else of the active virtual environment.

    None: the Python that runs this. `entry` is what the environment is for, also the script of a web service.

    Raises:
        InvalidArgument: what is said contradicts itself, or names what is not there.
    """
    if job.python and job.environment:
        raise InvalidArgument(
            "Both a Python and an environment are given.", hint="Name one: --python or --environment."
        )
    chosen = Chosen(job.extras, job.groups, job.without_groups, job.pixi_environment or "")
    if job.environment is not None:
        if isinstance(job.environment, Environment):
            found = job.environment if job.image is None else job.environment.clone(job.environment.name)
        elif isinstance(job.environment, Mapping):
            found = _inline(job.environment, chosen)
        else:
            found = _named(job.environment, chosen)
        return found if job.image is None else _on_image(found, job.image)
    if any(chosen):
        raise InvalidArgument(
            "Extras, groups and pixi's environments are chosen of a project's file, and none is named.",
            hint="Name it: `--environment uv.lock --extra gpu`.",
        )
    if job.image is not None:
        return _on_image(None, job.image)
    if job.python:
        return _own_python(job.python)
    header = environment_of_script(entry.file) if entry.file and entry.file.endswith(".py") else None
    if header is not None:
        packages = header.python.conda_dependencies.pip_packages
        shown = ", ".join(line.partition(" --hash=")[0] for line in packages[:6]) + (" …" if len(packages) > 6 else "")
        note(f"The environment is that of the header of {entry.script}: {shown or 'no packages'}.")
        return header
    lock = lock_in(entry.source)
    if lock is not None and "VIRTUAL_ENV" not in os.environ:
        note(f"{lock} is not used: `--environment {lock}` runs in exactly those versions.")
    return _active()


def _named(name: str, chosen: Chosen) -> Environment:
    found = environment_of_file(name, chosen)
    if found is not None:
        return found
    from runyard.sdk.workspaces.workspace import Workspace  # a file needs no server

    return Environment.get(Workspace.from_config(), name)


def _on_image(environment: Optional[Environment], image: str) -> Environment:
    """Return the environment in a container of the image; its packages are added to the image's Python."""
    if environment is None:
        made = from_image(re.sub(r"[^A-Za-z0-9._-]+", "-", image).strip("-."), image)
    else:
        made = environment
        made.docker.base_image = image
    made.docker.enabled = True
    return made


def _inline(found: Mapping[str, Any], chosen: Chosen) -> Environment:
    """Return the environment that a job file writes out, or chooses of a project's file.

    Raises:
        InvalidArgument: a key that is not known.
    """
    if "file" in found:
        return _of_project_file(found, chosen)
    if any(chosen):
        raise InvalidArgument(
            "Extras, groups and pixi's environments are chosen of a project's file, and the job lists packages.",
            hint="environment: {file: uv.lock, extras: [gpu]}",
        )
    for key in found:
        if key not in _INLINE:
            raise InvalidArgument(
                f"`environment` has no key `{key}`.",
                hint=f"It may have {', '.join(_INLINE)}, or {', '.join(_OF_FILE)}, or be a name or a file.",
            )
    environment = Environment("inline")
    made = CondaDependencies.create(
        pip_packages=_texts(found.get("pip"), "environment.pip"),
        conda_packages=_texts(found.get("conda"), "environment.conda"),
        python_version=_python_version(found.get("python")),
    )
    if found.get("channels"):
        made._channels = _texts(found["channels"], "environment.channels")
    environment.python.conda_dependencies = made
    environment.environment_variables = {str(key): str(value) for key, value in (found.get("variables") or {}).items()}
    if found.get("dockerfile"):
        environment.docker.base_dockerfile = str(found["dockerfile"])
        environment.docker.enabled = True
    if found.get("image") or found.get("dockerfile"):
        environment.python.user_managed_dependencies = not (found.get("pip") or found.get("conda"))
    return _on_image(environment, str(found["image"])) if found.get("image") else environment


def _of_project_file(found: Mapping[str, Any], chosen: Chosen) -> Environment:
    """Return the environment of `{file: uv.lock, extras: […]}`; the command line's choice is added."""
    for key in found:
        if key not in _OF_FILE:
            raise InvalidArgument(
                f"`environment` has no key `{key}` beside `file`.", hint=f"It may have {', '.join(_OF_FILE[1:])}."
            )
    lists = {key: _texts(found.get(key), f"environment.{key}") for key in _OF_FILE[1:4]}
    both = Chosen(
        [*lists["extras"], *chosen.extras],
        [*lists["groups"], *chosen.groups],
        [*lists["without_groups"], *chosen.without_groups],
        chosen.pixi_environment or str(found.get("pixi_environment") or ""),
    )
    return _named(str(found["file"]), both)


def _python_version(value: Any) -> Optional[str]:
    """Return the version as text. YAML reads `3.10` as the number 3.1, which would be another Python."""
    if isinstance(value, float) and value < 3.5:
        raise InvalidArgument(
            f"`environment.python` is the number {value}.",
            why="YAML drops the last zero of 3.10, as of every number.",
            hint='Write it in quotes: python: "3.10".',
        )
    return None if value is None else str(value)


def _texts(found: Any, what: str) -> List[str]:
    if found is None:
        return []
    if isinstance(found, list) and all(isinstance(one, (str, int, float)) for one in found):
        return [str(one) for one in found]
    raise InvalidArgument(f"`{what}` should be a list of texts, found {found!r:.80}.", hint="[numpy, torch>=2]")


def _active() -> Optional[Environment]:
    active = os.environ.get("VIRTUAL_ENV")
    if not active or os.path.realpath(active) == os.path.realpath(sys.prefix):
        return None
    python = os.path.join(active, "bin", "python")
    return _own_python(python) if os.access(python, os.X_OK) else None


def _own_python(python: str) -> Environment:
    environment = Environment("user-managed-env")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = os.path.abspath(python) if os.sep in python else python
    return environment


def _distribution(job: JobSettings, entry: Entry) -> Optional[Distribution]:
    """Return how the processes of the job find each other; None: it is one process.

    Raises:
        InvalidArgument: the counts do not go with the framework.
    """
    nodes, processes = job.nodes or 1, job.processes or 1
    framework = job.framework or ("pytorch" if nodes * processes > 1 else None)
    if framework not in (None, *FRAMEWORKS):
        raise InvalidArgument(f"The framework `{framework}` is not known.", hint=f"There are: {', '.join(FRAMEWORKS)}.")
    if framework != "tensorflow" and (job.workers is not None or job.parameter_servers is not None):
        raise InvalidArgument(
            "Workers and parameter servers are TensorFlow's.",
            hint="Add --framework tensorflow, or say --nodes and --processes.",
        )
    if framework == "mpi":
        return MpiConfiguration(process_count_per_node=processes, node_count=nodes)
    if framework == "tensorflow":
        workers = job.workers if job.workers is not None else nodes * processes
        return TensorflowConfiguration(worker_count=workers, parameter_server_count=job.parameter_servers or 0)
    if framework == "pytorch":
        if job.processes is not None and processes > 1 and entry.command:
            raise InvalidArgument(
                f"{processes} processes on each node go with a script or a module; this is a command.",
                why="For PyTorch a command is started once on each node, and starts its processes itself.",
                hint=f"`torchrun --nproc-per-node {processes} …` in the command, or --framework mpi.",
            )
        count = None if job.processes is None else nodes * processes
        return PyTorchConfiguration(process_count=count, node_count=nodes)
    return None


def _experiment_name(text: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-_")[:255]
    if not name:
        raise InvalidArgument(
            f"No experiment name can be made of `{text}`.",
            hint="Choose one: `runyard submit --experiment my-experiment …`.",
        )
    return name
