"""The client of this process: of the server that `client.choice` finds; inside a run, of the run's server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from runyard.sdk.compat import refuse_foreign_core

if TYPE_CHECKING:
    from runyard.client.client import Client


def get_client(config_url: str = "", config_path: str = "") -> Client:
    """Return the client of the chosen server, one per process; the private one is started when it does not run.

    Args:
        config_url: the server that the config.json at `config_path` names.

    Raises:
        ServerUnreachable, ServerNotStarted: no server answers, and a private one could not be started.
    """
    # Importing the SDK must stay cheap, so the HTTP client loads with its first use.
    from runyard.client.choice import choose
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
