"""Files over HTTP: named, listed, downloaded, followed; content by its hash."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runyard.core.errors import Conflict, InvalidArgument, MissingContent, NotAllowed, NotFound, TooLarge
from runyard.core.formats.tree import FileEntry, encode_tree, tree_id
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.server.routes.files import MAX_WAIT_S
from tests.engine.bench import log_frame
from tests.server.conftest import Served

LOG = "user_logs/std_log.txt"


def upload(served: Served, data: bytes, name: str = "outputs/model.pkl", run_id: str = "exp_1") -> RunFile:
    chunks = [data[at : at + (4 << 20)] for at in range(0, len(data), 4 << 20)]
    ids = [hashlib.sha256(chunk).hexdigest() for chunk in chunks]
    served.client.content.put(zip(ids, chunks))
    file = RunFile(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest(), chunks=ids)
    return served.client.runs.put_file(run_id, file)


def get(served: Served, name: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    answer = served.client.transport.request("GET", f"/runs/exp_1/files/{quote(name)}", headers=headers)
    return answer.status, dict(answer.headers), answer.read()


def test_an_uploaded_file_is_listed_without_chunks_and_downloaded_whole(served: Served, tmp_path: Path) -> None:
    served.submit()
    data = bytes(range(256)) * 40_000  # three chunks
    upload(served, data)

    [listed] = served.client.runs.files("exp_1")
    served.client.runs.download("exp_1", "outputs/model.pkl", tmp_path / "out")

    assert (listed.name, listed.size, listed.chunks, listed.complete) == ("outputs/model.pkl", len(data), [], True)
    assert (tmp_path / "out").read_bytes() == data


def test_a_download_cannot_be_shown_or_run_by_a_browser(served: Served) -> None:
    served.submit()
    upload(served, b"<script>alert(1)</script>", 'outputs/a";b\u00e4.html')

    status, headers, body = get(served, 'outputs/a";b\u00e4.html')

    assert status == 200 and body == b"<script>alert(1)</script>"
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''a%22%3Bb%C3%A4.html"
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff" and headers["content-security-policy"].startswith("sandbox")
    assert headers["x-runyard-size"] == "25" and headers["x-runyard-complete"] == "1"


RANGES = {
    "first bytes": ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
    "open end": ("bytes=7-", 206, b"789", "bytes 7-9/10"),
    "last bytes": ("bytes=-2", 206, b"89", "bytes 8-9/10"),
    "beyond the end": ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
    "all of a short file": ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
    "several": ("bytes=0-1,4-5", 200, b"0123456789", None),
    "no range": ("lines=1-2", 200, b"0123456789", None),
}


@pytest.mark.parametrize("kind", ["blob", "stream"])
@pytest.mark.parametrize(("asked", "status", "body", "said"), RANGES.values(), ids=RANGES.keys())
def test_ranges(shared: Served, kind: str, asked: str, status: int, body: bytes, said: str | None) -> None:
    name = ten_bytes(shared, kind)

    found, headers, data = get(shared, name, Range=asked)

    assert (found, data, headers.get("content-range")) == (status, body, said)


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=5-2", "bytes=-0"])
def test_a_range_without_bytes_is_not_satisfiable(shared: Served, asked: str) -> None:
    name = ten_bytes(shared, "blob")

    with pytest.raises(Exception, match="416"):
        get(shared, name, Range=asked)


def ten_bytes(served: Served, kind: str) -> str:
    if kind == "blob":
        return upload(served, b"0123456789", "outputs/ten").name
    served.as_run("exp_1").runs.ship("exp_1", [log_frame(b"0123456789")])
    return LOG


def test_parts_of_a_file_by_offset_and_limit(served: Served) -> None:
    served.submit()
    upload(served, b"0123456789", LOG)

    assert served.client.runs.read_file("exp_1", LOG, 3, 4).data == b"3456"
    assert served.client.runs.read_file("exp_1", LOG, 99).data == b""
    with pytest.raises(InvalidArgument):
        served.client.runs.read_file("exp_1", LOG, -1)


def test_a_reader_of_a_log_is_woken_when_it_grows_and_when_the_run_ends(served: Served) -> None:
    served.submit()
    own = served.as_run("exp_1").runs
    own.ship("exp_1", [log_frame(b"one\n")])
    assert served.client.runs.read_file("exp_1", LOG, 0, wait_s=5).data == b"one\n"

    def later() -> None:
        time.sleep(0.2)  # the reader is asleep by then; should it not be, the test still holds
        own.ship("exp_1", [log_frame(b"two\n", 4)])
        own.state("exp_1", 1, RunStatus.COMPLETED, logs={LOG: 8})
        served.others[0].transport.close()

    writer = threading.Thread(target=later)
    writer.start()
    began = time.monotonic()
    second = served.client.runs.read_file("exp_1", LOG, 4, wait_s=MAX_WAIT_S)
    third = served.client.runs.read_file("exp_1", LOG, 8, wait_s=MAX_WAIT_S)
    took = time.monotonic() - began
    writer.join()

    assert second.data == b"two\n" and third.data == b"" and third.complete and third.size == 8
    assert took < MAX_WAIT_S  # woken, instead of having waited to the end


def test_forty_sleeping_readers_do_not_hold_up_other_requests(served: Served) -> None:
    served.submit()
    own = served.as_run("exp_1").runs
    own.ship("exp_1", [log_frame(b"x")])
    found: list[bytes] = []

    def read() -> None:
        found.append(served.client.runs.read_file("exp_1", LOG, 1, wait_s=20).data)
        served.client.transport.close()

    readers = [threading.Thread(target=read) for _ in range(60)]
    for reader in readers:
        reader.start()
    assert served.client.runs.get("exp_1").id == "exp_1"
    assert found == []  # answered while all of them sleep
    own.ship("exp_1", [log_frame(b"y", 1)])
    for reader in readers:
        reader.join()

    assert found == [b"y"] * 60


def test_a_wait_ends_without_growth(served: Served) -> None:
    served.submit()
    served.as_run("exp_1").runs.ship("exp_1", [log_frame(b"x")])

    part = served.client.runs.read_file("exp_1", LOG, 1, wait_s=0.1)

    assert part.data == b"" and not part.complete and part.size == 1


def test_a_file_needs_its_content_and_its_true_size(served: Served) -> None:
    served.submit()
    with pytest.raises(MissingContent) as caught:
        served.client.runs.put_file("exp_1", RunFile(name="a", size=1, chunks=["0" * 64]))
    assert caught.value.details["missing"] == ["0" * 64]

    stored = upload(served, b"abc", "a")
    with pytest.raises(InvalidArgument, match="3"):
        served.client.runs.put_file("exp_1", RunFile(name="b", size=4, chunks=[hashlib.sha256(b"abc").hexdigest()]))
    assert stored.size == 3 and upload(served, b"", "empty").size == 0


def test_a_name_is_replaced_or_kept_as_asked(served: Served) -> None:
    served.submit()
    upload(served, b"one", "a")
    upload(served, b"two", "a")
    assert served.client.runs.read_file("exp_1", "a").data == b"two"

    chunk = hashlib.sha256(b"one").hexdigest()
    with pytest.raises(Conflict):
        served.client.runs.put_file("exp_1", RunFile(name="a", size=3, chunks=[chunk]), replace=False)


def test_an_old_attempts_file_is_refused(served: Served) -> None:
    served.submit()

    with pytest.raises(Conflict, match="attempt 1"):
        served.client.runs.put_file("exp_1", RunFile(name="a", size=0), attempt=2)


def named(data: bytes, name: str) -> RunFile:
    digest = hashlib.sha256(data).hexdigest()
    return RunFile(name=name, size=len(data), sha256=digest, chunks=[digest] if data else [])


def test_many_files_are_named_at_once_and_each_refusal_is_its_own(served: Served) -> None:
    served.submit()
    own = served.as_run("exp_1")
    data = [b"one", b"two"]
    own.content.put([(hashlib.sha256(item).hexdigest(), item) for item in data])
    files = [
        named(b"one", "outputs/a"),
        named(b"two", "../out"),
        named(b"three", "outputs/missing"),
        named(b"two", "outputs/b"),
        RunFile(name="outputs/long", size=4, chunks=[hashlib.sha256(b"one").hexdigest()]),
        RunFile(name="outputs/odd", size=1, chunks=["nothing"]),
        RunFile(name="outputs/empty", size=0),
    ]

    refused = own.runs.put_files("exp_1", files, attempt=1)

    assert [type(error) for error in refused] == [
        type(None),
        InvalidArgument,
        MissingContent,
        type(None),
        InvalidArgument,
        InvalidArgument,
        type(None),
    ]
    assert refused[2] is not None and refused[2].details["missing"] == [hashlib.sha256(b"three").hexdigest()]
    assert [file.name for file in served.client.runs.files("exp_1")] == ["outputs/a", "outputs/b", "outputs/empty"]
    assert own.runs.put_files("exp_1", files, attempt=1)[0] is None  # once more changes nothing
    assert list(own.runs.fetch_files("exp_1", [files[3], files[0], files[6]])) == [b"two", b"one", b""]


def test_a_batch_of_files_keeps_what_it_must_not_replace(served: Served) -> None:
    served.submit()
    upload(served, b"one", "a")
    upload(served, b"two", "b")

    refused = served.client.runs.put_files("exp_1", [named(b"two", "a"), named(b"two", "c")], replace=False)

    assert isinstance(refused[0], Conflict) and refused[1] is None
    assert served.client.runs.read_file("exp_1", "a").data == b"one"
    assert served.client.runs.read_file("exp_1", "c").data == b"two"


def test_a_batch_of_files_is_bounded_and_needs_the_runs_own_token(served: Served) -> None:
    served.submit()
    served.submit("exp_2")
    calls = served.client.runs
    with pytest.raises(InvalidArgument, match="1000"):
        calls.put_files("exp_1", [RunFile(name=str(at), size=0) for at in range(1001)])
    with pytest.raises(Conflict, match="attempt 1"):
        calls.put_files("exp_1", [RunFile(name="a", size=0)], attempt=2)
    for other in (
        lambda: served.as_run("exp_2").runs.put_files("exp_1", [RunFile(name="a", size=0)]),
        lambda: list(served.as_run("exp_2").runs.fetch_files("exp_1", [RunFile(name="a", size=0)])),
    ):
        with pytest.raises((NotAllowed, NotFound)):
            other()
    with pytest.raises(NotFound, match="none"):
        list(calls.fetch_files("exp_1", [RunFile(name="none", size=0)]))
    assert calls.files("exp_1") == []


def test_too_much_is_not_fetched_at_once(served: Served) -> None:
    served.submit()
    data = b"x" * (4 << 20)
    upload(served, data, "a")
    names = [RunFile(name=str(at), size=len(data), chunks=[hashlib.sha256(data).hexdigest()]) for at in range(5)]
    assert served.client.runs.put_files("exp_1", names) == [None] * 5

    with pytest.raises(TooLarge, match="16777216"):
        list(served.client.runs.fetch_files("exp_1", names))


def watch_requests(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the path of each request that the client makes."""
    asked: list[str] = []
    for name in ("request", "stream"):
        call = getattr(served.client.transport, name)

        def counted(method: str, path: str, *, call: Any = call, **options: Any) -> Any:
            asked.append(path)
            return call(method, path, **options)

        monkeypatch.setattr(served.client.transport, name, counted)
    return asked


