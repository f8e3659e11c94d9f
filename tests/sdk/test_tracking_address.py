"""The addresses under which MLflow's clients find a workspace."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from azureml.core import Workspace
from azureml.exceptions import UserErrorException
from runyard.client.address import Address
from runyard.core.errors import InvalidArgument, NotTrusted
from runyard.mlflow.address import artifact_uri, base_of, place_of, split_place, split_uri
from runyard.sdk.workspaces.tracking import client_variables
from runyard.server.net.certificates import fingerprint_of, load_context, make_certificate
from tests.cli.command_line import runyard
from tests.client.standin import Peer, standin

HOST = "127.0.0.1"
URI = "azureml://127.0.0.1:5000/mlflow/v2.0/subscriptions/s/resourceGroups/g/providers/M.L/workspaces/my%20ws?&is-remote=True"


def test_a_workspace_has_an_address_for_mlflow_where_mlflow_is_installed(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserErrorException, match="pip install mlflow"):
        workspace.get_mlflow_tracking_uri()
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    found = workspace.get_mlflow_tracking_uri()

    page = str(workspace._client.address.web_url).partition("://")[2]
    assert found == (
        f"azureml://{page}/mlflow/v2.0/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/runyard"
        "/providers/Microsoft.MachineLearningServices/workspaces/default?"
    )
    assert split_uri(found) == (page, "default")


def test_addresses_name_host_workspace_and_the_place_of_files() -> None:
    assert split_uri(URI) == ("127.0.0.1:5000", "my ws")
    assert artifact_uri(URI, "run_1", "model/x") == f"{base_of(URI)}/runs/run_1/model/x"
    assert split_place(place_of(artifact_uri(URI, "run_1", "model/x"))) == ("run_1", "model/x")
    assert place_of(f"{base_of(URI)}/registered/net/3") == "registered/net/3"
    assert split_place("registered/net/3") == ("", "")
    with pytest.raises(InvalidArgument, match="is not the address of a workspace"):
        split_uri("azureml://host/nothing")
    with pytest.raises(InvalidArgument, match="names no run's files"):
        place_of(URI)


@pytest.mark.long
def test_a_shell_takes_the_variables_for_other_clients(workspace: Workspace) -> None:
    done = runyard("mlflow", "env")
    shell = 'eval "$1"; printf "%s\\n%s\\n" "$MLFLOW_TRACKING_URI" "$MLFLOW_TRACKING_TOKEN"'
    told = subprocess.run(["sh", "-c", shell, "sh", done.stdout], capture_output=True, text=True, check=True).stdout
    address = workspace._client.address

    assert told.split() == [f"{address.web_url}/mlflow/default", address.token]


def test_a_certificate_that_no_authority_signed_is_given_to_other_clients(home: Path, tmp_path: Path) -> None:
    made, key = make_certificate([HOST])
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "certificate.pem").write_bytes(made)
    pin = fingerprint_of(tmp_path / "certificate.pem")

    def answer(peer: Peer) -> None:
        peer.read_request()

    with standin(answer, context=load_context(tmp_path / "certificate.pem", tmp_path / "key.pem")) as server:
        port = server.address.port
        found = client_variables(_team(port, pin), "team ws")
        again = client_variables(_team(port, pin), "team ws")
        with pytest.raises(NotTrusted):
            client_variables(_team(port, "0" * 64), "team ws")

    file = home / "certificates" / f"{pin}.pem"
    assert (
        found
        == again
        == {
            "MLFLOW_TRACKING_URI": f"https://{HOST}:{port}/mlflow/team%20ws",
            "MLFLOW_TRACKING_TOKEN": "t0ken",
            "MLFLOW_TRACKING_SERVER_CERT_PATH": str(file),
        }
    )
    assert ssl.PEM_cert_to_DER_cert(file.read_text()) == ssl.PEM_cert_to_DER_cert(made.decode())
    with pytest.raises(InvalidArgument, match="only known by its socket"):
        client_variables(Address("unix", path="/run/x", token="t0ken"), "ws")


def _team(port: int | None, pin: str) -> Address:
    url = f"https://{HOST}:{port}"
    return Address("tcp", host=HOST, port=port, token="t0ken", web_url=url, tls=True, fingerprint=pin)
