"""Services beside the server (`AciWebservice`) and on a compute target (`AksWebservice`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Tuple

from runyard.core.webservices import Definition, RevisionSpec, Scaling, ServiceChange
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.serving.deployment import service_errors
from runyard.sdk.webservices.configuration import (
    ACI,
    AKS,
    PROBES,
    REFRESH_S,
    AciServiceDeploymentConfiguration,
    AksServiceDeploymentConfiguration,
    aks_faults,
    resources,
    texts,
)
from runyard.sdk.webservices.parts import (
    AksServiceAccessToken,
    AutoScaler,
    ContainerResourceRequirements,
    DataCollection,
    LivenessProbeRequirements,
)
from runyard.sdk.webservices.webservice import Webservice

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

NOTHING = "Nothing to update: give at least one argument."
_CPU, _MEMORY_GB = 0.1, 0.5


@raises_azure_errors
class AciWebservice(Webservice):
    """A service with one replica beside the server."""

    _kinds = (ACI,)

    @staticmethod
    def deploy_configuration(
        cpu_cores: Optional[float] = None,
        memory_gb: Optional[float] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        location: Optional[str] = None,
        auth_enabled: Optional[bool] = None,
        ssl_enabled: Optional[bool] = None,
        enable_app_insights: Optional[bool] = None,
        ssl_cert_pem_file: Optional[str] = None,
        ssl_key_pem_file: Optional[str] = None,
        ssl_cname: Optional[str] = None,
        dns_name_label: Optional[str] = None,
        primary_key: Optional[str] = None,
        secondary_key: Optional[str] = None,
        collect_model_data: Optional[bool] = None,
        cmk_vault_base_url: Optional[str] = None,
        cmk_key_name: Optional[str] = None,
        cmk_key_version: Optional[str] = None,
        vnet_name: Optional[str] = None,
        subnet_name: Optional[str] = None,
    ) -> AciServiceDeploymentConfiguration:
        """Return what `Model.deploy` takes. Networks, certificates and customers' keys are kept without effect.

        Raises:
            WebserviceException: no service can be like this.
        """
        return AciServiceDeploymentConfiguration(**locals())

    @property
    def cpu_cores(self) -> float:
        return float(self._record.settings.definition.get("cpu_cores") or _CPU)

    @property
    def memory_gb(self) -> float:
        return float(self._record.settings.definition.get("memory_gb") or _MEMORY_GB)

    @property
    def container_resource_requirements(self) -> ContainerResourceRequirements:
        return ContainerResourceRequirements(self.cpu_cores, self.memory_gb)

    @property
    def ssl_enabled(self) -> bool:
        return bool(self._record.settings.definition.get("ssl_enabled"))

    @property
    def dns_name_label(self) -> Optional[str]:
        found = self._record.settings.definition.get("dns_name_label")
        return str(found) if found else None

    @property
    def public_ip(self) -> Optional[str]:
        return None

    def update(
        self,
        image: Any = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        auth_enabled: Optional[bool] = None,
        ssl_enabled: Optional[bool] = None,
        ssl_cert_pem_file: Optional[str] = None,
        ssl_key_pem_file: Optional[str] = None,
        ssl_cname: Optional[str] = None,
        enable_app_insights: Optional[bool] = None,
        models: Optional[Sequence[Any]] = None,
        inference_config: Any = None,
    ) -> None:
        """Change what is given; a new model or script is a new revision, which takes over when it is ready.

        Raises:
            WebserviceException: nothing is given, or (409) another operation is under way.
        """
        unused = {
            "ssl_enabled": ssl_enabled,
            "ssl_cert_pem_file": ssl_cert_pem_file,
            "ssl_key_pem_file": ssl_key_pem_file,
            "ssl_cname": ssl_cname,
            "enable_app_insights": enable_app_insights,
        }
        kept = {name: value for name, value in unused.items() if value is not None}
        note_without_effect(unused)
        change = ServiceChange(
            revision=revised(self.workspace, self._spec, models, inference_config, image),
            description=description,
            tags=texts(tags) if tags is not None else None,
            properties_add=texts(properties) if properties is not None else None,
            auth=auth_enabled,
            definition=kept or None,
        )
        change_or_refuse(self, change)

    def serialize(self) -> Definition:
        definition = self._record.settings.definition
        return {
            **super().serialize(),
            "containerResourceRequirements": self.container_resource_requirements.serialize(),
            "sslEnabled": self.ssl_enabled,
            "sslCertificate": definition.get("ssl_cert_pem_file"),
            "sslKey": definition.get("ssl_key_pem_file"),
            "cname": definition.get("ssl_cname"),
            "publicIp": None,
            "vnetConfiguration": {"vnetName": definition.get("vnet_name"), "subnetName": definition.get("subnet_name")},
        }


class ReplicatedWebservice(Webservice):
    """What services on AksCompute and endpoints have alike."""

    @property
    def autoscaler(self) -> AutoScaler:
        scaling = self._spec.scaling
        refresh = self._record.settings.definition.get("autoscale_refresh_seconds") or REFRESH_S
        target = int(scaling.target_utilization)
        return AutoScaler(scaling.is_on, scaling.max_replicas, scaling.min_replicas, refresh, target)

    @property
    def num_replicas(self) -> Optional[int]:
        """How many replicas there always are; None while their number follows the load."""
        scaling = self._spec.scaling
        return None if scaling.is_on else scaling.replicas

    @property
    def scoring_timeout_ms(self) -> int:
        return self._spec.scoring_timeout_ms

    @property
    def max_request_wait_time(self) -> int:
        return self._spec.max_wait_ms

    @property
    def max_concurrent_requests_per_container(self) -> int:
        return self._spec.threads

    @property
    def namespace(self) -> Optional[str]:
        found = self._definition.get("namespace")
        return str(found) if found else None

    @property
    def data_collection(self) -> DataCollection:
        is_on = bool(self._definition.get("collect_model_data"))
        return DataCollection(is_on, is_on)

    @property
    def liveness_probe_requirements(self) -> LivenessProbeRequirements:
        return LivenessProbeRequirements(**{name: self._definition.get(name) or PROBES[name] for name in PROBES})

    @property
    def container_resource_requirements(self) -> ContainerResourceRequirements:
        found = self._definition
        return ContainerResourceRequirements(
            found.get("cpu_cores") or _CPU,
            found.get("memory_gb") or _MEMORY_GB,
            self._spec.gpus or 0,
            found.get("cpu_cores_limit"),
            found.get("memory_gb_limit"),
        )

    def get_token(self) -> Tuple[str, datetime]:
        """Return a token that opens the service, and when to ask for the next one.

        Raises:
            WebserviceException: token_auth_enabled is off.
        """
        with service_errors():
            token, refresh_after, _ = self.workspace._client.webservices.token(self.workspace.name, self.name)
        return token, refresh_after

    def get_access_token(self) -> AksServiceAccessToken:
        """Return a token with its times; see `get_token`."""
        with service_errors():
            token, refresh_after, ends = self.workspace._client.webservices.token(self.workspace.name, self.name)
        return AksServiceAccessToken(token, "Bearer", refresh_after, ends)

    def serialize(self) -> Definition:
        return {
            **super().serialize(),
            "autoScaler": self.autoscaler.serialize(),
            "numReplicas": self.num_replicas,
            "scoringTimeoutMs": self.scoring_timeout_ms,
            "maxConcurrentRequestsPerContainer": self.max_concurrent_requests_per_container,
            "maxQueueWaitMs": self.max_request_wait_time,
            "dataCollection": self.data_collection.serialize(),
            "livenessProbeRequirements": self.liveness_probe_requirements.serialize(),
            "containerResourceRequirements": self.container_resource_requirements.serialize(),
            "namespace": self.namespace,
        }

    @property
    def _definition(self) -> Definition:
        """Return Azure's numbers that have no field of their own: the revision's, over those of the service."""
        return {**self._record.settings.definition, **(self._spec.definition.get("numbers") or {})}


@raises_azure_errors
class AksWebservice(ReplicatedWebservice):
    """A service with replicas on a compute target."""

    _kinds = (AKS,)

    @staticmethod
    def deploy_configuration(
        autoscale_enabled: Optional[bool] = None,
        autoscale_min_replicas: Optional[int] = None,
        autoscale_max_replicas: Optional[int] = None,
        autoscale_refresh_seconds: Optional[int] = None,
        autoscale_target_utilization: Optional[int] = None,
        collect_model_data: Optional[bool] = None,
        auth_enabled: Optional[bool] = None,
        cpu_cores: Optional[float] = None,
        memory_gb: Optional[float] = None,
        enable_app_insights: Optional[bool] = None,
        scoring_timeout_ms: Optional[int] = None,
        replica_max_concurrent_requests: Optional[int] = None,
        max_request_wait_time: Optional[int] = None,
        num_replicas: Optional[int] = None,
        primary_key: Optional[str] = None,
        secondary_key: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        gpu_cores: Optional[int] = None,
        period_seconds: Optional[int] = None,
        initial_delay_seconds: Optional[int] = None,
        timeout_seconds: Optional[int] = None,
        success_threshold: Optional[int] = None,
        failure_threshold: Optional[int] = None,
        namespace: Optional[str] = None,
        token_auth_enabled: Optional[bool] = None,
        compute_target_name: Optional[str] = None,
        cpu_cores_limit: Optional[float] = None,
        memory_gb_limit: Optional[float] = None,
        blobfuse_enabled: Optional[bool] = None,
    ) -> AksServiceDeploymentConfiguration:
        """Return what `Model.deploy` takes. Probes, namespaces and app insights are kept without effect.

        Raises:
            WebserviceException: no service can be like this; all faults are listed.
        """
        return AksServiceDeploymentConfiguration(**locals())

    def update(
        self,
        image: Any = None,
        autoscale_enabled: Optional[bool] = None,
        autoscale_min_replicas: Optional[int] = None,
        autoscale_max_replicas: Optional[int] = None,
        autoscale_refresh_seconds: Optional[int] = None,
        autoscale_target_utilization: Optional[int] = None,
        collect_model_data: Optional[bool] = None,
        auth_enabled: Optional[bool] = None,
        cpu_cores: Optional[float] = None,
        memory_gb: Optional[float] = None,
        enable_app_insights: Optional[bool] = None,
        scoring_timeout_ms: Optional[int] = None,
        replica_max_concurrent_requests: Optional[int] = None,
        max_request_wait_time: Optional[int] = None,
        num_replicas: Optional[int] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        models: Optional[Sequence[Any]] = None,
        inference_config: Any = None,
        gpu_cores: Optional[int] = None,
        period_seconds: Optional[int] = None,
        initial_delay_seconds: Optional[int] = None,
        timeout_seconds: Optional[int] = None,
        success_threshold: Optional[int] = None,
        failure_threshold: Optional[int] = None,
        namespace: Optional[str] = None,
        token_auth_enabled: Optional[bool] = None,
        cpu_cores_limit: Optional[float] = None,
        memory_gb_limit: Optional[float] = None,
        **kwargs: Any,
    ) -> None:
        """Change what is given; see `AciWebservice.update`. Numbers of replicas change without a new revision.

        Raises:
            WebserviceException: nothing is given, arguments contradict each other, or (409) another operation is
                under way.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "kwargs", "__class__")}
        if kwargs:
            note_without_effect(kwargs)
        update_replicated(self, given)

    def serialize(self) -> Definition:
        return {**super().serialize(), "isDefault": True, "trafficPercentile": 100.0, "versionType": None}


