"""`AksCompute`: a target that services run on. Here it is a pool that gives every replica a node of its own.

Azure's is a Kubernetes cluster. What describes its machines, its network and its certificates is kept and shown again
without effect. For replicas on other machines deploy to an attached Slurm or Ray cluster, or to hosts over SSH.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, List, Mapping, Optional

from runyard.core.compute import AKS, MOST_NODES, ComputeSpec
from runyard.core.webservices import Definition
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.compute.configuration import ComputeConfiguration, number
from runyard.sdk.compute.target import ComputeTarget
from runyard.sdk.config.texts import note_without_effect
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import ComputeTargetException

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

_PURPOSES = ("DevTest", "FastProd", "DenseProd")
_LOAD_BALANCERS = ("PublicIp", "InternalLoadBalancer")
AGENTS, DEV_AGENTS = 3, 1
_ENDING = ("CancelRequested", "Finalizing", "Canceled", "Completed", "Failed")
_ENDING_S, _POLL_S = 60.0, 0.2


class SslConfiguration(AzureClass):
    """The certificate of a cluster; kept without effect."""

    def __init__(
        self,
        status: Optional[str] = None,
        cert: Optional[str] = None,
        key: Optional[str] = None,
        cname: Optional[str] = None,
        leaf_domain_label: Optional[str] = None,
        overwrite_existing_domain: bool = False,
        renew: bool = False,
    ) -> None:
        self.status = status
        self.cert = cert
        self.key = key
        self.cname = cname
        self.leaf_domain_label = leaf_domain_label
        self.overwrite_existing_domain = overwrite_existing_domain
        self.renew = renew

    def serialize(self) -> Definition:
        return {
            "status": self.status,
            "cert": self.cert,
            "key": self.key,
            "cname": self.cname,
            "leafDomainLabel": self.leaf_domain_label,
            "overwriteExistingDomain": self.overwrite_existing_domain,
            "renew": self.renew,
        }

    @staticmethod
    def deserialize(object_dict: Optional[Mapping[str, Any]]) -> Optional[SslConfiguration]:
        if object_dict is None:
            return None
        found = object_dict.get
        made = SslConfiguration(found("status"), found("cert"), found("key"), found("cname"), found("leafDomainLabel"))
        made.overwrite_existing_domain = bool(found("overwriteExistingDomain"))
        made.renew = bool(found("renew"))
        return made


class SystemService(AzureClass):
    """A part of a cluster of Azure; there are none here."""

    def __init__(self, service_type: str, version: str, public_ip_address: str) -> None:
        self.service_type = service_type
        self.version = version
        self.public_ip_address = public_ip_address

    def serialize(self) -> Definition:
        return {
            "systemServiceType": self.service_type,
            "version": self.version,
            "publicIpAddress": self.public_ip_address,
        }

    @staticmethod
    def deserialize(object_dict: Optional[Mapping[str, Any]]) -> Optional[SystemService]:
        if object_dict is None:
            return None
        found = object_dict.get
        return SystemService(str(found("systemServiceType")), str(found("version")), str(found("publicIpAddress")))


class _AksConfiguration(ComputeConfiguration):
    """What creating and attaching have alike: a purpose, a load balancer, a certificate."""

    cluster_purpose: Optional[str]
    load_balancer_type: Optional[str]
    load_balancer_subnet: Optional[str]
    ssl_cname: Optional[str] = None
    ssl_cert_pem_file: Optional[str] = None
    ssl_key_pem_file: Optional[str] = None
    leaf_domain_label: Optional[str] = None
    overwrite_existing_domain: bool = False
    _about: ClassVar[List[str]] = ["vm_size", "tags", "description", "location"]

    def enable_ssl(
        self,
        ssl_cname: Optional[str] = None,
        ssl_cert_pem_file: Optional[str] = None,
        ssl_key_pem_file: Optional[str] = None,
        leaf_domain_label: Optional[str] = None,
        overwrite_existing_domain: bool = False,
    ) -> None:
        """Keep a certificate's files, or the name of a domain; without effect.

        Raises:
            ComputeTargetException: neither a domain's label nor all three of the certificate are given.
        """
        if not leaf_domain_label and not (ssl_cname and ssl_cert_pem_file and ssl_key_pem_file):
            raise ComputeTargetException(
                "enable_ssl needs leaf_domain_label, or ssl_cname, ssl_cert_pem_file and ssl_key_pem_file."
            )
        self.ssl_cname = ssl_cname
        self.ssl_cert_pem_file = ssl_cert_pem_file
        self.ssl_key_pem_file = ssl_key_pem_file
        self.leaf_domain_label = leaf_domain_label
        self.overwrite_existing_domain = overwrite_existing_domain

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: Azure has no cluster like this."""
        _check_one_of("cluster_purpose", self.cluster_purpose, _PURPOSES)
        _check_one_of("load_balancer_type", self.load_balancer_type, _LOAD_BALANCERS)
        together = [self.ssl_cname, self.ssl_cert_pem_file, self.ssl_key_pem_file]
        if any(together) and not all(together):
            raise ComputeTargetException("ssl_cname, ssl_cert_pem_file and ssl_key_pem_file go together.")

    def _spec(self) -> ComputeSpec:
        kept = {name: value for name, value in vars(self).items() if name not in self._about and value}
        note_without_effect({**kept, "vm_size": self.vm_size or None})
        return ComputeSpec(type=AKS, max_nodes=MOST_NODES, azure=kept, **self._named())


