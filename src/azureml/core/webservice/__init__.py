"""`azureml.core.webservice`: not there yet."""

from __future__ import annotations

from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.names import absent_names
from runyard.sdk.placeholders import placeholder

AciWebservice = placeholder("azureml.core.webservice.AciWebservice")
AksEndpoint = placeholder("azureml.core.webservice.AksEndpoint")
AksWebservice = placeholder("azureml.core.webservice.AksWebservice")
LocalWebservice = placeholder("azureml.core.webservice.LocalWebservice")
Webservice = placeholder("azureml.core.webservice.Webservice")

__getattr__ = absent_names(__name__)

__all__ = ["AciWebservice", "AksEndpoint", "AksWebservice", "LocalWebservice", "Webservice", "WebserviceException"]