SERVICE_NAMES = ("tags", "properties", "description", "auth_enabled", "token_auth_enabled", "enable_app_insights")
_SCALING = ("autoscale_enabled", "autoscale_min_replicas", "autoscale_max_replicas", "autoscale_target_utilization")
_KEPT = (*PROBES, "namespace", "collect_model_data", "autoscale_refresh_seconds", "enable_app_insights")


def update_replicated(service: Webservice, given: Mapping[str, Any]) -> None:
    """Change a service on a compute target by Azure's arguments.

    Raises:
        WebserviceException: nothing is given, or it cannot be.
    """
    check_numbers(given)
    if given.get("auth_enabled") and given.get("token_auth_enabled"):
        raise WebserviceException("auth_enabled and token_auth_enabled cannot both be on.")
    note_without_effect({name: given.get(name) for name in _KEPT})
    spec = service._spec
    scaling = changed_scaling(spec.scaling, given)
    content = (given.get("models"), given.get("inference_config"), given.get("image"))
    revision = revised(service.workspace, spec, *content, given)
    if revision is not None and scaling is not None:
        revision, scaling = replace(revision, scaling=scaling), None
    auth, token_auth = given.get("auth_enabled"), given.get("token_auth_enabled")
    change = ServiceChange(
        revision=revision,
        description=given.get("description"),
        tags=texts(given["tags"]) if given.get("tags") is not None else None,
        properties_add=texts(given["properties"]) if given.get("properties") is not None else None,
        auth=False if token_auth and auth is None else auth,  # one takes the other's place
        token_auth=False if auth and token_auth is None else token_auth,
        scaling=scaling,
        definition={name: given[name] for name in (*_KEPT, *NUMBERS) if given.get(name) is not None} or None,
    )
    change_or_refuse(service, change)


