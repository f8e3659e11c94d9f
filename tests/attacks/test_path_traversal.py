"""A15 to A25: no name a client sends reaches a file outside its root."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from urllib.parse import quote

import pytest

from runyard.core.config.paths import artifact_folder, database_file, token_file
from runyard.core.formats.tree import FileEntry, LinkEntry, encode_tree, tree_id
from runyard.core.names import true_file_name
from tests.attacks.conftest import Victim
from tests.attacks.payloads import absolutes, behind_marks, traversals
from tests.attacks.weak import weak_server
from tests.attacks.wire import Answer, Wire

PAYLOADS = {"a15": traversals, "a16": absolutes, "a17": behind_marks}


def leaks(wire: Wire, prefix: str, names: list[str], secret: bytes, headers: list[tuple[str, str]]) -> list[str]:
    """Return the names whose answer holds the canary's bytes."""
    return [name for name in names if secret in ask(wire, f"{prefix}{name}", headers).body]


def ask(wire: Wire, target: str, headers: list[tuple[str, str]]) -> Answer:
    # What would end the request line cannot stand in it; those payloads go in encoded.
    safe = target.replace(" ", "%20").replace("\0", "%00").replace("#", "%23")
    return wire.send("GET", safe, headers=headers)


@pytest.mark.long
@pytest.mark.parametrize("attack", PAYLOADS)
def test_reading_a_runs_file_never_leaves_the_store(victim: Victim, tmp_path: Path, attack: str) -> None:
    names = PAYLOADS[attack](str(victim.canary))
    prefix = f"/api/v1/runs/{victim.first.id}/files/"

    assert leaks(victim.unix, prefix, names, victim.secret, victim.bearer()) == []
    with weak_server(tmp_path / "a" / "b") as weak:
        assert leaks(weak, prefix, names[:400], victim.secret, [])


def test_a15_a_snapshots_file_is_looked_up_in_the_snapshot_only(victim: Victim, tmp_path: Path) -> None:
    data = b"print(1)\n"
    chunk = hashlib.sha256(data).hexdigest()
    victim.client.content.put([(chunk, data)])
    tree = encode_tree([FileEntry("train.py", 0o644, len(data), (chunk,)), LinkEntry("way", str(victim.canary))])
    victim.client.content.put_trees([(tree_id(tree), tree)])
    snapshot = victim.client.content.put_snapshot(tree_id(tree), 1, len(data))
    prefix = f"/api/v1/snapshots/{snapshot}/files/"
    payloads = [*traversals(str(victim.canary)), *absolutes(str(victim.canary)), *behind_marks(str(victim.canary))]
    names = payloads[::12]

    assert leaks(victim.unix, prefix, [*names, "way", "way/", "train.py/../way"], victim.secret, victim.bearer()) == []
    assert ask(victim.unix, f"{prefix}train.py", victim.bearer()).body == data
    assert victim.secret not in ask(victim.unix, f"{prefix[:-6]}zip", victim.bearer()).body
    with weak_server(tmp_path / "a" / "b") as weak:
        assert leaks(weak, prefix, names, victim.secret, [])


@pytest.mark.parametrize(
    "place", ["/api/v1/runs/{}", "/api/v1/workspaces/{}", "/api/v1/snapshots/{}", "/api/v1/trees/{}", "/runs/{}"]
)
def test_a23_ids_are_never_path_parts(victim: Victim, place: str) -> None:
    names = traversals(str(victim.canary))[::9] + absolutes(str(victim.canary))
    page = ask(victim.unix, "/runs/x", victim.bearer()).body  # the same for all names
    for name in names:
        answer = ask(victim.unix, place.format(name), victim.bearer())
        assert victim.secret not in answer.body
        assert answer.status in (400, 404, 405, 409, 422) or answer.body == page, (name, answer.status)


