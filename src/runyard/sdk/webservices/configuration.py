"""Deployment configurations: what `deploy_configuration` of each kind of service returns. Checked when made."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, FrozenSet, List, Mapping, Optional, Tuple

from runyard.core.specs import ResourceSpec
from runyard.core.webservices import Definition, RevisionSpec, Scaling, ServiceSettings
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.exceptions import WebserviceException

ACI, AKS, AKS_ENDPOINT, LOCAL = "ACI", "AKS", "AKSENDPOINT", "Local"
MIN_REPLICAS, MAX_REPLICAS, REFRESH_S, TARGET_UTILIZATION = 1, 10, 1, 70
SCORING_TIMEOUT_MS, MAX_CONCURRENT, MAX_WAIT_MS = 60_000, 1, 500
PROBES = {
    "period_seconds": 10,
    "initial_delay_seconds": 310,
    "timeout_seconds": 2,
    "success_threshold": 1,
    "failure_threshold": 3,
}
_SECRETS = ("primary_key", "secondary_key")  # the server keeps them sealed


class WebserviceDeploymentConfiguration(AzureClass):
    """Its attributes are the parameters of `deploy_configuration`."""

    _unused: ClassVar[FrozenSet[str]] = frozenset()

    def __init__(
        self,
        type: str,
        description: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
        primary_key: Optional[str] = None,
        secondary_key: Optional[str] = None,
        location: Optional[str] = None,
    ) -> None:
        self._type = type
        self.description = description
        self.tags = tags
        self.properties = properties
        self.primary_key = primary_key
        self.secondary_key = secondary_key
        self.location = location
        self.validate_configuration()

    def validate_configuration(self) -> None:
        """Raises WebserviceException: no service can be like this; all faults are listed."""
        faults = [*self._faults()]
        for name in ("tags", "properties"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                faults.append(f"{name} must be a dictionary, found {value!r:.100}")
        for name in ("description", "primary_key", "secondary_key", "location"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                faults.append(f"{name} must be a text, found a {value.__class__.__name__}")
        if faults:
            raise WebserviceException(f"Invalid configuration: {'; '.join(faults)}.")

    def print_deploy_configuration(self) -> None:
        """Print what is set."""
        print(f"Deployment configuration: {self._type}")
        for name, value in self._given().items():
            print(f"    {name}: {value}")

    @classmethod
    def validate_image(cls, image: Any) -> None:
        """Raises WebserviceException: the image was not created."""
        if image is not None and getattr(image, "creation_state", "Succeeded") != "Succeeded":
            raise WebserviceException(f"The image {getattr(image, 'id', image)} was not created: wait_for_creation().")

    def _faults(self) -> List[str]:
        return []

    def _given(self) -> Definition:
        """Return what is set, without keys."""
        return {
            name: value
            for name, value in vars(self).items()
            if not name.startswith("_") and value is not None and name not in _SECRETS
        }

    def _settings(self, compute_name: str = "") -> ServiceSettings:
        """Return what is said of the service; what has no effect is reported once."""
        note_without_effect({name: getattr(self, name) or None for name in self._unused})
        return ServiceSettings(
            compute_type=self._type,
            compute_name=compute_name,
            description=self.description or "",
            tags=texts(self.tags),
            properties=texts(self.properties),
            auth=getattr(self, "auth_enabled", None),
            token_auth=bool(getattr(self, "token_auth_enabled", None)),
            port=getattr(self, "port", None) or 0,
            definition={
                name: value
                for name, value in self._given().items()
                if name not in ("tags", "properties", "description")
            },
        )

    def _base(self, target: str) -> RevisionSpec:
        """Return the numbers of a revision; its models, script and environment are added later."""
        return RevisionSpec(target=target)


class LocalWebserviceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """A service on a port of this machine; without `port` on a free one."""

    def __init__(self, port: Optional[int] = None) -> None:
        self.port = port
        super().__init__(LOCAL)

    def _faults(self) -> List[str]:
        if self.port is None or (type(self.port) is int and 1 <= self.port <= 65535):
            return []
        return [f"port must be a number from 1 to 65535, found {self.port!r}"]


class AciServiceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """One replica, beside the server unless a target is named."""

    _unused = frozenset(
        {
            "location",
            "ssl_enabled",
            "ssl_cert_pem_file",
            "ssl_key_pem_file",
            "ssl_cname",
            "dns_name_label",
            "enable_app_insights",
            "collect_model_data",
            "cmk_vault_base_url",
            "cmk_key_name",
            "cmk_key_version",
            "vnet_name",
            "subnet_name",
        }
    )

    def __init__(
        self,
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
    ) -> None:
        self.cpu_cores = cpu_cores
        self.memory_gb = memory_gb
        self.auth_enabled = auth_enabled
        self.ssl_enabled = ssl_enabled
        self.enable_app_insights = enable_app_insights
        self.ssl_cert_pem_file = ssl_cert_pem_file
        self.ssl_key_pem_file = ssl_key_pem_file
        self.ssl_cname = ssl_cname
        self.dns_name_label = dns_name_label
        self.collect_model_data = collect_model_data
        self.cmk_vault_base_url = cmk_vault_base_url
        self.cmk_key_name = cmk_key_name
        self.cmk_key_version = cmk_key_version
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name
        super().__init__(ACI, description, tags, properties, primary_key, secondary_key, location)

    def _faults(self) -> List[str]:
        faults = [*_positive(self, "cpu_cores", "memory_gb"), *_ssl_faults(self)]
        if bool(self.vnet_name) != bool(self.subnet_name):
            faults.append("vnet_name and subnet_name go together")
        return faults

    def _base(self, target: str) -> RevisionSpec:
        return RevisionSpec(target=target, resources=resources(self.cpu_cores, self.memory_gb))


class AksServiceDeploymentConfiguration(WebserviceDeploymentConfiguration):
    """Several replicas on a compute target, as many as their load asks for unless `num_replicas` says it."""

    _unused = frozenset(
        {
            "autoscale_refresh_seconds",
            "collect_model_data",
            "enable_app_insights",
            "period_seconds",
            "initial_delay_seconds",
            "timeout_seconds",
            "success_threshold",
            "failure_threshold",
            "namespace",
            "blobfuse_enabled",
        }
    )

    def __init__(
        self,
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
    ) -> None:
        self.autoscale_enabled = autoscale_enabled
        self.autoscale_min_replicas = autoscale_min_replicas
        self.autoscale_max_replicas = autoscale_max_replicas
        self.autoscale_refresh_seconds = autoscale_refresh_seconds
        self.autoscale_target_utilization = autoscale_target_utilization
        self.collect_model_data = collect_model_data
        self.auth_enabled = auth_enabled
        self.cpu_cores = cpu_cores
        self.cpu_cores_limit = cpu_cores_limit
        self.memory_gb = memory_gb
        self.memory_gb_limit = memory_gb_limit
        self.gpu_cores = gpu_cores
        self.enable_app_insights = enable_app_insights
        self.scoring_timeout_ms = scoring_timeout_ms
        self.replica_max_concurrent_requests = replica_max_concurrent_requests
        self.max_request_wait_time = max_request_wait_time
        self.num_replicas = num_replicas
        self.period_seconds = period_seconds
        self.initial_delay_seconds = initial_delay_seconds
        self.timeout_seconds = timeout_seconds
        self.success_threshold = success_threshold
        self.failure_threshold = failure_threshold
        self.namespace = namespace
        self.token_auth_enabled = token_auth_enabled
        self.compute_target_name = compute_target_name
        self.blobfuse_enabled = blobfuse_enabled
        super().__init__(AKS, description, tags, properties, primary_key, secondary_key)

    def _faults(self) -> List[str]:
        faults = list(aks_faults({name: value for name, value in vars(self).items() if not name.startswith("_")}))
        if self.auth_enabled and self.token_auth_enabled:
            faults.append("auth_enabled and token_auth_enabled cannot both be on")
        return faults

    def _base(self, target: str) -> RevisionSpec:
        limit = self.memory_gb_limit
        return RevisionSpec(
            target=target,
            gpus=self.gpu_cores,
            resources=resources(self.cpu_cores, self.memory_gb),
            scaling=self._scaling(),
            threads=self.replica_max_concurrent_requests or MAX_CONCURRENT,
            memory_limit_mb=int(limit * 1024) if limit else 0,
            scoring_timeout_ms=self.scoring_timeout_ms or SCORING_TIMEOUT_MS,
            max_wait_ms=self.max_request_wait_time or MAX_WAIT_MS,
        )

    def _scaling(self) -> Scaling:
        is_on = self.num_replicas is None if self.autoscale_enabled is None else self.autoscale_enabled
        least = MIN_REPLICAS if self.autoscale_min_replicas is None else self.autoscale_min_replicas
        return Scaling(
            is_on=is_on,
            replicas=self.num_replicas or 1,
            min_replicas=least,
            max_replicas=self.autoscale_max_replicas or max(MAX_REPLICAS, least),
            target_utilization=float(self.autoscale_target_utilization or TARGET_UTILIZATION),
        )


class AksEndpointDeploymentConfiguration(AksServiceDeploymentConfiguration):
    """The first version of an endpoint, and the part of the requests that it gets."""

    def __init__(
        self,
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
        version_name: Optional[str] = None,
        traffic_percentile: Optional[float] = None,
        compute_target_name: Optional[str] = None,
        cpu_cores_limit: Optional[float] = None,
        memory_gb_limit: Optional[float] = None,
        blobfuse_enabled: Optional[bool] = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self.version_name = given.pop("version_name")
        self.traffic_percentile = given.pop("traffic_percentile")
        super().__init__(**given)
        self._type = AKS_ENDPOINT

    def _faults(self) -> List[str]:
        return [*super()._faults(), *percentile_faults(self.traffic_percentile)]


def texts(values: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Return tags or properties as they are stored."""
    return {str(key): str(value) for key, value in (values or {}).items()}


