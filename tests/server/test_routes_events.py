"""The stream of an open page: it says which run changed, to whom may read it, for as long as that is so."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any
from urllib.parse import urlencode

import pytest

from runyard.client.client import Client
from runyard.core.errors import InvalidArgument, NotAllowed, StoreUnavailable, TooManyRequests
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.server import live
from runyard.server.access import credentials
from runyard.server.live import OF_LISTS, OF_RUNS
from runyard.server.routes import events
from runyard.store.base import RunStore
from tests.engine.bench import header, journal_frame, log_frame, name, number
from tests.server.conftest import TOKEN, Served
from tests.server.guarded import Guarded, serving
from tests.waiting import wait_for

READS = (
    "get_",
    "find_",
    "list_",
    "search_",
    "iter_",
    "read_",
    "is_",
    "summarize_",
    "group_",
    "count_",
    "chart",
    "close",
    "claim",
    "sum_",
)


class Stream:
    """An open stream, event by event. A read waits at most ten seconds."""

    def __init__(self, path: str, query: list[tuple[str, str]], token: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(10)
        self._sock.connect(path)
        head = (
            f"GET /api/v1/events?{urlencode(query)} HTTP/1.1\r\nHost: runyard\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        self._sock.sendall(head.encode())
        self.answer = http.client.HTTPResponse(self._sock)
        self.answer.begin()

    def next(self) -> tuple[str, Any]:
        """Return the next event's name and data; of a heartbeat the comment; at the end ("end", None)."""
        lines = []
        while (line := self.answer.readline()) not in (b"\n", b""):
            lines.append(line.decode().rstrip("\n"))
        if not lines:
            return "end", None
        if lines[0].startswith(":"):
            return "comment", lines[0]
        fields = dict(line.split(": ", 1) for line in lines)
        return fields["event"], json.loads(fields["data"])

    def until(self, *wanted: tuple[str, str]) -> set[tuple[str, str]]:
        """Read until all of these (run, what) were told; return all that was: other news may come between."""
        told: set[tuple[str, str]] = set()
        while not told.issuperset(wanted):
            kind, data = self.next()
            assert kind == "run", (kind, wanted)
            told |= {(data["run"], what) for what in data["what"]}
        return told

    def rest(self) -> bytes:
        """Return all bytes to the end of the connection."""
        assert self.answer.fp is not None
        return self.answer.fp.read()

    def close(self) -> None:
        self.answer.close()
        self._sock.close()


@contextmanager
def streaming(served: Served | Guarded, token: str = TOKEN, **query: Any) -> Iterator[Stream]:
    place = served.address.path if isinstance(served, Served) else str(served.unix.place)
    pairs = [(key, item) for key, value in query.items() for item in (value if isinstance(value, list) else [value])]
    stream = Stream(str(place), pairs, token)
    try:
        assert stream.answer.status == 200
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert stream.next()[0] == "hello"
        yield stream
    finally:
        stream.close()


def test_each_change_of_a_watched_run_is_told(served: Served) -> None:
    served.submit("exp_1")
    own = served.as_run("exp_1").runs
    with streaming(served, run="exp_1") as stream:
        own.state("exp_1", 1, RunStatus.RUNNING)
        stream.until(("exp_1", "status"))
        own.ship("exp_1", [journal_frame(header() + name(1, "loss") + number(1, 0.5))])
        assert ("exp_1", "tags") not in stream.until(("exp_1", "metrics"))
        own.ship("exp_1", [log_frame(b"hello\n")])
        stream.until(("exp_1", "log"), ("exp_1", "files"))
        served.client.runs.update("exp_1", tags_set={"a": "b"})
        stream.until(("exp_1", "tags"))
        served.services.store.put_file("exp_1", RunFile(name="outputs/a.txt", size=0, kind="file", chunks=[]))
        stream.until(("exp_1", "files"))


def test_other_runs_are_not_told_of(served: Served) -> None:
    served.submit("exp_1")
    served.submit("exp_2")
    with streaming(served, run=["exp_2"]) as stream:
        served.client.runs.update("exp_1", tags_set={"a": "b"})
        served.client.runs.update("exp_2", tags_set={"a": "b"})
        assert stream.next() == ("run", {"run": "exp_2", "what": ["tags"]})


