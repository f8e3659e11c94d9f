"""`azureml.core.webservice`: models that answer requests. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.names import absent_names

if TYPE_CHECKING:
    from runyard.sdk.webservices.cloud import AciWebservice, AksWebservice
    from runyard.sdk.webservices.endpoint import AksEndpoint
    from runyard.sdk.webservices.local import LocalWebservice
    from runyard.sdk.webservices.webservice import UnknownWebservice, Webservice

_absent = absent_names(__name__)
_HOMES = {
    "AciWebservice": "runyard.sdk.webservices.cloud",
    "AksEndpoint": "runyard.sdk.webservices.endpoint",
    "AksWebservice": "runyard.sdk.webservices.cloud",
    "LocalWebservice": "runyard.sdk.webservices.local",
    "UnknownWebservice": "runyard.sdk.webservices.webservice",
    "Webservice": "runyard.sdk.webservices.webservice",
}

__all__ = [
    "AciWebservice",
    "AksEndpoint",
    "AksWebservice",
    "LocalWebservice",
    "UnknownWebservice",
    "Webservice",
    "WebserviceException",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        return _absent(name)
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value
