"""`Workspace`: the named set of experiments, runs, assets, data and compute targets of a project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

from runyard.core.errors import NotFound
from runyard.core.names import check_workspace_name
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.compat import CallableDict
from runyard.sdk.config.texts import check_texts, note_without_effect, warn_once
from runyard.sdk.errors import azure_error, raises_azure_errors
from runyard.sdk.exceptions import ProjectSystemException, UserErrorException, WorkspaceException
from runyard.sdk.workspaces.connection import WorkspaceConfig, find_config, get_client, read_config, write_config

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core import records
    from runyard.sdk.compute.target import ComputeTarget
    from runyard.sdk.data.dataset import AnyDataset
    from runyard.sdk.data.datastore import Datastore
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.models.model import Model
    from runyard.sdk.runs.run import Run
    from runyard.sdk.serving.images import Image
    from runyard.sdk.webservices.webservice import Webservice
    from runyard.sdk.workspaces.experiment import Experiment
    from runyard.sdk.workspaces.keyvault import Keyvault

DEFAULT_NAME = "default"
# Notebooks print these with `+`, so each must be text.
NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
NO_GROUP = "runyard"
NO_LOCATION = "local"


class WorkspaceNotFound(ProjectSystemException, WorkspaceException, UserErrorException):
    """What real code catches, under three names, before it makes the workspace."""


class ServiceContext(NamedTuple):
    """The names of a workspace, as private clients of Azure's read them."""

    subscription_id: str
    resource_group_name: str
    workspace_name: str
    workspace_id: str
    auth: Any

    def get_auth(self) -> Any:
        """Return what the workspace was opened with."""
        return self.auth


