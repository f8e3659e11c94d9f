"""The connection to the gateway, which the worker opens: a unix socket here, TLS from other machines."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from typing import Callable, List, NamedTuple, Optional, Sequence

from runyard.core.errors import InvalidArgument, ProtocolError
from runyard.serving.protocol import Bytes, FrameBuffer, WireFrame

_FIRST_WAIT_S = 0.02
_LONGEST_WAIT_S = 0.5


class GatewayAddress(NamedTuple):
    """`unix:<path>`, or `tls:<host>:<port>#sha256=<fingerprint of its certificate>`."""

    kind: str
    path: str = ""
    host: str = ""
    port: int = 0
    fingerprint: str = ""

    @staticmethod
    def read(text: str) -> GatewayAddress:
        """Raises InvalidArgument: it is neither."""
        kind, _, rest = text.partition(":")
        if kind == "unix" and rest:
            return GatewayAddress("unix", path=rest)
        place, _, fingerprint = rest.partition("#sha256=")
        host, _, port = place.rpartition(":")
        if kind == "tls" and host and port.isdigit() and fingerprint:
            return GatewayAddress("tls", host=host.strip("[]"), port=int(port), fingerprint=fingerprint.lower())
        raise InvalidArgument(
            f"`{text}` is no address of a gateway.",
            hint="Give `unix:<path>`, or `tls:<host>:<port>#sha256=<fingerprint>`.",
        )


class LinkLost(Exception):
    """The connection ended, or cannot be opened now."""


class Link:
    """One connection. `receive` and `send` raise LinkLost when it has ended."""

    def __init__(self, address: GatewayAddress, *, timeout_s: float = 10.0) -> None:
        self._buffer = FrameBuffer()
        try:
            self.socket = _open(address, timeout_s)
        except (OSError, ValueError) as error:
            raise LinkLost(str(error)) from error

    def receive(self) -> List[WireFrame]:
        """Return the frames that are whole after one read; perhaps none."""
        try:
            count = self.socket.recv_into(self._buffer.get_buffer())
        except OSError as error:
            raise LinkLost(str(error)) from error
        if count == 0:
            raise LinkLost("the gateway closed the connection")
        try:
            return self._buffer.buffer_updated(count)
        except ProtocolError as error:
            raise LinkLost(str(error)) from error

    def send(self, pieces: Sequence[Bytes]) -> None:
        try:
            for piece in pieces:
                self.socket.sendall(piece)
        except OSError as error:
            raise LinkLost(str(error)) from error

    def close(self) -> None:
        self.socket.close()


def dial(address: GatewayAddress, *, give_up: Callable[[], bool]) -> Optional[Link]:
    """Return a connection, however long the gateway is away; None when `give_up()` says so."""
    wait_s = _FIRST_WAIT_S
    while not give_up():
        try:
            return Link(address)
        except LinkLost:
            time.sleep(wait_s)
            wait_s = min(_LONGEST_WAIT_S, wait_s * 1.5)
    return None


def _open(address: GatewayAddress, timeout_s: float) -> socket.socket:
    if address.kind == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout_s)
        try:
            sock.connect(address.path)
        except BaseException:
            sock.close()
            raise
        sock.settimeout(None)
        return sock
    raw = socket.create_connection((address.host, address.port), timeout=timeout_s)
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        wire = _pinned(raw, address)
        wire.settimeout(None)
        return wire
    except BaseException:
        raw.close()
        raise


def _pinned(raw: socket.socket, address: GatewayAddress) -> socket.socket:
    import ssl  # 10 ms that replicas on the server's own machine need not spend

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate itself is known
    wire = context.wrap_socket(raw, server_hostname=address.host)
    found = hashlib.sha256(wire.getpeercert(binary_form=True) or b"").hexdigest()
    if not hmac.compare_digest(found, address.fingerprint):
        wire.close()
        raise OSError(f"the gateway at {address.host}:{address.port} shows another certificate")
    return wire
