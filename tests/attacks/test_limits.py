"""A77 to A83: who can reach us, and what one peer can cost."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from runyard.client.private_server import connect
from runyard.core.config.paths import server_folder
from runyard.core.config.settings import read_settings
from runyard.core.errors import RunyardError
from tests.attacks.conftest import Victim
from tests.attacks.weak import weak_server
from tests.attacks.wire import Wire, read_answer

MIB = 1 << 20


def server_pid(victim: Victim) -> int:
    return int(victim.client.server.info().pid)


def listening(pid: int) -> list[str]:
    """Addresses on which a process listens over TCP, as /proc tells (hexadecimal, host byte order)."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.append(fields[1].partition(":")[0])
    return found


def test_a77_every_socket_is_loopback_or_unix(victim: Victim) -> None:
    ours = [server_pid(victim), *children_of(server_pid(victim))]

    assert [address for pid in ours for address in listening(pid)] == ["0100007F"]
    with socket.create_server(("0.0.0.0", 0)):  # the control: the same look finds a socket that is open to all
        assert "00000000" in listening(os.getpid())


def children_of(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def test_a79_socket_folder_and_files_are_private(victim: Victim) -> None:
    path = Path(str(victim.client.address.path))

    for item in (path, path.parent, server_folder(victim.home), victim.home):
        assert stat.S_IMODE(item.lstat().st_mode) & 0o077 == 0, item
        assert item.lstat().st_uid == os.getuid()


@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_a79_a_planted_runtime_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str) -> None:
    """Another user could have made the folder first: a link, one that all may write, or a file in its place."""
    from runyard.core.config.runtime_folder import home_key

    home, runtime = tmp_path / "home", tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("RUNYARD_HOME", str(home))
    planted = runtime / f"runyard-{home_key(home)}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    if trap == "link":
        planted.symlink_to(elsewhere)
    elif trap == "open":
        planted.mkdir()
        planted.chmod(0o777)
    else:
        planted.touch()

    with pytest.raises(RunyardError) as caught:
        connect(read_settings())

    assert str(planted) in str(caught.value)
    assert list(elsewhere.iterdir()) == []


def resident(pid: int) -> int:
    return next(
        int(line.split()[1]) * 1024 for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    )


AUTHORIZED = b"Host: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
OVERSIZE = [
    b"POST /api/v1/runs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1073741824\r\n\r\n",
    b"POST /api/v1/chunks HTTP/1.1\r\n" + AUTHORIZED + b"Content-Length: 1073741824\r\n\r\n",
    b"POST /api/v1/runs HTTP/1.1\r\n" + AUTHORIZED + b"Content-Length: 104857600\r\n\r\n",
    b"GET /api/v1/server HTTP/1.1\r\nHost: {host}\r\nX-Big: " + b"A" * MIB,
    b"GET /api/v1/" + b"a" * MIB + b" HTTP/1.1\r\nHost: {host}\r\n\r\n",
]


@pytest.mark.parametrize("index", range(len(OVERSIZE)))
def test_a81_what_is_too_large_is_refused_before_it_is_read(victim: Victim, index: int) -> None:
    pid, before = server_pid(victim), resident(server_pid(victim))
    head = (
        OVERSIZE[index].replace(b"{host}", victim.wire.host_header.encode()).replace(b"{token}", victim.token.encode())
    )
    sent = pour(victim.wire, head, limit=200 * MIB)

    assert sent < 100 * MIB
    assert resident(pid) - before < 50 * MIB


def test_a81_a_chunked_body_without_end_is_cut(victim: Victim, tmp_path: Path) -> None:
    head = f"POST /api/v1/runs HTTP/1.1\r\nHost: {victim.wire.host_header}\r\nAuthorization: Bearer {victim.token}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = resident(server_pid(victim))

    assert pour(victim.wire, head.encode(), limit=200 * MIB, chunked=True) < 100 * MIB
    assert resident(server_pid(victim)) - before < 50 * MIB
    with weak_server(tmp_path) as weak:
        assert pour(weak, b"POST /x HTTP/1.1\r\nContent-Length: 67108864\r\n\r\n", limit=64 * MIB) == 64 * MIB


def pour(wire: Wire, head: bytes, *, limit: int, chunked: bool = False) -> int:
    """Send the head and then zeros until the server refuses; return how many bytes it took."""
    block = b"100000\r\n" + bytes(MIB) + b"\r\n" if chunked else bytes(MIB)
    sent = 0
    with wire.connect() as connection:
        try:
            connection.sendall(head)
            while sent < limit:
                connection.sendall(block)
                sent += MIB
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            return sent
    return sent


