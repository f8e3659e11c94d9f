"""A stand-in for the server on a unix socket, for tests: the routes that supervisors use, kept in memory.

`FakeGang` keeps what the nodes of one run told it, in the words of `POST /runs/{id}/nodes/{rank}`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from runyard.core.errors import Conflict, InvalidArgument, MissingContent, NotFound, RunyardError, UserError
from runyard.core.formats import journal
from runyard.core.formats.documents import EnvironmentFacts, NodeFacts, NodeNews, RunError, RunWarning
from runyard.core.formats.frames import iter_frames, join_frames
from runyard.core.formats.tree import Entry, FileEntry, FolderEntry, decode_tree, encode_tree, name_bytes, tree_id
from runyard.core.names import clean_file_name

_STATUS = {
    "NotFound": 404,
    "NotAuthenticated": 401,
    "InvalidArgument": 400,
    "StoreUnavailable": 503,
    "SystemFailure": 500,
}


@dataclass
class FakeGang:
    """Like the real board it is empty after a restart, and another `epoch` says so."""

    epoch: str = field(default_factory=lambda: os.urandom(4).hex())
    version: int = 0
    facts: Dict[int, NodeFacts] = field(default_factory=dict)
    lost: Dict[int, str] = field(default_factory=dict)
    failed: List[int] = field(default_factory=list)
    silent: List[int] = field(default_factory=list)  # nodes whose lease a test says is over

    def hear(self, rank: int, said: Mapping[str, Any]) -> None:
        facts = said.get("facts")
        if facts is not None and facts != self.facts.get(rank):
            self.facts[rank] = facts
            self.version += 1
            if "failed" in facts and rank not in self.failed:
                self.failed.append(rank)

    def lose(self, rank: int, why: str) -> None:
        self.lost[rank] = why
        self.version += 1
        if rank not in self.failed:
            self.failed.append(rank)

    def show(self) -> List[NodeNews]:
        return [self._show(rank) for rank in sorted({*self.facts, *self.lost})]

    def _show(self, rank: int) -> NodeNews:
        facts = self.facts.get(rank, NodeFacts())
        return {
            "rank": rank,
            "facts": facts,
            "lost": self.lost.get(rank, ""),
            "host": facts.get("host", ""),
            "failed_order": self.failed.index(rank) + 1 if rank in self.failed else 0,
            "silent": rank in self.silent,
        }


SegmentKey = Tuple[str, str, int]  # run, writer, segment
Check = Callable[[str, Mapping[str, Any], bytes], None]  # gets route, head and bytes; raises to refuse


@dataclass
class FakeRun:
    """What the server knows about one run."""

    attempt: int = 1
    status: str = "NotStarted"
    statuses: List[str] = field(default_factory=list)
    doings: List[str] = field(default_factory=list)
    error: Optional[RunError] = None
    warnings: List[RunWarning] = field(default_factory=list)
    environment: EnvironmentFacts = field(default_factory=EnvironmentFacts)
    desired: Optional[str] = None
    desired_error: Optional[RunError] = None
    files: Dict[str, Mapping[str, Any]] = field(default_factory=dict)
    logs: Dict[str, bytearray] = field(default_factory=dict)
    heartbeats: int = 0
    engine_gone: bool = False  # as its supervisor said
    job: Optional[Dict[str, Any]] = None  # what nodes that join are given
    joined: Dict[str, str] = field(default_factory=dict)  # rank → incarnation
    gang: FakeGang = field(default_factory=FakeGang)

    @property
    def is_over(self) -> bool:
        return self.status in ("Completed", "Failed", "Canceled")


class FakeServer:
    """Keeps what supervisors send across `stop` and `start`, like a real server's disk.

    `check` is called before anything is stored and refuses by raising a RunyardError.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.runs: Dict[str, FakeRun] = {}
        self.segments: Dict[SegmentKey, bytearray] = {}
        self.sides: Dict[str, bytes] = {}
        self.chunks: Dict[str, bytes] = {}
        self.trees: Dict[str, bytes] = {}
        self.bundle = b""  # the archive of our code, for nodes
        self.requests: List[str] = []
        self.check: Optional[Check] = None
        self.gate = threading.Event()  # content waits while it is not set
        self.gate.set()
        self.lock = threading.RLock()
        self._http: Optional[_Listener] = None

    def start(self) -> FakeServer:
        if os.path.lexists(self.path):
            os.unlink(self.path)
        for run in self.runs.values():
            run.gang = FakeGang()
        self._http = _Listener(self.path, self)
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Hang up on everybody."""
        if self._http is not None:
            self._http.shutdown()
            self._http.hang_up()
            self._http = None

    def add_run(self, run_id: str) -> FakeRun:
        return self.runs.setdefault(run_id, FakeRun())

    def add_snapshot(self, files: Mapping[str, bytes]) -> str:
        """Store a folder and return its root tree; a `/` in a name leads into a subfolder."""
        entries: List[Entry] = []
        below: Dict[str, Dict[str, bytes]] = {}
        for name, data in files.items():
            top, is_below, rest = name.partition("/")
            if is_below:
                below.setdefault(top, {})[rest] = data
                continue
            chunk = hashlib.sha256(data).hexdigest()
            self.chunks[chunk] = data
            entries.append(FileEntry(name, 0o644, len(data), (chunk,) if data else ()))
        entries += [FolderEntry(name, 0o755, self.add_snapshot(content)) for name, content in below.items()]
        tree = encode_tree(sorted(entries, key=lambda entry: name_bytes(entry.name)))
        self.trees[tree_id(tree)] = tree
        return tree_id(tree)

    def _trees_below(self, root: str) -> List[str]:
        trees = [root]
        for tree in trees:  # grows during the loop
            trees += [entry.tree for entry in decode_tree(self.trees[tree]) if isinstance(entry, FolderEntry)]
        return trees

    def file(self, run_id: str, name: str) -> bytes:
        """Return a stored file's bytes, put together from its chunks."""
        with self.lock:
            return b"".join(self.chunks[chunk] for chunk in self.runs[run_id].files[name]["chunks"])

    def journal_of(self, run_id: str) -> List[bytes]:
        """Return the run's segments in the order of writer and segment."""
        with self.lock:
            return [bytes(self.segments[key]) for key in sorted(self.segments) if key[0] == run_id]

    def numbers(self, run_id: str) -> List[float]:
        """Return all number cells of a run, writer by writer."""
        found: List[float] = []
        for data in self.journal_of(run_id):
            for part in journal.iter_parts(data):
                if isinstance(part, journal.Span):
                    found += [cell[6] for cell in journal.NUMBER.iter_unpack(data[part.offset : part.end])]
        return found

    def answer(self, route: str, run_id: str, body: bytes) -> Any:
        if route in ("tree", "fetch"):
            self.gate.wait()
        if route == "node":
            return self._converse(run_id, json.loads(body))
        with self.lock:
            self.requests.append(route)
            return getattr(self, f"_do_{route}")(run_id, body)

    def _do_ship(self, run_id: str, body: bytes) -> Mapping[str, object]:
        run = self._run(run_id)
        marks: Dict[Tuple[str, int], int] = {}
        logs: Dict[str, int] = {}
        frames = [(head, bytes(data)) for head, data in iter_frames(body)]
        for head, data in frames:
            self._check("ship", head, data)
        for head, data in frames:
            if head["kind"] == "log":
                logs[head["name"]] = _append(run.logs.setdefault(head["name"], bytearray()), head["offset"], data)
            elif head["kind"] == "side":
                self.sides[head["file"]] = data
            else:
                kept = self.segments.setdefault((head.get("run", run_id), head["writer"], head["segment"]), bytearray())
                whole = data[: journal.end_of(data)]
                marks[(head["writer"], head["segment"])] = _append(kept, head["offset"], whole)
        stored = [{"writer": key[0], "segment": key[1], "offset": offset} for key, offset in marks.items()]
        return {"marks": stored, "logs": logs, "desired": run.desired, "attempt": run.attempt}

    def _do_bundle(self, _: str, body: bytes) -> bytes:
        return self.bundle

    def _do_join(self, about: str, body: bytes) -> Mapping[str, object]:
        run_id, _, rank = about.partition("/")
        run, said = self._run(run_id), json.loads(body)
        if run.is_over or run.job is None or run.joined.setdefault(rank, said["incarnation"]) != said["incarnation"]:
            raise Conflict(f"Node {rank} of run `{run_id}` is in the hands of another process.")
        return {**run.job, "node_rank": int(rank), "incarnation": said["incarnation"]}

    def _converse(self, about: str, said: Mapping[str, Any]) -> Mapping[str, object]:
        run_id, _, rank = about.partition("/")
        with self.lock:
            self.requests.append("node")
            self._run(run_id).gang.hear(int(rank), said)
        until = time.monotonic() + float(said.get("wait_s") or 0.0)
        while True:
            with self.lock:
                answer = self._gang_news(self._run(run_id))
            if answer["version"] != said.get("since") or time.monotonic() >= until:
                return answer
            time.sleep(0.005)

    def _gang_news(self, run: FakeRun) -> Mapping[str, object]:
        gang = run.gang
        version = f"{gang.epoch}.{gang.version}.{run.attempt}.{run.desired}.{run.is_over}"
        return {**self._wish(run), "epoch": gang.epoch, "version": version, "nodes": gang.show()}

    def _do_heartbeat(self, run_id: str, body: bytes) -> Mapping[str, object]:
        run = self._run(run_id)
        run.heartbeats += 1
        run.engine_gone = run.engine_gone or bool(json.loads(body).get("engine_gone"))
        return self._wish(run)

    def _do_state(self, run_id: str, body: bytes) -> Mapping[str, object]:
        run, said = self._run(run_id), json.loads(body)
        self._check("state", said, b"")
        if said["attempt"] != run.attempt:
            raise Conflict(f"Run `{run_id}` is at attempt {run.attempt}.")
        if run.is_over:
            return self._wish(run)
        run.warnings += said.get("warnings", [])
        run.doings += [said["doing"]] if said.get("doing") else []
        run.environment.update(said.get("environment") or EnvironmentFacts())
        if said["status"] in ("Completed", "Failed", "Canceled"):
            self._check_complete(run_id, run, said)
            run.error = said.get("error")
        if run.status != said["status"]:
            run.status = said["status"]
            run.statuses.append(run.status)
        return self._wish(run)

    def _do_files(self, run_id: str, body: bytes) -> Mapping[str, object]:
        said = json.loads(body)
        return self._put_file(run_id, said["file"], replace=bool(said.get("replace")))

    def _do_batch(self, run_id: str, body: bytes) -> Mapping[str, object]:
        said = json.loads(body)
        self._check("batch", said, b"")
        refused: List[Mapping[str, object]] = []
        for index, file in enumerate(said["files"]):
            try:
                self._put_file(run_id, file, replace=bool(said.get("replace")))
            except UserError as error:
                refused.append({"index": index, "name": file["name"], "error": error.to_plain()})
        return {"stored": len(said["files"]) - len(refused), "refused": refused}

    def _put_file(self, run_id: str, file: Mapping[str, Any], *, replace: bool) -> Mapping[str, object]:
        self._check("files", file, b"")
        missing = [chunk for chunk in file["chunks"] if chunk not in self.chunks]
        if missing:
            raise MissingContent("Chunks are missing.", details={"missing": missing})
        name = clean_file_name(file["name"])
        if name in self._run(run_id).files and not replace:
            raise Conflict(f"The file {name} is there already.")
        self._run(run_id).files[name] = file
        return file

    def _do_missing(self, _: str, body: bytes) -> Mapping[str, object]:
        return {"missing": [chunk for chunk in json.loads(body)["ids"] if chunk not in self.chunks]}

    def _do_chunks(self, _: str, body: bytes) -> Mapping[str, object]:
        found = {head["id"]: bytes(data) for head, data in iter_frames(body)}
        for name, data in found.items():
            if hashlib.sha256(data).hexdigest() != name:
                raise InvalidArgument(f"The chunk {name} has another hash.")
        self.chunks.update(found)
        return {"stored": len(found)}

    def _do_fetch(self, _: str, body: bytes) -> bytes:
        return join_frames(({"id": chunk}, self.chunks[chunk]) for chunk in json.loads(body)["ids"])

    def _do_tree(self, root: str, _: bytes) -> bytes:
        return join_frames([({"id": tree}, self.trees[tree]) for tree in self._trees_below(root)])

    def _check_complete(self, run_id: str, run: FakeRun, said: Mapping[str, Any]) -> None:
        kept = {key[1:]: len(data) for key, data in self.segments.items() if key[0] == run_id}
        short = [one for one in said.get("marks", []) if kept.get((one["writer"], one["segment"]), 0) < one["offset"]]
        behind = [name for name, size in said.get("logs", {}).items() if len(run.logs.get(name, b"")) < size]
        if short or behind:
            raise MissingContent("Not everything is stored.", details={"marks": short, "logs": behind})

    def _check(self, route: str, head: Mapping[str, Any], body: bytes) -> None:
        if self.check is not None:
            self.check(route, head, body)

    def _run(self, run_id: str) -> FakeRun:
        if run_id not in self.runs:
            raise NotFound(f"There is no run `{run_id}`.")
        return self.runs[run_id]

    def _wish(self, run: FakeRun) -> Mapping[str, object]:
        wish = {"desired": run.desired, "desired_error": run.desired_error}
        return {**wish, "attempt": run.attempt, "status": run.status}


