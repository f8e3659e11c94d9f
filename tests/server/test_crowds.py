"""Who makes room when a door is full: silent connections of one peer never keep others out."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runyard.server.access.crowd import LOG_EVERY_S, Crowd, Standing, peer_of
from runyard.server.access.shares import Shares
from runyard.server.net.certificates import ensure_certificate, load_context
from runyard.server.net.lobby import Handshake
from runyard.server.net.protocol import CrowdedProtocol
from tests.server.guarded import BEARER, Guarded, serving
from tests.server.raw_http import Door, is_closed, read_answer


@dataclass(eq=False)
class Connection:
    peer: str
    standing: Standing = Standing.UNKNOWN
    user: str = ""
    dropped: list[bool] = field(default_factory=list)

    @property
    def holder(self) -> Hashable:
        return self.user or self.peer

    def drop(self) -> None:
        self.dropped.append(True)


def enter(
    crowd: Crowd, count: int, peer: str, standing: Standing = Standing.UNKNOWN, user: str = ""
) -> list[Connection]:
    made = [Connection(peer, standing, user) for _ in range(count)]
    for connection in made:
        assert crowd.enter(connection)
    return made


def left(connections: list[Connection]) -> int:
    return sum(not connection.dropped for connection in connections)


def test_the_peer_with_the_most_silent_connections_loses_its_oldest() -> None:
    crowd = Crowd(64, "door")
    honest = enter(crowd, 3, "10.0.0.1")
    hostile = enter(crowd, 61, "10.0.0.2")

    newcomer = enter(crowd, 1, "10.0.0.3")

    assert left(honest) == 3 and left(newcomer) == 1
    assert [bool(connection.dropped) for connection in hostile] == [True] * 4 + [False] * 57


def test_a_flood_never_drops_those_of_others() -> None:
    crowd = Crowd(64, "door")
    honest = enter(crowd, 10, "10.0.0.1") + enter(crowd, 10, "10.0.0.4")
    enter(crowd, 1000, "10.0.0.2")

    assert left(honest) == 20
    assert len(crowd) <= 64


def test_what_is_busy_stays_and_who_comes_is_refused() -> None:
    crowd = Crowd(4, "door")
    busy = enter(crowd, 4, "10.0.0.1", Standing.BUSY, "alice")

    assert not crowd.enter(Connection("10.0.0.2"))
    assert left(busy) == 4
    crowd.leave(busy[0])
    assert crowd.enter(Connection("10.0.0.2"))


def test_idle_connections_go_only_when_no_silent_one_is_left_and_the_largest_holder_first() -> None:
    crowd = Crowd(8, "door")
    reader = enter(crowd, 5, "10.0.0.1", Standing.IDLE, "rita")
    bob = enter(crowd, 2, "10.0.0.1", Standing.IDLE, "bob")
    silent = enter(crowd, 1, "10.0.0.9")

    enter(crowd, 1, "10.0.0.2", Standing.BUSY, "alice")
    assert (left(silent), left(reader), left(bob)) == (0, 5, 2)
    enter(crowd, 1, "10.0.0.2", Standing.BUSY, "alice")
    assert (left(reader), left(bob)) == (4, 2)


def test_the_log_says_it_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    crowd = Crowd(2, "The door", clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        enter(crowd, 50, "10.0.0.2")
        assert len(caplog.records) == 1
        now[0] = LOG_EVERY_S
        enter(crowd, 1, "10.0.0.2")

    first, second = (record.getMessage() for record in caplog.records)
    assert "The door has 2 connections" in first and "10.0.0.2" in first
    assert "Dropped 48 connections" in second


def test_an_address_counts_with_what_its_owner_has() -> None:
    assert peer_of("2001:db8::1") == peer_of("2001:db8::ffff:1") != peer_of("2001:db8:0:1::1")
    assert peer_of("::ffff:10.0.0.1") == peer_of("10.0.0.1") != peer_of("::ffff:10.0.0.2")
    assert peer_of("fe80::1%eth0") == peer_of("fe80::2%eth0")
    assert peer_of("strange") == "strange"


class Small(CrowdedProtocol):
    most_tcp = 8


@pytest.fixture(scope="module")
def small() -> Iterator[Guarded]:
    with serving(Small) as running:
        yield running


def ask(door: Door, sock: socket.socket, target: str, *headers: str) -> None:
    lines = [f"GET {target} HTTP/1.1", f"Host: {door.host}", *headers, "", ""]
    sock.sendall("\r\n".join(lines).encode())


@pytest.mark.parametrize("says", [b"", b"GET /api/v1/server HTTP/1.1\r\nHost: "], ids=["nothing", "half a head"])
def test_silent_connections_close_the_page_to_nobody(small: Guarded, says: bytes) -> None:
    held = []
    try:
        for _ in range(20):
            sock = small.tcp.connect()
            sock.sendall(says)
            held.append(sock)
            answer = small.tcp.ask("GET", "/api/v1/server", [BEARER])
            assert answer.status == 200
        assert is_closed(held[0], within_s=60)
    finally:
        for sock in held:
            sock.close()


def test_wrong_tokens_count_as_silent(small: Guarded) -> None:
    held = []
    try:
        for _ in range(20):
            sock = small.tcp.connect()
            ask(small.tcp, sock, "/api/v1/health")  # public, and kept open
            assert read_answer(sock).status == 200
            held.append(sock)
        assert small.tcp.ask("GET", "/api/v1/server", [BEARER]).status == 200
    finally:
        for sock in held:
            sock.close()


def test_a_stream_that_is_open_outlives_a_flood(small: Guarded) -> None:
    with small.tcp.connect() as stream:
        ask(small.tcp, stream, "/api/v1/events?workspace=default", BEARER)
        assert read_answer(stream).status == 200
        flood = [small.tcp.connect() for _ in range(30)]
        try:
            assert small.tcp.ask("GET", "/api/v1/server", [BEARER]).status == 200
            small.services.news.tell_list("default")
            told = b""
            while b"event: runs" not in told:
                piece = stream.recv(4096)
                assert piece, "the stream was cut"
                told += piece
        finally:
            for sock in flood:
                sock.close()


def test_when_all_are_busy_one_more_is_refused_in_words(small: Guarded) -> None:
    streams = []
    try:
        for _ in range(Small.most_tcp):
            stream = small.tcp.connect()
            ask(small.tcp, stream, "/api/v1/events?workspace=default", BEARER)
            assert read_answer(stream).status == 200
            streams.append(stream)
        with small.tcp.connect() as one_more:
            assert read_answer(one_more).status == 503
        assert small.unix.ask("GET", "/api/v1/health").status == 200
    finally:
        for stream in streams:
            stream.close()


def test_one_users_requests_leave_room_for_others() -> None:
    """A reader's two tokens are one reader; the control is another user."""
    with serving(shares=Shares(2, "requests")) as server:
        users = server.client().users
        rita, bob = (f"Authorization: Bearer {users.add(name, role='reader').token}" for name in ("rita", "bob"))
        laptop = f"Authorization: Bearer {users.add_token('rita', 'laptop').token}"
        with server.tcp.connect() as first, server.tcp.connect() as second:
            for sock, bearer in ((first, rita), (second, laptop)):
                ask(server.tcp, sock, "/api/v1/events?workspace=default", bearer)
                assert read_answer(sock).status == 200
            refused = server.tcp.ask("GET", "/api/v1/users/me", [rita])
            others = [server.tcp.ask("GET", "/api/v1/users/me", [bearer]).status for bearer in (bob, BEARER)]

    assert refused.status == 429 and b"2 requests are open already" in refused.body
    assert others == [200, 200]