@raises_azure_errors
class Workspace(AzureClass):
    """A workspace on this user's Runyard server; one that a config.json of Azure names is made on first use.

    `auth`, `sku` and other words of Azure are accepted and have no effect here.
    """

    def __init__(
        self,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        workspace_name: Optional[str] = None,
        auth: Any = None,
        sku: str = "basic",
        tags: Optional[Dict[str, str]] = None,
        _client: Optional[Client] = None,
    ) -> None:
        name = check_workspace_name(workspace_name or DEFAULT_NAME)
        check_texts(sku=sku)
        self._client: Client = _client or get_client()
        self._record: Optional[records.Workspace] = self._client.workspaces.put(
            name, subscription_id=subscription_id or "", resource_group=resource_group or "", tags=tags
        )
        self._name = name
        self._sku = sku
        self._auth = check_auth(auth)
        if _client is None:  # from_config() takes a file as Azure wrote it
            _note_other(self._record, subscription_id=subscription_id, resource_group=resource_group, tags=tags)

    @classmethod
    def _inside_run(cls, client: Client, name: str) -> Workspace:
        """The workspace of the current run: reached with the run's own token, without config.json."""
        made = cls.__new__(cls)
        made._client, made._name, made._record, made._sku, made._auth = client, name, None, "basic", None
        return made

    @staticmethod
    def from_config(
        path: Optional[str] = None, auth: Any = None, _logger: Any = None, _file_name: Optional[str] = None
    ) -> Workspace:
        """Return the workspace that a `config.json` here or in a folder above names, else the default workspace.

        Args:
            path: the file itself, or the folder to search from. Then a missing file is an error.

        Raises:
            UserErrorException: no file at `path`, or it cannot be read.
        """
        if path is not None and os.path.isfile(path):
            return _from_file(path, auth)
        found = find_config(path or os.getcwd(), _file_name)
        if found is not None:
            return _from_file(found, auth)
        if path is None and _file_name is None:
            return Workspace(auth=auth)
        raise UserErrorException(
            f"The workspace configuration file {_file_name or 'config.json'}, could not be found at "
            f"{path or os.getcwd()!r} or in a folder above it.\n"
            "Give the path of an existing file, write one with ws.write_config(), or call Workspace.from_config() "
            "without a path to use the default workspace."
        )

    @staticmethod
    def create(
        name: str,
        auth: Any = None,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        location: Optional[str] = None,
        create_resource_group: bool = True,
        sku: str = "basic",
        tags: Optional[Dict[str, str]] = None,
        friendly_name: Optional[str] = None,
        storage_account: Optional[str] = None,
        key_vault: Optional[str] = None,
        app_insights: Optional[str] = None,
        container_registry: Optional[str] = None,
        adb_workspace: Any = None,
        primary_user_assigned_identity: Optional[str] = None,
        cmk_keyvault: Optional[str] = None,
        resource_cmk_uri: Optional[str] = None,
        hbi_workspace: bool = False,
        default_cpu_compute_target: Any = None,
        default_gpu_compute_target: Any = None,
        private_endpoint_config: Any = None,
        private_endpoint_auto_approval: bool = True,
        exist_ok: bool = False,
        show_output: bool = True,
        user_assigned_identity_for_cmk_encryption: Optional[str] = None,
        system_datastores_auth_mode: str = "accessKey",
        v1_legacy_mode: Optional[bool] = None,
    ) -> Workspace:
        """Make a workspace; with `exist_ok` an existing one is returned.

        Raises:
            WorkspaceException: it exists and `exist_ok` is false.
        """
        note_without_effect(
            {
                "friendly_name": friendly_name,
                "storage_account": storage_account,
                "key_vault": key_vault,
                "app_insights": app_insights,
                "container_registry": container_registry,
                "adb_workspace": adb_workspace,
                "primary_user_assigned_identity": primary_user_assigned_identity,
                "cmk_keyvault": cmk_keyvault,
                "resource_cmk_uri": resource_cmk_uri,
                "hbi_workspace": hbi_workspace or None,
                "default_cpu_compute_target": default_cpu_compute_target,
                "default_gpu_compute_target": default_gpu_compute_target,
                "private_endpoint_config": private_endpoint_config,
                "private_endpoint_auto_approval": None if private_endpoint_auto_approval else False,
                "user_assigned_identity_for_cmk_encryption": user_assigned_identity_for_cmk_encryption,
                "system_datastores_auth_mode": None if system_datastores_auth_mode == "accessKey" else True,
                "v1_legacy_mode": v1_legacy_mode,
            }
        )
        client = get_client()
        if not exist_ok and any(known.name == name for known in client.workspaces.list()):
            raise WorkspaceException(
                f"The workspace {name!r} exists already. Use Workspace.get({name!r}), or pass exist_ok=True."
            )
        check_workspace_name(name)
        client.workspaces.put(
            name,
            subscription_id=subscription_id or "",
            resource_group=resource_group or "",
            location=location or "",
            tags=tags,
        )
        return Workspace(workspace_name=name, auth=auth, sku=sku)

    @staticmethod
    def get(
        name: str,
        auth: Any = None,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        location: Optional[str] = None,
        cloud: Any = None,
        id: Optional[str] = None,
    ) -> Workspace:
        """Return an existing workspace; workspaces are found by their name alone.

        Raises:
            ProjectSystemException: there is none of that name. It is a WorkspaceException as well.
        """
        try:
            get_client().workspaces.get(name)
        except NotFound as error:
            raise azure_error(error, WorkspaceNotFound) from None
        note_without_effect(
            {"subscription_id": subscription_id, "resource_group": resource_group, "location": location, "id": id}
        )
        return Workspace(workspace_name=name, auth=auth)

    @staticmethod
    def setup() -> Workspace:
        """Return the workspace that `from_config()` finds, else the default one."""
        return Workspace.from_config()

    @staticmethod
    def list(
        subscription_id: Optional[str] = None, auth: Any = None, resource_group: Optional[str] = None
    ) -> Dict[str, List[Workspace]]:
        """Return the workspaces by name, each in a list of one."""
        check_texts(subscription_id=subscription_id, resource_group=resource_group)
        found = get_client().workspaces.list()
        return {
            record.name: [Workspace(workspace_name=record.name, auth=auth)]
            for record in found
            if (not subscription_id or record.subscription_id == subscription_id)
            and (not resource_group or record.resource_group == resource_group)
        }

    @property
    def name(self) -> str:
        return self._name

    @property
    def subscription_id(self) -> str:
        return self._facts.subscription_id or NO_SUBSCRIPTION

    @property
    def resource_group(self) -> str:
        return self._facts.resource_group or NO_GROUP

    @property
    def location(self) -> str:
        return self._facts.location or NO_LOCATION

    @property
    def sku(self) -> str:
        return self._sku

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._facts.tags)

    @property
    def discovery_url(self) -> str:
        return self._client.address.web_url or ""

    @property
    def experiments(self) -> CallableDict[Experiment]:
        """The experiments by name, archived ones left out. 2018 scripts may call it."""
        from runyard.sdk.workspaces.experiment import (
            Experiment,  # experiment.py is about workspaces, so it cannot load first
        )

        return CallableDict((experiment.name, experiment) for experiment in Experiment.list(self))

    @property
    def compute_targets(self) -> CallableDict[ComputeTarget]:
        """The compute targets by name."""
        from runyard.sdk.compute.target import ComputeTarget  # most workspaces are never asked

        return CallableDict((target.name, target) for target in ComputeTarget.list(self))

    @property
    def datasets(self) -> CallableDict[AnyDataset]:
        """The latest version of each registered dataset, by name."""
        from runyard.sdk.data.dataset import Dataset  # as above

        return CallableDict(Dataset.get_all(self).items())

    @property
    def environments(self) -> CallableDict[Environment]:
        """The registered environments in their latest version, and the curated ones, by name."""
        from runyard.sdk.environments.registry import list_all  # most workspaces are never asked

        return CallableDict(list_all(self))

    @property
    def models(self) -> CallableDict[Model]:
        """The latest version of each model, by name."""
        from runyard.sdk.models.model import Model  # as above

        return CallableDict((model.name, model) for model in Model.list(self, latest=True))

    @property
    def webservices(self) -> CallableDict[Webservice]:
        """The web services by name, local ones left out."""
        from runyard.sdk.webservices.webservice import Webservice  # as above

        return CallableDict((service.name, service) for service in Webservice.list(self))

    @property
    def images(self) -> CallableDict[Image]:
        """The latest version of each image, by name."""
        from runyard.sdk.serving.images import Image  # as above

        return CallableDict((image.name, image) for image in reversed(Image.list(self)))

    @property
    def linked_services(self) -> CallableDict[Any]:
        return CallableDict()

    @property
    def datastores(self) -> CallableDict[Datastore]:
        """The datastores by name; `workspaceblobstore` and `workspacefilestore` are always there."""
        from runyard.sdk.data.datastore import Datastore  # datastore.py is about workspaces, so it cannot load first
        from runyard.sdk.data.datastore_files import list_datastores

        found = list_datastores(self)
        return CallableDict((name, Datastore._known(self, name, document)) for name, document in found.items())

    def get_default_datastore(self) -> Datastore:
        from runyard.sdk.data.datastore import Datastore  # as above

        return Datastore(self)

    def set_default_datastore(self, name: str) -> None:
        """Raises UserErrorException: there is none of that name."""
        from runyard.sdk.data.datastore import Datastore  # as above

        Datastore(self, name).set_as_default()

    def get_default_compute_target(self, type: str) -> ComputeTarget:
        """Return `cpu-cluster` for 'CPU' or `gpu-cluster` for 'GPU'.

        Raises:
            ComputeTargetException: it was not made.
        """
        from runyard.sdk.compute.target import ComputeTarget  # as above

        if str(type).upper() not in ("CPU", "GPU"):
            raise UserErrorException(f"A default compute target is of type 'CPU' or 'GPU', not {type!r}.")
        return ComputeTarget(self, f"{type.lower()}-cluster")

    def get_default_keyvault(self) -> Keyvault:
        """Return the secrets of this workspace."""
        from runyard.sdk.workspaces.keyvault import Keyvault  # as above

        return Keyvault(self)

    def get_mlflow_tracking_uri(self, _with_auth: bool = False) -> str:
        """Return the address of this workspace for `mlflow.set_tracking_uri`; MLflow finds our plug-in for it.

        Raises:
            UserErrorException: MLflow is not installed.
        """
        from runyard.sdk.workspaces.tracking import tracking_uri_of  # as above

        return tracking_uri_of(self)

    def delete(self, delete_dependent_resources: bool = False, no_wait: bool = False) -> None:
        """Delete the workspace with its experiments, runs and what is registered in it, for good.

        Both arguments are Azure's and have no effect: there are no resources beside it, and it is gone on return.

        Raises:
            UserErrorException: one of its runs has not ended; nothing was deleted.
        """
        self._client.workspaces.delete(self._name)

    def get_run(self, run_id: str) -> Run:
        """Return the run of that id, of whatever experiment.

        Raises:
            UserErrorException: this workspace has no such run.
        """
        from runyard.sdk.runs.run import Run  # run.py is about workspaces, so it cannot load first

        return Run.get(self, run_id)

    def update(
        self,
        friendly_name: Optional[str] = None,
        description: Optional[str] = None,
        tags: Optional[Dict[str, str]] = None,
        image_build_compute: Optional[str] = None,
        service_managed_resources_settings: Any = None,
        primary_user_assigned_identity: Optional[str] = None,
        allow_public_access_when_behind_vnet: Optional[bool] = None,
        v1_legacy_mode: Optional[bool] = None,
    ) -> Dict[str, Any]:
        """Return `get_details()`; all arguments have no effect."""
        note_without_effect(
            {
                "tags": tags,
                "friendly_name": friendly_name,
                "description": description,
                "image_build_compute": image_build_compute,
                "service_managed_resources_settings": service_managed_resources_settings,
                "primary_user_assigned_identity": primary_user_assigned_identity,
                "allow_public_access_when_behind_vnet": allow_public_access_when_behind_vnet,
                "v1_legacy_mode": v1_legacy_mode,
            }
        )
        return self.get_details()

    @property
    def service_context(self) -> ServiceContext:
        """What private clients of Azure's read of a workspace: its names."""
        return ServiceContext(self.subscription_id, self.resource_group, self.name, self._workspace_id, self._auth)

    @property
    def _workspace_id(self) -> str:
        return self._facts.id

    @property
    def _workspace_name(self) -> str:
        return self._name

    @property
    def _auth_object(self) -> Any:
        return self._auth

    def get_details(self) -> Dict[str, Any]:
        """Return what is known about the workspace, with Azure's camelCase keys."""
        facts = self._facts
        return {
            "id": f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{self.name}",
            "name": self.name,
            "workspaceid": facts.id,
            "location": self.location,
            "type": "Microsoft.MachineLearningServices/workspaces",
            "tags": self.tags,
            "sku": self.sku,
            "friendlyName": self.name,
            "creationTime": facts.created_at.isoformat(),
            "discoveryUrl": self.discovery_url,
        }

    def write_config(self, path: Optional[str] = None, file_name: Optional[str] = None) -> None:
        """Write `<path>/.azureml/config.json` (or into an existing `aml_config`), which from_config() finds."""
        address = self._client.address
        url = str(address) if address.kind == "tcp" else ""
        config = WorkspaceConfig(self.name, self.subscription_id, self.resource_group, url)
        write_config(config, path or os.getcwd(), file_name or "config.json")

    def __repr__(self) -> str:
        return (
            f"Workspace.create(name={self.name!r}, subscription_id={self.subscription_id!r}, "
            f"resource_group={self.resource_group!r})"
        )

    @property
    def _facts(self) -> records.Workspace:
        if self._record is None:
            self._record = self._client.workspaces.get(self._name)
        return self._record


def check_auth(auth: Any) -> Any:
    """Return `auth`, which has no effect here. Raises UserErrorException when no sign-in could ever be of its kind."""
    if auth is not None and not hasattr(auth, "get_authentication_header") and not hasattr(auth, "get_token"):
        raise UserErrorException(
            f"auth is {auth!r}; Azure takes an object such as InteractiveLoginAuthentication().\n"
            "Here the server's address and token decide who you are: leave auth out."
        )
    return auth


def _from_file(path: str, auth: Any) -> Workspace:
    config = read_config(path)
    client = get_client(config.runyard_url, path)
    return Workspace(config.subscription_id, config.resource_group, config.workspace_name, auth=auth, _client=client)


def _note_other(record: Optional[records.Workspace], **given: Any) -> None:
    """Say what a workspace that is there has otherwise: its name alone decides which one it is."""
    other = [name for name, value in given.items() if value and value != getattr(record, name)]
    if record is not None and other:
        warn_once(
            f"The workspace `{record.name}` is there and keeps its own {', '.join(other)}: ws.update(...) changes tags."
        )
