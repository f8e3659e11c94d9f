"""`experiment.submit(config)`: a configuration becomes a frozen plan, then a run. Planning finds mistakes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from runyard.core import records
from runyard.core.config.settings import read_settings
from runyard.core.errors import SubmitRejected
from runyard.core.names import make_run_id, make_uuid
from runyard.core.provided_packages import package_name
from runyard.core.records import NewRun
from runyard.core.specs import MODULE, SWEEP_TYPE, EnvironmentSpec, RunSpec
from runyard.data.datastores import get_document
from runyard.sdk.config.texts import tag_texts, user_name, warn, warn_once
from runyard.sdk.data.datastore_files import list_datastores
from runyard.sdk.environments.plan import plan_environment, variable_texts
from runyard.sdk.errors import unsupported
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.distribution import plan_distribution
from runyard.sdk.run_config.resources import plan_resources
from runyard.sdk.run_config.run_configuration import RunConfiguration
from runyard.sdk.run_config.script_run_config import THIRTY_DAYS_S, ScriptRunConfig, get_run_config_from_script_run
from runyard.sdk.runs.details import RetryRead
from runyard.sdk.runs.run import SCRIPT_RUN, Run, ScriptRun
from runyard.sdk.runs.source import store_git_patch, store_source
from runyard.sdk.submit.arguments import argument_texts, command_text
from runyard.sdk.submit.checks import check_output_folder, check_script, check_source, check_target, report_azure_only
from runyard.sdk.submit.data_plan import data_plain, datastores_of, outputs_plain, plan_data, references_plain

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.sdk.data.outputs import OutputDatasetConfig
    from runyard.sdk.workspaces.experiment import Experiment
    from runyard.sdk.workspaces.workspace import Workspace

SUBMIT_PATIENCE_S = 10.0  # a server that answers, but whose database is being restarted
SUBMIT_PAUSE_S = 1.0
NOTEBOOK = ".ipynb"
_RUNS_NOTEBOOKS = ("nbclient", "ipykernel")


@dataclass(frozen=True)
class Plan:
    """What a submit will do; nothing has been copied or sent."""

    source_directory: str
    spec: RunSpec
    run_id: Optional[str] = None  # None: one is made from the experiment's name
    type: str = SCRIPT_RUN
    tags: Mapping[str, Optional[str]] = field(default_factory=dict)
    written: Sequence[OutputDatasetConfig] = ()  # outputs of the run: later runs may read them


def submit(
    experiment: Experiment,
    config: Any,
    *,
    tags: Optional[Mapping[str, Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
    parent_id: Optional[str] = None,
    display_name: str = "",
) -> Run:
    """Create a run and return it at once: a ScriptRun, or a HyperDriveRun.

    Raises:
        SubmitRejected, InvalidArgument: the plan cannot work; nothing was copied.
        SnapshotRejected: the source folder cannot be stored as it is.
    """
    texts = tag_texts(tags) if tags else {}
    plan = plan_submission(config, options)
    check_target(experiment.workspace, plan.spec)
    check_datastores(experiment.workspace, plan.spec)
    client = experiment._client
    patience = RetryRead(limit_s=SUBMIT_PATIENCE_S, pause_s=SUBMIT_PAUSE_S)
    source = patience.ask(lambda: store_source(client, plan.source_directory))
    new = NewRun(
        key=make_uuid(),
        id=plan.run_id or make_run_id(experiment.name),
        workspace=experiment.workspace.name,
        experiment=experiment.name,
        spec=plan.spec,
        type=plan.type,
        display_name=display_name,
        parent_id=parent_id,
        snapshot_id=source.snapshot_id,
        snapshot_root=source.root,
        tags={**plan.tags, **texts},
        properties=source.properties,
        submitted_by=user_name(),
    )
    submitter = submitter_variables(client, plan.spec)
    created = patience.ask(lambda: client.runs.create(new, submitter=submitter))  # its key makes it one run
    store_git_patch(client, created.run.id, source)
    if plan.type != SCRIPT_RUN:
        return _sweep(experiment, created.run)
    run = ScriptRun._known(experiment, created.run)
    for output in plan.written:
        output._runs.append(run)
    return run


def _sweep(experiment: Experiment, record: records.Run) -> Run:
    from runyard.sdk.sweeps.run import HyperDriveRun  # few submits are sweeps

    return HyperDriveRun._known(experiment, record)


def plan_submission(config: Any, options: Optional[Mapping[str, Any]] = None) -> Plan:
    """Return what `submit` will do with `config`. Touches nothing but to look."""
    config = _without_options(config, options)
    if not isinstance(config, ScriptRunConfig):
        return _plan_other(config)
    settings = get_run_config_from_script_run(config)
    source = check_source(config.source_directory)
    arguments, given_command, data = plan_data(settings)
    command = command_text(given_command)
    script = _script(settings, source, command)
    environment = plan_environment(settings.environment, docker=settings.docker, folder=source)
    if script is not None and script.endswith(NOTEBOOK):
        environment = _with_notebook(environment)
    distribution = plan_distribution(settings)
    if distribution.kind == "mpi" and environment.kind == "uv" and environment.name.lower().startswith("azureml-"):
        environment = _with_horovod(environment)
    spec = RunSpec(
        target=settings.target,
        script=script,
        arguments=argument_texts(arguments),
        command=command or None,
        environment=environment,
        distribution=distribution,
        variables=variable_texts(settings.environment_variables, "run_config.environment_variables"),
        time_limit_s=_time_limit(settings.max_run_duration_seconds),
        grace_s=read_settings().grace_s,
        output_folders=_output_folders(settings),
        framework=str(settings.framework),
        communicator=str(settings.communicator),
        gpus=settings.resources.gpus if settings.resources.gpus is not None else settings._gpus,
        resources=plan_resources(settings.resources),
        max_attempts=settings.max_attempts,
        keep=list(settings.keep),
        data_references=data.references,
        datasets=data.datasets,
        outputs=data.outputs,
    )
    if settings.datacaches:
        unsupported("`run_config.datacaches`", hint="Data is read where it lies: leave it out.")
    report_azure_only(settings)
    return Plan(source, replace(spec, definition=_definition(settings, spec)), written=data.written)


def _with_horovod(environment: EnvironmentSpec) -> EnvironmentSpec:
    """Return the spec with Horovod when Azure's curated environment of that name has it; only MPI jobs need it."""
    from runyard.sdk.environments.registry import has_horovod  # few runs are in curated environments

    if not has_horovod(environment.name) or any(package_name(line) == "horovod" for line in environment.pip_packages):
        return environment
    warn_once(
        f"Horovod is added to the curated environment {environment.name} for this MPI job, and compiled once. A copy "
        "goes without: environment.clone('mine')."
    )
    return replace(environment, pip_packages=[*environment.pip_packages, "horovod"])


