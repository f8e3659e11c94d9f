"""Where MLflow's clients find a workspace: the address for our plug-in, and what any other client is given."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Dict

from runyard.client.http1 import quote
from runyard.core.errors import InvalidArgument
from runyard.core.formats.mlflow_uri import tracking_uri, workspace_scope
from runyard.runtime.context import find_context
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.client.address import Address
    from runyard.sdk.workspaces.workspace import Workspace


def tracking_uri_of(workspace: Workspace) -> str:
    """Return the `azureml://` address of a workspace.

    Raises:
        UserErrorException: MLflow is not installed.
    """
    if find_spec("mlflow") is None:
        raise UserErrorException(
            "The tracking address is for MLflow, which is not installed in this Python.\n"
            "Install it: `pip install mlflow` (or the smaller `mlflow-skinny`). Runyard brings MLflow's plug-in itself."
        )
    address = workspace._client.address
    host = (address.web_url or "").partition("://")[2].rstrip("/") or address.authority
    scope = workspace_scope(workspace.name, workspace.subscription_id, workspace.resource_group)
    text = tracking_uri(host, scope, version="v1.0" if _is_mlflow_1() else "v2.0")
    return text if find_context() is None else f"{text}&is-remote=True"


def client_variables(address: Address, workspace: str) -> Dict[str, str]:
    """Return the variables that lead a client of MLflow in any language to a workspace, with the address's token.

    Raises:
        InvalidArgument: the address is no URL.
        NotTrusted: the server shows another certificate than the trusted one.
    """
    if not address.web_url:
        raise InvalidArgument(
            "MLflow's clients cannot reach this server.",
            why=f"It is only known by its socket, {address}, and they speak HTTP over TCP.",
            hint="Set RUNYARD_URL to the server's http:// or https:// address.",
        )
    found = {
        "MLFLOW_TRACKING_URI": f"{address.web_url.rstrip('/')}/mlflow/{quote(workspace)}",
        "MLFLOW_TRACKING_TOKEN": address.token,
    }
    if address.tls and address.fingerprint:
        found["MLFLOW_TRACKING_SERVER_CERT_PATH"] = _certificate_file(address)
    return found


def _is_mlflow_1() -> bool:
    from importlib.metadata import PackageNotFoundError, version  # few processes ask

    for name in ("mlflow-skinny", "mlflow"):
        try:
            return version(name).startswith("1.")
        except PackageNotFoundError:
            continue
    return False


def _certificate_file(address: Address) -> str:
    """Return the file of the certificate that `runyard login` trusted, which no authority of this system signed.

    Raises:
        NotTrusted: the server shows another one now.
    """
    import ssl  # few processes ask

    from runyard.client.login import Certificate, check_pin
    from runyard.client.tls import certificate_of, fingerprint_of
    from runyard.core.config.settings import read_settings
    from runyard.core.machine.files import replace_private

    path = read_settings().home / "certificates" / f"{address.fingerprint}.pem"
    if not path.exists():
        shown = certificate_of(address, timeout_s=10.0)
        check_pin(address, address.fingerprint, Certificate(fingerprint_of(shown), False))
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace_private(path, ssl.DER_cert_to_PEM_cert(shown).encode("ascii"))
    return str(path)
