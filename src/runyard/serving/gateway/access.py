"""Who may call a service: keys and tokens; without them, no web page of another site."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
import time
from collections.abc import Callable

from runyard.serving.config import ServiceConfig
from runyard.serving.tokens import is_token, token_is_good

_OWN_NAMES = frozenset({"localhost", socket.gethostname().lower(), socket.getfqdn().lower()})


class Doorkeeper:
    """Judges the requests of one service. `names` are those under which this machine may be called."""

    def __init__(
        self, service: ServiceConfig, names: frozenset[str], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._service = service
        self._keys = [bytes.fromhex(one) for one in service.keys]
        self._names = _OWN_NAMES | names
        self._clock = clock

    def may_enter(self, authorization: bytes) -> bool:
        """Whether the header holds one of the keys, or a token that is still good; always the same work for keys."""
        scheme, _, given = authorization.strip().partition(b" ")
        if scheme.lower() != b"bearer":
            return False
        given = given.strip()
        digest = hashlib.sha256(given).digest()
        is_known = False
        for key in self._keys:
            is_known |= hmac.compare_digest(key, digest)
        if is_known or not self._service.token_secret:
            return is_known
        text = given.decode("latin-1")
        return is_token(text) and token_is_good(text, self._service.token_secret, self._service.id, self._clock())

    def fault_of_page(self, host: bytes, origin: bytes) -> str:
        """Return why a request without a key may be a strange page's doing; "" when it may not.

        A page of any site can send requests to an address of this machine, also under a name of its own that resolves
        there. Services with keys need no such rule: the page has no key.
        """
        name = _host_name(host)
        if name and not self._is_own(name):
            return f"This service has no key and does not answer to the host name {name!r}."
        if origin and origin != b"null" and not self.is_allowed(origin) and _host_name(_place(origin)) != name:
            return f"This service has no key, and pages of {origin.decode('latin-1')} are not in AML_CORS_ORIGINS."
        if origin == b"null" and not self.is_allowed(origin):
            return "This service has no key, and pages without an origin may not call it."
        return ""

    def is_allowed(self, origin: bytes) -> bool:
        """Whether AML_CORS_ORIGINS names a page's origin."""
        allowed = self._service.cors_origins
        return bool(allowed) and ("*" in allowed or origin.decode("latin-1") in allowed)

    def _is_own(self, name: str) -> bool:
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True  # no page's own name is an address


def _place(origin: bytes) -> bytes:
    return origin.partition(b"://")[2]


def _host_name(host: bytes) -> str:
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
