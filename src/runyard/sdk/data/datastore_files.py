"""Helpers of `Datastore`: the files of an upload, the list of datastores, and datastores in object storage.

The first functions choose the files of an upload and their names. The last ones register buckets and containers: the
keys become a secret of the workspace, and one request checks that the storage answers.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from runyard.data.base import Count, count_nothing
from runyard.data.datastores import KIND, Document, list_documents
from runyard.data.folder import iter_files
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.sdk.data.datastore import Datastore
    from runyard.sdk.workspaces.workspace import Workspace


def files_below(src_dir: str) -> Dict[str, str]:
    """Return {path: name} of all files below the folder.

    Raises:
        UserErrorException: there is no such folder.
    """
    if not os.path.isdir(src_dir):
        raise UserErrorException(
            f"The folder {os.fspath(src_dir)!r} does not exist (looked in {os.getcwd()}).\n"
            "upload() takes a folder, upload_files() a list of files."
        )
    return {file.path: file.name for file in iter_files(os.fspath(src_dir))}


def common_folder(files: Sequence[str]) -> str:
    """Return the folder that holds all files."""
    return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in _checked(files)])


def targets_of(files: Sequence[str], root: str) -> Dict[str, str]:
    """Return {path: name below `root`}.

    Raises:
        UserErrorException: a file is missing, or is not below `root`.
    """
    found = {}
    for path in _checked(files):
        name = os.path.relpath(os.path.abspath(path), os.path.abspath(root))
        if name.split(os.sep)[0] == "..":
            raise UserErrorException(f"The file {path!r} is not below relative_root={root!r}.")
        found[path] = name.replace(os.sep, "/")
    return found


@contextmanager
def told(verb: str, size_bytes: int, show: bool) -> Iterator[Tuple[Callable[[str], None], Count]]:
    """Show how far a transfer is; yield what prints a line, and what counts bytes."""
    if not show:
        yield (lambda text: None), count_nothing
        return
    from runyard.core.machine.progress import Progress  # most processes move no data

    with Progress(verb, size_bytes) as progress:

        def say_on_a_line_of_its_own(text: str) -> None:
            progress.clear()
            say(text)

        yield say_on_a_line_of_its_own, progress.add


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _checked(files: Sequence[str]) -> List[str]:
    if isinstance(files, (str, bytes)) or not isinstance(files, Sequence) or not files:
        raise UserErrorException(f"files must be a list of paths with at least one, found {files!r:.100}.")
    missing = [path for path in files if not os.path.isfile(path)]
    if missing:
        raise UserErrorException(
            f"These files do not exist (looked in {os.getcwd()}): {', '.join(map(str, missing[:5]))}."
        )
    return [os.fspath(path) for path in files]


def list_datastores(workspace: Workspace) -> Dict[str, Document]:
    """Return the documents by name."""
    client = workspace._client
    assets = client.assets.list(workspace.name, KIND)
    return list_documents(assets, home=_server_home(client), workspace=workspace.name)


def _server_home(client: Client) -> Optional[Path]:
    """Return the folder of the server, where its datastores lie; None when it is on another machine."""
    import socket  # a private server, the usual one, is on this machine

    if client.address.home:
        return Path(client.address.home)
    info = client.server.info()
    is_here = info.host == socket.gethostname() and os.access(info.home, os.R_OK | os.W_OK | os.X_OK)
    return Path(info.home) if is_here else None


Documents = Tuple[Dict[str, Any], Dict[str, Any]]  # what everybody may see, and the keys


def s3_documents(
    bucket: str,
    prefix: str,
    region: str,
    endpoint: Optional[str],
    access_key_id: Optional[str],
    secret_access_key: Optional[str],
) -> Documents:
    if bool(access_key_id) != bool(secret_access_key):
        raise UserErrorException("access_key_id and secret_access_key go together.")
    options = {"region": region, **({"endpoint": endpoint} if endpoint else {})}
    keys = {"access_key_id": access_key_id, "secret_access_key": secret_access_key} if access_key_id else {}
    return {"type": "s3", "bucket": bucket, "prefix": prefix, "options": options}, keys


def azure_documents(
    container: str, account: str, keys: Dict[str, Any], protocol: Optional[str], endpoint: Optional[str]
) -> Documents:
    """`keys`: those that were given; without any, the container is read as anybody may."""
    if protocol not in (None, "https", "http"):
        raise UserErrorException(f"protocol is 'https' or 'http', found {protocol!r}.")
    options: Dict[str, Any] = {"account_name": account}
    if endpoint and "://" in endpoint:
        options["endpoint"] = endpoint
    elif endpoint or protocol:
        options["endpoint"] = f"{protocol or 'https'}://{account}.blob.{endpoint or 'core.windows.net'}"
    given = {name: value for name, value in keys.items() if value}
    if "account_key" in given:
        given.pop("sas_key", None)
    if not given:
        options["skip_signature"] = True
    return {"type": "azure", "bucket": container, "prefix": "", "options": options}, given


def make_azure_container(document: Dict[str, Any], keys: Dict[str, Any]) -> None:
    """Make the container unless it is there.

    Raises:
        UserErrorException: there are no keys for that.
        ServiceException: the service refuses.
    """
    from runyard.data.azure_container import create_container

    if not keys:
        raise UserErrorException(
            "create_if_not_exists needs account_key or sas_token: nobody else may make a container."
        )
    account = str(document["options"]["account_name"])
    root = str(document["options"].get("endpoint") or f"https://{account}.blob.core.windows.net")
    create_container(
        root,
        account,
        str(document["bucket"]),
        account_key=keys.get("account_key", ""),
        sas_token=keys.get("sas_key", ""),
    )


def gcs_documents(bucket: str, prefix: str, service_account_key: Optional[str], endpoint: Optional[str]) -> Documents:
    options = {"base_url": endpoint} if endpoint else {}
    keys = {"service_account_key": service_account_key} if service_account_key else {}
    return {"type": "gcs", "bucket": bucket, "prefix": prefix, "options": options}, keys


def register_objects(
    workspace: Workspace,
    name: str,
    document: Dict[str, Any],
    keys: Dict[str, Any],
    *,
    overwrite: bool,
    check: bool,
) -> Datastore:
    """Keep the datastore, its keys as a secret of the workspace, and look once whether it answers."""
    from runyard.sdk.data.datastore import Datastore, check_new

    known = check_new(workspace, name, overwrite=overwrite)
    whole = {**document, **({"default_at": known["default_at"]} if known.get("default_at") else {})}
    if keys:
        whole["secret"] = f"datastore-{name.replace('_', '-')}"
        vault = workspace.get_default_keyvault()
        vault.set_secret(whole["secret"], json.dumps(keys))
        vault.share_secret(whole["secret"], ["*"])  # a datastore is for all users of the workspace
    datastore = Datastore._known(workspace, name, whole)
    if check:
        datastore._storage().find_file("runyard-looks-whether-this-answers")
    workspace._client.assets.put(workspace.name, KIND, name, whole)
    return Datastore(workspace, name)
