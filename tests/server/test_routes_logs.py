"""Logs by lines over HTTP: windows, growth, search that goes on, the first error, what is refused."""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import urlencode

import pytest

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.statuses import RunStatus
from runyard.server.routes.files import MAX_WAIT_S
from tests.engine.bench import log_frame
from tests.server.conftest import Served
from tests.server.test_routes_files import LOG, upload

RANK_1 = "user_logs/std_log_process_01.txt"


def ask(served: Served, what: str, **query: Any) -> dict[str, Any]:
    answer = served.client.transport.request("GET", f"/runs/exp_1/log/{what}?{urlencode(query)}")
    found = json.loads(answer.read())
    assert isinstance(found, dict)
    return found


def test_lines_of_a_log_that_grows_and_ends(served: Served) -> None:
    served.submit()
    own = served.as_run("exp_1").runs
    own.ship("exp_1", [log_frame(b"one\r\ntwo\nthr")])

    first = ask(served, "lines", file=LOG)
    waited: list[dict[str, Any]] = []

    def wait() -> None:
        waited.append(ask(served, "lines", file=LOG, first=3, beyond=first["size"], wait_s=MAX_WAIT_S))
        served.client.transport.close()

    reader = threading.Thread(target=wait)
    reader.start()
    own.ship("exp_1", [log_frame(b"ee\nfour\n", 12)])
    reader.join()
    own.state("exp_1", 1, RunStatus.COMPLETED, logs={LOG: 20})
    last = ask(served, "lines", first=-1, count=1, beyond=20, wait_s=MAX_WAIT_S)

    assert (first["first"], first["total"], first["lines"]) == (1, 3, ["one", "two", "thr"])
    assert (first["size"], first["complete"], first["ended"], first["cut"]) == (12, False, False, [])
    assert (waited[0]["lines"], waited[0]["total"], waited[0]["ended"]) == (["three", "four"], 4, True)
    assert (last["file"], last["first"], last["lines"], last["complete"]) == (LOG, 4, ["four"], True)
    assert first["id"] == last["id"]


def test_a_long_line_is_cut_and_whole_on_demand(shared: Served) -> None:
    upload(shared, b"x" * 9000 + b"\nb\n", "outputs/long.txt")

    cut = ask(shared, "lines", file="outputs/long.txt", first=1)
    whole = ask(shared, "lines", file="outputs/long.txt", first=1, count=1, whole=True)

    assert cut["lines"] == ["x" * 4000, "b"] and cut["cut"] == [0]
    assert whole["lines"] == ["x" * 9000] and whole["cut"] == []


def test_a_stored_file_of_several_chunks_has_lines_too(shared: Served) -> None:
    data = b"".join(b"line %d\n" % number for number in range(1, 720_001))
    assert len(data) > 2 * (4 << 20)
    upload(shared, data, "outputs/big.txt")

    middle = ask(shared, "lines", file="outputs/big.txt", first=654_321, count=2)
    hits = ask(shared, "search", file="outputs/big.txt", text="LINE 699999", after=600_000)

    assert (middle["lines"], middle["total"]) == (["line 654321", "line 654322"], 720_000)
    assert (hits["lines"], hits["excerpts"], hits["done"]) == ([699_999], ["line 699999"], True)


def test_a_search_goes_on_where_the_answer_says(shared: Served) -> None:
    upload(shared, b"a\nhit\nhit\nb\nhit\n", "outputs/hits.txt")
    query: dict[str, Any] = {"file": "outputs/hits.txt", "text": "Hit", "limit": 2}

    first = ask(shared, "search", **query)
    second = ask(shared, "search", **query, after=first["searched_to"], offset=first["offset"])
    by_line = ask(shared, "search", **query, after=first["searched_to"])

    assert (first["lines"], first["searched_to"], first["done"]) == ([2, 3], 3, False)
    assert (second["lines"], second["searched_to"], second["offset"], second["done"]) == ([5], 5, 16, True)
    assert by_line == second
    assert ask(shared, "search", **query, case=True)["lines"] == []
    assert ask(shared, "search", **query, after=99)["done"]


REFUSED = {
    "a regular expression": ("search", {"file": LOG, "text": "(a+)+$", "regex": "true"}, "plain text"),
    "no text": ("search", {"file": LOG, "text": ""}, "text"),
    "a long text": ("search", {"file": LOG, "text": "x" * 501}, "text"),
    "too many hits": ("search", {"file": LOG, "text": "x", "limit": 5001}, "limit"),
    "too many lines": ("lines", {"file": LOG, "count": 2001}, "count"),
    "less than no lines": ("lines", {"file": LOG, "count": -1}, "count"),
    "a path out": ("lines", {"file": "../../server/token"}, "cannot be used"),
}


@pytest.mark.parametrize(("what", "query", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(shared: Served, what: str, query: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        ask(shared, what, **query)


@pytest.mark.parametrize("what", ["lines", "search", "first-error"])
def test_a_file_that_is_not_there(shared: Served, what: str) -> None:
    with pytest.raises(NotFound, match=r"no file 'user_logs/none.txt'"):
        ask(shared, what, file="user_logs/none.txt", text="x")


def test_the_log_of_the_rank_that_failed_is_looked_at_first(served: Served) -> None:
    served.submit()
    with pytest.raises(NotFound, match="no log yet"):
        ask(served, "lines")
    own = served.as_run("exp_1").runs
    own.ship("exp_1", [log_frame(b"fine\n", name=LOG), log_frame(b"x\nValueError: no\nKeyError: 1\n", name=RANK_1)])
    assert ask(served, "lines")["file"] == LOG
    before = ask(served, "first-error", file=RANK_1)

    details = {"log": RANK_1, "evidence": [{"file": RANK_1, "line": 3, "text": "KeyError: 1"}]}
    error = {"code": "UserError", "message": "User program failed", "details": details}
    own.state("exp_1", 1, RunStatus.FAILED, error=error, logs={LOG: 5, RANK_1: 29})
    shown = ask(served, "first-error")
    following = ask(served, "first-error", file=RANK_1, after=2)

    assert (before["line"], before["text"], before["kind"], before["done"]) == (2, "ValueError: no", "exception", True)
    assert (shown["file"], shown["line"], shown["kind"], shown["text"]) == (RANK_1, 3, "diagnosis", "KeyError: 1")
    assert (following["line"], following["kind"]) == (3, "exception")
    none = ask(served, "first-error", file=LOG)
    assert (none["line"], none["done"], none["searched_to"]) == (None, True, 1)
