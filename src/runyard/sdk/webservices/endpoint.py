"""`AksEndpoint`: one address whose requests are shared between versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence

from runyard.core import webservices as records
from runyard.core.webservices import Definition, RevisionSpec, ServiceChange, ServiceRevision
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.webservices.cloud import (
    AksWebservice,
    ReplicatedWebservice,
    change_or_refuse,
    changed_scaling,
    check_numbers,
    revised,
    update_replicated,
)
from runyard.sdk.webservices.configuration import (
    AKS_ENDPOINT,
    PROBES,
    AksEndpointDeploymentConfiguration,
    percentile_faults,
    texts,
)

_STATES = {
    records.READY: records.HEALTHY,
    records.STARTING: records.TRANSITIONING,
    records.FAILED: records.FAILED,
    records.STOPPED: records.UNHEALTHY,
}
_ABOUT = ("tags", "properties", "description", *PROBES, "collect_model_data", "autoscale_refresh_seconds")
_ABOUT += ("cpu_cores", "memory_gb", "cpu_cores_limit", "memory_gb_limit")


class EndpointVersion(AksWebservice):
    """One version of an endpoint, in `endpoint.versions`."""

    _label: str

    @classmethod
    def _of(cls, endpoint: AksEndpoint, label: str) -> EndpointVersion:
        made = object.__new__(cls)
        made.workspace, made._record, made._is_deleted, made._key = endpoint.workspace, endpoint._record, False, None
        made._label = label
        return made

    @property
    def name(self) -> str:
        return self._record.name if not hasattr(self, "_label") else self._label

    @property
    def compute_type(self) -> str:
        return "AKS"

    @property
    def state(self) -> str:
        return _STATES.get(self._revision.state, records.TRANSITIONING)

    @property
    def is_default(self) -> bool:
        """Whether it gets the requests that no other version gets."""
        return self._record.default == self._label

    @property
    def traffic_percentile(self) -> float:
        """The part of the requests that it gets, in percent."""
        number = self._record.current.get(self._label)
        if number is None:
            return float(self._record.shares.get(self._label, 0.0))
        return float(self._record.weights.get(number, 0.0))

    @property
    def version_type(self) -> Optional[str]:
        found = self._about.get("version_type")
        return str(found) if found else None

    @property
    def tags(self) -> Dict[str, str]:
        return texts(self._about.get("tags"))

    @property
    def properties(self) -> Dict[str, str]:
        return texts(self._about.get("properties"))

    @property
    def description(self) -> Optional[str]:
        return self._about.get("description")

    @property
    def _about(self) -> Mapping[str, Any]:
        return self._spec.definition.get("numbers") or {}

    @property
    def _revision(self) -> ServiceRevision:
        return _revision_of(self._record, self._label)

    @property
    def _spec(self) -> RevisionSpec:
        return self._revision.spec

    def serialize(self) -> Definition:
        return {
            **super().serialize(),
            "isDefault": self.is_default,
            "trafficPercentile": self.traffic_percentile,
            "versionType": self.version_type,
        }


@raises_azure_errors
class AksEndpoint(ReplicatedWebservice):
    """A service with versions. The default version gets the requests that no percentage gives to others."""

    _kinds = (AKS_ENDPOINT,)

    class VersionType:
        control = "Control"
        treatment = "Treatment"

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
        version_name: Optional[str] = None,
        traffic_percentile: Optional[float] = None,
        compute_target_name: Optional[str] = None,
        cpu_cores_limit: Optional[float] = None,
        memory_gb_limit: Optional[float] = None,
    ) -> AksEndpointDeploymentConfiguration:
        """Return what `Model.deploy` takes. The first version is the default one, and called as the endpoint is
        unless `version_name` says otherwise.

        Raises:
            WebserviceException: no service can be like this; all faults are listed.
        """
        return AksEndpointDeploymentConfiguration(**locals())

    @property
    def versions(self) -> Dict[str, EndpointVersion]:
        """The versions by name, as they stood at the last `update_deployment_state()`."""
        return {label: EndpointVersion._of(self, label) for label in _labels(self._record)}

    def update(
        self,
        auth_enabled: Optional[bool] = None,
        token_auth_enabled: Optional[bool] = None,
        enable_app_insights: Optional[bool] = None,
        description: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        properties: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Change what is said of the endpoint as a whole.

        Raises:
            WebserviceException: nothing is given.
        """
        update_replicated(self, {name: value for name, value in locals().items() if name != "self"})

    def create_version(
        self,
        version_name: str,
        autoscale_enabled: Optional[bool] = None,
        autoscale_min_replicas: Optional[int] = None,
        autoscale_max_replicas: Optional[int] = None,
        autoscale_refresh_seconds: Optional[int] = None,
        autoscale_target_utilization: Optional[int] = None,
        collect_model_data: Optional[bool] = None,
        cpu_cores: Optional[float] = None,
        memory_gb: Optional[float] = None,
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
        traffic_percentile: Optional[float] = None,
        is_default: Optional[bool] = None,
        is_control_version_type: Optional[bool] = None,
        cpu_cores_limit: Optional[float] = None,
        memory_gb_limit: Optional[float] = None,
    ) -> None:
        """Add a version; what is not given is as in the default version. `wait_for_deployment()` waits for it.

        Raises:
            WebserviceException: there is one of that name, or the percentages are over 100.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "version_name")}
        self.update_deployment_state()
        if not isinstance(version_name, str) or not version_name:
            raise WebserviceException(f"version_name must be a text, found {version_name!r:.100}.")
        if version_name in _labels(self._record):
            raise WebserviceException(
                f"The endpoint `{self.name}` has a version `{version_name}` already; update_version() changes it.",
                status_code=409,
            )
        self._put_version(version_name, self._spec, given)

    def update_version(
        self,
        version_name: str,
        autoscale_enabled: Optional[bool] = None,
        autoscale_min_replicas: Optional[int] = None,
        autoscale_max_replicas: Optional[int] = None,
        autoscale_refresh_seconds: Optional[int] = None,
        autoscale_target_utilization: Optional[int] = None,
        collect_model_data: Optional[bool] = None,
        cpu_cores: Optional[float] = None,
        memory_gb: Optional[float] = None,
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
        traffic_percentile: Optional[float] = None,
        is_default: Optional[bool] = None,
        is_control_version_type: Optional[bool] = None,
        cpu_cores_limit: Optional[float] = None,
        memory_gb_limit: Optional[float] = None,
    ) -> None:
        """Change a version: its model or limits, the part of the requests that it gets, whether it is the default one.

        Raises:
            WebserviceException: there is none of that name, nothing is given, or the percentages are over 100.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "version_name")}
        self.update_deployment_state()
        self._require_version(version_name)
        self._put_version(version_name, _revision_of(self._record, version_name).spec, given)

    def delete_version(self, version_name: str) -> None:
        """Delete a version; its requests go to the default one.

        Raises:
            WebserviceException: there is none of that name, or it is the default one.
        """
        self.update_deployment_state()
        self._require_version(version_name)
        self._change(ServiceChange(drop=version_name))

    def serialize(self) -> Definition:
        return {**super().serialize(), "versions": {name: one.serialize() for name, one in self.versions.items()}}

    def _require_version(self, version_name: str) -> None:
        if version_name not in _labels(self._record):
            known = ", ".join(_labels(self._record)) or "none"
            raise WebserviceException(
                f"The endpoint `{self.name}` has no version `{version_name}`; its versions: {known}.", status_code=404
            )

    def _put_version(self, label: str, before: RevisionSpec, given: Mapping[str, Any]) -> None:
        check_numbers(given)
        faults = percentile_faults(given.get("traffic_percentile"))
        if faults:
            raise WebserviceException(f"Invalid configuration: {'; '.join(faults)}.")
        note_without_effect({name: given.get(name) for name in (*PROBES, "collect_model_data")})
        is_new = label not in _labels(self._record)
        spec = (
            revised(self.workspace, before, given.get("models"), given.get("inference_config"), None, given) or before
        )
        spec = replace(spec, label=label, scaling=changed_scaling(before.scaling, given) or before.scaling)
        about = _about(given)
        if about:
            kept = {} if is_new else before.definition.get("numbers") or {}
            spec = replace(spec, definition={**spec.definition, "numbers": {**kept, **about}})
        share = given.get("traffic_percentile")
        change = ServiceChange(
            revision=spec if is_new or spec != before else None,
            shares={label: float(share)} if share is not None else None,
            default=label if given.get("is_default") else None,
        )
        change_or_refuse(self, change)


def _about(given: Mapping[str, Any]) -> Definition:
    found: Definition = {name: given[name] for name in _ABOUT if given.get(name) is not None}
    is_control = given.get("is_control_version_type")
    if is_control is not None:
        kinds = AksEndpoint.VersionType
        found["version_type"] = kinds.control if is_control else kinds.treatment
    return found


def _labels(record: records.Webservice) -> List[str]:
    """Return the versions that serve or are being started, the default one first."""
    starting = [one.spec.label for one in record.revisions if one.state == records.STARTING]
    found = dict.fromkeys([*record.current, *starting])
    return sorted(found, key=lambda label: label != record.default)


def _revision_of(record: records.Webservice, label: str) -> ServiceRevision:
    number = record.current.get(label)
    serving = record.revision(number) if number is not None else None
    return serving or [one for one in record.revisions if one.spec.label == label][-1]
