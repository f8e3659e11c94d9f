"""A server with every hole on purpose: an attack counts only when it bites here."""

from __future__ import annotations

import re
import threading
import time
import traceback
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from tests.attacks.wire import Wire

LOG_PARAMETERS = re.compile(r"\?(file|stream|rank|offset|limit|wait_s)=")


class Weak(BaseHTTPRequestHandler):
    """Asks for no token, decodes twice, joins paths, follows links, believes every parameter, echoes what it was sent
    and keeps no limits."""

    protocol_version = "HTTP/1.0"
    root: Path

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        try:
            status, data = self.act(body)
        except Exception:
            status, data = 500, (traceback.format_exc() + str(self.headers) + repr(body[:2000])).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = answer

    def act(self, body: bytes) -> tuple[int, bytes]:
        _, found, name = self.path.partition("/files/")
        if not found:
            return 200, b'{"everything": "open"}'
        name, _, query = name.partition("?") if LOG_PARAMETERS.search(name) else (name, "", "")
        given = dict(parse_qsl(query))
        name = given.get("file") or given.get("stream") or given.get("rank") or name
        path = self.place(name)
        if self.command == "DELETE":
            path.unlink()
            return 200, b"deleted"
        if self.command in ("POST", "PUT"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            return 200, b"stored"
        data = path.read_bytes()
        start = int(given.get("offset", 0))
        time.sleep(float(given.get("wait_s", 0)))
        return 200, data[start : start + int(given["limit"]) if "limit" in given else None]

    def place(self, name: str) -> Path:
        text = unquote(unquote(name.encode("latin-1").decode("utf-8", "replace")))
        text = unicodedata.normalize("NFKC", text).replace("\\", "/").replace("\0", "").replace("file://", "")
        for mark in "?#;&":
            text = text.replace(f"outputs/a{mark}", "")
        return self.root / (text if text.startswith("/") else f"./{text}")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def weak_server(root: Path) -> Iterator[Wire]:
    """Serve `root` on loopback until the block ends."""
    root.mkdir(parents=True, exist_ok=True)
    handler = type("Handler", (Weak,), {"root": root})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield Wire("127.0.0.1", server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
