"""From models, a script and an environment to a revision of a service, and from that to a service.

`plan_revision` stores what is on this machine and returns the whole `RevisionSpec`; Azure's classes and
`runyard deploy` both call it, with a spec that has the numbers (scaling, target, limits) already.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from runyard.core import errors
from runyard.core.config.settings import read_settings
from runyard.core.specs import EnvironmentSpec
from runyard.core.webservices import Definition, NewService, RevisionSpec, ServiceSettings, Webservice
from runyard.sdk.config.texts import user_name, warn_once
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.plan import plan_environment
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.serving.frameworks import made_with, pin_frameworks, run_facts
from runyard.sdk.serving.models import ServedModel, local_files, resolve_models
from runyard.sdk.serving.no_code import MLFLOW, SKLEARN, choose_scorer, make_environment
from runyard.sdk.serving.sources import ScriptSource, store_code

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.sdk.workspaces.workspace import Workspace

_STATUS = ((errors.NotFound, 404), (errors.Conflict, 409), (errors.NotAllowed, 403), (errors.InvalidArgument, 400))
_RUNTIMES = ("podman", "docker", "apptainer", "singularity")
_PYTHON = re.compile(r"^python:\s*['\"]?(\d+\.\d+)", re.MULTILINE)


@contextmanager
def service_errors() -> Iterator[None]:
    """What the server refuses about a service is Azure's WebserviceException, with the status of the HTTP API."""
    try:
        yield
    except errors.UserError as error:
        made = azure_error(error, WebserviceException)
        status = next((number for kind, number in _STATUS if isinstance(error, kind)), None)
        if isinstance(made, WebserviceException) and made.status_code is None:
            made.status_code = status
        raise made from None


def _note_unused_image(workspace: Workspace, environment: EnvironmentSpec, target: str) -> None:
    """Say that an image will not be used, where replicas run on this machine and nothing here starts containers."""
    container = environment.container
    is_here = target == "local" and workspace._client.address.kind == "unix"
    if container is None or not container.fallback or not is_here:
        return
    if read_settings().container_engine is None and not any(shutil.which(name) for name in _RUNTIMES):
        warn_once(
            f"The {f'image {container.image}' if container.image else 'Dockerfile'} of environment "
            f"`{environment.name}` is not used: neither podman nor docker is on this machine. The service's packages "
            "are installed on the machine itself."
        )


def plan_revision(
    workspace: Workspace,
    models: Any,
    source: Optional[ScriptSource],
    environment: Optional[Environment] = None,
    *,
    base: Optional[RevisionSpec] = None,
    register: bool = False,
) -> RevisionSpec:
    """Return what a revision serves, once its files are stored on the server.

    Args:
        workspace: of the models.
        models: Model objects, ids, names or paths; one, or a list.
        source: the entry script; None: the model is served without one, by its framework.
        environment: of the workers; None: this Python, or the framework's own for a model without a script.
        base: what is decided already: target, scaling, workers, limits, Azure's definition.
        register: local files become models of the workspace; else they travel with the revision.

    Raises:
        WebserviceException: a model or file is missing, or the model needs a script.
        SubmitRejected: the environment cannot be.
    """
    spec = base or RevisionSpec()
    served = resolve_models(workspace, models, register=register)
    no_code = ""
    if source is None:
        no_code, environment = _without_script(workspace, served, environment)
    snapshot_id = store_code(workspace._client, source, local_files(served))
    planned = plan_environment(
        environment if environment is not None else _own_python(),
        folder=source.folder if source is not None else None,
        prefers_image=True,
    )
    _note_unused_image(workspace, planned, spec.target)
    registered = [one.record for one in served if one.record is not None]
    planned, notes = pin_frameworks(run_facts(workspace._client), planned, registered)
    for note in notes:
        warn_once(note)
    spec = replace(
        spec,
        models=[one.id for one in served],
        entry=source.entry if source is not None else "",
        source_directory=source.folder_name if source is not None else "",
        snapshot_id=snapshot_id,
        no_code=no_code,
        environment=planned,
        created_by=user_name(),
        definition={**spec.definition, **_origin(source, served)},
    )
    return with_azure_variables(spec, planned)


def store_again(
    client: Client, spec: RevisionSpec, workspace: Optional[Workspace] = None, models: Any = None
) -> RevisionSpec:
    """Return the revision with its script and local models as their files are now, or with other local models.

    Raises:
        WebserviceException: a file is not on this machine any more.
    """
    origin = spec.definition.get("source")
    source = ScriptSource(origin["entry"], origin["folder"], dict(origin["files"])) if origin else None
    if source is not None and (source.folder or source.files):
        gone = [path for path in [source.folder, *source.files] if path and not os.path.exists(path)]
        if gone:
            raise WebserviceException(f"The script cannot be stored again: {gone[0]} is not there any more.")
    if workspace is not None and models is not None:
        served = resolve_models(workspace, models, register=False)
        definition = {**spec.definition, "localModels": _local_paths(served)}
        spec = replace(spec, models=[one.id for one in served], definition=definition)
    paths = {_pair(model): path for model, path in (spec.definition.get("localModels") or {}).items()}
    missing = [path for path in paths.values() if not os.path.exists(path)]
    if missing:
        raise WebserviceException(f"The model {missing[0]} is not there any more.")
    return replace(spec, snapshot_id=store_code(client, source, paths))


