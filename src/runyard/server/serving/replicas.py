"""A replica as a run: what is submitted for it."""

from __future__ import annotations

from dataclasses import replace

from runyard.core.records import SNAPSHOT_PROPERTY, NewRun
from runyard.core.specs import MODULE, RunSpec
from runyard.core.webservices import (
    EXPERIMENT,
    REPLICA_TYPE,
    REVISION_PROPERTY,
    SERVICE_TYPE,
    RevisionSpec,
    ServiceRevision,
    Webservice,
)

_MODULE = "runyard.sdk.serving.replica"
_FOR_EVER_S = 10 * 365 * 86400.0
_TOKEN = "RUNYARD_SERVING_TOKEN"
NUMBER_PROPERTY, SERVICE_PROPERTY = "runyard.replica", "runyard.service"


def service_request(service: Webservice, user: str) -> NewRun:
    """Return the run that the service is: it has no process of its own."""
    return NewRun(
        key=f"service:{service.run_id}",
        id=service.run_id,
        workspace=service.workspace,
        experiment=EXPERIMENT,
        type=SERVICE_TYPE,
        display_name=service.name,
        description=service.settings.description,
        tags=dict(service.settings.tags),
        properties={SERVICE_PROPERTY: service.name},
        submitted_by=user,
        owner=service.owner,
    )


def replica_run_id(service: Webservice, number: int) -> str:
    return f"{service.run_id}_{number}"


def replica_request(service: Webservice, revision: ServiceRevision, number: int, *, gateway: str, token: str) -> NewRun:
    """Return the run of one replica; the same number, the same run."""
    spec = revision.spec
    properties = {
        SERVICE_PROPERTY: service.name,
        REVISION_PROPERTY: str(revision.number),
        NUMBER_PROPERTY: str(number),
        **({SNAPSHOT_PROPERTY: spec.snapshot_id} if spec.snapshot_id else {}),
    }
    run = RunSpec(
        target=spec.target,
        script=MODULE + _MODULE,
        arguments=_arguments(service, revision, number, gateway),
        environment=replace(spec.environment, variables={}),
        variables={**spec.environment.variables, **spec.variables, **_variables(service, spec), _TOKEN: token},
        gpus=spec.gpus,
        resources=spec.resources,
        time_limit_s=_FOR_EVER_S,
        definition=dict(spec.definition),
    )
    return NewRun(
        key=f"replica:{service.run_id}:{number}",
        id=replica_run_id(service, number),
        workspace=service.workspace,
        experiment=EXPERIMENT,
        spec=run,
        type=REPLICA_TYPE,
        display_name=f"{service.name} revision {revision.number} replica {number}",
        parent_id=service.run_id,
        snapshot_id=spec.snapshot_id,
        properties=properties,
        submitted_by=spec.created_by or service.created_by,
        owner=service.owner,
    )


def _arguments(service: Webservice, revision: ServiceRevision, number: int, gateway: str) -> list[str]:
    spec = revision.spec
    words = [word for model in spec.models for word in ("--model", model)]
    if spec.source_directory:
        words += ["--source-name", spec.source_directory]
    words += ["--", "--gateway", gateway, "--service", service.route, "--revision", str(revision.number)]
    words += ["--replica", str(number), "--workers", str(spec.workers), "--threads", str(spec.threads)]
    entry = f"{spec.source_directory}/{spec.entry}" if spec.source_directory else spec.entry  # below the app root
    words += ["--entry", entry] if spec.entry else ["--no-code", spec.no_code]
    if spec.source_directory:
        words += ["--source-directory", spec.source_directory]
    if spec.batching:
        words += ["--batching", spec.batching]
    if spec.memory_limit_mb:
        words += ["--memory-limit-mb", str(spec.memory_limit_mb)]
    return words


def _variables(service: Webservice, spec: RevisionSpec) -> dict[str, str]:
    # What a user sets stays: these are Azure's, with Azure's values.
    found = {
        "SERVICE_NAME": service.name,
        "WORKSPACE_NAME": service.workspace,
        "SERVICE_PATH_PREFIX": f"api/v1/service/{service.route}",
        "SERVICE_VERSION": "1.0",
        "SCORING_TIMEOUT_MS": str(spec.scoring_timeout_ms),
        "AML_APP_INSIGHTS_ENABLED": "false",
    }
    return {name: value for name, value in found.items() if name not in spec.variables}
