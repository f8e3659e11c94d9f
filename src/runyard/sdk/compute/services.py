"""Compute of Azure's services (Databricks, Data Factory, HDInsight …), and `LocalTarget`.

Scripts look for such a target first, and attach it where there is none. Looking works: a workspace here has none.
Attaching or making one is refused, because only Azure's services run it.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

from runyard.core.compute import LOCAL
from runyard.core.errors import NotYetSupported
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.compute.target import ComputeTarget
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import ComputeTargetException

_SPARK = "Run Spark in a script of your own (`pip install pyspark`), or use Ray or Dask on an attached cluster."
_COPY = "Copy data with `datastore.upload(...)`, or with a script that a run starts."
_QUERY = "Query it in a script (`pandas.read_sql`) and keep the result as a dataset."
_JOBS = "Submit a run with `command='...'` to an AmlCompute pool, or to SlurmCompute, RayCompute or RemoteCompute."
_HOSTS = "If its machines take SSH, RemoteCompute.attach_configuration(address=..., username=...) attaches them."


class ServiceCompute(ComputeTarget):
    """Base of the targets that only Azure's services have. None is ever in a workspace of Runyard."""

    _service = ""
    _instead = ""

    @classmethod
    def _refusal(cls, given: Mapping[str, Any]) -> Exception:
        names = ", ".join(name for name, value in given.items() if value)
        error = NotYetSupported(
            f"{cls.__name__} cannot be attached or made{f' ({names})' if names else ''}.",
            why=f"{cls._service} is a service of Azure, and nothing here runs it.",
            hint=cls._instead,
        )
        return azure_error(error, ComputeTargetException)


class DatabricksCompute(ServiceCompute):
    _service, _instead = "Azure Databricks", _SPARK

    @staticmethod
    def attach_configuration(
        resource_group: Optional[str] = None,
        workspace_name: Optional[str] = None,
        resource_id: Optional[str] = None,
        access_token: str = "",
    ) -> Any:
        raise DatabricksCompute._refusal(locals())

    @staticmethod
    def attach(workspace: Any, name: str, resource_id: Any, access_token: str = "") -> Any:
        raise DatabricksCompute._refusal(locals())


class DataFactoryCompute(ServiceCompute):
    _service, _instead = "Azure Data Factory", _COPY

    @staticmethod
    def provisioning_configuration(location: Optional[str] = None) -> Any:
        raise DataFactoryCompute._refusal(locals())

    @staticmethod
    def attach_configuration(
        resource_group: Optional[str] = None, factory_name: Optional[str] = None, resource_id: Optional[str] = None
    ) -> Any:
        raise DataFactoryCompute._refusal(locals())

    @staticmethod
    def attach(workspace: Any, name: str, resource_id: Any) -> Any:
        raise DataFactoryCompute._refusal(locals())


class AdlaCompute(ServiceCompute):
    _service, _instead = "Azure Data Lake Analytics, which Azure has closed,", _QUERY

    @staticmethod
    def provisioning_configuration(location: Optional[str] = None) -> Any:
        raise AdlaCompute._refusal(locals())

    @staticmethod
    def attach_configuration(
        resource_group: Optional[str] = None, account_name: Optional[str] = None, resource_id: Optional[str] = None
    ) -> Any:
        raise AdlaCompute._refusal(locals())

    @staticmethod
    def attach(workspace: Any, name: str, resource_id: Any) -> Any:
        raise AdlaCompute._refusal(locals())


class BatchCompute(ServiceCompute):
    _service, _instead = "Azure Batch", _JOBS

    @staticmethod
    def attach_configuration(
        resource_group: Optional[str] = None, account_name: Optional[str] = None, resource_id: Optional[str] = None
    ) -> Any:
        raise BatchCompute._refusal(locals())


class HDInsightCompute(ServiceCompute):
    _service, _instead = "HDInsight", f"{_SPARK} {_HOSTS}"

    @staticmethod
    def attach_configuration(
        username: str,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        cluster_name: Optional[str] = None,
        resource_id: Optional[str] = None,
        address: Optional[str] = None,
        ssh_port: Any = "22",
        password: str = "",
        private_key_file: str = "",
        private_key_passphrase: str = "",
    ) -> Any:
        raise HDInsightCompute._refusal(locals())

    @staticmethod
    def attach(
        workspace: Any,
        name: str,
        username: Any,
        address: Optional[str] = None,
        ssh_port: Any = "22",
        password: str = "",
        private_key_file: str = "",
        private_key_passphrase: str = "",
    ) -> Any:
        raise HDInsightCompute._refusal(locals())


class KustoCompute(ServiceCompute):
    _service, _instead = "Azure Data Explorer", _QUERY

    @staticmethod
    def attach_configuration(
        resource_group: Optional[str] = None,
        workspace_name: Optional[str] = None,
        resource_id: Optional[str] = None,
        tenant_id: Optional[str] = None,
        kusto_connection_string: Optional[str] = None,
        application_id: Optional[str] = None,
        application_key: Optional[str] = None,
    ) -> Any:
        raise KustoCompute._refusal(locals())


class SynapseCompute(ServiceCompute):
    _service, _instead = "A Spark pool of Azure Synapse", _SPARK

    @staticmethod
    def attach_configuration(linked_service: Any, type: str, pool_name: str) -> Any:
        raise SynapseCompute._refusal(locals())


class LocalTarget(AzureClass):
    """The machine itself, as an object: `ScriptRunConfig(..., compute_target=LocalTarget())` is `'local'`."""

    name = LOCAL
    type = LOCAL

    @staticmethod
    def deserialize_from_dict(compute_target_name: str, compute_target_dict: Mapping[str, Any]) -> LocalTarget:
        """Raises ComputeTargetException: the dict is that of another target."""
        found = str(compute_target_dict.get("type") or compute_target_name).lower()
        if found != LOCAL:
            raise ComputeTargetException(f"{compute_target_name!r} is a target of type {found!r}, not this machine.")
        return LocalTarget()