NUMBERS = ("cpu_cores", "memory_gb", "cpu_cores_limit", "memory_gb_limit")


def check_numbers(given: Mapping[str, Any]) -> None:
    """Raises WebserviceException: numbers of replicas or limits that cannot be; all faults are listed."""
    faults = aks_faults(given)
    if faults:
        raise WebserviceException(f"Invalid configuration: {'; '.join(faults)}.")


def changed_scaling(before: Scaling, given: Mapping[str, Any]) -> Optional[Scaling]:
    """Return the scaling that is asked for; None: nothing is said of it."""
    if all(given.get(name) is None for name in (*_SCALING, "num_replicas")):
        return None
    is_on = given.get("autoscale_enabled")
    if is_on is None:
        is_on = before.is_on if given.get("num_replicas") is None else False
    least, most = given.get("autoscale_min_replicas"), given.get("autoscale_max_replicas")
    target = given.get("autoscale_target_utilization")
    return Scaling(
        is_on=is_on,
        replicas=given.get("num_replicas") or before.replicas,
        min_replicas=before.min_replicas if least is None else least,
        max_replicas=most or max(before.max_replicas, least or 0),
        target_utilization=before.target_utilization if target is None else float(target),
    )


def changed_numbers(spec: RevisionSpec, given: Mapping[str, Any]) -> RevisionSpec:
    """Return the revision with the limits that are given."""
    changes: Definition = {}
    for name, field in (
        ("scoring_timeout_ms", "scoring_timeout_ms"),
        ("replica_max_concurrent_requests", "threads"),
        ("max_request_wait_time", "max_wait_ms"),
        ("gpu_cores", "gpus"),
    ):
        if given.get(name) is not None:
            changes[field] = given[name]
    if given.get("memory_gb_limit") is not None:
        changes["memory_limit_mb"] = int(given["memory_gb_limit"] * 1024)
    cpu, memory = given.get("cpu_cores"), given.get("memory_gb")
    if cpu is not None or memory is not None:
        asked = resources(cpu, memory)
        changes["resources"] = replace(
            spec.resources,
            cpus=asked.cpus if cpu is not None else spec.resources.cpus,
            memory_bytes=asked.memory_bytes if memory is not None else spec.resources.memory_bytes,
        )
    return replace(spec, **changes)


