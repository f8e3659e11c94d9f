"""Snapshots and files through the real client and a real private server."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.client.calls.content import ContentCalls
from runyard.client.http1 import Head
from runyard.client.private_server import connect
from runyard.client.transport import Response, Transport
from runyard.core.config.settings import read_settings
from runyard.core.errors import InvalidArgument, MissingContent, NotFound, ProtocolError
from runyard.core.formats.chunks import CHUNK_SIZE, chunk_id
from runyard.core.formats.frames import join_frames
from runyard.core.formats.plain import to_plain
from runyard.core.formats.tree import FileEntry, encode_tree, snapshot_id, tree_id
from runyard.snapshots.restore import restore
from runyard.snapshots.take import take_snapshot
from tests.interpreters import pythons
from tests.runtime.journals import SOURCE
from tests.snapshots.folders import later, on_disk, write


class Counting(Transport):
    """Notes each request, and calls `before` ahead of it."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner.address)
        self.paths: list[str] = []
        self.before = lambda path: None

    def request(self, method: str, path: str, **options: Any) -> Response:
        self.before(path)
        self.paths.append(path)
        return super().request(method, path, **options)


@pytest.fixture(scope="module")
def server(session_folder: Path) -> Iterator[Transport]:
    home = tempfile.mkdtemp(prefix="h", dir=session_folder)
    client = connect(read_settings({**os.environ, "RUNYARD_HOME": home}))
    yield client.transport
    client.server.stop()
    client.transport.close()


@pytest.fixture
def transport(server: Transport) -> Iterator[Counting]:
    counting = Counting(server)
    yield counting
    counting.close()


@pytest.fixture
def calls(transport: Counting) -> ContentCalls:
    return ContentCalls(transport)


def test_chunks_go_there_and_come_back_in_order(calls: ContentCalls) -> None:
    items = [(chunk_id(data), data) for data in (os.urandom(10), b"text " * 1000, os.urandom(CHUNK_SIZE))]
    assert calls.missing([name for name, _ in items]) == [name for name, _ in items]
    calls.put(items)
    calls.put(items)

    assert calls.missing([name for name, _ in items]) == []
    assert list(calls.fetch([items[2][0], items[0][0], items[2][0]])) == [items[2], items[0], items[2]]
    with pytest.raises(NotFound):
        list(calls.fetch(["0" * 64]))


def test_a_tree_that_names_missing_content_is_refused_with_its_ids(calls: ContentCalls) -> None:
    lost = chunk_id(os.urandom(8))
    data = encode_tree([FileEntry("x", 0o644, 8, (lost,))])

    with pytest.raises(MissingContent) as caught:
        calls.put_trees([(tree_id(data), data)])
    assert caught.value.details["missing"] == [lost]
    with pytest.raises(MissingContent):
        calls.put_snapshot(tree_id(data), 1, 8)


def test_a_snapshot_goes_through_the_server_and_back(
    tmp_path: Path, project: Path, calls: ContentCalls, transport: Counting
) -> None:
    write(
        project,
        {"train.py": "code", "big.bin": os.urandom(20 << 20), "a/b/c": "", "void": None, os.fsdecode(b"\xff"): "x"},
    )
    (project / "train.py").chmod(0o755)
    (project / "link").symlink_to("a/b/c")
    snapshot = take_snapshot(project, calls, home=tmp_path / "home", clock=later)
    restore(snapshot.root, calls, tmp_path / "out")

    assert on_disk(tmp_path / "out") == on_disk(project)
    assert snapshot.id == snapshot_id(snapshot.root) and calls.find_root(snapshot.id) == snapshot.root
    transport.paths.clear()
    (project / "a" / "b" / "c").write_text("changed")
    second = take_snapshot(project, calls, home=tmp_path / "home", clock=later)
    assert transport.paths == ["/chunks", "/trees", "/snapshots"]
    transport.paths.clear()
    assert take_snapshot(project, calls, home=tmp_path / "home", clock=later).id == second.id
    assert transport.paths == ["/snapshots"]


