"""The server that calls go to: found, or started. For tools beside the SDK's classes, such as the command line."""

from __future__ import annotations

from typing import Optional

from runyard.client import private_server
from runyard.client.client import Client
from runyard.core.settings import read_settings
from runyard.sdk.connection import get_client

__all__ = ["Client", "connect", "find"]


def connect() -> Client:
    """Return a client of the configured server, or of the private one, which is started when it is not running."""
    return get_client()


def find() -> Optional[Client]:
    """Return a client of the server if one answers. Starts nothing."""
    return private_server.find(read_settings())
