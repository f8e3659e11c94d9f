"""Downloads end where the user said, whole and checked, whatever the server does (A26)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.core.errors import DamagedContent, InvalidArgument, ServerUnreachable, SystemFailure
from runyard.core.formats.plain import to_plain
from runyard.core.records import RunFile
from tests.client.standin import Handler, Peer, standin

DATA = os.urandom(3_000_000)
FILE = RunFile("outputs/m", len(DATA), sha256=hashlib.sha256(DATA).hexdigest())


def serve(data: bytes, *, headers: str = "", listed: Any = None, length: int | None = None) -> Handler:
    def handle(peer: Peer) -> None:
        while line := peer.read_request()[0]:
            if line.split(" ")[1].endswith("/files"):
                peer.answer([to_plain(FILE)] if listed is None else listed)
                continue
            size = len(data) if length is None else length
            peer.send(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n{headers}\r\n".encode() + data)
            if size != len(data):
                return

    return handle


def files_below(folder: Path) -> Iterator[str]:
    return (str(path.relative_to(folder)) for path in folder.rglob("*"))


def download(handler: Handler, path: Path, name: str = "outputs/m", **options: Any) -> None:
    with standin(handler) as server:
        client = Client(Transport(server.address))
        try:
            client.runs.download("r", name, path, **options)
        finally:
            client.transport.close()


def test_a_file_is_written_whole_and_nothing_beside_it(tmp_path: Path) -> None:
    download(serve(DATA), tmp_path / "new" / "deep" / "m.bin")

    assert (tmp_path / "new/deep/m.bin").read_bytes() == DATA
    assert sorted(files_below(tmp_path)) == ["new", "new/deep", "new/deep/m.bin"]


def test_a_download_says_how_much_has_come(tmp_path: Path) -> None:
    came: list[int] = []
    download(serve(DATA), tmp_path / "m.bin", progress=came.append)

    assert came == sorted(came) and came[-1] == len(DATA)


def test_several_downloads_say_how_much_of_all_has_come(tmp_path: Path) -> None:
    came: list[tuple[int, str]] = []
    with standin(serve(DATA)) as server:
        client = Client(Transport(server.address))
        places = [(FILE, str(tmp_path / "one")), (FILE, str(tmp_path / "two"))]
        client.runs.download_many("r", places, progress=lambda size, name: came.append((size, name)))
        client.transport.close()

    assert came == sorted(came) and came[-1] == (2 * len(DATA), "outputs/m")


def test_an_existing_file_is_replaced_and_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("alive")
    (tmp_path / "target").symlink_to(tmp_path / "canary")
    download(serve(DATA), tmp_path / "target")

    assert (tmp_path / "target").read_bytes() == DATA
    assert not (tmp_path / "target").is_symlink()
    assert (tmp_path / "canary").read_text() == "alive"


@pytest.mark.parametrize(
    "header",
    [
        "content-disposition: attachment; filename=../../evil\r\n",
        "content-disposition: attachment; filename=/tmp/ry-evil\r\n",
        "content-location: /tmp/ry-evil\r\n",
        "location: file:///tmp/ry-evil\r\n",
        "set-cookie: a=b\r\n",
    ],
)
def test_no_header_changes_where_it_is_written(tmp_path: Path, header: str) -> None:
    download(serve(DATA, headers=header), tmp_path / "m")

    assert list(files_below(tmp_path)) == ["m"]
    assert not os.path.exists("/tmp/ry-evil")


@pytest.mark.parametrize("listed", [[], [{"name": "../../evil", "size": 1}], [{"name": "/etc/x", "size": 1}]])
def test_no_listed_name_changes_where_it_is_written(tmp_path: Path, listed: Any) -> None:
    download(serve(DATA, listed=listed), tmp_path / "m")

    assert list(files_below(tmp_path)) == ["m"]


@pytest.mark.parametrize(
    "data", [DATA[:-1] + bytes([DATA[-1] ^ 1]), DATA + b"x", b""], ids=["changed", "longer", "empty"]
)
def test_other_bytes_are_refused_and_the_old_file_stays(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m").write_text("old")
    with pytest.raises(DamagedContent, match="came damaged"):
        download(serve(data), tmp_path / "m")

    assert (tmp_path / "m").read_text() == "old"
    assert list(files_below(tmp_path)) == ["m"]


def test_a_download_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable):
        download(serve(DATA[:1000], length=len(DATA)), tmp_path / "m")

    assert list(files_below(tmp_path)) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "m", tmp_path):
        with pytest.raises(SystemFailure, match="could not be written") as caught:
            download(serve(DATA), path)
        assert caught.value.hint


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "\uf02e\uf02e/x", "", "a\x00b"])
def test_a_name_that_leaves_its_root_is_not_even_asked_for(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        download(serve(DATA), tmp_path / "m", name)


def test_names_with_odd_characters_are_encoded() -> None:
    seen = []

    def handle(peer: Peer) -> None:
        seen.append(peer.read_request()[0])
        peer.answer(b"abc", headers="x-runyard-size: 10\r\nx-runyard-complete: 0\r\n")

    with standin(handle) as server:
        part = Client(Transport(server.address)).runs.read_file("r", "logs/a b?#%ü;.txt", 2, 3, 1.5)

    assert seen[0].split(" ")[1] == (
        "/api/v1/runs/r/files/logs/a%20b%3F%23%25%C3%BC%3B.txt?offset=2&limit=3&wait_s=1.5"
    )
    assert (part.data, part.size, part.complete) == (b"abc", 10, False)