@pytest.mark.parametrize("size", [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE + 5])
def test_a_file_is_read_once_and_sent_as_far_as_it_is_missing(
    tmp_path: Path, calls: ContentCalls, transport: Counting, size: int
) -> None:
    data = os.urandom(size)
    (tmp_path / "model.bin").write_bytes(data)
    file = calls.upload_file(tmp_path / "model.bin", name="outputs/model.bin")

    assert (file.name, file.size, file.sha256, file.kind) == (
        "outputs/model.bin",
        size,
        hashlib.sha256(data).hexdigest(),
        "blob",
    )
    assert len(file.chunks) == -(-size // CHUNK_SIZE)
    assert b"".join(part for _, part in calls.fetch(file.chunks)) == data
    transport.paths.clear()
    fd = os.open(tmp_path / "model.bin", os.O_RDONLY)
    os.lseek(fd, size, os.SEEK_SET)
    assert calls.upload_file(fd, name="outputs/model.bin") == file
    os.close(fd)
    assert size < 1 << 20 or set(transport.paths) == {"/chunks/missing"}


def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, calls: ContentCalls, transport: Counting
) -> None:
    path = tmp_path / "growing"
    path.write_bytes(os.urandom(10 << 20))
    changes = iter([b"a line\n"])

    def change(request: str) -> None:
        with open(path, "ab") as file:
            file.write(next(changes, b""))

    transport.before = change
    file = calls.upload_file(path)

    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() and file.size == (10 << 20) + 7


def test_what_is_no_file_is_refused(tmp_path: Path, calls: ContentCalls) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(InvalidArgument, match="outputs/x") as caught:
            calls.upload_file(tmp_path / name, name="outputs/x")
        assert "no regular file" in caught.value.why


class Lying(Transport):
    """A server that answers with what the test says."""

    def __init__(self, inner: Transport, body: bytes) -> None:
        super().__init__(inner.address)
        self._body = body

    def request(self, method: str, path: str, **options: Any) -> Response:
        return Response(Head(200, {}, len(self._body), False, True), self._body)


def test_bytes_that_are_not_those_asked_for_are_refused(server: Transport) -> None:
    wanted = chunk_id(b"good")
    for body in (join_frames([({"id": wanted}, b"evil")]), b"", b"not frames", join_frames([({"id": wanted}, b"")])):
        with pytest.raises(ProtocolError):
            list(ContentCalls(Lying(server, body)).fetch([wanted]))
        with pytest.raises(ProtocolError):
            ContentCalls(Lying(server, body)).tree(wanted)
    for body in (b"[]", b"5", b"{", b"null"):
        with pytest.raises(ProtocolError):
            ContentCalls(Lying(server, body)).missing([wanted])


OTHER_PYTHON = """
    import json, sys
    from pathlib import Path
    from runyard.client.address import Address
    from runyard.client.calls.content import ContentCalls
    from runyard.client.transport import Transport
    from runyard.core.formats.plain import from_plain
    from runyard.snapshots.git import git_facts
    from runyard.snapshots.restore import restore
    from runyard.snapshots.take import take_snapshot
    address, source, home, target = sys.argv[1:]
    transport = Transport(from_plain(Address, json.loads(address)))
    content = ContentCalls(transport)
    for _ in range(2):
        snapshot = take_snapshot(source, content, home=Path(home))
    restore(snapshot.root, content, target)
    print(snapshot.id, git_facts(source).properties["azureml.git.dirty"])
    transport.close()
"""


@pytest.mark.parametrize("version", sorted(pythons()))
def test_the_oldest_and_the_newest_python_make_the_same_snapshot(
    tmp_path: Path, project: Path, calls: ContentCalls, transport: Counting, version: str
) -> None:
    write(project, {"train.py": "code", "sub/x": os.urandom(5 << 20), os.fsdecode(b"\xe9"): "odd"})
    (project / "sub" / "link").symlink_to("../train.py")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    address = json.dumps(to_plain(transport.address))
    command = [
        pythons()[version],
        "-c",
        textwrap.dedent(OTHER_PYTHON),
        address,
        project,
        tmp_path / "h",
        tmp_path / "out",
    ]
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [take_snapshot(project, calls, home=tmp_path / "home").id, "True"]
    shutil.rmtree(project / ".git")
    assert on_disk(tmp_path / "out") == on_disk(project)
