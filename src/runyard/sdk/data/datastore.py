"""`Datastore`: where a workspace's data lies. Every workspace has `workspaceblobstore`, a folder of the server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, NoReturn, Optional, Sequence

from runyard.data.datastores import (
    BUILT_IN,
    KIND,
    Document,
    default_name,
    folder_document,
    get_document,
    open_storage,
)
from runyard.data.folder import clean_data_path
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts, note_without_effect
from runyard.sdk.data.datastore_files import common_folder, files_below, list_datastores, targets_of, told
from runyard.sdk.data.inputs import DataReference, reference_name
from runyard.sdk.errors import raises_azure_errors, unsupported
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.client.calls.workspace import DatastoreFiles
    from runyard.data.base import Storage
    from runyard.sdk.workspaces.workspace import Workspace

_SQL_HINT = "Write the query's result to Parquet (pandas.read_sql, then to_parquet), and upload that."
_FOLDER_HINT = (
    "ws.get_default_datastore() is a folder of the server; Datastore.register_folder(ws, name, path) makes one of "
    "yours a datastore, such as a mounted share."
)


class AbstractDatastore(AzureClass):
    """Azure's base of datastores. Objects are made by `Datastore(workspace, name)` and `Datastore.register_...`."""

    def __init__(self, workspace: Workspace, name: str, datastore_type: str) -> None:
        raise UserErrorException(
            f"A datastore of type {datastore_type!r} is not made by the base of the classes.\n"
            f"Datastore({workspace.name!r:.50}, {name!r}) finds one; Datastore.register_azure_blob_container makes one."
        )