def _append(kept: bytearray, offset: int, data: bytes) -> int:
    if offset <= len(kept):
        kept += data[len(kept) - offset :]
    return len(kept)


class _Listener(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, fake: FakeServer) -> None:
        super().__init__(path, _Handler)
        self.fake = fake
        self.open: List[Any] = []

    def hang_up(self) -> None:
        self.server_close()
        for connection in self.open:
            try:
                connection.shutdown(2)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A supervisor that was killed in the middle of a request is what tests do."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.server.open.append(self.request)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests say what they see themselves."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        route, about = _route(self.path)
        try:
            self._send(200, self.server.fake.answer(route, about, body))
        except RunyardError as error:
            self._send(_STATUS.get(error.code, 409), {"error": error.to_plain()})

    def _send(self, status: int, value: Any) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _route(path: str) -> Tuple[str, str]:
    parts = path.partition("?")[0].split("/")[3:]  # "", "api", "v1"
    if parts[0] == "runs" and parts[-1] == "join":
        return "join", f"{parts[1]}/{parts[3]}"
    if parts[0] == "runs" and parts[2] == "nodes":
        return "node", f"{parts[1]}/{parts[3]}"
    if parts[0] == "runs":
        return "batch" if parts[3:] == ["batch"] else parts[2], parts[1]
    if parts[0] == "trees":
        return "tree", parts[1]
    return {"missing": "missing", "fetch": "fetch", "bundle": "bundle"}.get(parts[-1], parts[0]), ""
