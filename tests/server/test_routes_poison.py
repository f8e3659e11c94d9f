"""Odd requests: a clean refusal or a value that is read back, never a 500, and a server that starts again."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runyard.client.transport import Transport
from runyard.core.errors import RunyardError, SystemFailure
from runyard.core.formats.frames import join_frames
from runyard.core.names import make_uuid, true_file_name
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from tests.engine.bench import header, journal_frame, name, number
from tests.server.conftest import TOKEN, Served, serve
from tests.server.raw_http import unix_door
from tests.waiting import wait_for

GOOD: dict[str, Any] = {
    "key": "k",
    "id": "exp_2",
    "workspace": "default",
    "experiment": "exp",
    "spec": {"script": "a.py"},
}


def post(served: Served, path: str, body: bytes, kind: str = "application/json") -> tuple[int, dict[str, Any]]:
    """Send bytes as they are; return status and JSON of the answer."""
    try:
        answer = served.client.transport.request("POST", path, body=body, headers={"Content-Type": kind})
        return answer.status, answer.json()
    except RunyardError as error:
        return 400, {"error": error.to_plain()}


def create_body(**changes: Any) -> bytes:
    return json.dumps({"run": {**GOOD, **changes}}).encode()


POISON: dict[str, bytes] = {
    "NaN": b'{"run": {"key": NaN}}',
    "infinity by size": create_body(spec={"script": "a.py", "time_limit_s": 1}).replace(b": 1}", b": 1e400}"),
    "2^63 as text": create_body(display_name=2**63),
    "a key twice": b'{"run": {}, "run": {}}',
    "half a surrogate pair": create_body(display_name="\ud800"),
    "NUL": create_body(description="a\0b"),
    "NUL in a tag's key": create_body(tags={"a\0b": "c"}),
    "NUL in an argument": create_body(spec={"script": "a.py", "arguments": ["\0"]}),
    "bad UTF-8": create_body().replace(b"exp_2", b"\xff\xfe"),
    "deep": b"[" * 200_000,
    "deep object": b'{"a":' * 100_000,
    "a number of 10,000 digits": b'{"launch": ' + b"9" * 10_000 + b"}",
    "not JSON": b"run=1",
    "a list": b"[]",
    "empty": b"",
    "null run": b'{"run": null}',
    "id is a list": create_body(id=["a"]),
    "negative nodes": create_body(spec={"distribution": {"node_count": "many"}}),
}


@pytest.mark.parametrize("body", POISON.values(), ids=POISON.keys())
def test_a_poisoned_create_is_refused_in_our_words_and_stores_nothing(shared: Served, body: bytes) -> None:
    status, answer = post(shared, "/runs", body)

    assert status == 400 and answer["error"]["code"] in ("InvalidArgument", "SubmitRejected"), answer
    assert answer["error"]["what"] and len(json.dumps(answer)) < 2000
    assert [run.id for run in shared.services.store.list_unfinished()] == ["exp_1"]


STORED: dict[str, Any] = {
    "2^63 in the definition": {"spec": {"script": "a.py", "definition": {"n": 2**63}}},
    "emoji and bidi": {"display_name": "😀\u202eevil", "tags": {"\u202e": "</script>"}},
    "SQL": {"display_name": "'; DROP TABLE runs; --", "tags": {"a' OR 1=1": "%"}},
    "template text": {"description": "{{7*7}} {x.__class__} %s ${jndi}"},
    "long": {"description": "x" * 100_000},
}


@pytest.mark.parametrize("changes", STORED.values(), ids=STORED.keys())
def test_odd_but_storable_values_are_read_back_as_they_were(served: Served, changes: dict[str, Any]) -> None:
    status, _answer = post(served, "/runs", create_body(**changes))
    run = served.client.transport.request("GET", "/runs/exp_2").json()

    assert status == 201
    for key, value in changes.items():
        found = run[key] if key != "spec" else {name: run["spec"][name] for name in value}
        assert found == value


def test_a_supervisors_odd_text_is_made_printable_instead_of_refused(served: Served) -> None:
    served.submit()
    own = served.as_run("exp_1").runs
    error = {"code": "UserError", "message": "binary \x00 \ud800 log", "details": {"last_lines": ["\udcff"]}}
    own.state("exp_1", 1, RunStatus.FAILED, error=error)

    found = served.client.runs.get("exp_1").error
    assert found == {
        "code": "UserError", "message": "binary \ufffd \ufffd log", "details": {"last_lines": ["\ufffd"]},
    }  # fmt: skip


FRAMES: dict[str, bytes] = {
    "cut off": b"\x10\x00",
    "huge lengths": b"\xff" * 64,
    "head no JSON": b"\x02\x00\x00\x00\x00\x00\x00\x00{{",
    "head a list": b"\x02\x00\x00\x00\x00\x00\x00\x00[]",
    "deep head": (200_000).to_bytes(4, "little") + bytes(4) + b"[" * 200_000,
    "NaN offset": join_frames([({"kind": "log", "name": "a", "offset": float("nan")}, b"x")]),
    "bool offset": join_frames([({"kind": "log", "name": "a", "offset": True}, b"x")]),
}


@pytest.mark.parametrize("path", ["/runs/exp_1/ship", "/chunks", "/trees"])
@pytest.mark.parametrize("body", FRAMES.values(), ids=FRAMES.keys())
def test_bytes_that_are_no_frames_are_refused(shared: Served, path: str, body: bytes) -> None:
    status, answer = post(shared, path, body, "application/x-runyard-frames")

    assert status == 400 and answer["error"]["code"] in ("ProtocolError", "InvalidArgument"), answer


def test_the_server_starts_again_after_poison_and_the_queue_moves(session_folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="p", dir=session_folder) as folder:
        with serve(Path(folder)) as served:
            served.submit()
            own = served.as_run("exp_1").runs
            noise = b"".join((header(), name(1, "m"), number(1, float("nan")), number(7, 1.0), b"\x63" + bytes(31)))
            own.ship("exp_1", [journal_frame(noise)])
            for body in POISON.values():
                post(served, "/runs", body)
        with serve(Path(folder)) as served:
            assert served.client.runs.get("exp_1").status is RunStatus.QUEUED
            [info] = served.client.runs.metrics("exp_1")
            assert info.count == 1 and info.last != info.last
            assert served.submit("exp_2") == "exp_2"
            assert len(served.backend.jobs_of("exp_2")) == 1


def test_what_nobody_foresaw_is_answered_with_a_reference_and_nothing_else(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "hush-hush-canary"

    def broken(*args: object) -> None:
        raise RuntimeError(secret)

    served.submit()
    monkeypatch.setattr(served.services.store, "get_run", broken)
    with caplog.at_level(logging.ERROR), pytest.raises(SystemFailure) as caught:
        served.client.transport.request("GET", f"/runs/exp_1?x={secret}")

    said = str(caught.value)
    reference = caught.value.why.rpartition(" ")[2].rstrip(".")
    assert secret not in said and "Traceback" not in said and str(served.services.settings.home) not in said
    assert reference in caplog.text and "RuntimeError" in caplog.text and TOKEN not in caplog.text


def test_a_client_that_leaves_amid_its_body_is_no_error(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    activity = served.services.activity
    head = f"POST /api/v1/runs HTTP/1.1\r\nHost: runyard\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n"
    with unix_door(served.address.path).connect() as connection:
        connection.sendall(f'{head}Content-Type: application/json\r\n\r\n{{"run": '.encode())
        wait_for(lambda: activity.open_count == 1)
    wait_for(lambda: activity.open_count == 0)

    assert caplog.text == ""


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("DELETE", "/runs/exp_1/files", 405)])
def test_addresses_that_are_not_there_are_answered_in_our_shape(
    served: Served, method: str, path: str, status: int
) -> None:
    with pytest.raises(RunyardError) as caught:
        served.client.transport.request(method, path)

    assert "openapi.json" in caught.value.hint and caught.value.code in ("NotFound", "InvalidArgument")


BAD_NAMES = [
    "..", "../x", "a/../../x", "/etc/passwd", "//etc/passwd", "a//b", "./../x", "a/./b", "C:/x", "a\x00b", "a/", "",
    "x" * 2000, "\ud800", "\uf02e\uf02e/x", "a/\uf02e",
]  # fmt: skip
ODD_NAMES = [
    "..\\x", "a\\..\\b", "a\nb", "\x1b]0;owned\x07", "a\r\nSet-Cookie: x=y", "%2e%2e/x", "%2e%2e%2fx", "..%2fx",
    "%252e%252e%252fx", "%5c..%5c", "a%00b", "..%c0%afx", " a", "a ", "a.", "%u002e%u002e/x", "caf\uf0e9", "a;b", "a?b",
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_NAMES, ids=[ascii(bad)[:40] for bad in BAD_NAMES])
def test_names_that_leave_their_root_are_refused_everywhere(shared: Served, bad: str) -> None:
    body = json.dumps({"file": {"name": bad, "size": 0, "chunks": []}}).encode()
    status, answer = post(shared, "/runs/exp_1/files", body)

    assert status == 400 and answer["error"]["code"] == "InvalidArgument", answer
    assert shared.services.store.list_files("exp_1") == []


@pytest.mark.parametrize("odd", ODD_NAMES, ids=[ascii(odd)[:40] for odd in ODD_NAMES])
def test_an_odd_name_is_one_file_in_every_answer(shared: Served, tmp_path: Path, odd: str) -> None:
    """Named, listed, read, downloaded, fetched and packed under one safe form; on a disk it has its bytes again."""
    shared.submit(run_id := f"odd_{make_uuid()[:8]}")
    chunk = hashlib.sha256(odd.encode()).hexdigest()
    shared.client.content.put([(chunk, odd.encode())])
    name = f"outputs/{odd}"
    shared.client.runs.put_file(run_id, RunFile(name=name, size=len(odd.encode()), sha256=chunk, chunks=[chunk]))

    [listed] = shared.client.runs.files(run_id)
    shared.client.runs.download(run_id, name, tmp_path / "out")
    answer = shared.client.transport.request("GET", f"/runs/{run_id}/files/{quote(listed.name)}")
    packed = shared.client.transport.request("GET", f"/runs/{run_id}/zip", query={"folder": "outputs"}).read()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        [inside] = archive.namelist()

    assert true_file_name(listed.name) == true_file_name(name)
    assert (tmp_path / "out").read_bytes() == odd.encode() == next(shared.client.runs.fetch_files(run_id, [listed]))
    assert answer.read() == odd.encode()
    for shown in (listed.name, inside, answer.headers["content-disposition"]):
        assert not re.search(r"[\x00-\x1f\x7f\\]|(^|/)\s|[\s.](/|\Z)|(^|/)\.\.(/|\Z)", shown), shown


def test_two_spellings_of_one_name_are_one_file(served: Served) -> None:
    served.submit()
    for spelling in ("outputs/ä", "outputs/a\u0308", "./outputs/ä"):
        body = json.dumps({"file": {"name": spelling, "size": 0, "chunks": []}}).encode()
        assert post(served, "/runs/exp_1/files", body)[0] == 201

    assert [file.name for file in served.client.runs.files("exp_1")] == ["outputs/ä"]


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(served: Served) -> None:
    transport = Transport(served.address)
    try:
        with pytest.raises(RunyardError, match=r"too large|more than"):
            transport.request("POST", "/runs", body=b" " * (40 << 20), headers={"Content-Type": "application/json"})
    finally:
        transport.close()