class AksProvisioningConfiguration(_AksConfiguration):
    """A cluster that is to be made."""

    def __init__(
        self,
        agent_count: Optional[int],
        vm_size: Optional[str],
        ssl_cname: Optional[str],
        ssl_cert_pem_file: Optional[str],
        ssl_key_pem_file: Optional[str],
        location: Optional[str],
        vnet_resourcegroup_name: Optional[str],
        vnet_name: Optional[str],
        subnet_name: Optional[str],
        service_cidr: Optional[str],
        dns_service_ip: Optional[str],
        docker_bridge_cidr: Optional[str],
        cluster_purpose: Optional[str],
        load_balancer_type: Optional[str],
        load_balancer_subnet: Optional[str],
    ) -> None:
        self.agent_count = agent_count
        self.ssl_cname = ssl_cname
        self.ssl_cert_pem_file = ssl_cert_pem_file
        self.ssl_key_pem_file = ssl_key_pem_file
        self.vnet_resourcegroup_name = vnet_resourcegroup_name
        self.vnet_name = vnet_name
        self.subnet_name = subnet_name
        self.service_cidr = service_cidr
        self.dns_service_ip = dns_service_ip
        self.docker_bridge_cidr = docker_bridge_cidr
        self.cluster_purpose = cluster_purpose
        self.load_balancer_type = load_balancer_type
        self.load_balancer_subnet = load_balancer_subnet
        super().__init__(vm_size, location=location)

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: Azure has no cluster like this."""
        super().validate_configuration()
        if self.agent_count is not None and number("agent_count", self.agent_count) < 1:
            raise ComputeTargetException("agent_count must be 1 or more.")
        networks = [self.vnet_name, self.subnet_name, self.vnet_resourcegroup_name]
        if any(networks) and not all(networks):
            raise ComputeTargetException("vnet_resourcegroup_name, vnet_name and subnet_name go together.")


class AksAttachConfiguration(_AksConfiguration):
    """A cluster of Azure that is there already; here a target of that name is made."""

    _is_attach = True

    def __init__(
        self,
        resource_group: Optional[str] = None,
        cluster_name: Optional[str] = None,
        resource_id: Optional[str] = None,
        cluster_purpose: Optional[str] = None,
        load_balancer_type: Optional[str] = None,
        load_balancer_subnet: Optional[str] = None,
    ) -> None:
        self.resource_group = resource_group
        self.cluster_name = cluster_name
        self.resource_id = resource_id
        self.cluster_purpose = cluster_purpose
        self.load_balancer_type = load_balancer_type
        self.load_balancer_subnet = load_balancer_subnet
        self.ssl_cname = None
        self.ssl_cert_pem_file = None
        self.ssl_key_pem_file = None
        self.leaf_domain_label = None
        self.overwrite_existing_domain = False
        super().__init__()

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: it does not say which cluster."""
        super().validate_configuration()
        if not self.resource_id and not (self.resource_group and self.cluster_name):
            raise ComputeTargetException("Give resource_id, or resource_group and cluster_name.")


class AksUpdateConfiguration(AzureClass):
    """What shall be different of a cluster; kept without effect."""

    def __init__(
        self,
        ssl_configuration: Optional[SslConfiguration] = None,
        load_balancer_type: Optional[str] = None,
        load_balancer_subnet: Optional[str] = None,
    ) -> None:
        self.ssl_configuration = ssl_configuration
        self.load_balancer_type = load_balancer_type
        self.load_balancer_subnet = load_balancer_subnet

    def validate_configuration(self) -> None:
        """Raises ComputeTargetException: it is none of Azure's."""
        _check_one_of("load_balancer_type", self.load_balancer_type, _LOAD_BALANCERS)


