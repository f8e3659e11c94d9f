"""The client of this process: of the server that its `RUNYARD_…` variables name; inside a run, of the run's server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from runyard.sdk.facade import refuse_foreign_core

if TYPE_CHECKING:
    from runyard.client.client import Client


def get_client() -> Client:
    """Return the one client of this process; the private server is started when it is needed and does not run.

    Raises:
        ServerUnreachable, ServerNotStarted: no server answers, and a private one could not be started.
    """
    # Importing the SDK must stay cheap, so the HTTP client loads with its first use.
    from runyard.client.private_server import connect
    from runyard.core.settings import read_settings

    refuse_foreign_core()
    return connect(read_settings())


def get_run_client(job: Mapping[str, Any]) -> Client:
    """Return a client that speaks with the token of the run that `job.json` describes."""
    # As above: training code that only logs never opens a connection.
    from runyard.client.address import Address
    from runyard.client.private_server import client_for
    from runyard.core.plain import from_plain

    return client_for(from_plain(Address, {**job["server"], "token": job["token"]}))
