"""The lying proxy before a team's server: over TLS on both sides, with the gateway's page while the server is away."""

from __future__ import annotations

import socket
import ssl

from tests.faults.lying_proxy import PAGE, STATUSES, Proxy, _answer


class Front(Proxy):
    def __init__(self, upstream: tuple[str, int], tls: ssl.SSLContext, host: str) -> None:
        super().__init__("", tls, host=host)
        self._server = upstream
        self._trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def _ask(self, head: bytes, body: bytes) -> bytes:
        try:
            with socket.create_connection(self._server, timeout=90) as sock, self._trust.wrap_socket(sock) as server:
                lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
                server.sendall(b"\r\n".join([lines[0], b"Connection: close", *lines[1:]]) + body)
                with server.makefile("rb") as answer:
                    whole = answer.read()  # to its end: some answers have no length
        except OSError:
            whole = b""
        status = STATUSES["bad gateway"]
        return whole or _answer(status, PAGE % (status, status), b"Content-Type: text/html\r\n")