class AbstractAzureStorageDatastore(AbstractDatastore):
    """Azure's base of datastores on a storage account."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        datastore_type: str,
        container_name: str,
        account_name: str,
        sas_token: Optional[str] = None,
        account_key: Optional[str] = None,
        protocol: Optional[str] = None,
        endpoint: Optional[str] = None,
    ) -> None:
        given = (container_name, account_name, sas_token, account_key, protocol, endpoint)
        if any(given):
            super().__init__(workspace, name, f"{datastore_type} ({account_name}/{container_name})")
        super().__init__(workspace, name, datastore_type)


@raises_azure_errors
class Datastore(AbstractAzureStorageDatastore):
    """A datastore of `workspace`, by default its default one.

    Raises:
        UserErrorException: there is none of that name.
    """

    _own_keys: Optional[Dict[str, str]] = None  # of one that is not registered

    def __new__(cls, workspace: Any = None, name: Optional[str] = None, *_more: Any, **_named: Any) -> Datastore:
        """Return an AzureBlobDatastore: Azure has a class for each kind of storage, and here one has them all."""
        return object.__new__(AzureBlobDatastore if cls is Datastore else cls)

    def __init__(self, workspace: Workspace, name: Optional[str] = None) -> None:
        documents = list_datastores(workspace)
        self._workspace = workspace
        self._name = name or default_name(documents)
        self._document = get_document(documents, self._name)

    @classmethod
    def _known(cls, workspace: Workspace, name: str, document: Document) -> Datastore:
        made = cls.__new__(cls)
        made._workspace, made._name, made._document = workspace, name, document
        return made

    @staticmethod
    def get(workspace: Workspace, datastore_name: str) -> Datastore:
        """Raises UserErrorException: there is none of that name."""
        return Datastore(workspace, datastore_name)

    @staticmethod
    def get_default(workspace: Workspace) -> Datastore:
        return Datastore(workspace)

    @staticmethod
    def register_folder(
        workspace: Workspace,
        datastore_name: str,
        path: str,
        overwrite: bool = False,
        create_if_not_exists: bool = False,
    ) -> Datastore:
        """Make a folder of your own a datastore: of this machine, or of a file system that all machines share.

        Raises:
            UserErrorException: the folder is not there, or the name is taken and `overwrite` is not set.
        """
        known = check_new(workspace, datastore_name, overwrite=overwrite)
        folder = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if create_if_not_exists:
            os.makedirs(folder, exist_ok=True)
        if not os.path.isdir(folder):
            raise UserErrorException(
                f"The folder {folder!r} does not exist. Make it first, or pass create_if_not_exists=True."
            )
        document = {**known, **folder_document(folder)}
        workspace._client.assets.put(workspace.name, KIND, datastore_name, document)
        return Datastore(workspace, datastore_name)

    @staticmethod
    def register_azure_blob_container(
        workspace: Workspace,
        datastore_name: str,
        container_name: str,
        account_name: str,
        sas_token: Optional[str] = None,
        account_key: Optional[str] = None,
        protocol: Optional[str] = None,
        endpoint: Optional[str] = None,
        overwrite: bool = False,
        create_if_not_exists: bool = False,
        skip_validation: bool = False,
        blob_cache_timeout: Optional[int] = None,
        grant_workspace_access: bool = False,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
    ) -> Datastore:
        """Register a container of Azure Blob storage. Keys are kept as a secret of the workspace.

        Without `account_key` and `sas_token` the container is read as anybody may: it must be a public one.

        Args:
            protocol: `https` (the default) or `http`.
            endpoint: `core.windows.net` or another suffix, or a whole address (`http://127.0.0.1:10000/account`).
            create_if_not_exists: make the container where there is none.
            blob_cache_timeout: without effect, as are the last three: they are about services of Azure.

        Raises:
            UserErrorException: it cannot be reached, or the name is taken and `overwrite` is not set.
        """
        from runyard.sdk.data.datastore_files import azure_documents, make_azure_container, register_objects

        note_without_effect(
            {
                "blob_cache_timeout": blob_cache_timeout,
                "grant_workspace_access": grant_workspace_access or None,
                "subscription_id": subscription_id,
                "resource_group": resource_group,
            }
        )
        keys = {"account_key": account_key, "sas_key": (sas_token or "").lstrip("?")}
        documents = azure_documents(container_name, account_name, keys, protocol, endpoint)
        if create_if_not_exists:
            make_azure_container(*documents)
        return register_objects(workspace, datastore_name, *documents, overwrite=overwrite, check=not skip_validation)

    @staticmethod
    def register_s3_bucket(
        workspace: Workspace,
        datastore_name: str,
        bucket: str,
        prefix: str = "",
        region: str = "us-east-1",
        endpoint: Optional[str] = None,
        access_key_id: Optional[str] = None,
        secret_access_key: Optional[str] = None,
        overwrite: bool = False,
        skip_validation: bool = False,
    ) -> Datastore:
        """Register a bucket of S3, or of anything that speaks its protocol at `endpoint`.

        Without keys those of the process that reads it are used (its variables, or the machine's role).
        """
        from runyard.sdk.data.datastore_files import register_objects, s3_documents

        documents = s3_documents(bucket, prefix, region, endpoint, access_key_id, secret_access_key)
        return register_objects(workspace, datastore_name, *documents, overwrite=overwrite, check=not skip_validation)

    @staticmethod
    def register_gcs_bucket(
        workspace: Workspace,
        datastore_name: str,
        bucket: str,
        prefix: str = "",
        service_account_key: Optional[str] = None,
        endpoint: Optional[str] = None,
        overwrite: bool = False,
        skip_validation: bool = False,
    ) -> Datastore:
        """Register a bucket of Google Cloud Storage; `service_account_key` is the JSON text of a key."""
        from runyard.sdk.data.datastore_files import gcs_documents, register_objects

        documents = gcs_documents(bucket, prefix, service_account_key, endpoint)
        return register_objects(workspace, datastore_name, *documents, overwrite=overwrite, check=not skip_validation)

    @staticmethod
    def register_azure_file_share(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported("`Datastore.register_azure_file_share`", hint=_FOLDER_HINT)

    @staticmethod
    def register_azure_data_lake_gen2(
        workspace: Workspace,
        datastore_name: str,
        filesystem: str,
        account_name: str,
        tenant_id: Optional[str] = None,
        client_id: Optional[str] = None,
        client_secret: Optional[str] = None,
        resource_url: Optional[str] = None,
        authority_url: Optional[str] = None,
        protocol: Optional[str] = None,
        endpoint: Optional[str] = None,
        overwrite: bool = False,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        grant_workspace_access: bool = False,
    ) -> Datastore:
        """Register a file system of Azure Data Lake Storage Gen2, which is read and written as blobs are.

        Args:
            client_id: of a service principal, with its `client_secret` and `tenant_id`.
            resource_url: without effect, as are the last three.
        """
        from runyard.sdk.data.datastore_files import azure_documents, register_objects

        if len([one for one in (tenant_id, client_id, client_secret) if one]) not in (0, 3):
            raise UserErrorException("tenant_id, client_id and client_secret go together.")
        note_without_effect(
            {
                "resource_url": resource_url,
                "subscription_id": subscription_id,
                "resource_group": resource_group,
                "grant_workspace_access": grant_workspace_access or None,
            }
        )
        keys = {"tenant_id": tenant_id, "client_id": client_id, "client_secret": client_secret}
        suffix = (endpoint or "").partition("dfs.")[2] or endpoint
        documents = azure_documents(filesystem, account_name, keys, protocol, suffix)
        if authority_url:
            documents[0]["options"]["authority_host"] = authority_url
        return register_objects(workspace, datastore_name, *documents, overwrite=overwrite, check=False)

    @staticmethod
    def register_azure_data_lake(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported(
            "`Datastore.register_azure_data_lake` (Gen1, which Azure closed in 2024)",
            hint="Datastore.register_azure_data_lake_gen2(ws, name, filesystem, account_name).",
        )

    @staticmethod
    def register_azure_sql_database(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported("`Datastore.register_azure_sql_database`", hint=_SQL_HINT)

    @staticmethod
    def register_azure_postgre_sql(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported("`Datastore.register_azure_postgre_sql`", hint=_SQL_HINT)

    @staticmethod
    def register_azure_my_sql(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported("`Datastore.register_azure_my_sql`", hint=_SQL_HINT)

    @staticmethod
    def register_dbfs(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported("`Datastore.register_dbfs`", hint=_FOLDER_HINT)

    @staticmethod
    def register_hdfs(*_args: Any, **_kwargs: Any) -> NoReturn:
        unsupported("`Datastore.register_hdfs`", hint=_FOLDER_HINT)

    @property
    def name(self) -> str:
        return self._name

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    @property
    def datastore_type(self) -> str:
        kind = str(self._document["type"])
        return "AzureBlob" if kind == "azure" else kind.capitalize()

    @property
    def account_name(self) -> str:
        """The storage account; of a folder, the machine."""
        return str(self._options().get("account_name", "local"))

    @property
    def container_name(self) -> str:
        """The container or bucket; of a folder, its path."""
        return str(self._document.get("bucket") or self._document.get("path", ""))

    @property
    def account_key(self) -> Optional[str]:
        """The key of the storage account; None where there is none."""
        return self._keys().get("account_key")

    @property
    def sas_token(self) -> Optional[str]:
        return self._keys().get("sas_key")

    @property
    def is_sas(self) -> bool:
        return self.sas_token is not None

    @property
    def credential_type(self) -> str:
        kinds = {"account_key": "AccountKey", "sas_key": "Sas", "client_secret": "ServicePrincipal"}
        return next((kind for key, kind in kinds.items() if key in self._keys()), "None")

    @property
    def protocol(self) -> str:
        """`https`, `http`, or `file` of a folder."""
        if self._document["type"] in ("folder", "served"):
            return "file"
        return str(self._options().get("endpoint") or "https://").partition("://")[0]

    @property
    def endpoint(self) -> str:
        """What follows `<account>.blob.`, a whole address where one was given, or nothing of a folder."""
        address = str(self._options().get("endpoint") or "")
        default = "core.windows.net" if self._document["type"] == "azure" else ""
        return address.partition(f"://{self.account_name}.blob.")[2] or address or default

    def upload(
        self, src_dir: str, target_path: Optional[str] = None, overwrite: bool = False, show_progress: bool = True
    ) -> DataReference:
        """Store all files below `src_dir` under `target_path`; files that are there already stay, unless `overwrite`.

        Raises:
            UserErrorException: there is no such folder.
        """
        return self._upload(files_below(src_dir), target_path, overwrite, show_progress)

    def upload_files(
        self,
        files: Sequence[str],
        relative_root: Optional[str] = None,
        target_path: Optional[str] = None,
        overwrite: bool = False,
        show_progress: bool = True,
    ) -> DataReference:
        """Store files under `target_path`, each under its path below `relative_root` (default: their common folder).

        Raises:
            UserErrorException: a file is missing or not below `relative_root`, or two would have the same name.
        """
        root = common_folder(files) if relative_root is None else relative_root
        return self._upload(targets_of(files, root), target_path, overwrite, show_progress)

    def download(
        self, target_path: str, prefix: Optional[str] = None, overwrite: bool = False, show_progress: bool = True
    ) -> int:
        """Write the files at or below `prefix` into the folder `target_path`, their paths kept; return how many.

        Files that are there already stay, unless `overwrite`.
        """
        from runyard.data.transfer import download

        storage = self._storage()
        files = list(storage.iter_files(clean_data_path(prefix)))
        with told("downloading", sum(file.size for file in files), show_progress) as (say, count):
            done = download(
                storage,
                files,
                lambda name: os.path.join(target_path, name),
                overwrite=overwrite,
                say=say,
                count=count,
            )
            say(f"Downloaded {done.count} files, {done.size_bytes} bytes, to {os.path.abspath(target_path)}.")
        return done.count

    def path(self, path: Optional[str] = None, data_reference_name: Optional[str] = None) -> DataReference:
        """Return a reference to a file or folder; as_mount(), as_download() and as_upload() of it say how."""
        return DataReference(self, data_reference_name, path)

    def as_mount(self) -> DataReference:
        return self.path().as_mount()

    def as_download(self, path_on_compute: Optional[str] = None) -> DataReference:
        return self.path().as_download(path_on_compute)

    def as_upload(self, path_on_compute: Optional[str] = None) -> DataReference:
        return self.path().as_upload(path_on_compute)

    def set_as_default(self) -> None:
        """Make it what ws.get_default_datastore() returns."""
        from datetime import datetime, timezone

        own = {} if self._name in BUILT_IN else self._document
        chosen = {**own, "default_at": datetime.now(timezone.utc).isoformat()}
        self._workspace._client.assets.put(self._workspace.name, KIND, self._name, chosen)

    def unregister(self) -> None:
        """Forget the datastore; its data stays where it is.

        Raises:
            UserErrorException: it is one that every workspace has.
        """
        if self._name in BUILT_IN:
            raise UserErrorException(f"The datastore {self._name!r} belongs to every workspace and stays.")
        self._workspace._client.assets.delete(self._workspace.name, KIND, self._name)

    def __repr__(self) -> str:
        return (
            f"Datastore(name={self._name!r}, type={self.datastore_type!r}, path={self.container_name!r}, "
            f"workspace={self._workspace.name!r})"
        )

    def _upload(
        self, files: Dict[str, str], target_path: Optional[str], overwrite: bool, show_progress: bool
    ) -> DataReference:
        from runyard.data.transfer import upload

        target = clean_data_path(target_path)
        prefix = f"{target}/" if target else ""
        pairs = [(path, prefix + name) for path, name in files.items()]
        with told("uploading", sum(map(os.path.getsize, files)), show_progress) as (say, count):
            done = upload(self._storage(), pairs, overwrite=overwrite, say=say, count=count)
            say(f"Uploaded {done.count} files, {done.size_bytes} bytes, to {self._name}.")
        return self.path(target)

    def _keys(self) -> Dict[str, str]:
        import json  # most datastores are folders, which have no keys

        if self._own_keys is not None:
            return dict(self._own_keys)
        secret = self._document.get("secret")
        keys: Dict[str, str] = json.loads(self._secret(secret)) if secret else {}
        return keys

    def _storage(self) -> Storage:
        return open_storage(self._document, self._remote, self._secret)

    def _options(self) -> Dict[str, Any]:
        return dict(self._document.get("options") or {})

    def _secret(self, name: str) -> str:
        if self._own_keys is not None:
            import json

            return json.dumps(self._own_keys)
        from runyard.client.calls.workspace import SecretCalls  # folders have none

        return SecretCalls(self._workspace._client.transport).get(self._workspace.name, name)

    def _remote(self) -> DatastoreFiles:
        from runyard.client.calls.workspace import DatastoreFiles  # a private server's are on this machine

        return DatastoreFiles(self._workspace._client, self._workspace.name, self._name)


@raises_azure_errors
class AzureBlobDatastore(Datastore):
    """The class of all datastores. With a container and an account it is one that no workspace has registered.

    Args:
        container_name: of a container that is used as it is; without it, the workspace's datastore of that name.
        request_session: without effect, as are the arguments after it: they are about services of Azure.
    """

    def __init__(
        self,
        workspace: Workspace,
        name: Optional[str] = None,
        container_name: Optional[str] = None,
        account_name: Optional[str] = None,
        sas_token: Optional[str] = None,
        account_key: Optional[str] = None,
        protocol: Optional[str] = None,
        endpoint: Optional[str] = None,
        request_session: Any = None,
        workspace_msi_has_access: bool = False,
        subscription_id: Optional[str] = None,
        resource_group: Optional[str] = None,
        service_data_access_auth_identity: Any = None,
    ) -> None:
        from runyard.sdk.data.datastore_files import azure_documents

        if container_name is None and account_name is None:
            super().__init__(workspace, name)
            return
        check_texts(container_name=container_name, account_name=account_name, endpoint=endpoint, sas_token=sas_token)
        check_texts(account_key=account_key)
        if not (name and container_name and account_name):
            raise UserErrorException("A datastore that is not registered needs name, container_name and account_name.")
        note_without_effect(
            {
                "request_session": request_session,
                "workspace_msi_has_access": workspace_msi_has_access or None,
                "subscription_id": subscription_id,
                "resource_group": resource_group,
                "service_data_access_auth_identity": service_data_access_auth_identity,
            }
        )
        keys = {"account_key": account_key, "sas_key": (sas_token or "").lstrip("?")}
        document, self._own_keys = azure_documents(container_name, account_name, keys, protocol, endpoint)
        self._workspace, self._name = workspace, reference_name(name)
        self._document = {**document, "secret": name} if self._own_keys else document


def check_new(workspace: Workspace, name: str, *, overwrite: bool) -> Document:
    """Return the document that a new one takes the place of."""
    reference_name(name)
    if name in BUILT_IN:
        raise UserErrorException(f"The name {name!r} belongs to a datastore that every workspace has. Choose another.")
    known = list_datastores(workspace)
    if not overwrite and name in known:
        raise UserErrorException(
            f"The workspace {workspace.name!r} has a datastore {name!r}. Choose another name, or pass overwrite=True."
        )
    return known.get(name, {})
