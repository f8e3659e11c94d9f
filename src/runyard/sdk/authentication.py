"""Azure's ways to sign in. They are accepted wherever Azure takes them; Runyard's own token decides who may do what."""

from __future__ import annotations

from typing import Any, Dict


class AbstractAuthentication:
    """Keeps what it was made with; has no effect here."""

    def __init__(self, *_args: Any, **kwargs: Any) -> None:
        self._tenant_id = kwargs.get("tenant_id")

    def get_authentication_header(self) -> Dict[str, str]:
        return {}


class InteractiveLoginAuthentication(AbstractAuthentication):
    """Accepted, without effect."""


class AzureCliAuthentication(AbstractAuthentication):
    """Accepted, without effect."""


class ServicePrincipalAuthentication(AbstractAuthentication):
    """Accepted, without effect. The password is not kept."""


class MsiAuthentication(AbstractAuthentication):
    """Accepted, without effect."""


class TokenAuthentication(AbstractAuthentication):
    """Accepted, without effect. The token function is not called."""


class Audience:
    """Azure's audiences of a token, by name."""

    ARM = "ARM"
    AZUREML = "AZUREML"
