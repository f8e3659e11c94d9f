"""Parts of a service's record as Azure's SDK names them: resources, probes, scaling, data collection, tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Dict, Mapping, Optional, Type, TypeVar

from runyard.core.webservices import Definition
from runyard.sdk.azure_class import AzureClass

P = TypeVar("P", bound="ServicePart")


class ServicePart(AzureClass):
    """`_keys`: attribute → key of Azure's JSON form."""

    _keys: ClassVar[Dict[str, str]] = {}

    def serialize(self) -> Definition:
        return {key: getattr(self, name) for name, key in self._keys.items()}

    @classmethod
    def deserialize(cls: Type[P], payload_obj: Optional[Mapping[str, Any]]) -> Optional[P]:
        """Return the part of a JSON form; None of none."""
        if payload_obj is None:
            return None
        return cls(**{name: payload_obj.get(key) for name, key in cls._keys.items()})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.serialize()})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, ServicePart) and other.serialize() == self.serialize()

    __hash__ = None  # type: ignore[assignment]  # its values change


class ContainerResourceRequirements(ServicePart):
    """What one replica asks for."""

    _keys: ClassVar[Dict[str, str]] = {
        "cpu": "cpu",
        "cpu_limit": "cpuLimit",
        "memory_in_gb": "memoryInGB",
        "memory_in_gb_limit": "memoryInGBLimit",
        "gpu": "gpu",
    }

    def __init__(
        self,
        cpu: Optional[float],
        memory_in_gb: Optional[float],
        gpu: Optional[int] = None,
        cpu_limit: Optional[float] = None,
        memory_in_gb_limit: Optional[float] = None,
    ) -> None:
        self.cpu = cpu
        self.cpu_limit = cpu_limit
        self.memory_in_gb = memory_in_gb
        self.memory_in_gb_limit = memory_in_gb_limit
        self.gpu = gpu


class LivenessProbeRequirements(ServicePart):
    """How Azure looks whether a replica lives; kept without effect: the gateway looks by itself."""

    _keys: ClassVar[Dict[str, str]] = {
        "period_seconds": "periodSeconds",
        "initial_delay_seconds": "initialDelaySeconds",
        "timeout_seconds": "timeoutSeconds",
        "success_threshold": "successThreshold",
        "failure_threshold": "failureThreshold",
    }

    def __init__(
        self,
        period_seconds: Optional[int],
        initial_delay_seconds: Optional[int],
        timeout_seconds: Optional[int],
        success_threshold: Optional[int],
        failure_threshold: Optional[int],
    ) -> None:
        self.period_seconds = period_seconds
        self.initial_delay_seconds = initial_delay_seconds
        self.timeout_seconds = timeout_seconds
        self.success_threshold = success_threshold
        self.failure_threshold = failure_threshold


class AutoScaler(ServicePart):
    """How many replicas there are."""

    _keys: ClassVar[Dict[str, str]] = {
        "autoscale_enabled": "autoscaleEnabled",
        "max_replicas": "maxReplicas",
        "min_replicas": "minReplicas",
        "refresh_period_seconds": "refreshPeriodInSeconds",
        "target_utilization": "targetUtilization",
    }

    def __init__(
        self,
        autoscale_enabled: Optional[bool],
        max_replicas: Optional[int],
        min_replicas: Optional[int],
        refresh_period_seconds: Optional[int],
        target_utilization: Optional[int],
    ) -> None:
        self.autoscale_enabled = autoscale_enabled
        self.max_replicas = max_replicas
        self.min_replicas = min_replicas
        self.refresh_period_seconds = refresh_period_seconds
        self.target_utilization = target_utilization


class DataCollection(ServicePart):
    """Whether Azure keeps requests and answers; kept without effect."""

    _keys: ClassVar[Dict[str, str]] = {"event_hub_enabled": "eventHubEnabled", "storage_enabled": "storageEnabled"}

    def __init__(self, event_hub_enabled: Optional[bool], storage_enabled: Optional[bool]) -> None:
        self.event_hub_enabled = event_hub_enabled
        self.storage_enabled = storage_enabled


class EncryptionProperties(ServicePart):
    """A customer's own key; kept without effect."""

    _keys: ClassVar[Dict[str, str]] = {
        "cmk_vault_base_url": "vaultBaseUrl",
        "cmk_key_name": "keyName",
        "cmk_key_version": "keyVersion",
    }

    def __init__(
        self, cmk_vault_base_url: Optional[str], cmk_key_name: Optional[str], cmk_key_version: Optional[str]
    ) -> None:
        self.cmk_vault_base_url = cmk_vault_base_url
        self.cmk_key_name = cmk_key_name
        self.cmk_key_version = cmk_key_version


class VnetConfiguration(ServicePart):
    """A network of Azure; kept without effect."""

    _keys: ClassVar[Dict[str, str]] = {"vnet_name": "vnetName", "subnet_name": "subnetName"}

    def __init__(self, vnet_name: Optional[str], subnet_name: Optional[str]) -> None:
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name


class WebServiceAccessToken(ServicePart):
    """A token that opens a service until `expiry_on`; ask for the next one from `refresh_after` on."""

    _keys: ClassVar[Dict[str, str]] = {
        "access_token": "accessToken",
        "token_type": "tokenType",
        "refresh_after": "refreshAfter",
        "expiry_on": "expiryOn",
    }

    def __init__(self, access_token: str, token_type: str, refresh_after: datetime, expiry_on: datetime) -> None:
        self.access_token = access_token
        self.token_type = token_type
        self.refresh_after = refresh_after
        self.expiry_on = expiry_on

    def serialize(self) -> Definition:
        return {
            "accessToken": self.access_token,
            "tokenType": self.token_type,
            "refreshAfter": self.refresh_after.timestamp(),
            "expiryOn": self.expiry_on.timestamp(),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}(refresh_after={self.refresh_after}, expiry_on={self.expiry_on})"


class AksServiceAccessToken(WebServiceAccessToken):
    """The token of a service on AksCompute."""