def _with_notebook(environment: EnvironmentSpec) -> EnvironmentSpec:
    """Return the spec with what executes notebooks, where packages are installed and it is not among them."""
    named = {package_name(line) for line in [*environment.pip_packages, *environment.conda_packages]}
    if environment.kind == "system" or (environment.kind == "container" and environment.interpreter):
        return environment  # its Python is the user's own
    if any("--hash=" in line for line in environment.pip_packages):
        return environment  # a lock file says all that there is
    missing = [name for name in _RUNS_NOTEBOOKS if name not in named]
    return replace(environment, pip_packages=[*environment.pip_packages, *missing])


def _plan_other(config: Any) -> Plan:
    """Return the plan of a sweep: that of one child, with what is varied."""
    from runyard.sdk.sweeps.config import (
        HyperDriveConfig,  # few submits are sweeps
        plan_sweep,
        sweep_run_id,
        sweep_tags,
    )

    if not isinstance(config, HyperDriveConfig):
        raise _not_submittable(config)
    source = config.source
    if config.estimator is not None:
        source = config.estimator._for_sweep(config.hyperparameter_sampling.parameter_space)
    plan = plan_submission(source)
    spec = replace(plan.spec, sweep=plan_sweep(config))
    return replace(plan, spec=spec, run_id=sweep_run_id(config), type=SWEEP_TYPE, tags=sweep_tags(config, spec))


def check_datastores(workspace: Workspace, spec: RunSpec) -> None:
    """Raises NotFound: the run's data is on a datastore that its workspace does not have."""
    used = datastores_of(spec)
    if used:
        known = list_datastores(workspace)
        for name in used:
            get_document(known, name)


def submitter_variables(client: Client, spec: RunSpec) -> Optional[Dict[str, str]]:
    """Return this process's variables for a run on this very machine, those that are no valid text left out.

    A server that is reached over the network gets none: they are about another machine, and secrets are among them.
    """
    if spec.target != "local" or client.address.kind != "unix":
        return None
    found = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode("utf-8")
        except UnicodeEncodeError:
            warn(f"The environment variable {name!r} is not valid UTF-8; the run does not get it.")
            continue
        found[name] = value
    return found


def _without_options(config: Any, options: Optional[Mapping[str, Any]]) -> Any:
    """Return the ScriptRunConfig that an estimator stands for; only estimators have options."""
    if hasattr(config, "_as_script_run_config"):
        return config._as_script_run_config(options)
    if options:
        raise UserErrorException(f"submit() does not know {', '.join(sorted(options))} for a {type(config).__name__}.")
    return config


def _script(settings: RunConfiguration, source: str, command: str) -> Optional[str]:
    if command and settings.script:
        raise SubmitRejected("Both script and command are given.", hint="Give one of them to ScriptRunConfig.")
    if command:
        if settings.arguments:
            raise SubmitRejected("arguments go with a script.", hint="Write them into the command itself.")
        return None
    if not settings.script:
        raise SubmitRejected(
            "There is nothing to run: neither script nor command is given.",
            hint="ScriptRunConfig(source_directory='.', script='train.py')",
        )
    if str(settings.script).startswith(MODULE):  # it may be installed, so that only the node knows
        return str(settings.script)
    return check_script(source, settings.script)


def _time_limit(seconds: Any) -> float:
    if seconds is None:
        return float(THIRTY_DAYS_S)
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < float("inf"):
        return float(seconds)
    raise UserErrorException(f"max_run_duration_seconds must be a number above 0, found {seconds!r}.")


def _output_folders(settings: RunConfiguration) -> List[str]:
    watched = [check_output_folder(name) for name in settings.history.directories_to_watch or []]
    outputs = ["outputs"] if settings.history.output_collection else []
    return list(dict.fromkeys([*outputs, *watched]))


def _definition(settings: RunConfiguration, spec: RunSpec) -> Dict[str, Any]:
    """Return Azure's `runDefinition`: the configuration as a dict, with what was really decided."""
    found = settings.to_plain()
    found.update(
        script=spec.script,
        arguments=list(spec.arguments),
        command=spec.command or "",
        dataReferences=references_plain(spec.data_references),
        data=data_plain(spec.datasets),
        outputData=outputs_plain(spec.outputs),
        maxRunDurationSeconds=settings.max_run_duration_seconds,
        environment=spec.environment.definition,
    )
    return found


def _not_submittable(config: Any) -> Exception:
    return UserErrorException(
        f"submit() takes a ScriptRunConfig or an estimator, found {type(config).__name__}.\n"
        "Make one: ScriptRunConfig(source_directory='.', script='train.py')."
    )
