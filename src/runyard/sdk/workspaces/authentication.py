"""Azure's ways to sign in. They are accepted wherever Azure takes them; Runyard's own token decides who may do what.

None of them talks to anybody: no browser opens, no file is read, and no secret is kept.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional


class AbstractAuthentication:
    """Accepted, without effect."""

    def __init__(self, cloud: Any = None, tenant_id: Optional[str] = None, **_kwargs: Any) -> None:
        self._cloud = cloud
        self._tenant_id = tenant_id

    def get_authentication_header(self) -> Dict[str, str]:
        """Return no header: nothing here is sent to Azure."""
        return {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(without effect in Runyard)"


class InteractiveLoginAuthentication(AbstractAuthentication):
    """Accepted, without effect. Opens no browser."""

    def __init__(self, force: bool = False, tenant_id: Optional[str] = None, cloud: Any = None, **_kwargs: Any) -> None:
        super().__init__(cloud, tenant_id)


class AzureCliAuthentication(AbstractAuthentication):
    """Accepted, without effect. Calls no `az`."""

    def __init__(self, cloud: Any = None, **_kwargs: Any) -> None:
        super().__init__(cloud)


class ServicePrincipalAuthentication(AbstractAuthentication):
    """Accepted, without effect. The password is not kept."""

    def __init__(
        self,
        tenant_id: str,
        service_principal_id: str,
        service_principal_password: str,
        cloud: Any = None,
        _enable_caching: bool = True,
        **_kwargs: Any,
    ) -> None:
        super().__init__(cloud, tenant_id)
        self._service_principal_id = service_principal_id


class MsiAuthentication(AbstractAuthentication):
    """Accepted, without effect."""

    def __init__(self, identity_config: Any = None, cloud: Any = None, **_kwargs: Any) -> None:
        super().__init__(cloud)


class TokenAuthentication(AbstractAuthentication):
    """Accepted, without effect. The token function is not called."""

    def __init__(self, get_token_for_audience: Callable[[str], str], cloud: Any = None, **_kwargs: Any) -> None:
        super().__init__(cloud)


class Audience:
    """Azure's audiences of a token, by name."""

    ARM = "ARM"
    AZUREML = "AZUREML"