def _origin(source: Optional[ScriptSource], served: Sequence[ServedModel]) -> Definition:
    """Return where the files came from, for `reload`."""
    origin: Definition = {"localModels": _local_paths(served)}
    if source is not None:
        origin["source"] = {"entry": source.entry, "folder": source.folder, "files": dict(source.files)}
    return origin


def _local_paths(served: Sequence[ServedModel]) -> Definition:
    return {one.id: one.path for one in served if one.record is None}


def _pair(model: str) -> Tuple[str, int]:
    name, _, version = model.rpartition(":")
    return name, int(version)


def with_azure_variables(spec: RevisionSpec, environment: EnvironmentSpec) -> RevisionSpec:
    """Return the spec with what variables of Azure's inference server say: WORKER_COUNT, SCORING_TIMEOUT_MS."""
    variables = {**environment.variables, **spec.variables}
    workers, timeout = _number(variables, "WORKER_COUNT"), _number(variables, "SCORING_TIMEOUT_MS")
    if workers is not None:
        spec = replace(spec, workers=workers)
    return replace(spec, scoring_timeout_ms=timeout) if timeout is not None else spec


def cors_origins(spec: RevisionSpec) -> List[str]:
    """Return the pages that may call the service from browsers, as AML_CORS_ORIGINS names them."""
    variables = {**spec.environment.variables, **spec.variables}
    return [one.strip() for one in variables.get("AML_CORS_ORIGINS", "").split(",") if one.strip()]


def deploy(workspace: Workspace, name: str, wanted: NewService) -> Webservice:
    """Deploy a service and return its record at once; its state becomes Healthy or Failed by itself.

    Raises:
        WebserviceException: it cannot be served, or (409) its name is taken or an operation is under way.
    """
    with service_errors():
        return workspace._client.webservices.deploy(workspace.name, name, wanted)


def new_service(
    settings: ServiceSettings,
    revision: RevisionSpec,
    *,
    overwrite: bool = False,
    primary_key: Optional[str] = None,
    secondary_key: Optional[str] = None,
) -> NewService:
    """Return the request that deploys a revision."""
    if not settings.cors_origins:
        settings = replace(settings, cors_origins=cors_origins(revision))
    return NewService(settings, revision, overwrite, primary_key, secondary_key)


def served_environment(
    workspace: Workspace,
    served: Sequence[ServedModel],
    source: Optional[ScriptSource],
    environment: Optional[Environment],
) -> Tuple[str, Environment]:
    """Return the scorer of a model without a script ("" with one), and the environment in which it answers.

    Raises:
        WebserviceException: the model needs a script.
    """
    if source is None:
        return _without_script(workspace, served, environment)
    return "", environment if environment is not None else _own_python()


def _without_script(
    workspace: Workspace, served: Sequence[ServedModel], environment: Optional[Environment]
) -> Tuple[str, Environment]:
    if len(served) != 1:
        raise WebserviceException(
            f"A service without an entry script has one model, not {len(served)}.\n"
            "Give inference_config=InferenceConfig(entry_script='score.py', ...) for several."
        )
    model = served[0]
    scorer = choose_scorer(model.name, model.framework, model.files())
    if environment is not None:
        return scorer, environment
    if scorer == SKLEARN and model.record is not None:
        made = made_with(run_facts(workspace._client), model.record)
        return scorer, make_environment(scorer, made.version if made is not None else "")
    if scorer != MLFLOW:
        return scorer, make_environment(scorer, model.framework_version)
    lines = model.read_text(workspace, "requirements.txt").splitlines()
    python = _PYTHON.search(model.read_text(workspace, "python_env.yaml"))
    return scorer, make_environment(scorer, requirements=lines, python=python[1] if python else "")


def _own_python() -> Environment:
    environment = Environment("inference-environment")
    environment.environment_variables = {}
    environment.python.user_managed_dependencies = True
    return environment


def _number(variables: Mapping[str, str], name: str) -> Optional[int]:
    text = variables.get(name, "").strip()
    if not text:
        return None
    if text.isdigit() and int(text) > 0:
        return int(text)
    warn_once(f"The environment variable {name} is {text[:40]!r}, which is no number above 0; it is not used.")
    return None
