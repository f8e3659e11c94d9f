"""`experiment.submit(config)`: a configuration becomes a frozen plan, then a run. Mistakes are found in the plan."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from runyard.core.errors import SubmitRejected
from runyard.core.names import make_run_id, make_uuid
from runyard.core.records import NewRun
from runyard.core.settings import read_settings
from runyard.core.specs import RunSpec
from runyard.sdk.arguments import argument_texts, command_text
from runyard.sdk.azure_only import report_azure_only
from runyard.sdk.distribution_plan import plan_distribution
from runyard.sdk.environment_plan import plan_environment, variable_texts
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.not_yet import refuse
from runyard.sdk.notices import warn
from runyard.sdk.run import SCRIPT_RUN, ScriptRun
from runyard.sdk.run_configuration import RunConfiguration
from runyard.sdk.script_run_config import THIRTY_DAYS_S, ScriptRunConfig
from runyard.sdk.source import store_git_patch, store_source
from runyard.sdk.source_checks import check_output_folder, check_script, check_source
from runyard.sdk.tags import tag_texts
from runyard.sdk.who import user_name

if TYPE_CHECKING:
    from runyard.sdk.experiment import Experiment

TARGETS = ("local",)


@dataclass(frozen=True)
class Plan:
    """What a submit will do; nothing has been copied or sent."""

    source_directory: str
    spec: RunSpec


def submit(
    experiment: Experiment,
    config: Any,
    *,
    tags: Optional[Mapping[str, Any]] = None,
    options: Optional[Mapping[str, Any]] = None,
    parent_id: Optional[str] = None,
) -> ScriptRun:
    """Create a run and return it at once.

    Raises:
        SubmitRejected, InvalidArgument: the plan cannot work; nothing was copied.
        SnapshotRejected: the source folder cannot be stored as it is.
    """
    if options:
        raise UserErrorException(f"submit() does not know {', '.join(sorted(options))} for a {type(config).__name__}.")
    texts = tag_texts(tags) if tags else {}
    plan = plan_submission(config)
    client = experiment._client
    source = store_source(client, plan.source_directory)
    new = NewRun(
        key=make_uuid(),
        id=make_run_id(experiment.name),
        workspace=experiment.workspace.name,
        experiment=experiment.name,
        spec=plan.spec,
        type=SCRIPT_RUN,
        parent_id=parent_id,
        snapshot_id=source.snapshot_id,
        snapshot_root=source.root,
        tags=texts,
        properties=source.properties,
        submitted_by=user_name(),
    )
    created = client.runs.create(new, submitter=submitter_variables() if plan.spec.target == "local" else None)
    store_git_patch(client, created.run.id, source)
    return ScriptRun._known(experiment, created.run)


def plan_submission(config: Any) -> Plan:
    """Return what `submit` will do with `config`. Touches nothing but to look."""
    if not isinstance(config, ScriptRunConfig):
        raise _not_submittable(config)
    settings = _merged(config)
    source = check_source(config.source_directory)
    command = command_text(settings.command)
    script = _script(settings, source, command)
    environment = plan_environment(settings.environment, use_docker=settings.docker.use_docker)
    spec = RunSpec(
        target=_target(settings.target),
        script=script,
        arguments=argument_texts(settings.arguments),
        command=command or None,
        environment=environment,
        distribution=plan_distribution(settings),
        variables=variable_texts(settings.environment_variables, "run_config.environment_variables"),
        time_limit_s=_time_limit(settings.max_run_duration_seconds),
        grace_s=read_settings().grace_s,
        output_folders=_output_folders(settings),
        framework=str(settings.framework),
        communicator=str(settings.communicator),
    )
    _refuse_data(settings)
    report_azure_only(settings)
    return Plan(source, replace(spec, definition=_definition(settings, spec)))


def submitter_variables() -> Dict[str, str]:
    """Return this process's environment variables, those that are no valid text left out."""
    found = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode("utf-8")
        except UnicodeEncodeError:
            warn(f"The environment variable {name!r} is not valid UTF-8; the run does not get it.")
            continue
        found[name] = value
    return found


def _merged(config: ScriptRunConfig) -> RunConfiguration:
    """Return the run configuration with the script, arguments and command of `config`, which win."""
    from copy import copy  # the user's own object stays as it is

    settings = copy(config.run_config)
    for name in ("script", "arguments", "command"):
        given = getattr(config, name)
        if getattr(settings, name) not in (None, "", [], given):
            warn(f"What ScriptRunConfig says about script, arguments or command wins over run_config.{name}.")
        setattr(settings, name, given)
    return settings


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
    return check_script(source, settings.script)


def _target(name: str) -> str:
    if name in TARGETS:
        return name
    raise SubmitRejected(
        f"The compute target `{name}` is not known.",
        why=f"Known: {', '.join(TARGETS)}.",
        hint="Use compute_target='local'; other machines come with a later release.",
    )


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


def _refuse_data(settings: RunConfiguration) -> None:
    for name in ("data_references", "data", "output_data", "datacaches"):
        if getattr(settings, name):
            refuse(f"`run_config.{name}`", hint="Pass the path of the data in arguments.")


def _definition(settings: RunConfiguration, spec: RunSpec) -> Dict[str, Any]:
    """Return Azure's `runDefinition`: the configuration as a dict, with what was really decided."""
    found = settings.to_plain()
    found.update(
        script=spec.script,
        arguments=list(spec.arguments),
        command=spec.command or "",
        maxRunDurationSeconds=settings.max_run_duration_seconds,
        environment=spec.environment.definition,
    )
    return found


def _not_submittable(config: Any) -> Exception:
    return UserErrorException(
        f"submit() takes a ScriptRunConfig, found {type(config).__name__}.\n"
        "Make one: ScriptRunConfig(source_directory='.', script='train.py')."
    )
