"""One worker process: loads the script, says ready, answers frames until it is told to stop."""

from __future__ import annotations

import faulthandler
import os
import queue
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from types import TracebackType
from typing import Callable, Dict, List, Optional, Sequence

from runyard.serving.protocol import (
    HELLO,
    NOTE,
    PING,
    PONG,
    READY,
    REQUESTS,
    STOP,
    WireAnswer,
    WireFrame,
    iter_requests,
    pack_answers,
    pack_note,
)
from runyard.serving.worker.answers import ScoringOutcome, error_outcome
from runyard.serving.worker.calls import ScoringCall
from runyard.serving.worker.link import GatewayAddress, Link, LinkLost, dial
from runyard.serving.worker.pickle_versions import PickleWatch
from runyard.serving.worker.requests import ScoringRequest
from runyard.serving.worker.script import ScriptFault, tree_of

FAILED_START = 3  # the exit code of a worker whose script does not load, as on Azure
DUMP_SIGNAL = signal.SIGUSR2
_HOLD_BACK_S = 0.001  # answers of quick calls share a frame for no longer
_TEXT_LIMIT = 60_000


@dataclass(frozen=True)
class LoadedModel:
    """What a loader gives: the way to call it, and what the gateway should know."""

    call: ScoringCall
    swagger: Dict[str, str] = field(default_factory=dict)
    kind: str = "script"


@dataclass(frozen=True)
class Place:
    """Where a worker belongs; its token opens the gateway's door for this revision alone."""

    gateway: GatewayAddress
    token: str = field(repr=False)
    service: str = ""
    revision: int = 1
    replica: str = "0"
    number: int = 1
    threads: int = 1