def test_a_folder_of_small_files_is_downloaded_in_batches(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.submit()
    contents = {f"outputs/{at}": b"file %d" % at for at in range(700)}
    contents["outputs/large"] = b"x" * 2_000_000
    served.client.content.put([(hashlib.sha256(data).hexdigest(), data) for data in contents.values()])
    files = [named(data, name) for name, data in contents.items()]
    for part in (files[:400], files[400:]):
        assert served.client.runs.put_files("exp_1", part) == [None] * len(part)
    asked = watch_requests(served, monkeypatch)

    listed = served.client.runs.files("exp_1")
    served.client.runs.download_many("exp_1", [(file, str(tmp_path / file.name)) for file in listed])

    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == contents
    assert len(asked) <= 4, asked  # the list, two batches, the large one


def test_content_is_stored_once_and_checked(served: Served) -> None:
    one, two = (hashlib.sha256(data).hexdigest() for data in (b"one", b"two"))
    served.client.content.put([(one, b"one")])

    assert served.client.content.missing([one, two]) == [two]
    assert list(served.client.content.fetch([one, one])) == [(one, b"one"), (one, b"one")]
    with pytest.raises(InvalidArgument):
        served.client.content.put([(two, b"not two")])
    with pytest.raises(NotFound):
        list(served.client.content.fetch([one, two]))


def test_a_runs_token_reads_its_own_snapshot_and_files_only(served: Served) -> None:
    ids = {data: hashlib.sha256(data).hexdigest() for data in (b"print(1)", b"secret", b"result")}
    served.client.content.put([(name, data) for data, name in ids.items()])
    roots = {}
    for data in (b"print(1)", b"secret"):
        tree = encode_tree([FileEntry("train.py", 0o644, len(data), (ids[data],))])
        served.client.content.put_trees([(tree_id(tree), tree)])
        roots[data] = tree_id(tree)
    snapshot = served.client.content.put_snapshot(roots[b"print(1)"], 1, 8)
    other = served.client.content.put_snapshot(roots[b"secret"], 1, 6)
    served.submit(snapshot_id=snapshot)
    assert served.backend.jobs_of("exp_1")[0].snapshot_root == roots[b"print(1)"]
    served.client.runs.put_file("exp_1", RunFile(name="outputs/r", size=6, chunks=[ids[b"result"]]))
    own = served.as_run("exp_1").content

    assert list(own.fetch([ids[b"print(1)"], ids[b"result"]])) == [
        (ids[b"print(1)"], b"print(1)"),
        (ids[b"result"], b"result"),
    ]
    assert list(own.tree(roots[b"print(1)"])) == [roots[b"print(1)"]] and own.find_root(snapshot)
    for refused in (
        lambda: list(own.fetch([ids[b"secret"]])),
        lambda: own.tree(roots[b"secret"]),
        lambda: own.find_root(other),
    ):
        with pytest.raises((NotFound, NotAllowed)):
            refused()


def test_a_snapshot_needs_its_trees(served: Served) -> None:
    with pytest.raises(MissingContent):
        served.client.content.put_snapshot("0" * 64, 1, 1)
    with pytest.raises(InvalidArgument):
        served.client.content.put_snapshot("../" * 20, 1, 1)
