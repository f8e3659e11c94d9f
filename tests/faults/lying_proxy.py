"""A proxy in front of a server that can be told to lie, as nginx, a load balancer or a hotel's network does.

It understands HTTP/1.1, so it can answer by itself, let the server work and keep the answer to itself, or damage it.
Clients reach it over a unix socket, or with `tls` over TCP; the server behind it is on a unix socket.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runyard.client.address import Address

PAGE = b"<html><head><title>%s</title></head><body><center><h1>%s</h1></center><hr>nginx</body></html>"
STATUSES = {
    "bad gateway": b"502 Bad Gateway",
    "unavailable": b"503 Service Temporarily Unavailable",
    "timeout": b"504 Gateway Time-out",
    "forbidden": b"403 Forbidden",
    "not found": b"404 Not Found",
    "unauthorized": b"401 Unauthorized",
    "too large": b"413 Request Entity Too Large",
    "too many": b"429 Too Many Requests",
    "login page": b"200 OK",
}
HONEST = "honest"
# What each does is in `Proxy._lie`.
LIES = (*STATUSES, "redirect", "empty", "other json", "reset", "swallow", "cut", "garble", "silent")

Wanted = Callable[[bytes], bool]


class Proxy:
    """`told` counts the requests that were lied to, by lie; a test waits for it."""

    def __init__(self, upstream: str, tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> None:
        self.told: Counter[str] = Counter()
        self.seen: list[str] = []
        self._upstream = upstream
        self._tls = tls
        self._lie, self._wanted = HONEST, _every
        self._honest_again = threading.Event()
        self._folder = tempfile.mkdtemp(prefix="ry-p-")
        self._listener = socket.socket(socket.AF_INET if tls else socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind((host, 0) if tls else os.path.join(self._folder, "s"))
        self._listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    def address(self, token: str, fingerprint: str = "") -> Address:
        if self._tls is None:
            return Address("unix", path=os.path.join(self._folder, "s"), token=token)
        host, port = self._listener.getsockname()
        return Address("tcp", host=host, port=port, token=token, tls=True, fingerprint=fingerprint)

    def lie(self, lie: str, wanted: Wanted | None = None) -> None:
        """Treat requests whose start line is `wanted` (all of them by default) in that way from now on."""
        assert lie in LIES
        self._honest_again.clear()
        self._lie, self._wanted = lie, wanted or _every

    def count(self, lie: str, route: str) -> int:
        """Return how many requests to that route were lied to in that way."""
        return sum(one.startswith(f"{lie}: ") and route in one for one in self.seen)

    def show(self, tls: ssl.SSLContext) -> None:
        """Show that certificate from now on."""
        self._tls = tls

    def be_honest(self) -> None:
        self._lie = HONEST
        self._honest_again.set()

    def close(self) -> None:
        self.be_honest()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        if self._tls is None:
            os.unlink(os.path.join(self._folder, "s"))
        os.rmdir(self._folder)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(sock, server_side=True) if self._tls else sock as client:
                with client.makefile("rb") as incoming:
                    while self._handle(incoming, client):
                        pass
        except OSError:
            return  # the client hung up, or what was sent made it do so

    def _handle(self, incoming: object, client: socket.socket) -> bool:
        head, body = _read_message(incoming)
        if not head:
            return False
        start = head.partition(b"\r\n")[0]
        lie = self._lie if self._wanted(start) else HONEST
        if lie == HONEST:
            client.sendall(self._ask(head, body))
            return False
        answer = self._tell(lie, head, body)
        self.told[lie] += 1
        self.seen.append(f"{lie}: {start.decode('latin-1')}")
        client.sendall(answer)
        return False

    def _tell(self, lie: str, head: bytes, body: bytes) -> bytes:
        """Return what the client gets, after which its connection is closed."""
        if lie in STATUSES:
            status = STATUSES[lie]
            return _answer(status, PAGE % (status, status), b"Content-Type: text/html; charset=utf-8\r\n")
        if lie == "redirect":
            return _answer(b"302 Found", b"", b"Location: https://login.example/\r\n")
        if lie == "empty":
            return _answer(b"200 OK", b"", b"Content-Type: application/json\r\n")
        if lie == "other json":
            return _answer(b"200 OK", b'{"status": "ok"}', b"Content-Type: application/json\r\n")
        if lie == "silent":
            self._honest_again.wait(60)
            return b""
        if lie == "reset":
            return b""
        true = self._ask(head, body)
        if lie == "swallow":
            return b""
        if lie == "cut":
            return true[: len(true) - 10]
        at = true.index(b"\r\n\r\n") + 4
        return true[:at] + bytes(byte ^ 0x55 for byte in true[at:])  # garble

    def _ask(self, head: bytes, body: bytes) -> bytes:
        """Return the server's whole answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.connect(self._upstream)
            server.sendall(_for_upstream(head) + body)
            with server.makefile("rb") as answer:
                return answer.read()  # it closes: some answers come in chunks


def _every(start: bytes) -> bool:
    return True


def _read_message(file: object) -> tuple[bytes, bytes]:
    lines = []
    while True:
        line = file.readline()  # type: ignore[attr-defined]  # a socket's file
        if not line:
            return b"", b""
        lines.append(line)
        if line == b"\r\n":
            break
    fields = dict(line.lower().rstrip().split(b": ", 1) for line in lines[1:-1])
    return b"".join(lines), file.read(int(fields.get(b"content-length", b"0")))  # type: ignore[attr-defined]


def _for_upstream(head: bytes) -> bytes:
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"host:", b"connection:"))]
    return b"\r\n".join([lines[0], b"Host: runyard", b"Connection: close", *lines[1:]])


def _answer(status: bytes, body: bytes, headers: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nServer: nginx\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), headers, body)


@contextmanager
def lying_proxy(upstream: str, tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    proxy = Proxy(upstream, tls)
    try:
        yield proxy
    finally:
        proxy.close()