def test_a24_upload_names_are_refused_or_kept_inside(victim: Victim, tmp_path: Path) -> None:
    target = victim.canary.parent / "planted"
    names = [name for name in traversals(str(target))[::7] + absolutes(str(target)) if "\0" not in name]
    before = set(victim.canary.parent.iterdir())
    for name in names:
        body = json.dumps({"file": {"name": name, "size": 0, "sha256": None, "chunks": []}}).encode()
        headers = [*victim.bearer(victim.first.token), ("Content-Type", "application/json")]
        assert (
            victim.unix.send("POST", f"/api/v1/runs/{victim.first.id}/files", headers=headers, body=body).status < 500
        )

    assert set(victim.canary.parent.iterdir()) == before
    stored = [file.name for file in victim.client.runs.files(victim.first.id)]
    assert not [name for name in stored if {"..", ".", ""} & set(name.split("/")) or "\\" in name]
    inside = str(tmp_path / "downloads")
    for name in stored:  # where a client puts it, with the bytes that the name had
        assert os.path.abspath(os.path.join(inside, true_file_name(name))).startswith(f"{inside}/"), name
    with weak_server(tmp_path / "a" / "b") as weak:
        weak.send("POST", f"/api/v1/runs/x/files/{'../' * 8}{str(target).lstrip('/')}", body=b"planted")
        assert target.exists()
        target.unlink()


def test_a25_nothing_outside_can_be_deleted(victim: Victim, tmp_path: Path) -> None:
    names = traversals(str(victim.canary))[::5] + absolutes(str(victim.canary))
    for name in names:
        target = (
            f"/api/v1/runs/{victim.first.id}/files/{name}".replace(" ", "%20").replace("\0", "%00").replace("#", "%23")
        )
        victim.unix.send("DELETE", target, headers=victim.bearer())

    assert len(victim.secret) == 64
    doomed = tmp_path / "doomed"
    doomed.write_text("x")
    with weak_server(tmp_path / "a" / "b") as weak:
        weak.send("DELETE", f"/files/{quote('../' * 9, safe='')}{quote(str(doomed).lstrip('/'), safe='')}")
        assert not doomed.exists()


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "folder"])
def test_a18_a19_links_in_the_artifact_tree_are_never_followed(victim: Victim, tmp_path: Path, kind: str) -> None:
    """A planted link where a log's stream would be: the server neither reads through it nor writes through it."""
    run = victim.first
    name = f"user_logs/planted_{kind}.txt"
    victim.client.runs.ship(run.id, [({"kind": "log", "name": name, "offset": 0}, b"first\n")])
    stream = find_stream(victim.home, b"first\n")
    stream.unlink()
    if kind == "symlink":
        stream.symlink_to(victim.canary)
    elif kind == "hardlink":
        os.link(victim.canary, stream)
    else:
        folder = stream.parent
        moved = folder.rename(folder.with_name(f"{folder.name}-moved"))
        decoy = tmp_path / "decoy"
        decoy.mkdir()
        (decoy / stream.name).write_bytes(victim.secret)
        folder.symlink_to(decoy)
        assert moved.exists()
    before = victim.secret
    answer = victim.unix.send("GET", f"/api/v1/runs/{run.id}/files/{name}", headers=victim.bearer())
    try:
        victim.client.runs.ship(run.id, [({"kind": "log", "name": name, "offset": 6}, b"second\n")])
    except Exception as error:
        assert "Error" in type(error).__name__ or error.args

    if kind != "hardlink":  # a hard link is the same file; what must hold is that nothing is written into it
        assert before not in answer.body
    assert victim.secret == before
    if kind == "folder":
        folder.unlink()
        moved.rename(folder)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(victim.canary)
    with weak_server(tmp_path / "root") as weak:
        assert weak.send("GET", "/files/link").body == before


def find_stream(home: Path, content: bytes) -> Path:
    for path in artifact_folder(home).rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
            return path
    raise AssertionError("no stream holds the log")


LOG_QUERIES = ["offset=-1", "offset=1e9", "limit=-5", "offset=../x", "wait_s=1e308", "wait_s=nan"]
LOG_QUERIES += [f"{name}={{canary}}" for name in ("file", "stream", "rank")]


def bites(answer: Answer, query: str, secret: bytes) -> bool:
    """Whether the server broke, gave the canary away, or took a negative count for one."""
    return answer.status >= 500 or secret in answer.body or (answer.status == 200 and "=-" in query)