class Greeting(asyncio.Protocol):
    """Answers each message with it, in capitals."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data.upper())


def test_handshakes_that_never_end_keep_nobody_out(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    context = load_context(*ensure_certificate(tmp_path, ["127.0.0.1"]))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    async def attack() -> list[bytes]:
        lobby = Crowd(4, "lobby")
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Handshake(context, lobby, Greeting, patience_s=30), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        silent, answers = [], []
        for _ in range(12):
            silent.append(await asyncio.open_connection("127.0.0.1", port))
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
            writer.write(b"hello")
            answers.append(await asyncio.wait_for(reader.read(100), 20))
            writer.transport.abort()
            assert len(lobby) <= 4
        first = await asyncio.wait_for(silent[0][0].read(1), 20)
        plain_reader, plain = await asyncio.open_connection("127.0.0.1", port)
        plain.write(b"GET / HTTP/1.1\r\n\r\n")
        answers.append(await asyncio.wait_for(_read(plain_reader), 20))
        for _, one in [*silent, (None, plain)]:
            one.transport.abort()
        lobby.drop_all()
        server.close()
        return [*answers, first]

    *greetings, plain, first = asyncio.run(attack())

    assert greetings == [b"HELLO"] * 12
    assert b"HTTP" not in plain and b"GET" not in plain
    assert first == b""


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(100)
    except ConnectionError:
        return b""