def resources(cpu_cores: Optional[float], memory_gb: Optional[float]) -> ResourceSpec:
    """Return what a replica asks a cluster for; this machine reserves nothing."""
    return ResourceSpec(cpus=cpu_cores, memory_bytes=int(memory_gb * (1 << 30)) if memory_gb else None)


def aks_faults(given: Mapping[str, Any]) -> List[str]:
    """Return what is wrong with numbers of replicas, limits and scaling; `given` is by Azure's names."""
    faults = []
    for name in ("cpu_cores", "memory_gb", "cpu_cores_limit", "memory_gb_limit"):
        faults += _number_fault(name, given.get(name), above=0)
    for name in ("scoring_timeout_ms", "replica_max_concurrent_requests", "max_request_wait_time", "num_replicas"):
        faults += _number_fault(name, given.get(name), above=0)
    for name in ("autoscale_max_replicas", "autoscale_refresh_seconds", "autoscale_target_utilization", *PROBES):
        faults += _number_fault(name, given.get(name), above=0)
    for name in ("gpu_cores", "autoscale_min_replicas"):  # 0 replicas while nobody asks: Runyard's own
        faults += _number_fault(name, given.get(name), above=-1)
    if faults:
        return faults
    for least, most in (("cpu_cores", "cpu_cores_limit"), ("memory_gb", "memory_gb_limit")):
        if given.get(least) and given.get(most) and given[least] > given[most]:
            faults.append(f"{most} ({given[most]}) is less than {least} ({given[least]})")
    return [*faults, *_scaling_faults(given)]


