"""The ways to deploy: `Model.deploy`, and those of 2018 with images."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from runyard.core.compute import LOCAL as THIS_MACHINE
from runyard.core.errors import InvalidArgument
from runyard.core.webservices import Definition, RevisionSpec, ServiceSettings, check_service_name
from runyard.sdk.config.texts import note_without_effect, warn_once
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.model import Model
from runyard.sdk.serving.deployment import deploy, new_service, plan_revision
from runyard.sdk.serving.images import ContainerImageConfig, Image, plan_image
from runyard.sdk.serving.inference_config import InferenceConfig
from runyard.sdk.serving.sources import script_source
from runyard.sdk.webservices.cloud import AciWebservice, AksWebservice
from runyard.sdk.webservices.configuration import (
    AKS_ENDPOINT,
    LOCAL,
    AksEndpointDeploymentConfiguration,
    LocalWebserviceDeploymentConfiguration,
    WebserviceDeploymentConfiguration,
)
from runyard.sdk.webservices.webservice import Webservice, find_record

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

_MOST_OF_NAME = 32
_LOCAL_SUFFIX = "-local"


def deploy_model(
    workspace: Workspace,
    name: str,
    models: Any,
    inference_config: Optional[InferenceConfig] = None,
    deployment_config: Any = None,
    deployment_target: Any = None,
    overwrite: bool = False,
    show_output: bool = False,
) -> Webservice:
    """Do what `Model.deploy` does."""
    _check_name(name)
    config = choose_configuration(deployment_config, deployment_target)
    is_local = config._type == LOCAL
    if show_output:
        config.print_deploy_configuration()
    if not is_local:
        Webservice.check_for_existing_webservice(workspace, name, overwrite or _is_local(workspace, name))
    target = target_name(config, deployment_target)
    revision = plan(workspace, models, inference_config, config._base(target), register=not is_local)
    service = start(workspace, name, config, revision, deployment_target, overwrite=overwrite)
    if is_local:
        print(f"Local webservice `{service.name}` is being started.") if show_output else None
    return service


def deploy_paths(
    workspace: Workspace,
    name: str,
    model_paths: Sequence[str],
    image_config: Any,
    deployment_config: Any,
    deployment_target: Any,
    overwrite: bool,
) -> Webservice:
    """Do what `Webservice.deploy` does."""
    paths = [model_paths] if isinstance(model_paths, str) else list(model_paths)
    models = [Model.register(workspace, path, os.path.basename(os.path.abspath(path))[:30]) for path in paths]
    return deploy_models(workspace, name, models, image_config, deployment_config, deployment_target, overwrite)


def deploy_models(
    workspace: Workspace,
    name: str,
    models: Sequence[Any],
    image_config: Any,
    deployment_config: Any,
    deployment_target: Any,
    overwrite: bool,
) -> Webservice:
    """Do what `Webservice.deploy_from_model` does."""
    config = choose_configuration(deployment_config, deployment_target)
    if config._type == LOCAL or isinstance(image_config, InferenceConfig):
        return deploy_model(workspace, name, models, image_config, config, deployment_target, overwrite)
    _check_name(name)
    Webservice.check_for_existing_webservice(workspace, name, overwrite or _is_local(workspace, name))
    image = Image.create(workspace, name, models, image_config)
    image.wait_for_creation(True)
    return deploy_image(workspace, name, image, config, deployment_target, overwrite)


def deploy_image(
    workspace: Workspace, name: str, image: Any, deployment_config: Any, deployment_target: Any, overwrite: bool
) -> Webservice:
    """Do what `Webservice.deploy_from_image` does."""
    _check_name(name)
    config = choose_configuration(deployment_config, deployment_target)
    chosen = image if isinstance(image, Image) else Image(workspace, id=str(image))
    config.validate_image(chosen)
    print("Creating service")
    base = config._base(target_name(config, deployment_target))
    revision = with_content(base, chosen.revision)
    return start(workspace, name, config, revision, deployment_target, overwrite=overwrite)


def deploy_local(
    workspace: Workspace, name: str, models: Any, image_config: Any, deployment_config: Any, *, wait: bool
) -> Webservice:
    """Serve models on a port of this machine."""
    config = deployment_config or LocalWebserviceDeploymentConfiguration()
    service = deploy_model(workspace, name, models, image_config, config)
    if wait:
        service.wait_for_deployment(True)
    return service


def choose_configuration(config: Any, target: Any) -> WebserviceDeploymentConfiguration:
    """Return the configuration that is meant: the given one, else the defaults of AKS for a target, or of ACI.

    Raises:
        WebserviceException: it is none of this SDK.
    """
    if isinstance(config, WebserviceDeploymentConfiguration):
        return config
    if config is not None:
        raise WebserviceException(
            f"deployment_config is what AciWebservice.deploy_configuration(), AksWebservice.deploy_configuration() or "
            f"LocalWebservice.deploy_configuration() returns, found a {type(config).__name__}."
        )
    return AciWebservice.deploy_configuration() if target is None else AksWebservice.deploy_configuration()


def target_name(config: WebserviceDeploymentConfiguration, target: Any) -> str:
    """Return the compute target that replicas run on: an object, a name, or what the configuration says."""
    given = target if target is not None else getattr(config, "compute_target_name", None)
    if given is None:
        return THIS_MACHINE
    name = given if isinstance(given, str) else getattr(given, "_named_by_runs", None) or getattr(given, "name", None)
    if not isinstance(name, str) or not name:
        raise WebserviceException(
            f"deployment_target must be a ComputeTarget or the name of one, found {given!r:.100}."
        )
    return name


def plan(
    workspace: Workspace, models: Any, config: Optional[Any], base: RevisionSpec, *, register: bool
) -> RevisionSpec:
    """Return the revision of models with an InferenceConfig, an image configuration, or none.

    Raises:
        WebserviceException: it is another thing, or it cannot be served.
    """
    if config is None:
        return plan_revision(workspace, models, None, base=base, register=register)
    if isinstance(config, ContainerImageConfig):
        return with_content(base, plan_image(workspace, models, config, register=register))
    if not isinstance(config, InferenceConfig):
        raise WebserviceException(f"inference_config must be an InferenceConfig, found a {type(config).__name__}.")
    config.validate_configuration()
    report_unused(config)
    source = script_source(config.path_of(config.entry_script), config.source_directory)
    definition: Definition = {**base.definition, "inferenceConfig": config.to_plain()}
    base = replace(base, definition=definition)
    environment = config.make_environment()
    return plan_revision(workspace, models, source, environment, base=base, register=register)


def report_unused(config: InferenceConfig) -> None:
    """Say once what of an InferenceConfig has no effect."""
    note_without_effect(
        {
            "extra_docker_file_steps": config.extra_docker_file_steps,
            "enable_gpu": config.enable_gpu or None,
            "cuda_version": config.cuda_version,
        }
    )


def with_content(base: RevisionSpec, content: RevisionSpec) -> RevisionSpec:
    """Return the numbers of `base` with models, script and environment of another revision."""
    return replace(
        base,
        models=list(content.models),
        entry=content.entry,
        source_directory=content.source_directory,
        snapshot_id=content.snapshot_id,
        no_code=content.no_code,
        environment=content.environment,
        variables=dict(content.variables),
        workers=content.workers,
        created_by=content.created_by,
        definition={**base.definition, **content.definition},
    )


def start(
    workspace: Workspace,
    name: str,
    config: WebserviceDeploymentConfiguration,
    revision: RevisionSpec,
    target: Any,
    *,
    overwrite: bool,
) -> Webservice:
    """Deploy a planned revision and return the service at once.

    Raises:
        WebserviceException: the name is taken and `overwrite` is not set, or an operation is under way.
    """
    settings = config._settings(revision.target if target is not None else "")
    if config._type == LOCAL:
        name, settings, overwrite = _local_place(workspace, name, settings)
    elif _is_local(workspace, name):
        overwrite = True  # on Azure they are two services; here the local one becomes the other
        warn_once(f"The local web service `{name}` becomes one of type {config._type}.")
    if config._type == AKS_ENDPOINT:
        revision = replace(revision, label=_version_name(config) or name)
    wanted = new_service(
        settings,
        revision,
        overwrite=overwrite,
        primary_key=config.primary_key,
        secondary_key=config.secondary_key,
    )
    return Webservice._known(workspace, deploy(workspace, name, wanted))


def _version_name(config: WebserviceDeploymentConfiguration) -> str:
    return (isinstance(config, AksEndpointDeploymentConfiguration) and config.version_name) or ""


def _local_place(workspace: Workspace, name: str, settings: ServiceSettings) -> Tuple[str, ServiceSettings, bool]:
    """Return name, settings and whether to overwrite, for a service of this machine: like Azure, it replaces another.

    A name that another kind of service has is left to it.
    """
    found = find_record(workspace, name)
    if found is not None and found.settings.compute_type != LOCAL:
        other = local_name(name)
        warn_once(f"`{name}` is a web service of type {found.settings.compute_type}; the local one is `{other}`.")
        name, found = other, find_record(workspace, other)
    if not settings.port and found is not None and found.settings.port:
        settings = replace(settings, port=found.settings.port)
    elif not settings.port and workspace._client.address.kind == "unix":
        settings = replace(settings, port=_free_port())
    return name, settings, True


def local_name(name: str) -> str:
    """Return the name of the local service beside another kind of service of the name."""
    return f"{name[: _MOST_OF_NAME - len(_LOCAL_SUFFIX)].rstrip('-')}{_LOCAL_SUFFIX}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_local(workspace: Workspace, name: str) -> bool:
    found = find_record(workspace, name)
    return found is not None and found.settings.compute_type == LOCAL


def _check_name(name: Any) -> None:
    try:
        check_service_name(name)
    except InvalidArgument as error:
        raise azure_error(error, WebserviceException) from None


def print_plan(models: Sequence[Any], inference_config: Any, deployment_config: Any, deployment_target: Any) -> None:
    """Print what `Model.deploy` would do."""
    names: List[str] = [str(getattr(one, "id", one)) for one in models or ()]
    print(f"Models: {', '.join(names) or 'none'}")
    if inference_config is not None:
        for key, value in inference_config.to_plain().items():
            if value is not None:
                print(f"    {key}: {value}")
    choose_configuration(deployment_config, deployment_target).print_deploy_configuration()
    if deployment_target is not None:
        print(f"Deployment target: {getattr(deployment_target, 'name', deployment_target)}")
