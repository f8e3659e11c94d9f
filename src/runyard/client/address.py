"""The address of a server, with the token that opens it. `core.formats.plain` makes it a dict for job.json."""

from __future__ import annotations

from dataclasses import field
from typing import Optional, Tuple

from runyard.core.errors import InvalidArgument
from runyard.core.lazy_dataclass import dataclass

UNIX_HOST = "runyard"  # the `Host` of requests over the unix socket
_USUAL_PORTS = {"http": 80, "https": 443}
_DIGEST = "sha256"


@dataclass(frozen=True)
class Address:
    """`home` is set for a private server: a client that cannot reach it may start it again."""

    kind: str  # "unix" or "tcp"
    path: Optional[str] = None
    host: Optional[str] = None
    port: Optional[int] = None
    token: str = field(default="", repr=False)
    home: Optional[str] = None
    web_url: Optional[str] = None  # http://127.0.0.1:PORT, for people
    tls: bool = False
    fingerprint: str = ""  # SHA-256 of the certificate that is trusted, in hex; "": the system's authorities decide

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        if self.kind == "unix":
            return UNIX_HOST
        return str(self.host) if self.port == _USUAL_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.kind == "unix" else f"{self.scheme}://{self.authority}"


def parse_url(url: str, token: str) -> Address:
    """Return the address of `http://host:port`, `https://host:port[#sha256=…]` or `unix:///path`.

    Raises:
        InvalidArgument: the text is none of them.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "unix" and rest.startswith("/"):
        return Address("unix", path=rest, token=token)
    rest, hash_mark, pin = rest.partition("#")
    host, port = _host_and_port(rest.rstrip("/"), _USUAL_PORTS["https"] if scheme == "https" else None)
    if scheme not in _USUAL_PORTS or not host or not 0 < port < 65536 or _odd(host):
        raise _not_an_address(url)
    if hash_mark and scheme == "http":
        raise InvalidArgument(
            f"The address {url!r} names a certificate, but asks for plain HTTP.", hint="Write https:// instead."
        )
    tls = scheme == "https"
    fingerprint = parse_fingerprint(pin[len(_DIGEST) + 1 :] if pin.startswith(f"{_DIGEST}=") else pin) if pin else ""
    found = Address("tcp", host=host, port=port, token=token, tls=tls, fingerprint=fingerprint)
    return Address("tcp", host=host, port=port, token=token, web_url=str(found), tls=tls, fingerprint=fingerprint)


def parse_fingerprint(text: str) -> str:
    """Return a certificate's SHA-256 as 64 small hex digits, however it was written (AA:BB:…).

    Raises:
        InvalidArgument: it is not one.
    """
    digits = text.strip().replace(":", "").lower()
    if len(digits) != 64 or digits.strip("0123456789abcdef"):
        raise InvalidArgument(
            f"{text!r} is not the fingerprint of a certificate.",
            why="It is 64 hex digits: the certificate's SHA-256.",
            hint="`runyard server status` on the server's machine prints it.",
        )
    return digits


def _host_and_port(text: str, usual: Optional[int]) -> Tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if colon and port.isascii() and port.isdigit():
        return host, int(port)
    has_no_port = not colon or text.endswith("]")
    return (text, usual) if usual and has_no_port else ("", 0)


def _not_an_address(url: str) -> InvalidArgument:
    return InvalidArgument(
        f"{url!r} is not the address of a Runyard server.",
        why="It must be https://HOST:PORT, http://HOST:PORT or unix:///PATH.",
        hint="export RUNYARD_URL=https://HOST:8787 (on the server's machine, `runyard server status` prints it)",
    )


def _odd(host: str) -> bool:
    return any(not (char.isascii() and (char.isalnum() or char in ".-_[]:")) for char in host)