def test_a82_slow_connections_do_not_stop_others(victim: Victim) -> None:
    slow = []
    try:
        for _ in range(300):
            connection = socket.create_connection((victim.wire.host, victim.wire.port), timeout=5)
            connection.sendall(b"GET /api/v1/server HTTP/1.1\r\nHost: ")
            slow.append(connection)
        answers = [victim.unix.send("GET", "/api/v1/server", headers=victim.bearer()).status for _ in range(20)]
        over_tcp = victim.wire.send("GET", "/api/v1/server", headers=victim.bearer()).status
    finally:
        for connection in slow:
            connection.close()

    assert answers == [200] * 20
    assert over_tcp == 200


@pytest.mark.long
def test_a82_a_half_sent_head_is_dropped_in_time(victim: Victim) -> None:
    with victim.wire.connect() as connection:
        connection.settimeout(40)
        connection.sendall(b"GET /api/v1/server HTTP/1.1\r\nHost: ")
        answer = read_answer(connection)

    assert answer.status in (0, 400, 408)


def test_a82_silly_ranges_are_answered_once(victim: Victim) -> None:
    name = "user_logs/ranges.txt"
    victim.client.runs.ship(victim.first.id, [({"kind": "log", "name": name, "offset": 0}, b"0123456789" * 1000)])
    many = "bytes=" + ",".join(f"{n}-{n + 9000}" for n in range(500))
    for value in (many, "bytes=-99999999999999999999", "bytes=9-1", "bytes=abc", "lines=0-5", "bytes=0-" + "9" * 40):
        answer = victim.unix.send(
            "GET", f"/api/v1/runs/{victim.first.id}/files/{name}", headers=[*victim.bearer(), ("Range", value)]
        )
        assert answer.status in (200, 206, 400, 416), (value, answer.status)
        assert len(answer.body) <= 12_000


POISON = [
    '"\\ud800"',
    '"a\\u0000b"',
    "NaN",
    "Infinity",
    "1e400",
    "9223372036854775808",
    "-1" + "0" * 400,
    '"' + "x" * 200_000 + '"',
    '{"a":1,"a":2}',
    "[" * 5000 + "]" * 5000,
    '"\\u202e gpj.exe"',
    "null",
]


@pytest.mark.parametrize("value", POISON, ids=lambda value: value[:12])
@pytest.mark.parametrize("field", ["display_name", "description", "tag_key", "tag_value", "property"])
def test_a83_poison_values_are_refused_or_kept_and_readable(victim: Victim, field: str, value: str) -> None:
    body = {
        "display_name": f'{{"display_name": {value}}}',
        "description": f'{{"description": {value}}}',
        "tag_key": f'{{"tags_set": {{{value if value.startswith(chr(34)) else json.dumps(value[:300])}: "v"}}}}',
        "tag_value": f'{{"tags_set": {{"k": {value}}}}}',
        "property": f'{{"properties_add": {{"p{abs(hash(value))}": {value}}}}}',
    }[field]
    headers = [*victim.bearer(), ("Content-Type", "application/json")]
    answer = victim.unix.send("PATCH", f"/api/v1/runs/{victim.second.id}", headers=headers, body=body.encode())

    assert answer.status < 500
    assert victim.unix.send("GET", f"/api/v1/runs/{victim.second.id}", headers=victim.bearer()).status == 200
    assert victim.unix.send("GET", "/api/v1/workspaces/default/runs", headers=victim.bearer()).status == 200
    assert victim.unix.send("GET", f"/runs/{victim.second.id}", headers=victim.bearer()).status == 200


def test_a83_the_server_restarts_clean_after_poison(victim: Victim) -> None:
    """The runs' watchers need the server, so somebody starts it again at once."""
    before = victim.client.server.info()
    victim.client.server.stop()
    deadline = time.monotonic() + 60
    after = before
    while after.pid == before.pid and time.monotonic() < deadline:
        try:
            after = connect(read_settings({**os.environ, "RUNYARD_HOME": str(victim.home)})).server.info()
        except RunyardError:
            time.sleep(0.02)

    assert after.pid != before.pid
    assert (after.id, after.url) == (before.id, before.url)
    assert victim.client.runs.get(victim.second.id).id == victim.second.id
