"""`Keyvault`, the secrets of a workspace, and Azure's authentication classes.

The server keeps the secrets sealed. The authentication classes are accepted wherever Azure takes them and do nothing:
they open no browser, read no file and keep no secret. Only Runyard's own token decides about rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from runyard.client.calls.workspace import SecretCalls
from runyard.core.errors import NotFound
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import note_without_effect, warn_once
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.sdk.workspaces.workspace import Workspace

_SIGN_IN = "Here the server's address and token decide who you are."


@raises_azure_errors
class Keyvault(AzureClass):
    """The secrets of a workspace: `ws.get_default_keyvault()`."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def __repr__(self) -> str:
        return f"Keyvault(workspace={self.workspace.name!r})"

    @translates
    def set_secret(self, name: str, value: str, content_type: Optional[str] = None) -> None:
        """Keep a secret under `name`; an earlier value is gone. `content_type` has no effect.

        Raises:
            UserErrorException: no secret can have this name, or the value is no text.
        """
        if not isinstance(value, str):
            raise UserErrorException(f"The secret {name!r} must be a text, not a {type(value).__name__}.")
        note_without_effect({"content_type": content_type})
        self._calls.put(self.workspace.name, name, value)

    @translates
    def share_secret(self, name: str, readers: Sequence[str]) -> None:
        """Say which users of a team's server read the secret besides its owner and admins; `["*"]`: all of them.

        Their runs read it, too. Azure has no such call: there, whoever may use the workspace reads its key vault.
        """
        self._calls.put(self.workspace.name, name, readers=readers)

    def set_secrets(self, secrets_batch: Mapping[str, str]) -> None:
        for name, value in secrets_batch.items():
            self.set_secret(name, value)

    @translates
    def get_secret(self, name: str) -> str:
        """Return the secret's value.

        Raises:
            UserErrorException: there is none of that name.
        """
        return self._calls.get(self.workspace.name, name)

    @translates
    def get_secrets(self, secrets: Sequence[str]) -> Dict[str, Optional[str]]:
        """Return the values by name; None for a name that is not there."""
        return read_secrets(self.workspace._client, self.workspace.name, secrets)

    @translates
    def list_secrets(self) -> List[Dict[str, Any]]:
        """Return `[{"name": …}]`; values are never listed."""
        return [{"name": name} for name in self._calls.list(self.workspace.name)]

    @translates
    def delete_secret(self, name: str) -> None:
        self._calls.delete(self.workspace.name, name)

    def delete_secrets(self, secrets: Sequence[str]) -> None:
        for name in secrets:
            self.delete_secret(name)

    @property
    def _calls(self) -> SecretCalls:
        return SecretCalls(self.workspace._client.transport)


def read_secrets(client: Client, workspace: str, names: Sequence[str]) -> Dict[str, Optional[str]]:
    calls = SecretCalls(client.transport)
    found: Dict[str, Optional[str]] = {}
    for name in names:
        try:
            found[name] = calls.get(workspace, name)
        except NotFound:
            found[name] = None
    return found


class AccessToken(NamedTuple):
    """A token and when it ends, in seconds of the wall clock."""

    token: str
    expires_on: int


@raises_azure_errors
class AbstractAuthentication(AzureClass):
    """Accepted, without effect."""

    def __init__(self, cloud: Any = None, tenant_id: Optional[str] = None) -> None:
        self._cloud = cloud
        self._tenant_id = tenant_id

    def get_authentication_header(self) -> Dict[str, str]:
        """Return no header, and say so: nothing here is sent to Azure."""
        warn_once(f"{type(self).__name__} signs in nowhere: its header and token are empty. {_SIGN_IN}")
        return {}

    def get_token(self, *_scopes: Any, **_kwargs: Any) -> Any:
        """Return an empty token, as above. Scopes and options are Azure's."""
        self.get_authentication_header()
        return AccessToken("", 0)

    def signed_session(self, session: Any = None) -> Any:
        """Return the session as it is, or a new one of `requests`."""
        if session is None:
            import requests  # type: ignore[import-untyped,unused-ignore]  # only where the script has it

            session = requests.Session()
        self.get_authentication_header()
        return session

    def __repr__(self) -> str:
        return f"{type(self).__name__}(without effect in Runyard)"


@raises_azure_errors
class InteractiveLoginAuthentication(AbstractAuthentication):
    """Accepted, without effect. Opens no browser."""

    def __init__(self, force: bool = False, tenant_id: Optional[str] = None, cloud: Any = None) -> None:
        super().__init__(cloud, tenant_id)


@raises_azure_errors
class AzureCliAuthentication(AbstractAuthentication):
    """Accepted, without effect. Calls no `az`."""

    def __init__(self, cloud: Any = None) -> None:
        super().__init__(cloud)


@raises_azure_errors
class ServicePrincipalAuthentication(AbstractAuthentication):
    """Accepted, without effect. The password is not kept."""

    def __init__(
        self,
        tenant_id: str,
        service_principal_id: str,
        service_principal_password: str,
        cloud: Any = None,
        _enable_caching: bool = True,
    ) -> None:
        super().__init__(cloud, tenant_id)
        self._service_principal_id = service_principal_id


@raises_azure_errors
class MsiAuthentication(AbstractAuthentication):
    """Accepted, without effect."""

    def __init__(self, identity_config: Any = None, cloud: Any = None) -> None:
        super().__init__(cloud)


@raises_azure_errors
class TokenAuthentication(AbstractAuthentication):
    """Accepted, without effect. Only `get_token` calls the token function."""

    def __init__(self, get_token_for_audience: Callable[[str], str], cloud: Any = None) -> None:
        super().__init__(cloud)
        self._get_token_for_audience = get_token_for_audience

    def get_token(self, audience: Any = "ARM") -> Any:
        """Return what the given function returns for the audience."""
        return self._get_token_for_audience(audience)


class Audience(AzureClass):
    """Azure's audiences of a token, by name; early scripts write them small."""

    ARM = arm = "ARM"
    AZUREML = aml = "AZUREML"
