"""Make a container of Azure Blob storage: the one request that obstore has not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.error
import urllib.request
from email.utils import formatdate
from typing import Dict
from urllib.parse import urlsplit

from runyard.core.errors import InvalidArgument, SystemFailure

_VERSION = "2020-10-02"
_TIMEOUT_S = 60.0


def create_container(root: str, account: str, container: str, *, account_key: str = "", sas_token: str = "") -> None:
    """Make the container unless it is there.

    Args:
        root: the address of the account's blobs, `https://account.blob.core.windows.net`.

    Raises:
        SystemFailure: the service refuses, or cannot be reached.
    """
    address = f"{root.rstrip('/')}/{container}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION, "Content-Length": "0"}
    if account_key:
        headers["Authorization"] = f"SharedKey {account}:{_signature(address, account, account_key, headers)}"
    sas = f"&{sas_token.lstrip('?')}" if sas_token else ""
    request = urllib.request.Request(f"{address}?restype=container{sas}", method="PUT", headers=headers)
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_S).close()
    except OSError as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == 409:
            return
        raise SystemFailure(
            f"The container `{container}` of `{account}` could not be made.",
            why=str(error),
            hint="Look at account_key or sas_token, and at endpoint.",
        ) from error


def _signature(address: str, account: str, account_key: str, headers: Dict[str, str]) -> str:
    """https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key"""
    named = "".join(f"{name}:{headers[name]}\n" for name in ("x-ms-date", "x-ms-version"))
    resource = f"/{account}{urlsplit(address).path}\nrestype:container"
    text = "PUT" + "\n" * 12 + named + resource
    try:
        key = base64.b64decode(account_key, validate=True)
    except ValueError as error:
        raise InvalidArgument("account_key is no key of a storage account: it is not base64.") from error
    return base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