def revised(
    workspace: Workspace,
    spec: RevisionSpec,
    models: Any,
    config: Any,
    image: Any,
    numbers: Optional[Mapping[str, Any]] = None,
) -> Optional[RevisionSpec]:
    """Return what follows `spec`: other models, another script, an image, other limits. None: none of it is given."""
    from runyard.sdk.serving.images import Image  # which few updates need
    from runyard.sdk.serving.models import resolve_models
    from runyard.sdk.webservices.ways import plan, with_content

    changed = changed_numbers(spec, numbers or {})
    if image is not None and (models is not None or config is not None):
        raise WebserviceException("Give image, or models and inference_config, not both.")
    if image is not None:
        chosen = image if isinstance(image, Image) else Image(workspace, id=str(image))
        return with_content(changed, chosen.revision)
    if config is not None:
        wanted = models if models is not None else spec.models
        bare = replace(changed, definition={k: v for k, v in changed.definition.items() if k != "imageId"})
        return plan(workspace, wanted, config, bare, register=True)
    if models is not None and spec.no_code:
        return plan(workspace, models, None, changed, register=True)
    if models is not None:
        served = resolve_models(workspace, models, register=True)
        return replace(changed, models=[one.id for one in served])
    return changed if changed != spec else None


def change_or_refuse(service: Webservice, change: ServiceChange) -> None:
    """Change a service.

    Raises:
        WebserviceException: nothing is to be changed.
    """
    if change == ServiceChange():
        raise WebserviceException(NOTHING)
    service._change(change)
