"""The connection of this process: the `config.json` that names a workspace, and the client of the server.

`get_client` connects to the server that `client.login.choose` finds. Inside a run, `get_run_client` connects to the
run's server with the run's token.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional

from runyard.sdk.compat import refuse_foreign_core
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.client.client import Client


_FOLDERS = (".azureml", "aml_config", "")
_NAMES = ("config.json", "project.json")


class WorkspaceConfig(NamedTuple):
    workspace_name: str
    subscription_id: str = ""
    resource_group: str = ""
    runyard_url: str = ""  # the team's server; "": whichever is used otherwise


def find_config(start: str, file_name: Optional[str] = None) -> Optional[str]:
    """Return the nearest configuration file at or above the folder `start`."""
    folder = os.path.abspath(start)
    while True:
        for sub in _FOLDERS:
            for name in (file_name,) if file_name else _NAMES:
                path = os.path.join(folder, sub, name)
                if os.path.isfile(path):
                    return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def read_config(path: str) -> WorkspaceConfig:
    """Return what the file says; the older form holds it in `Scope`.

    Raises:
        UserErrorException: it cannot be read, is not JSON or names no workspace.
    """
    found = _read_json(path)
    name = found.get("workspace_name")
    url = str(found.get("runyard_url") or "")
    if name:
        return WorkspaceConfig(
            str(name), str(found.get("subscription_id") or ""), str(found.get("resource_group") or ""), url
        )
    parts = str(found.get("Scope") or "").strip("/").split("/")
    scope = dict(zip((part.lower() for part in parts[::2]), parts[1::2]))
    if "workspaces" in scope:
        subscription, group = scope.get("subscriptions", ""), scope.get("resourcegroups", "")
        return WorkspaceConfig(scope["workspaces"], subscription, group, url)
    raise UserErrorException(
        f"The file {path} names no workspace. Found the keys: {', '.join(sorted(found)) or 'none'}.\n"
        'It should look like {"workspace_name": "…", "subscription_id": "…", "resource_group": "…"}.'
    )


def write_config(config: WorkspaceConfig, folder: str, file_name: str) -> str:
    """Write `<folder>/.azureml/<file name>` (or into `aml_config` where that exists); return its path."""
    import json  # not needed to import the SDK

    from runyard.core.machine.files import atomic_write

    old = os.path.join(folder, "aml_config")
    target = old if os.path.isdir(old) else os.path.join(folder, ".azureml")
    os.makedirs(target, exist_ok=True)
    path = os.path.join(target, file_name)
    text = {
        "subscription_id": config.subscription_id,
        "resource_group": config.resource_group,
        "workspace_name": config.workspace_name,
        **({"runyard_url": config.runyard_url} if config.runyard_url else {}),
    }
    with atomic_write(path) as beside, open(beside, "w", encoding="utf-8") as file:
        json.dump(text, file, indent=4)
    return path


def _read_json(path: str) -> Dict[str, Any]:
    import json  # not needed to import the SDK

    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise UserErrorException(
            f"The workspace configuration {path} cannot be read: {error}.\n"
            "Write a new one with ws.write_config(), or remove the file to use the default workspace."
        ) from error
    if not isinstance(found, dict):
        raise UserErrorException(
            f"The workspace configuration {path} should be a JSON object, found {type(found).__name__}."
        )
    return found


def get_client(config_url: str = "", config_path: str = "") -> Client:
    """Return the client of the chosen server, one per process; the private one is started when it does not run.

    Args:
        config_url: the server that the config.json at `config_path` names.

    Raises:
        ServerUnreachable, ServerNotStarted: no server answers, and a private one could not be started.
    """
    # Importing the SDK must stay cheap, so the HTTP client loads with its first use.
    from runyard.client.login import choose
    from runyard.client.private_server import connect
    from runyard.core.config.settings import read_settings

    refuse_foreign_core()
    return connect(choose(read_settings(), config_url=config_url, config_path=config_path).settings)


def get_run_client(job: Mapping[str, Any]) -> Client:
    """Return a client that speaks with the token of the run that `job.json` describes."""
    # As above: training code that only logs never opens a connection.
    from runyard.client.address import Address
    from runyard.client.private_server import client_for
    from runyard.core.formats.plain import from_plain

    return client_for(from_plain(Address, {**job["server"], "token": job["token"]}))