def percentile_faults(value: Any) -> List[str]:
    if value is None or (_is_number(value) and 0 <= value <= 100):
        return []
    return [f"traffic_percentile must be a number from 0 to 100, found {value!r}"]


def _scaling_faults(given: Mapping[str, Any]) -> List[str]:
    names = [
        name
        for name in (
            "autoscale_min_replicas",
            "autoscale_max_replicas",
            "autoscale_refresh_seconds",
            "autoscale_target_utilization",
        )
        if given.get(name)
    ]
    faults = []
    if given.get("autoscale_enabled") and given.get("num_replicas"):
        faults.append("num_replicas cannot be given while autoscale_enabled is on")
    if given.get("autoscale_enabled") is False and names:
        faults.append(f"{', '.join(names)} cannot be given while autoscale_enabled is off")
    if given.get("autoscale_enabled") is None and given.get("num_replicas") and names:
        faults.append(f"{', '.join(names)} cannot be given beside num_replicas")
    least, most = given.get("autoscale_min_replicas"), given.get("autoscale_max_replicas")
    if least and most and least > most:
        faults.append(f"autoscale_min_replicas ({least}) is more than autoscale_max_replicas ({most})")
    if (given.get("autoscale_target_utilization") or 0) > 100:
        faults.append("autoscale_target_utilization is more than 100 percent")
    return faults


def _ssl_faults(given: AciServiceDeploymentConfiguration) -> Tuple[str, ...]:
    missing = [name for name in ("ssl_cert_pem_file", "ssl_key_pem_file", "ssl_cname") if not getattr(given, name)]
    return (f"ssl_enabled needs {', '.join(missing)}",) if given.ssl_enabled and missing else ()


def _positive(given: Any, *names: str) -> List[str]:
    return [fault for name in names for fault in _number_fault(name, getattr(given, name), above=0)]


def _number_fault(name: str, value: Any, *, above: int) -> List[str]:
    if value is None or (_is_number(value) and value > above):
        return []
    return [f"{name} must be a number {'above 0' if above == 0 else 'not below 0'}, found {value!r}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
