"""Where a server is and what opens it. `core.plain` makes it a dict for job.json."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from runyard.core.errors import InvalidArgument, NotYetSupported

UNIX_HOST = "runyard"  # the `Host` of requests over the unix socket


@dataclass(frozen=True)
class Address:
    """`home` is set for a private server: who cannot reach it may start it again."""

    kind: str  # "unix" or "tcp"
    path: Optional[str] = None
    host: Optional[str] = None
    port: Optional[int] = None
    token: str = field(default="", repr=False)
    home: Optional[str] = None
    web_url: Optional[str] = None  # http://127.0.0.1:PORT, for people

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        return UNIX_HOST if self.kind == "unix" else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.kind == "unix" else f"http://{self.authority}"


def parse_url(url: str, token: str) -> Address:
    """Return the address of `http://host:port` or `unix:///path`.

    Raises:
        InvalidArgument: the text is neither.
        NotYetSupported: it is https.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "unix" and rest.startswith("/"):
        return Address("unix", path=rest, token=token)
    if scheme == "https":
        raise NotYetSupported(
            f"The address {url!r} asks for TLS.",
            why="This client speaks plain HTTP and unix sockets only.",
            hint="Open a tunnel, `ssh -L 8787:127.0.0.1:8787 host`, and set RUNYARD_URL=http://127.0.0.1:8787.",
        )
    host, colon, port = rest.rstrip("/").rpartition(":")
    if scheme != "http" or not (colon and host and port.isdigit() and 0 < int(port) < 65536) or _odd(host):
        raise InvalidArgument(
            f"RUNYARD_URL holds {url!r}.",
            why="It must be the address of a Runyard server.",
            hint="export RUNYARD_URL=http://127.0.0.1:8787 (or unix:///path/of/its/socket)",
        )
    return Address("tcp", host=host, port=int(port), token=token, web_url=f"http://{host}:{port}")


def _odd(host: str) -> bool:
    return any(not (char.isascii() and (char.isalnum() or char in ".-_[]:")) for char in host)
