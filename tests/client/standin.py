"""A server that says exactly what a test tells it to, on a real socket."""

from __future__ import annotations

import json
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runyard.client.address import Address

TOKEN = "ryt_" + "0" * 64
Handler = Callable[["Peer"], None]


class Peer:
    """One accepted connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.file = sock.makefile("rb")

    def read_request(self) -> tuple[str, dict[str, str], bytes]:
        """Return (request line, headers, body); ("", {}, b"") when the client closed."""
        line = self.file.readline().decode("latin-1").rstrip("\r\n")
        headers: dict[str, str] = {}
        while True:
            text = self.file.readline().decode("latin-1").rstrip("\r\n")
            if not text:
                break
            name, _, value = text.partition(": ")
            headers[name.lower()] = value
        return line, headers, self.file.read(int(headers.get("content-length", "0")))

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, value: Any, *, status: str = "200 OK", headers: str = "") -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body)


class Standin:
    """Gives each connection to the next handler; the last one serves all that follow."""

    def __init__(self, handlers: list[Handler], context: ssl.SSLContext | None = None) -> None:
        self.folder = tempfile.mkdtemp(prefix="ry-s-")
        self.path = os.path.join(self.folder, "s")
        self.connections = 0
        self.failures: list[BaseException] = []
        self._handlers = handlers
        self._context = context
        self._listener = socket.socket(socket.AF_INET if context else socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", 0) if context else self.path)
        self._listener.listen(64)
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def address(self) -> Address:
        if self._context is not None:
            return Address("tcp", host="127.0.0.1", port=self._listener.getsockname()[1], token=TOKEN, tls=True)
        return Address("unix", path=self.path, token=TOKEN)

    def close(self) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self._acceptor.join(5)
        for thread in self._threads:
            thread.join(5)
        if os.path.exists(self.path):
            os.unlink(self.path)
        os.rmdir(self.folder)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            handler = self._handlers[min(self.connections, len(self._handlers) - 1)]
            self.connections += 1
            thread = threading.Thread(target=self._handle, args=(handler, sock), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _handle(self, handler: Handler, sock: socket.socket) -> None:
        try:
            peer = Peer(self._context.wrap_socket(sock, server_side=True) if self._context else sock)
        except OSError as error:
            self.failures.append(error)
            sock.close()
            return
        try:
            handler(peer)
        except OSError as error:
            self.failures.append(error)
        finally:
            peer.file.close()
            peer.sock.close()


@contextmanager
def standin(*handlers: Handler, context: ssl.SSLContext | None = None) -> Iterator[Standin]:
    server = Standin(list(handlers), context)
    try:
        yield server
    finally:
        server.close()


def always(value: Any, *, status: str = "200 OK", headers: str = "") -> Handler:
    """Answer every request of a connection with the same."""

    def handle(peer: Peer) -> None:
        while peer.read_request()[0]:
            peer.answer(value, status=status, headers=headers)

    return handle


def raw(data: bytes) -> Handler:
    """Send these bytes after the first request and close."""

    def handle(peer: Peer) -> None:
        peer.read_request()
        peer.send(data)

    return handle


def drop(peer: Peer) -> None:
    """Close without an answer."""
    peer.read_request()
