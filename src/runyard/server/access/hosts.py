"""Which host names this server answers to: compared exactly, before every other check.

A web page anywhere can make a browser send requests to a loopback port, under any name that resolves there. `Host`
holds the name that the page used; `Origin` and `Sec-Fetch-Site` tell which page it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Union

UNIX_HOST = b"runyard"
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True)
class HostNames:
    """The server's names on its loopback port and on its unix socket."""

    port: int
    scheme: bytes = b"http"  # of our own pages

    def find_host(self, scope: Any) -> bytes | None:
        """Return the request's `Host` when it is one of ours."""
        hosts = values_of(scope["headers"], b"host")
        if len(hosts) != 1:
            return None
        return hosts[0] if hosts[0] in self._hosts(scope) else None

    def _hosts(self, scope: Any) -> tuple[bytes, ...]:
        if is_unix(scope):
            return (UNIX_HOST,)
        return (b"127.0.0.1:%d" % self.port, b"localhost:%d" % self.port)


@dataclass(frozen=True)
class TeamNames:
    """The names of a team's port, in small letters: those that were given, and the address that was called."""

    hosts: frozenset[bytes]
    scheme: bytes = b"https"

    def find_host(self, scope: Any) -> bytes | None:
        """Return the request's `Host` when it is one of ours."""
        hosts = [host.lower() for host in values_of(scope["headers"], b"host")]
        if len(hosts) != 1:
            return None
        return hosts[0] if hosts[0] in self.hosts or hosts[0] == _called_address(scope) else None


AnyNames = Union[HostNames, TeamNames]


def _called_address(scope: Any) -> bytes | None:
    """Return address and port at which the connection came in. No name that a stranger owns can stand for it."""
    host, port = scope.get("server") or (None, None)
    if host is None or port is None:
        return None
    return f"[{host}]:{port}".encode() if ":" in host else f"{host}:{port}".encode()


def is_unix(scope: Any) -> bool:
    server = scope.get("server")
    return server is not None and server[1] is None


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def foreign_page(scope: Any, host: bytes, scheme: bytes = b"http") -> str:
    """Return why the request comes from a page that is not ours; "" when it does not."""
    origins = values_of(scope["headers"], b"origin")
    if any(origin != scheme + b"://" + host for origin in origins):
        return f"It comes from a page of {origins[0][:100].decode('latin-1')!r}."
    sites = values_of(scope["headers"], b"sec-fetch-site")
    if any(site not in (b"same-origin", b"none") for site in sites) and not is_navigation(scope):
        return "The browser says that another site's page sent it."
    return ""


def is_navigation(scope: Any) -> bool:
    """Whether a person follows a link: the answer is shown to them, and never to the page the link was on."""
    headers = scope["headers"]
    return (
        scope.get("method") == "GET"
        and values_of(headers, b"sec-fetch-mode") == [b"navigate"]
        and values_of(headers, b"sec-fetch-dest") == [b"document"]
    )


def came_from_elsewhere(scope: Any) -> bool:
    """Whether a `SameSite=Strict` cookie would be left out of a redirect's next request."""
    return any(site not in (b"same-origin", b"none") for site in values_of(scope["headers"], b"sec-fetch-site"))
