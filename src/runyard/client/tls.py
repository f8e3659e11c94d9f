"""TLS on a connection to a team's server. Nothing is sent before the peer's certificate is verified.

The encryption works in memory and the socket stays ours. So timeouts are the kernel's, as without TLS, and a program
that restored SIGPIPE's default does not die of it.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import socket
import ssl
from typing import List

from runyard.client.address import Address
from runyard.client.http1 import Dropped, Wire
from runyard.core.errors import NotTrusted, ProtocolError

_RECORDS = 256 << 10  # encrypted at a time
_RECEIVE = 256 << 10


class TlsWire(Wire):
    """A `Wire` whose bytes are encrypted."""

    def __init__(self, sock: socket.socket, address: Address, *, timeout_s: float) -> None:
        super().__init__(sock, timeout_s=timeout_s)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._peeked = b""
        context = _pinning_context() if address.fingerprint else _verifying_context()
        name = str(address.host).strip("[]")
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._shake_hands(address)

    def _shake_hands(self, address: Address) -> None:
        try:
            while not self._is_done_shaking():
                self._feed()
        except ssl.SSLCertVerificationError as error:
            raise _not_verified(address, error) from error
        except ssl.SSLError as error:
            raise _no_tls(address, error) from error
        if address.fingerprint:
            _check_fingerprint(address, self._tls.getpeercert(binary_form=True) or b"")

    def _is_done_shaking(self) -> bool:
        try:
            self._tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()

    def _feed(self) -> None:
        """Wait for more from the peer."""
        self._incoming.write(super()._receive(_RECEIVE, 0))

    def _flush(self) -> None:
        waiting = memoryview(self._outgoing.read())
        while waiting:
            waiting = waiting[super()._send_some([waiting]) :]

    def _receive(self, size: int, flags: int) -> bytes:
        if flags & socket.MSG_PEEK:
            self._peeked = self._peeked or self._read(size)
            return self._peeked[:size]
        data, self._peeked = self._peeked[:size], self._peeked[size:]
        pieces = [data] if data else []
        left = size - len(data)
        while not pieces or (left and flags & socket.MSG_WAITALL):
            pieces.append(self._read(left))
            left -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read(self, size: int) -> bytes:
        while True:
            try:
                data = self._tls.read(size)
            except ssl.SSLWantReadError:
                self._flush()
                self._feed()
            except ssl.SSLError as error:
                raise Dropped(str(error)) from error
            else:
                if not data:
                    raise Dropped("The connection was closed before the answer was complete.")
                return data

    def _send_some(self, buffers: List[memoryview]) -> int:
        piece = buffers[0][:_RECORDS]
        while True:
            try:
                sent = self._tls.write(piece)
                self._flush()
                return sent
            except ssl.SSLWantReadError:
                self._flush()
                self._feed()
            except ssl.SSLError as error:
                raise Dropped(str(error)) from error


def certificate_of(address: Address, *, timeout_s: float) -> bytes:
    """Return the certificate (DER) that the server shows, unverified. Nothing is sent to it."""
    with socket.create_connection((str(address.host).strip("[]"), int(address.port or 0)), timeout_s) as sock:
        context = _pinning_context()
        try:
            with context.wrap_socket(sock, server_hostname=str(address.host).strip("[]")) as wrapped:
                return wrapped.getpeercert(binary_form=True) or b""
        except ssl.SSLError as error:
            raise _no_tls(address, error) from error


def fingerprint_of(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


@functools.lru_cache(maxsize=None)
def _pinning_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # compared by its fingerprint instead, which says more than a name
    return context


@functools.lru_cache(maxsize=None)
def _verifying_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _check_fingerprint(address: Address, certificate: bytes) -> None:
    found = fingerprint_of(certificate)
    if hmac.compare_digest(found, address.fingerprint):
        return
    raise NotTrusted(
        f"The server at {address} has another certificate than the one that is trusted.",
        why=f"Its SHA-256 is {found}, trusted is {address.fingerprint}. Either the server got a new certificate, or "
        "somebody between you and it pretends to be the server. Nothing was sent.",
        hint=f"Compare with `runyard server status` on the server's machine. If it is the same there, trust it with "
        f"`runyard login https://{address.authority}`.",
    )


def _not_verified(address: Address, error: ssl.SSLCertVerificationError) -> NotTrusted:
    return NotTrusted(
        f"The certificate of the server at {address} is not trusted.",
        why=f"{error.verify_message.rstrip('.')}. Nothing was sent.",
        hint=f"A server that made its own certificate is trusted by its fingerprint: "
        f"`runyard login https://{address.authority}`.",
    )


def _no_tls(address: Address, error: ssl.SSLError) -> ProtocolError:
    return ProtocolError(
        f"The server at {address} does not speak TLS.",
        why=f"{error}.",
        hint=f"A server without TLS is at http://{address.authority}.",
    )
