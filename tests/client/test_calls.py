"""Each call sends its route and reads its answer."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.client.decoding import AddedWriter
from runyard.client.transport import Transport
from runyard.core.errors import NotFound, ProtocolError
from runyard.core.formats.frames import iter_frames, join_frames
from runyard.core.formats.plain import to_plain
from runyard.core.records import Experiment, Mark, MetricInfo, NewRun, Run, RunFile, Workspace
from runyard.core.statuses import RunStatus
from tests.client.standin import Peer, always, standin

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
RUN = Run(
    id="r_1",
    number=1,
    workspace="w",
    experiment="e",
    experiment_id="x",
    status=RunStatus.RUNNING,
    created_at=NOW,
    tags={"k": None},
)
WORKSPACE = Workspace(id="1", name="w", created_at=NOW)
EXPERIMENT = Experiment(id="2", name="e", workspace="w", created_at=NOW, archived_at=NOW)
FILE = RunFile("outputs/m", 3, sha256="0" * 64)


def exchange(call: Callable[[Client], Any], answer: Any, headers: str = "") -> tuple[Any, str, bytes]:
    """Return (what the call returned, request line less its ends, request body)."""
    seen = []

    def handle(peer: Peer) -> None:
        seen.append(peer.read_request())
        peer.answer(answer, headers=headers)

    with standin(handle) as server:
        result = call(Client(Transport(server.address)))
    line, _, body = seen[0]
    return result, line.replace(" /api/v1", " ").removesuffix(" HTTP/1.1"), body


CALLS: list[tuple[Callable[[Client], Any], Any, Any, str, Any]] = [
    (lambda c: c.workspaces.list(), [WORKSPACE], [WORKSPACE], "GET /workspaces", None),
    (lambda c: c.workspaces.get("w/../x"), WORKSPACE, WORKSPACE, "GET /workspaces/w%2F..%2Fx", None),
    (
        lambda c: c.workspaces.put("w", location="here", tags={"a": "b"}),
        WORKSPACE,
        WORKSPACE,
        "PUT /workspaces/w",
        {"subscription_id": "", "resource_group": "", "location": "here", "tags": {"a": "b"}},
    ),
    (
        lambda c: c.experiments.list("w", view="All", name="e"),
        [EXPERIMENT],
        [EXPERIMENT],
        "GET /workspaces/w/experiments?view=All&name=e",
        None,
    ),
    (lambda c: c.experiments.get("w", "e"), EXPERIMENT, EXPERIMENT, "GET /workspaces/w/experiments/e", None),
    (lambda c: c.experiments.put("w", "e"), EXPERIMENT, EXPERIMENT, "PUT /workspaces/w/experiments/e", None),
    (
        lambda c: c.experiments.update("w", "e", archived=True, tags_set={"a": None}, tags_remove=["b"]),
        EXPERIMENT,
        EXPERIMENT,
        "PATCH /workspaces/w/experiments/e",
        {"archived": True, "tags_set": {"a": None}, "tags_remove": ["b"]},
    ),
    (lambda c: c.runs.get("r_1"), RUN, RUN, "GET /runs/r_1", None),
    (lambda c: c.runs.cancel("r_1"), RUN, RUN, "POST /runs/r_1/cancel", None),
    (
        lambda c: c.runs.fail("r_1", code="C", message="m"),
        RUN,
        RUN,
        "POST /runs/r_1/fail",
        {"error": {"code": "C", "message": "m"}},
    ),
    (
        lambda c: c.runs.update("r_1", tags_set={"a": "1"}, display_name=""),
        RUN,
        RUN,
        "PATCH /runs/r_1",
        {"tags_set": {"a": "1"}, "display_name": ""},
    ),
    (
        lambda c: c.runs.list("w", status=["Running", "Failed"], tag="a=b", descending=False, cursor=None).runs,
        {"runs": [RUN], "next": None},
        [RUN],
        "GET /workspaces/w/runs?status=Running&status=Failed&tag=a%3Db&descending=false",
        None,
    ),
    (
        lambda c: c.runs.metrics("r_1", name="a b"),
        [MetricInfo("a b", "scalar", [""], [0], 1)],
        [MetricInfo("a b", "scalar", [""], [0], 1)],
        "GET /runs/r_1/metrics?name=a%20b",
        None,
    ),
    (lambda c: c.runs.files("r_1"), [FILE], [FILE], "GET /runs/r_1/files", None),
    (
        lambda c: c.runs.put_file("r_1", FILE, attempt=2, replace=False),
        FILE,
        FILE,
        "POST /runs/r_1/files",
        {"file": to_plain(FILE), "attempt": 2, "replace": False},
    ),
    (
        lambda c: c.runs.heartbeat("r_1", 3).status,
        {"desired": "cancel", "status": "Running", "attempt": 3},
        RunStatus.RUNNING,
        "POST /runs/r_1/heartbeat",
        {"attempt": 3},
    ),
    (
        lambda c: c.runs.state("r_1", 3, RunStatus.FAILED, error={"code": "x"}, marks=[Mark("w", 0, 9)]).desired,
        {"desired": None, "status": "Failed"},
        None,
        "POST /runs/r_1/state",
        {
            "attempt": 3,
            "status": "Failed",
            "error": {"code": "x"},
            "marks": [{"writer": "w", "segment": 0, "offset": 9}],
        },
    ),
    (
        lambda c: c.runs.add_writer("r_1", pid=7, start_ticks=9),
        {"token": "t", "folder": "/f", "attempt": 1 << 20},
        AddedWriter("t", "/f", 1 << 20),
        "POST /runs/r_1/writers",
        {"pid": 7, "start_ticks": 9},
    ),
    (lambda c: c.server.stop(), {}, None, "POST /server/stop", None),
    (lambda c: c.server.signin_path("/x"), {"path": "/signin/a"}, "/signin/a", "POST /signin-codes", {"next": "/x"}),
]


@pytest.mark.parametrize(("call", "answer", "result", "line", "body"), CALLS, ids=[case[3] for case in CALLS])
def test_a_call_sends_its_route_and_returns_records(
    call: Callable[[Client], Any], answer: Any, result: Any, line: str, body: Any
) -> None:
    found, sent_line, sent_body = exchange(call, to_plain(answer))

    assert found == result
    assert sent_line == line
    assert (json.loads(sent_body) if sent_body else None) == body


def test_create_sends_the_submitters_variables_and_returns_token_and_folder() -> None:
    new = NewRun(key="k", id="r_1", workspace="w", experiment="e")
    created, line, body = exchange(
        lambda c: c.runs.create(new, submitter={"A": "1"}, launch=False, interactive={"pid": 1, "start_ticks": 2}),
        {"run": to_plain(RUN), "token": "t", "folder": "/f"},
    )

    assert (created.run, created.token, created.folder) == (RUN, "t", "/f")
    assert line == "POST /runs"
    assert json.loads(body) == {
        "run": {name: value for name, value in to_plain(new).items() if name != "owner"},
        "launch": False,
        "submitter": {"A": "1"},
        "interactive": {"pid": 1, "start_ticks": 2},
    }
    assert "'t'" not in repr(created)
    assert "'t'" not in repr(AddedWriter("t", "/f", 1))


def test_iter_goes_from_page_to_page() -> None:
    lines = []

    def handle(peer: Peer) -> None:
        for following in ("c1", "c2", None):
            lines.append(peer.read_request()[0])
            peer.answer({"runs": [to_plain(RUN)], "next": following})

    with standin(handle) as server:
        client = Client(Transport(server.address))
        count = len(list(client.runs.iter("w", limit=1)))
        client.transport.close()

    assert count == 3
    assert [line.split(" ")[1].partition("?")[2] for line in lines] == [
        "limit=1",
        "limit=1&cursor=c1",
        "limit=1&cursor=c2",
    ]


def test_ship_sends_frames_and_returns_marks() -> None:
    answer, line, body = exchange(
        lambda c: c.runs.ship(
            "r_1", [({"kind": "log", "name": "a", "offset": 0}, b"text"), ({"kind": "journal"}, b"")]
        ),
        {"marks": [{"writer": "w", "segment": 1, "offset": 8}], "logs": {"a": 4}, "desired": "cancel", "attempt": 2},
    )

    assert answer.marks == [Mark("w", 1, 8)]
    assert (answer.logs, answer.desired, answer.attempt) == ({"a": 4}, "cancel", 2)
    assert line == "POST /runs/r_1/ship"
    assert [(head["kind"], bytes(data)) for head, data in iter_frames(body)] == [("log", b"text"), ("journal", b"")]


def test_metric_values_are_columns_of_their_type() -> None:
    def head(metric: str, kind: str, count: int, **more: Any) -> dict[str, Any]:
        return {"metric": metric, "kind": "scalar", "column": "", "rank": 0, "type": kind, "count": count, **more}

    frames = join_frames(
        [
            (head("loss", "f8", 2), struct.pack("<2d", 0.5, -1.0)),
            (head("n", "i8", 2), struct.pack("<2q", 1, -(2**62))),
            (head("ok", "b1", 2), b"\x01\x00"),
            (head("text", "json", 2), b'["a", null]'),
            (head("pic", "json", 0, file="outputs/p.png"), b"[]"),
        ]
    )
    found, line, _ = exchange(lambda c: c.runs.metric_values("r_1", "a/b", 1), frames)

    assert line == "GET /runs/r_1/metrics/values?name=a%2Fb&rank=1"
    assert {series.metric: series.to_list() for series in found} == {
        "loss": [0.5, -1.0],
        "n": [1, -(2**62)],
        "ok": [True, False],
        "text": ["a", None],
        "pic": [],
    }
    assert found[4].file == "outputs/p.png"
    assert found[0].values.nbytes == 16  # a view of the answer, not a copy


def test_series_and_charts_are_columns() -> None:
    column = struct.pack("<2q", 3, 4)
    frames = join_frames(
        [({"column": name, "type": "i8", "count": 2}, column) for name in ("steps", "times", "values")]
    )
    series, _, _ = exchange(lambda c: c.runs.metric_series("r_1", "m"), frames)
    chart, line, _ = exchange(lambda c: c.runs.chart("r_1", "m", width=9, first=1), frames)

    assert list(series.steps) == [3, 4]
    assert chart == {"steps": [3, 4], "times": [3, 4], "values": [3, 4]}
    assert line == "GET /runs/r_1/metrics/chart?name=m&column=&width=9&first=1"


@pytest.mark.parametrize(
    "frames",
    [
        b"\x01",
        join_frames([({"metric": "m", "kind": "scalar", "type": "f8", "count": 2}, b"12345678")]),
        join_frames([({"metric": "m", "kind": "scalar", "type": "f8", "count": 1}, b"1234567")]),
        join_frames([({"metric": "m", "kind": "scalar", "type": "pickle", "count": 1}, b"12345678")]),
        join_frames([({"metric": "m", "kind": "scalar", "type": "json", "count": 1}, b"{}")]),
        join_frames([({"type": "json", "count": 0}, b"[]")]),
    ],
    ids=["cut", "short", "odd", "type", "json", "head"],
)
def test_damaged_columns_are_a_protocol_error(frames: bytes) -> None:
    with pytest.raises(ProtocolError):
        exchange(lambda c: c.runs.metric_values("r_1"), frames)


@pytest.mark.parametrize("answer", [[], {}, "x", None, {"id": 5}, {"runs": 3}, [1]], ids=repr)
def test_an_answer_of_another_shape_is_a_protocol_error(answer: Any) -> None:
    with pytest.raises(ProtocolError):
        exchange(lambda c: c.runs.get("r_1"), answer)
    with pytest.raises(ProtocolError):
        exchange(lambda c: c.workspaces.list(), {"not": "a list"} if answer == [] else answer)


def test_unknown_fields_of_a_newer_server_are_dropped() -> None:
    plain = {**to_plain(RUN), "invented_later": 1}

    assert exchange(lambda c: c.runs.get("r_1"), plain)[0] == RUN


@pytest.mark.parametrize(
    ("known", "delete", "expected"),
    [
        (RUN, lambda c: c.runs.delete("r_1").deleted, ["r_1"]),
        (RUN, lambda c: c.runs.delete("r_1", now=True).deleted, ["r_1"]),
        (EXPERIMENT, lambda c: c.experiments.delete("w", "e").deleted, []),
        (WORKSPACE, lambda c: c.workspaces.delete("w"), []),
    ],
    ids=["run", "for good", "experiment", "workspace"],
)
def test_a_delete_whose_answer_was_lost_is_repeated_and_done(
    known: Any, delete: Callable[[Client], Any], expected: list[str]
) -> None:
    gone = {"error": {"code": "NotFound", "what": "There is none.", "why": "", "hint": ""}}
    asked = []

    def lose_the_answer(peer: Peer) -> None:
        asked.append(peer.read_request()[0].split()[0])
        peer.answer(to_plain(known))
        asked.append(peer.read_request()[0].split()[0])

    with standin(lose_the_answer, always(gone, status="404 Not Found")) as server:
        assert delete(Client(Transport(server.address))) == expected
    assert asked == ["GET", "DELETE"]
    with standin(always(gone, status="404 Not Found")) as server, pytest.raises(NotFound):
        delete(Client(Transport(server.address)))
