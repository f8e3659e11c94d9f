"""Long answers: what a slow reader costs, and how many of them one caller may hold."""

from __future__ import annotations

import json
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from runyard.core.errors import NotFound, StoreUnavailable, TooManyRequests
from runyard.core.formats import journal
from runyard.core.formats.frames import iter_frames
from runyard.core.records import RunFile
from runyard.server.access.permissions import Owner, RunPrincipal, UserPrincipal
from runyard.server.access.shares import Shares
from runyard.server.http import answers
from runyard.server.routes import metrics
from runyard.store.base import Points, SegmentPart
from tests.engine.bench import header, journal_frame, name, number
from tests.server.conftest import TOKEN, Served
from tests.waiting import wait_for


def log_points(served: Served, count: int, *, metric: str = "loss", start: int = 0, writer: str = "w") -> None:
    values = np.arange(count, dtype=np.float64) + start
    times = np.arange(start, start + count, dtype=np.int64)
    part = SegmentPart(writer, 0, 0, 32, content=[Points(metric, "f8", values, times)])
    served.services.store.ingest("exp_1", 1, [part])


@contextmanager
def asked(served: Served, target: str) -> Iterator[socket.socket]:
    """A request whose answer nobody takes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(20)
        sock.connect(str(served.address.path))
        sock.sendall(f"GET /api/v1{target} HTTP/1.1\r\nHost: runyard\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert sock.recv(12, socket.MSG_PEEK).startswith(b"HTTP/1.1")
        yield sock


def frames(served: Served, target: str) -> list[tuple[dict[str, object], bytes]]:
    data = served.client.transport.request("GET", target).read()
    return [(head, bytes(body)) for head, body in iter_frames(data)]


def test_values_of_a_long_series_come_whole_and_in_order(served: Served) -> None:
    served.submit()
    log_points(served, 300_000)

    [(head, body)] = frames(served, "/runs/exp_1/metrics/values")

    assert (head["metric"], head["type"], head["count"]) == ("loss", "f8", 300_000)
    assert np.array_equal(np.frombuffer(body, "<f8"), np.arange(300_000.0))


def test_parts_of_several_writers_are_joined_or_merged(served: Served) -> None:
    served.submit()
    log_points(served, 1000, start=1000, writer="b")
    log_points(served, 1000, start=0, writer="a")
    log_points(served, 500, metric="mixed", start=0, writer="a2")
    log_points(served, 500, metric="mixed", start=250, writer="b2")

    found = {
        str(head["metric"]): np.frombuffer(body, "<f8") for head, body in frames(served, "/runs/exp_1/metrics/values")
    }

    assert np.array_equal(found["loss"], np.arange(2000.0))
    assert np.array_equal(found["mixed"], served.services.store.read_series("exp_1", "mixed").values)


def test_each_kind_of_value_is_as_before(served: Served) -> None:
    kinds: dict[str, list[object]] = {"b1": [True, False], "i8": [1, 2], "f8": [1, 2.5], "json": [1, "a", None]}
    served.submit()
    records = [
        journal.pack_long(journal.VALUES, {"name": kind, "values": values, "step": None, "t": 1})
        for kind, values in kinds.items()
    ]
    served.client.runs.ship("exp_1", [journal_frame(header() + b"".join(records))])

    for head, body in frames(served, "/runs/exp_1/metrics/values"):
        kind = str(head["metric"])
        found = (
            json.loads(body) if kind == "json" else np.frombuffer(body, "u1" if kind == "b1" else f"<{kind}").tolist()
        )
        assert (head["type"], head["count"], found) == (kind, len(kinds[kind]), kinds[kind])


def test_slow_readers_hold_files_and_no_memory(served: Served) -> None:
    """Twelve answers of 4 MB each are under way; in this process, which is the server too, they cost a part of that."""
    served.submit()
    log_points(served, 500_000)
    with asked(served, "/runs/exp_1/metrics/values"):  # what is loaded once is loaded
        tracemalloc.start()
        try:
            slow = [asked(served, "/runs/exp_1/metrics/values") for _ in range(12)]
            for one in slow:
                one.__enter__()
            held, _peak = tracemalloc.get_traced_memory()
            for one in slow:
                one.__exit__(None, None, None)
        finally:
            tracemalloc.stop()

    assert held < 12 << 20
    assert list((served.services.settings.home / "server").glob("answer-*")) == []


def test_a_caller_holds_only_so_many_long_answers(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "HEAVY_POINTS", 1000)
    object.__setattr__(served.services, "long_answers", Shares(2, "long answers", most_in_all=3))
    served.submit()
    log_points(served, 1_000_000)
    run, target = served.as_run("exp_1"), "/runs/exp_1/metrics/values"

    with asked(served, target), asked(served, target):
        with pytest.raises(TooManyRequests, match="2 long answers are open already"):
            served.client.transport.request("GET", target)
        assert len(run.transport.request("GET", target).read()) > 8_000_000  # another caller has a share of its own
        assert run.runs.get("exp_1").id == "exp_1" and served.client.runs.get("exp_1").id == "exp_1"

    def is_free() -> bool:
        try:
            return len(served.client.transport.request("GET", target).read()) > 8_000_000
        except TooManyRequests:
            return False

    wait_for(is_free)


def test_a_long_json_answer_is_the_same_text(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.submit()
    for at in range(3):
        served.services.store.put_file("exp_1", RunFile(f"outputs/{at}", at))
    short = served.client.transport.request("GET", "/runs/exp_1/files").read()
    monkeypatch.setattr(answers, "PIECE", 100)

    answer = served.client.transport.request("GET", "/runs/exp_1/files")

    assert answer.read() == short and answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(short))


def test_an_error_while_an_answer_is_made_is_an_error_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.submit()
    served.client.runs.ship("exp_1", [journal_frame(header() + name(1, "m") + number(1, 0.5))])
    store = served.services.store

    def broken(*_: object, **__: object) -> object:
        raise StoreUnavailable("The database is away.")

    monkeypatch.setattr(store._store, "read_values", broken)  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable, match="The database is away"):
        served.client.transport.request("GET", "/runs/exp_1/metrics/values")
    monkeypatch.undo()
    with pytest.raises(NotFound):
        served.client.transport.request("GET", "/runs/exp_1/metrics/series", query={"name": "none"})


def test_a_disk_without_space_for_an_answer_is_said(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.submit()
    log_points(served, 100_000)

    def full(self: object, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile.write", full)
    with pytest.raises(StoreUnavailable, match="space that is left"):
        served.client.transport.request("GET", "/runs/exp_1/metrics/values")


def test_shares_are_each_callers_own() -> None:
    shares = Shares(1, "things")
    alice, again = UserPrincipal("alice", "user", 1), UserPrincipal("alice", "user", 2)
    with shares.take(alice), shares.take(UserPrincipal("bob", "user", 3)), shares.take(Owner()):
        with pytest.raises(TooManyRequests, match="1 things are open"), shares.take(again):
            pass
        with shares.take(RunPrincipal("exp_1", 1, "default")), pytest.raises(TooManyRequests):
            with shares.take(RunPrincipal("exp_1", 2, "default")):
                pass
    with shares.take(again):
        pass
