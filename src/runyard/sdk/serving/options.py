"""A deployment by its options: what `runyard deploy` and `runyard services update` say. It becomes a revision."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Tuple

from runyard.core.config.logins import HIDDEN
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.webservices import RevisionSpec, Scaling, Webservice
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.plan import plan_environment
from runyard.sdk.environments.projects import environment_of_script
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.resources import plan_resources, read_resources
from runyard.sdk.serving.deployment import plan_revision, with_azure_variables
from runyard.sdk.serving.inference_config import parse_script
from runyard.sdk.serving.models import UNREGISTERED, ServedModel, resolve_models
from runyard.sdk.serving.no_code import find_scorer
from runyard.sdk.serving.sources import ScriptSource
from runyard.sdk.submit.entry import Entry, locate_script
from runyard.sdk.submit.job import JobSettings, choose_environment

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

Note = Callable[[str], None]
_LONGEST_NAME = 32


@dataclass
class DeployOptions:
    """None, or empty: not said. Paths start from the current folder."""

    models: Sequence[str] = ()  # NAME, NAME:VERSION, or a path, which is registered
    entry: Optional[str] = None
    source: Optional[str] = None
    python: Optional[str] = None
    environment: Optional[str] = None
    extras: Sequence[str] = ()
    groups: Sequence[str] = ()
    without_groups: Sequence[str] = ()
    pixi_environment: Optional[str] = None
    image: Optional[str] = None
    variables: Mapping[str, str] = field(default_factory=dict)
    target: Optional[str] = None
    gpus: Optional[int] = None
    resources: Mapping[str, str] = field(default_factory=dict)
    workers: Optional[int] = None
    threads: Optional[int] = None
    replicas: Optional[int] = None
    min_replicas: Optional[int] = None
    max_replicas: Optional[int] = None
    memory_limit: Optional[int] = None  # bytes, of a worker
    timeout: Optional[int] = None  # seconds, of a request
    batching: Optional[str] = None

    @property
    def names_environment(self) -> bool:
        chosen = (self.extras, self.groups, self.without_groups, self.pixi_environment)
        return bool(self.python or self.environment or self.image or any(chosen))

    @property
    def scaling(self) -> Optional[Scaling]:
        """What is said of the number of replicas.

        Raises:
            InvalidArgument: both a number and a range.
        """
        low, high = self.min_replicas, self.max_replicas
        if low is None and high is None:
            return Scaling(replicas=self.replicas) if self.replicas is not None else None
        if self.replicas is not None:
            raise InvalidArgument(
                "Both a number of replicas and a range are given.", hint="--replicas 2, or --min-replicas and --max-…"
            )
        low = 1 if low is None else low
        return Scaling(is_on=True, min_replicas=low, max_replicas=max(low, 10) if high is None else high)

    @property
    def makes_revision(self) -> bool:
        """Whether it says more than the number of replicas."""
        scale = ("replicas", "min_replicas", "max_replicas")
        return any(value not in (None, "", (), [], {}) for name, value in vars(self).items() if name not in scale)


def plan_deployment(workspace: Workspace, options: DeployOptions, note: Note) -> RevisionSpec:
    """Return the first revision of a service; models that are files are registered, sources are stored.

    Raises:
        InvalidArgument, SubmitRejected, WebserviceException: it cannot be.
    """
    source = _source(options)
    models = resolve_models(workspace, list(options.models), register=True)
    if source is None:
        _check_without_script(models)
    environment = _environment(workspace, options, source, models, note)
    base = _with_numbers(RevisionSpec(), options)
    return _plan(workspace, models, source, environment, base)


def plan_change(workspace: Workspace, service: Webservice, options: DeployOptions, note: Note) -> RevisionSpec:
    """Return the next revision of a service: what serves now, less what is said otherwise.

    Raises:
        InvalidArgument, SubmitRejected, WebserviceException: it cannot be.
    """
    before = (service.serving or service.revisions[-1]).spec
    base = _with_numbers(before, options)
    source = _source(options) if options.entry or options.source else None
    if source is None:
        return _without_new_source(workspace, options, base, note)
    models = _models(workspace, options, before, needs_all=True)
    environment = _environment(workspace, options, source, models, note) if options.names_environment else None
    spec = _plan(workspace, models, source, environment, replace(base, entry=source.entry))
    return spec if environment is not None else replace(spec, environment=before.environment)


def service_name(options: DeployOptions) -> str:
    """Return what a service is called that nobody named: after its first model, else after its script.

    Raises:
        InvalidArgument: no name can be made of that.
    """
    if not options.models and not options.entry:
        raise InvalidArgument(
            "There is nothing to deploy: neither a model nor an entry script is named.",
            hint="runyard deploy MODEL --entry score.py; `runyard models list` shows the models there are.",
        )
    given = options.models[0] if options.models else options.entry or ""
    stem = os.path.basename(given.rstrip(os.sep)) if os.sep in given or os.path.exists(given) else given
    plain = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(:\d+|\.\w{1,8})$", "", stem).lower()).strip("-")
    plain = re.sub(r"^[^a-z]+", "", plain)[:_LONGEST_NAME].strip("-")
    if len(plain) < 3:
        raise InvalidArgument(f"No name of a service can be made of {given!r}.", hint="Give one: --name digits-svc")
    return plain


def _check_without_script(models: Sequence[ServedModel]) -> None:
    if len(models) == 1 and find_scorer(models[0].framework, models[0].files()) is None:
        name = models[0].name
        raise InvalidArgument(
            f"The model `{name}` cannot be served without an entry script.",
            why=f"Its framework is {models[0].framework}; models of ScikitLearn, Onnx, TensorFlow and MLflow can.",
            hint=f"runyard deploy {name} --entry score.py; or register it with its framework: "
            f"runyard models register {name} PATH --framework ScikitLearn",
        )


def _plan(
    workspace: Workspace,
    models: Sequence[ServedModel],
    source: Optional[ScriptSource],
    environment: Optional[Environment],
    base: RevisionSpec,
) -> RevisionSpec:
    given = [_handle(workspace, one) for one in models]
    spec = plan_revision(workspace, given, source, environment, base=base, register=True)
    return replace(spec, source_directory="")  # the script's folder is where it works, as it is when it is tried


def _handle(workspace: Workspace, model: ServedModel) -> Any:
    from runyard.sdk.models.model import Model  # which few commands need

    assert model.record is not None
    return Model._of(workspace, model.record)


def _without_new_source(workspace: Workspace, options: DeployOptions, base: RevisionSpec, note: Note) -> RevisionSpec:
    models = _models(workspace, options, base, needs_all=False)
    if models:
        base = replace(base, models=[one.id for one in models])
    if base.no_code and models:
        again = plan_revision(workspace, [_handle(workspace, models[0])], None, None, base=base, register=True)
        base = again if not options.names_environment else replace(base, no_code=again.no_code)
    if not options.names_environment:
        return base
    environment = choose_environment(_settings(options), Entry(os.getcwd()), note)
    planned = plan_environment(environment or _active(), folder=os.getcwd())
    return with_azure_variables(replace(base, environment=planned), planned)


def _models(
    workspace: Workspace, options: DeployOptions, before: RevisionSpec, *, needs_all: bool
) -> List[ServedModel]:
    """Return the models that are named, else those that are served, where the caller needs to know them."""
    if options.models:
        return resolve_models(workspace, list(options.models), register=True)
    if not needs_all:
        return []
    local = [name for name in before.models if name.endswith(f":{UNREGISTERED}")]
    if local:
        raise InvalidArgument(
            f"The model `{local[0]}` came with the source that another one replaces.",
            hint="Name the models too: --model NAME:VERSION, or --model PATH.",
        )
    return resolve_models(workspace, before.models, register=True)


def _source(options: DeployOptions) -> Optional[ScriptSource]:
    if options.entry is None:
        if options.source:
            raise InvalidArgument("A source folder is given without an entry script.", hint="--entry score.py")
        return None
    folder, inner = locate_script(options.entry, options.source)
    if not inner.endswith(".py"):
        raise InvalidArgument(
            f"The entry script `{options.entry}` is no Python file: its name must end with .py.",
            hint="A model's file is named first: runyard deploy model.pkl --entry score.py",
        )
    parse_script(os.path.join(folder, inner))
    return ScriptSource(inner.replace(os.sep, "/"), os.path.abspath(folder))


def _environment(
    workspace: Workspace,
    options: DeployOptions,
    source: Optional[ScriptSource],
    models: Sequence[ServedModel],
    note: Note,
) -> Optional[Environment]:
    """Return the environment that is named, else the script's own, else that of the run that made the model.

    None: the one of the model's framework, for a model without a script.
    """
    script = os.path.join(source.folder or "", source.entry) if source is not None else None
    if source is None and not options.names_environment:
        return None
    if not options.names_environment and script is not None and environment_of_script(script) is None:
        made, said = _environment_of_models(workspace, models)
        if made is not None:
            note(said)
            return made
    folder = source.folder if source is not None and source.folder else os.getcwd()
    entry = Entry(folder, source.entry if source is not None else None, file=script)
    return choose_environment(_settings(options), entry, note) or _active()


def _environment_of_models(workspace: Workspace, models: Sequence[ServedModel]) -> Tuple[Optional[Environment], str]:
    """Return the environment in which the first model was made, when it can be made again on this machine."""
    for model in models:
        run_id = model.record.spec.run_id if model.record is not None else None
        if not run_id:
            continue
        try:
            environment = workspace.get_run(run_id).get_environment()
        except (NotFound, UserErrorException):
            continue
        python = environment.python
        if python.user_managed_dependencies and not os.access(str(python.interpreter_path), os.X_OK):
            continue
        if python.user_managed_dependencies:  # it has what it has
            python.conda_dependencies = CondaDependencies()
        variables = environment.environment_variables
        hidden = sorted(name for name, value in variables.items() if HIDDEN in value)
        environment.environment_variables = {name: variables[name] for name in variables if name not in hidden}
        said = f"The environment is that of run {run_id}, which made `{model.id}`."
        if hidden:
            said += f" Set its secrets again, if the script needs them: {', '.join(hidden)} (--env-var)."
        return environment, said
    return None, ""


def _active() -> Environment:
    environment = Environment("this-python")
    environment.environment_variables = {}
    environment.python.user_managed_dependencies = True
    return environment


def _settings(options: DeployOptions) -> JobSettings:
    return JobSettings(
        python=options.python,
        environment=options.environment,
        extras=options.extras,
        groups=options.groups,
        without_groups=options.without_groups,
        pixi_environment=options.pixi_environment,
        image=options.image,
    )


def _with_numbers(base: RevisionSpec, options: DeployOptions) -> RevisionSpec:
    return replace(
        base,
        target=options.target or base.target,
        gpus=base.gpus if options.gpus is None else options.gpus,
        workers=options.workers or base.workers,
        threads=options.threads or base.threads,
        scaling=options.scaling or base.scaling,
        memory_limit_mb=-(-options.memory_limit // (1 << 20)) if options.memory_limit else base.memory_limit_mb,
        scoring_timeout_ms=options.timeout * 1000 if options.timeout else base.scoring_timeout_ms,
        batching=options.batching or base.batching,
        resources=plan_resources(read_resources(options.resources)) if options.resources else base.resources,
        variables={**base.variables, **options.variables},
    )
