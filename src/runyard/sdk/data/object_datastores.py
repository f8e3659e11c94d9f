"""Buckets and containers as datastores: what is kept of them, with their keys apart, and whether they answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from runyard.data.datastores import KIND
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.data.datastore import Datastore
    from runyard.sdk.workspaces.workspace import Workspace

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
    container: str,
    account: str,
    sas_token: Optional[str],
    account_key: Optional[str],
    protocol: Optional[str],
    endpoint: Optional[str],
) -> Documents:
    if not (sas_token or account_key):
        raise UserErrorException("Azure Blob storage needs account_key or sas_token.")
    options = {"account_name": account}
    if endpoint and "://" in endpoint:
        options["endpoint"] = endpoint
    elif endpoint:
        options["endpoint"] = f"{protocol or 'https'}://{account}.blob.{endpoint}"
    keys = {"account_key": account_key} if account_key else {"sas_key": str(sas_token).lstrip("?")}
    return {"type": "azure", "bucket": container, "prefix": "", "options": options}, keys


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
        vault.share_secret(whole["secret"], ["*"])  # a datastore is for all who use the workspace
    datastore = Datastore._known(workspace, name, whole)
    if check:
        datastore._storage().find_file("runyard-looks-whether-this-answers")
    workspace._client.assets.put(workspace.name, KIND, name, whole)
    return Datastore(workspace, name)