def test_a_workspace_hears_of_new_changed_and_deleted_runs(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LIST_PAUSE_S", 0.0)
    told = ("runs", {"workspace": "default"})
    with streaming(served, workspace="default") as stream:
        served.submit("exp_1")
        assert stream.next() == told
        served.services.store.set_status("exp_1", RunStatus.CANCELED)
        assert stream.next() == told
        served.services.store.delete_run("exp_1")
        assert stream.next() == told
        served.client.experiments.update("default", "exp", archived=True)
        assert stream.next() == told


def test_another_workspace_and_logs_are_no_news_of_the_list(served: Served) -> None:
    served.client.workspaces.put("other")
    served.submit("exp_1")
    with streaming(served, workspace="other", run=["exp_1"]) as stream:
        served.client.runs.update("exp_1", tags_set={"a": "b"})
        assert stream.next()[0] == "run"
        served.services.news.tell("exp_1", "log")
        assert stream.next() == ("run", {"run": "exp_1", "what": ["log"]})


def test_many_changes_are_told_together(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the stream pauses, a thousand changes become one event."""
    served.submit("exp_1")
    monkeypatch.setattr(events, "PAUSE_S", 0.5)
    with streaming(served, run="exp_1", workspace="default") as stream:
        for at in range(1000):
            served.services.news.tell("exp_1", "metrics", *(["tags"] if at == 999 else []))
        told = [stream.next()]
        while "tags" not in (told[-1][1].get("what") or ()):
            told.append(stream.next())

    assert len(told) <= 4


def test_a_quiet_stream_beats(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.01)
    with streaming(served, workspace="default") as stream:
        assert stream.next() == ("comment", ": still here")


def test_hello_says_which_server_it_is(served: Served) -> None:
    stream = Stream(str(served.address.path), [("workspace", "default")], TOKEN)
    kind, said = stream.next()
    stream.close()
    info = served.client.server.info()

    assert kind == "hello"
    assert (said["server"], said["version"]) == (info.id, info.version)


@pytest.mark.parametrize("query", [{}, {"run": [f"r_{at}" for at in range(61)]}, {"workspace": "a/b"}])
def test_a_stream_of_nothing_or_too_much_is_refused(served: Served, query: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        ask(served.client, query)


def test_a_runs_token_hears_of_its_tree_only(served: Served) -> None:
    served.submit("exp_1")
    served.submit("exp_2")
    own = served.as_run("exp_1")
    token = served.backend.jobs_of("exp_1")[-1].token

    for query in ({"run": ["exp_1", "exp_2"]}, {"run": ["no_such"]}, {"workspace": "default"}):
        with pytest.raises(NotAllowed):
            ask(own, query)
    with streaming(served, token, run="exp_1") as stream:
        served.client.runs.update("exp_1", tags_set={"a": "b"})
        stream.until(("exp_1", "tags"))


def test_streams_are_so_many_and_closed_ones_make_room(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 1)
    with streaming(served, workspace="default"), pytest.raises(StoreUnavailable, match="1 pages are open"):
        ask(served.client, {"workspace": "default"})
    wait_for(lambda: not served.services.news.stream_count)
    with streaming(served, workspace="default"):
        assert served.services.news.stream_count == 1
        assert served.services.activity.idle_s() == 0.0  # an open page keeps the private server


def test_one_readers_streams_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_EACH", 3)
    monkeypatch.setattr(live, "MOST_STREAMS", 4)
    with serving() as server, ExitStack() as stack:
        tokens = {name: server.client().users.add(name, role="reader").token for name in ("rita", "bob", "ann")}
        rita = [stack.enter_context(streaming(server, tokens["rita"], workspace="default")) for _ in range(3)]
        with pytest.raises(TooManyRequests, match="3 pages are open already; 3 are the most"):
            ask(server.client(tokens["rita"]), {"workspace": "default"})
        stack.enter_context(streaming(server, tokens["bob"], workspace="default"))
        ann = stack.enter_context(streaming(server, tokens["ann"], workspace="default"))  # all places were taken

        while rita[0].next()[0] != "end":  # the oldest of who had most
            pass
        server.services.news.tell_list("default")
        assert ann.next()[0] == "runs"
        assert rita[2].next()[0] == "runs"


def test_a_revoked_token_ends_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "RECHECK_S", 0.02)
    monkeypatch.setattr(credentials, "CACHED_S", 0.0)
    with serving() as server:
        users = server.client().users
        token = users.add("ann").token
        with streaming(server, token, workspace="default") as stream:
            users.remove("ann")
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                while stream.next()[0] != "end":
                    pass
                raise ConnectionError("cut off")


def test_a_leaving_server_ends_streams_at_once() -> None:
    """Requests under way get five seconds; a stream would take all of them."""
    with serving() as server:
        token = server.client().address.token
        stream = Stream(str(server.unix.place), [("workspace", "default")], token)
        assert stream.next()[0] == "hello"
        server.services.news.close()
        assert stream.next() == ("end", None)
        stream.close()
        with pytest.raises(StoreUnavailable, match="leaving"):
            ask(server.client(), {"workspace": "default"})


def test_a_server_leaves_while_a_page_is_open() -> None:
    """The stream ends as it should, not by a cut after the patience for requests under way."""
    with serving() as server:
        stream = Stream(str(server.unix.place), [("workspace", "default")], server.client().address.token)
        assert stream.next()[0] == "hello"
        server.leave("the test")
        rest = stream.rest()
        stream.close()

    assert rest.endswith(b"0\r\n\r\n")


def test_every_method_of_a_store_that_changes_a_run_tells() -> None:
    """A method that is new must be put into the table, or be one that reads or changes what no page shows."""
    silent = {
        "add_token", "add_user", "add_user_token", "set_user_role", "remove_user", "remove_user_token", "set_value",
        "replace_user_tokens", "note_token_seen", "put_workspace", "delete_workspace", "put_asset", "update_asset",
        "edit_asset", "import_asset", "rename_assets", "delete_asset", "put_snapshot", "delete_snapshots", "add_chunks",
        "remove_chunks", "replace_pack", "purge_experiments",
    }  # fmt: skip
    changing = {
        method
        for method in dir(RunStore)
        if not method.startswith(("_", *READS)) and "self" in signature(getattr(RunStore, method)).parameters
    }

    telling = {*OF_RUNS, *OF_LISTS, "ingest", "import_runs"}
    assert changing - silent - telling == set()
    assert telling <= changing


def ask(client: Client, query: dict[str, Any]) -> None:
    pairs = [(key, item) for key, value in query.items() for item in (value if isinstance(value, list) else [value])]
    client.transport.request("GET", f"/events?{urlencode(pairs)}").read()
