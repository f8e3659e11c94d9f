"""Serve one entry script or model over HTTP with the standard library alone: what `serve.py` of a package starts.

The answers are those of a service: the same worker code computes them. There are no batches over several clients, no
limits on time and no metrics; for these a service is deployed. RUNYARD_SERVING_KEY is the key that requests need.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import parse_qsl

from runyard.serving.paths import inner_path
from runyard.serving.protocol import FAILED, TIMED, Header, Json, WireRequest, pack_headers, read_headers
from runyard.serving.worker.answers import ScoringOutcome, error_outcome
from runyard.serving.worker.loading import SCORERS, ModelSource, import_script, load_model
from runyard.serving.worker.pickle_versions import PickleWatch
from runyard.serving.worker.requests import ScoringRequest
from runyard.serving.worker.script import ScriptFault
from runyard.serving.worker.worker import FAILED_START, LoadedModel

KEY = "RUNYARD_SERVING_KEY"
MOST_BODY = 100 << 20
MOST_ID = 100
_RESTART_S = 1.0
_METHODS = "GET, POST, OPTIONS"


class StandaloneService:
    """A loaded model behind requests. Its calls are made one at a time, unless `threads` says more."""

    def __init__(self, model: LoadedModel, *, name: str, key: str = "", threads: int = 1) -> None:
        self.name = name
        self.call = model.call
        self.documents = model.swagger
        self._key = sha256(key.encode()).digest() if key else b""  # of one length, as what is given
        self._turns = threading.Semaphore(threads)

    def answer(self, method: str, target: str, headers: List[Header], body: bytes) -> Tuple[int, List[Header], bytes]:
        """Return status, headers and body for one request."""
        path, _, query = target.partition("?")
        inner = inner_path(self._own(path), self.name)
        if inner == "/":
            return 200, [(b"content-type", b"text/html; charset=utf-8")], b"Healthy"
        if inner in ("/v2/health/live", "/v2/health/ready", "/v2/ready"):
            return _json(200, {"ready": True})
        if inner != "/swagger.json" and inner != "/score" and inner not in self.call.paths:
            return _message(404, f"There is no {path}; /score answers requests.")
        if method == "OPTIONS" and not self.call.takes_all_methods:
            return 200, [(b"content-type", b"text/html; charset=utf-8")], b""
        if self._key and not hmac.compare_digest(sha256(_bearer(headers)).digest(), self._key):
            status, about, beside = _message(401, "This service needs a key: `Authorization: Bearer <key>`.")
            return status, [*about, (b"www-authenticate", b"Bearer")], beside
        if inner == "/swagger.json":
            return self._document(dict(parse_qsl(query)).get("version", "2"))
        if method not in ("GET", "POST", "OPTIONS"):
            status, about, beside = _message(405, f"{method} is not allowed here; POST is.")
            return status, [*about, (b"allow", _METHODS.encode())], beside
        return self._score(method, f"{inner}?{query}" if query else inner, headers, body, inner)

    def _own(self, path: str) -> str:
        prefix = f"/api/v1/service/{self.name}"
        return path[len(prefix) :] or "/" if path.startswith(prefix + "/") else path

    def _document(self, version: str) -> Tuple[int, List[Header], bytes]:
        if version not in self.documents:
            return _message(404, f"There is no OpenAPI document of version {version!r}.")
        return 200, [(b"content-type", b"application/json")], self.documents[version].encode()

    def _score(
        self, method: str, target: str, headers: List[Header], body: bytes, inner: str
    ) -> Tuple[int, List[Header], bytes]:
        kept = [pair for pair in headers if not (self._key and pair[0] == b"authorization")]
        head = f"{method}\n{target}\n".encode("latin-1", "replace") + pack_headers(kept)
        with self._turns:
            outcome = self._outcome(ScoringRequest(WireRequest(1, head, body)))
        found = read_headers(outcome.head)
        found.append((b"x-ms-run-function-failed", b"True" if outcome.flags & FAILED else b"False"))
        if outcome.flags & TIMED:
            found.append((b"x-ms-run-fn-exec-ms", b"%.3f" % (outcome.exec_us / 1e3)))
        if inner in ("/v2/infer", "/v2/metadata") and outcome.status == 200:
            named = {"name": self.name, "versions": ["1"]} if inner == "/v2/metadata" else {"model_name": self.name}
            return 200, found, json.dumps({**named, **json.loads(outcome.body)}).encode()
        return outcome.status, found, bytes(outcome.body)

    def _outcome(self, request: ScoringRequest) -> ScoringOutcome:
        try:
            return self.call.answer([request])[0]
        except (Exception, SystemExit):
            print(traceback.format_exc(), file=sys.stderr, end="", flush=True)
            return error_outcome(500, "The scoring script failed. Its log has the error.", failed=True)


def serve(service: StandaloneService, listener: socket.socket) -> None:
    """Answer requests on a listening socket until the process is told to end; finishes those under way."""
    server = ThreadingHTTPServer(listener.getsockname()[:2], _handler_of(service), bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = False
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    server.serve_forever(poll_interval=0.1)
    server.server_close()  # waits for the threads


def main(arguments: Optional[Sequence[str]] = None, **defaults: Any) -> int:
    """Load and serve; return the exit code: 3 when the script or the model does not load."""
    found = _parser(defaults).parse_args(arguments)
    source = ModelSource(os.path.abspath(found.app_root), found.entry, found.source_directory, found.no_code)
    listener = socket.create_server((found.host, found.port), backlog=1024, reuse_port=False)
    os.environ.setdefault("SERVICE_NAME", found.name)
    os.environ.setdefault("SERVICE_PATH_PREFIX", "")
    key = os.environ.pop(KEY, "")

    def work() -> int:
        model = _load(source)
        if model is None:
            return FAILED_START
        service = StandaloneService(model, name=found.name, key=key, threads=max(1, found.threads))
        shown = found.host if found.host not in ("0.0.0.0", "::") else "localhost"
        sys.stderr.write(f"Serving on http://{shown}:{listener.getsockname()[1]}/score\n")  # whole: others write too
        sys.stderr.flush()
        serve(service, listener)
        return 0

    return work() if found.workers <= 1 else _Crew(found.workers, work).run()


class _Crew:
    """Processes that share the listening socket; one that dies is started again."""

    def __init__(self, count: int, work: Callable[[], int]) -> None:
        self._count = count
        self._work = work
        self._pids: Dict[int, float] = {}
        self._is_ending = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._on_term)
        for _ in range(self._count):
            self._start()
        code = 0
        while self._pids:
            pid, status = os.wait()
            since = self._pids.pop(pid, None)
            ended = os.waitstatus_to_exitcode(status) if sys.version_info >= (3, 9) else status >> 8
            if since is None or self._is_ending:
                continue
            if ended == FAILED_START:
                code = FAILED_START
                self._on_term()
                continue
            time.sleep(max(0.0, _RESTART_S - (time.monotonic() - since)))  # one that dies at once is no busy loop
            self._start()
        return code

    def _start(self) -> None:
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os._exit(self._work())
        self._pids[pid] = time.monotonic()

    def _on_term(self, *_: Any) -> None:
        self._is_ending = True
        for pid in self._pids:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass


def _load(source: ModelSource) -> Optional[LoadedModel]:
    with PickleWatch() as watch:
        try:
            model = load_model(source, lambda: import_script(source))
        except ScriptFault as fault:
            print(f"error: {fault}\n{watch.text()}", file=sys.stderr, end="", flush=True)
            return None
        except BaseException as error:
            print(f"{traceback.format_exc()}{watch.text(error)}", file=sys.stderr, end="", flush=True)
            return None
    print(watch.text(), file=sys.stderr, end="", flush=True)
    return model


def _handler_of(service: StandaloneService) -> type:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30.0  # without a byte

        def _handle(self) -> None:
            ids = _Ids(self.headers)
            body = self._read_body()
            if isinstance(body, str):
                self.close_connection = True
                answer = _message(int(body[:3]), body[4:])
            elif ids.fault:
                answer = _message(431, ids.fault)
            else:
                headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in ids.headers]
                answer = service.answer(self.command, self.path, headers, body)
            self._send(*answer, ids)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = _handle

        def _read_body(self) -> Any:
            """Return the body, or a status and its reason as one text."""
            if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
                return self._read_chunks()
            length = self.headers.get("content-length", "0")
            if not length.isdigit():
                return "400 The Content-Length is no number."
            if int(length) > MOST_BODY:
                return f"413 The body has more than {MOST_BODY >> 20} MiB, the most that a request may have."
            return self.rfile.read(int(length))

        def _read_chunks(self) -> Any:
            parts, size = [], 0
            while True:
                try:
                    length = int(self.rfile.readline(100).partition(b";")[0], 16)
                except ValueError:
                    return "400 A chunk of the body has no length."
                size += length
                if length < 0 or size > MOST_BODY:
                    return f"413 The body has more than {MOST_BODY >> 20} MiB, the most that a request may have."
                parts.append(self.rfile.read(length))
                self.rfile.readline(100)
                if not length:
                    return b"".join(parts)

        def _send(self, status: int, headers: List[Header], body: bytes, ids: _Ids) -> None:
            self.send_response(status)
            for name, value in [*headers, *ids.echoed]:
                self.send_header(name.decode("latin-1"), value.decode("latin-1"))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, text: str, *values: Any) -> None:
            print(f"{self.log_date_time_string()} {self.address_string()} {text % values}", flush=True)

    return Handler


class _Ids:
    """The ids of a request, as Azure's server reads and echoes them."""

    def __init__(self, headers: Any) -> None:
        request_id = headers.get("x-request-id") or str(uuid.uuid4())
        legacy, client = headers.get("x-ms-request-id"), headers.get("x-ms-client-request-id")
        named = {
            "x-request-id": request_id,
            "x-ms-request-id": legacy or client or request_id,
            "x-ms-client-request-id": client or legacy or "",
        }
        long = [name for name, value in named.items() if len(value) > MOST_ID]
        self.fault = f"{long[0]} must not have more than {MOST_ID} characters." if long else ""
        self.headers = [(name, value) for name, value in headers.items() if name.lower() != "x-request-id"]
        self.headers.append(("x-request-id", request_id))
        kept = {} if long else named
        self.echoed = [(name.encode(), value.encode("latin-1")) for name, value in kept.items() if value]
        trace = headers.get("TraceId")
        if trace:
            self.echoed.append((b"TraceId", trace.encode("latin-1")))


def _bearer(headers: List[Header]) -> bytes:
    found = b"".join(value for name, value in headers if name == b"authorization")
    return found[len(b"Bearer ") :] if found.startswith(b"Bearer ") else b""


def _json(status: int, plain: Json) -> Tuple[int, List[Header], bytes]:
    return status, [(b"content-type", b"application/json")], json.dumps(plain).encode()


def _message(status: int, text: str) -> Tuple[int, List[Header], bytes]:
    made, headers, body = _json(status, {"message": text})
    return made, [*headers, (b"x-ms-run-function-failed", b"False")], body


def _parser(defaults: Mapping[str, object]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Answer requests with a packaged model.")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0: every machine may ask (default: this one)")
    parser.add_argument("--port", type=int, default=5001)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--threads", type=int, default=1, help="requests at once in each of them")
    parser.add_argument("--name", default="local")
    parser.add_argument("--app-root", default=os.getcwd())
    parser.add_argument("--entry", default="")
    parser.add_argument("--source-directory", default="")
    parser.add_argument("--no-code", default="", choices=["", *SCORERS])
    parser.set_defaults(**defaults)
    return parser
