"""The server that calls go to: found, or started. For tools beside the SDK's classes, such as the command line."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import NoReturn, Optional

from runyard.client import login, private_server, processes
from runyard.client.address import Address
from runyard.client.client import Client
from runyard.client.decoding import Deletion, ServerInfo
from runyard.client.login import ServerChoice, choose
from runyard.core.config.settings import read_settings
from runyard.sdk.compat import refuse_foreign_core
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.connection import find_config, read_config

__all__ = [
    "Address",
    "Client",
    "Deletion",
    "ServerChoice",
    "ServerInfo",
    "become_server",
    "choice",
    "connect",
    "find",
    "find_own",
    "login",
    "prepare_server",
    "server_python",
]


def connect() -> Client:
    """Return a client of the chosen server; the private one is started when it is not running."""
    refuse_foreign_core()
    return private_server.connect(choice().settings)


def find() -> Optional[Client]:
    """Return a client of the chosen server if one answers. Starts nothing."""
    return private_server.find(choice().settings)


def find_own() -> Optional[Client]:
    """Return a client of this home's own server if it runs, wherever other calls go. Starts nothing."""
    return private_server.find(replace(read_settings(), url=None, token=None))


def become_server() -> NoReturn:
    """Turn this process into the home's server, in the foreground, with the environment that it gets otherwise."""
    from runyard.client.server_python import find_server_python  # few processes start a server

    settings = read_settings()
    python = find_server_python(settings)
    command = [python.path, "-m", "runyard.server", "--home", str(settings.home)]
    os.execve(python.path, command, processes.server_variables(settings, os.environ, code=python.code))


def prepare_server() -> None:
    """Have a Python that this home's server can run on, before a running server is stopped.

    Raises:
        RunyardError: there is none, and none can be made.
    """
    from runyard.client.server_python import find_server_python  # as above

    find_server_python(read_settings())


def server_python() -> Optional[str]:
    """Return the Python that this home's server runs on; None: the first call that needs one makes it."""
    from runyard.client.server_python import find_installed  # as above

    return find_installed(read_settings(), os.environ)


def choice() -> ServerChoice:
    """Return which server calls from this folder go to, and why."""
    path = find_config(os.getcwd())
    try:
        url = read_config(path).runyard_url if path else ""
    except UserErrorException:
        url = ""  # the lookup of the workspace reports it
    return choose(read_settings(), config_url=url, config_path=path or "")