@raises_azure_errors
class AksCompute(ComputeTarget):
    """A target for services: `Model.deploy(..., deployment_target=AksCompute(ws, name))`."""

    class ClusterPurpose:
        FAST_PROD: ClassVar[str] = "FastProd"
        DENSE_PROD: ClassVar[str] = "DenseProd"
        DEV_TEST: ClassVar[str] = "DevTest"

    @staticmethod
    def provisioning_configuration(
        agent_count: Optional[int] = None,
        vm_size: Optional[str] = None,
        ssl_cname: Optional[str] = None,
        ssl_cert_pem_file: Optional[str] = None,
        ssl_key_pem_file: Optional[str] = None,
        location: Optional[str] = None,
        vnet_resourcegroup_name: Optional[str] = None,
        vnet_name: Optional[str] = None,
        subnet_name: Optional[str] = None,
        service_cidr: Optional[str] = None,
        dns_service_ip: Optional[str] = None,
        docker_bridge_cidr: Optional[str] = None,
        cluster_purpose: Optional[str] = None,
        load_balancer_type: Optional[str] = None,
        load_balancer_subnet: Optional[str] = None,
    ) -> AksProvisioningConfiguration:
        """Return what `ComputeTarget.create` takes.

        Raises:
            ComputeTargetException: Azure has no cluster like this.
        """
        return AksProvisioningConfiguration(**locals())

    @staticmethod
    def attach_configuration(
        resource_group: Optional[str] = None,
        cluster_name: Optional[str] = None,
        resource_id: Optional[str] = None,
        cluster_purpose: Optional[str] = None,
        load_balancer_type: Optional[str] = None,
        load_balancer_subnet: Optional[str] = None,
    ) -> AksAttachConfiguration:
        """Return what `ComputeTarget.attach` takes.

        Raises:
            ComputeTargetException: it does not say which cluster.
        """
        return AksAttachConfiguration(**locals())

    @staticmethod
    def attach(workspace: Workspace, name: str, resource_id: Any) -> ComputeTarget:
        """Make the target by the id of Azure's cluster, or from a configuration."""
        given = resource_id if isinstance(resource_id, _AksConfiguration) else None
        return ComputeTarget.attach(workspace, name, given or AksAttachConfiguration(resource_id=str(resource_id)))

    @property
    def agent_count(self) -> int:
        """How many machines Azure's cluster would have; here replicas are not limited by it."""
        found = self._kept("agent_count")
        return int(found) if found else DEV_AGENTS if self.cluster_purpose == self.ClusterPurpose.DEV_TEST else AGENTS

    @property
    def agent_vm_size(self) -> str:
        return self.vm_size

    @property
    def cluster_purpose(self) -> str:
        return str(self._kept("cluster_purpose") or self.ClusterPurpose.FAST_PROD)

    @property
    def load_balancer_type(self) -> str:
        return str(self._kept("load_balancer_type") or _LOAD_BALANCERS[0])

    @property
    def load_balancer_subnet(self) -> Optional[str]:
        found = self._kept("load_balancer_subnet")
        return str(found) if found else None

    @property
    def cluster_fqdn(self) -> Optional[str]:
        return None

    @property
    def system_services(self) -> List[SystemService]:
        return []

    @property
    def ssl_configuration(self) -> SslConfiguration:
        cert, key, cname = (self._kept(f"ssl_{name}") for name in ("cert_pem_file", "key_pem_file", "cname"))
        label = self._kept("leaf_domain_label")
        status = "Enabled" if cname or label else "Disabled"
        return SslConfiguration(status, cert, key, cname, label, bool(self._kept("overwrite_existing_domain")))

    @property
    def is_attached(self) -> bool:
        return bool(self._kept("resource_id") or self._kept("cluster_name"))

    def delete(self) -> None:
        """Delete it; replicas of services that were deleted just now may end first.

        Raises:
            ComputeTargetException: services or runs that go on are on it.
        """
        deadline = time.monotonic() + _ENDING_S
        while time.monotonic() < deadline and self._is_being_left():
            time.sleep(_POLL_S)
        super().delete()

    def _is_being_left(self) -> bool:
        """Whether runs are on it, all of which are being ended."""
        found = [run.get_status() for run in self.get_active_runs()]
        return bool(found) and all(status in _ENDING for status in found)

    def update(self, update_configuration: AksUpdateConfiguration) -> None:
        """Change nothing: certificates and load balancers of Azure have no effect here."""
        update_configuration.validate_configuration()
        note_without_effect({name: value for name, value in vars(update_configuration).items() if value})

    def get_credentials(self) -> Definition:
        """Raises ComputeTargetException: there is no Kubernetes cluster whose credentials these could be."""
        raise ComputeTargetException(
            f"The target {self.name!r} is no Kubernetes cluster, so it has no credentials. Services on it are reached "
            "by their scoring_uri."
        )

    def _kept(self, name: str) -> Any:
        return self._record.spec.azure.get(name)

    def _serialized_properties(self) -> Definition:
        return {
            "agentCount": self.agent_count,
            "agentVmSize": self.agent_vm_size,
            "clusterFqdn": None,
            "clusterPurpose": self.cluster_purpose,
            "loadBalancerType": self.load_balancer_type,
            "loadBalancerSubnet": self.load_balancer_subnet,
            "systemServices": [],
            "sslConfiguration": self.ssl_configuration.serialize(),
        }


def _check_one_of(name: str, value: Optional[str], known: Any) -> None:
    if value is not None and value not in known:
        raise ComputeTargetException(f"{name} is {value!r}. There are: {', '.join(known)}.")