@pytest.mark.parametrize("query", LOG_QUERIES)
def test_a20_log_parameters_are_numbers_in_range(victim: Victim, tmp_path: Path, query: str) -> None:
    query = query.format(canary=victim.canary)
    victim.client.runs.ship(
        victim.first.id, [({"kind": "log", "name": "user_logs/std_log.txt", "offset": 0}, b"line\n")]
    )
    answer = victim.unix.send(
        "GET", f"/api/v1/runs/{victim.first.id}/files/user_logs/std_log.txt?{query}", headers=victim.bearer()
    )

    assert not bites(answer, query, victim.secret)
    (tmp_path / "user_logs").mkdir()
    (tmp_path / "user_logs" / "std_log.txt").write_bytes(b"line\n")
    with weak_server(tmp_path) as weak:
        assert bites(weak.send("GET", f"/files/user_logs/std_log.txt?{query}"), query, victim.secret)


def test_a20_a_huge_offset_is_beyond_the_end(victim: Victim) -> None:
    path = f"/api/v1/runs/{victim.first.id}/files/user_logs/std_log.txt?offset={'9' * 31}"

    assert victim.unix.send("GET", path, headers=victim.bearer()).status < 500


def test_a21_the_static_route_serves_its_own_files_only(victim: Victim) -> None:
    for name in traversals(str(victim.canary))[::11]:
        for prefix in ("/static/", "/style.css/", "/"):
            assert victim.secret not in ask(victim.unix, prefix + name, victim.bearer()).body


def test_a22_no_flag_relaxes_the_check(victim: Victim) -> None:
    flags = [
        "raw=1",
        "download=1",
        "trust=true",
        "debug=1",
        "allow_absolute=1",
        "follow=1",
        "is_artifact=1",
        "type=raw",
    ]
    up = "..%2f" * 8 + str(victim.canary).lstrip("/").replace("/", "%2f")
    for first in flags:
        for second in flags:
            target = f"/api/v1/runs/{victim.first.id}/files/{up}?{first}&{second}"
            assert victim.secret not in victim.unix.send("GET", target, headers=victim.bearer()).body


def test_a27_names_that_look_alike_do_not_overwrite_each_other(victim: Victim) -> None:
    def put(name: str, data: bytes) -> int:
        [(_, chunk)] = [(None, data)]
        import hashlib

        digest = hashlib.sha256(chunk).hexdigest()
        victim.client.content.put([(digest, chunk)])
        body = {"file": {"name": name, "size": len(chunk), "sha256": digest, "chunks": [digest]}, "replace": False}
        headers = [*victim.bearer(), ("Content-Type", "application/json")]
        return victim.unix.send(
            "POST", f"/api/v1/runs/{victim.second.id}/files", headers=headers, body=json.dumps(body).encode()
        ).status

    tag = secrets.token_hex(4)
    assert put(f"outputs/{tag}e\u0301", b"one") < 300
    assert put(f"outputs/{tag}\u00e9", b"two") == 409  # the same name in another Unicode form: no silent overwrite
    assert put(f"outputs/{tag}A", b"upper") < 300
    assert put(f"outputs/{tag}a", b"lower") < 300  # names are not file names here, so case twins are two files
    assert put(f"outputs/{tag} ", b"space") < 300  # kept apart in a form that no disk shortens to its twin
    assert put(f"outputs/{tag}.", b"dot") < 300
    assert put(f"outputs/{tag}\uf020", b"x") == 409  # that form itself: the same name
    stored = {file.name for file in victim.client.runs.files(victim.second.id) if tag in file.name}
    assert all(part == part.strip().rstrip(".") for name in stored for part in name.split("/")) and len(stored) == 5
    assert bytes(victim.client.runs.read_file(victim.second.id, f"outputs/{tag}A").data) == b"upper"


def test_a72_the_servers_own_files_are_out_of_reach(victim: Victim, tmp_path: Path) -> None:
    token = token_file(victim.home)
    for secret_file in (token, database_file(victim.home)):
        content = secret_file.read_bytes()[:100]
        names = traversals(str(secret_file))[::13] + absolutes(str(secret_file))
        prefix = f"/api/v1/runs/{victim.first.id}/files/"
        assert leaks(victim.unix, prefix, names, content, victim.bearer(victim.first.token)) == []
    with weak_server(tmp_path / "a") as weak:
        assert leaks(weak, "/files/", ["../" * 9 + str(token).lstrip("/")], token.read_bytes(), [])