class Worker:
    """Runs in a process of its own. `load` imports the model; `on_ready` is called once it did."""

    def __init__(self, place: Place, load: Callable[[], LoadedModel], on_ready: Callable[[], None]) -> None:
        self._place = place
        self._load = load
        self._on_ready = on_ready
        self._parent = os.getppid()
        self._link: Optional[Link] = None
        self._lock = threading.Lock()
        self._is_waiting = False
        self._is_stopping = False
        self._model: Optional[LoadedModel] = None

    def run(self) -> int:
        """Serve; return the exit code."""
        faulthandler.enable()
        faulthandler.register(DUMP_SIGNAL, all_threads=True)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the host says what to do
        began = time.monotonic()
        with PickleWatch() as watch:
            try:
                self._model = self._load()
            except BaseException as error:
                self._report(error, watch.text(error))
                return FAILED_START
        ready = f"runyard: worker {self._place.number} is ready, after {time.monotonic() - began:.2f} s.\n"
        print(watch.text() + ready, file=sys.stderr, end="", flush=True)
        self._on_ready()
        tasks = _Threads(self._place.threads, self._answer) if self._place.threads > 1 else None
        while self._connect():
            try:
                if self._serve(tasks):
                    return 0
            except LinkLost:
                continue  # what was asked over it has no reader any more
        return 0

    def _connect(self) -> bool:
        """Open the connection and say who we are; False when nobody wants us any more."""
        assert self._model is not None
        self._link = dial(self._place.gateway, give_up=lambda: self._is_stopping or os.getppid() != self._parent)
        if self._link is None:
            return False
        call, place = self._model.call, self._place
        batching = call.batching
        ready = {
            "kind": self._model.kind,
            "slots": place.threads,
            "max_batch": batching.max_batch if batching else 0,
            "max_wait_ms": batching.max_wait_ms if batching else 0,
            "takes_all_methods": call.takes_all_methods,
            "paths": sorted(call.paths),
            "swagger": self._model.swagger,
        }
        try:
            self._link.send([pack_note(HELLO, self._hello()), pack_note(READY, ready)])
        except LinkLost:
            pass  # the next receive says so
        return True

    def _hello(self) -> Dict[str, object]:
        place = self._place
        return {
            "role": "worker",
            "token": place.token,
            "service": place.service,
            "revision": place.revision,
            "replica": place.replica,
            "number": place.number,
            "pid": os.getpid(),
        }

    def _serve(self, tasks: Optional[_Threads]) -> bool:
        """Answer until told to stop (True); raises LinkLost."""
        link = self._link
        assert link is not None
        while True:
            self._is_waiting = True
            frames = link.receive()
            self._is_waiting = False
            for frame in frames:
                if frame.kind == REQUESTS:
                    if tasks is not None:
                        tasks.put(frame)
                    else:
                        self._answer(frame)
                elif frame.kind == PING:
                    self._send([pack_note(PONG, {"rss_kb": rss_kb()})])
                elif frame.kind == STOP:
                    return True
            if self._is_stopping:
                self._send([pack_note(NOTE, {"is": "stopping"})])
                self._is_stopping = False

    def _answer(self, frame: WireFrame) -> None:
        assert self._model is not None
        call = self._model.call
        requests = [ScoringRequest(wire) for wire in iter_requests(frame)]
        if call.batching is not None or len(requests) == 1:
            self._send(pack_answers(_answers(requests, _guarded(call, requests))))
            return
        held: List[WireAnswer] = []
        since = time.perf_counter()
        for request in requests:
            held += _answers([request], _guarded(call, [request]))
            now = time.perf_counter()
            if now - since > _HOLD_BACK_S:
                self._send(pack_answers(held))
                held, since = [], now
        if held:
            self._send(pack_answers(held))

    def _send(self, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        assert self._link is not None
        if self._place.threads == 1:
            self._link.send(pieces)
            return
        with self._lock:
            try:
                self._link.send(pieces)
            except LinkLost:
                pass  # the main thread finds out, and dials again

    def _report(self, error: BaseException, hint: str) -> None:
        """Write why the script does not load, with the model folder's tree, and tell the gateway."""
        if isinstance(error, ScriptFault):
            text = f"error: {error}\n"
        else:
            text = "".join(traceback.format_exception(type(error), error, _below_us(error)))
        folder = os.environ.get("AZUREML_MODEL_DIR", "")
        if folder and os.path.exists(folder):
            text += f"The model folder {folder}:\n{tree_of(folder)}\n"
        text += hint
        print(text, file=sys.stderr, end="", flush=True)
        try:
            link = Link(self._place.gateway, timeout_s=2.0)
            note = {"is": "failed", "text": text[-_TEXT_LIMIT:]}
            link.send([pack_note(HELLO, self._hello()), pack_note(NOTE, note)])
            link.close()
        except LinkLost:
            pass  # the log has it

    def _on_term(self, _number: int, _frame: object) -> None:
        """Ask the gateway for no more work; it says STOP once the last answer is there."""
        self._is_stopping = True
        if self._model is None:
            os._exit(0)  # in the middle of the script's import or init()
        if self._is_waiting and self._link is not None:
            try:
                self._link.send([pack_note(NOTE, {"is": "stopping"})])
            except LinkLost:
                os._exit(0)


class _Threads:
    """Threads that share a worker, for a replica with several concurrent requests."""

    def __init__(self, count: int, answer: Callable[[WireFrame], None]) -> None:
        self._answer = answer
        self._frames: queue.SimpleQueue[WireFrame] = queue.SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._run, name=f"scoring-{number + 1}", daemon=True).start()

    def put(self, frame: WireFrame) -> None:
        self._frames.put(frame)

    def _run(self) -> None:
        while True:
            self._answer(self._frames.get())


def rss_kb() -> int:
    """Return how much memory this process has in use."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * (os.sysconf("SC_PAGE_SIZE") >> 10)
    except (OSError, ValueError, IndexError):
        return 0


def _answers(requests: Sequence[ScoringRequest], outcomes: Sequence[ScoringOutcome]) -> List[WireAnswer]:
    return [outcome.wire(request.id) for request, outcome in zip(requests, outcomes)]


def _guarded(call: ScoringCall, requests: Sequence[ScoringRequest]) -> List[ScoringOutcome]:
    """Answer; a script that calls `sys.exit()` in run() fails its request and not the worker."""
    try:
        return call.answer(requests)
    except (Exception, SystemExit):
        print(traceback.format_exc(), file=sys.stderr, end="", flush=True)
        return [error_outcome(500, "The scoring script failed. Its log has the error.", failed=True) for _ in requests]


def _below_us(error: BaseException) -> Optional[TracebackType]:
    """Return the traceback without our own frames in front."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        name = str(step.tb_frame.f_globals.get("__name__", ""))
        if not name.startswith(("runyard.serving", "importlib")):
            break
        step = step.tb_next
    return step
