"""The transport over TLS: whom it trusts, and that nothing is sent to anybody else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.client import tls
from runyard.client.address import Address, parse_fingerprint, parse_url
from runyard.client.transport import Transport
from runyard.core.errors import InvalidArgument, NotTrusted, ProtocolError, ServerUnreachable
from runyard.server.net.certificates import fingerprint_of, load_context, make_certificate
from tests.client.standin import TOKEN, Handler, Peer, Standin, always, standin
from tests.interpreters import pythons

SOURCE = Path(__file__).parent.parent.parent / "src"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    made, key = make_certificate(["127.0.0.1", "runyard.test"])
    (folder / "key.pem").write_bytes(key)
    (folder / "certificate.pem").write_bytes(made)
    return folder / "certificate.pem"


@contextmanager
def served(certificate: Path, *handlers: Handler) -> Iterator[tuple[Standin, Address]]:
    """Serve; the address trusts the certificate."""
    with standin(*handlers, context=load_context(certificate, certificate.with_name("key.pem"))) as server:
        yield server, replace(server.address, fingerprint=fingerprint_of(certificate))


@pytest.fixture
def fresh_authorities() -> Iterator[None]:
    tls._verifying_context.cache_clear()
    yield
    tls._verifying_context.cache_clear()


def test_large_bodies_arrive_whole_in_both_directions(certificate: Path) -> None:
    sent = os.urandom(3 << 20)
    seen: list[tuple[str, dict[str, str], bytes]] = []

    def handle(peer: Peer) -> None:
        while True:
            seen.append(peer.read_request())
            if not seen[-1][0]:
                return
            peer.answer(seen[-1][2][::-1])

    with served(certificate, handle) as (server, address):
        transport = Transport(address)
        answers = [transport.request("POST", "/x", body=[sent[:1000], sent[1000:]]).read() for _ in range(2)]
        with transport.stream("POST", "/x", body=sent) as stream:
            pieces = list(stream.iter_bytes())
        transport.close()

        assert server.connections == 1  # kept
    assert answers == [sent[::-1]] * 2
    assert len(pieces) > 1
    assert b"".join(pieces) == sent[::-1]
    assert seen[0][1]["authorization"] == f"Bearer {TOKEN}"
    assert seen[0][1]["host"] == address.authority


def test_to_another_certificate_than_the_pinned_one_nothing_is_sent(certificate: Path) -> None:
    seen: list[bytes] = []
    with served(certificate, lambda peer: seen.append(peer.file.read())) as (_, address):
        wrong = replace(address, fingerprint="0" * 64)
        with pytest.raises(NotTrusted, match="Nothing was sent") as caught:
            Transport(wrong).request("GET", "/server")
        with pytest.raises(ServerUnreachable):  # the control: to the pinned one it goes out
            Transport(address).request("GET", "/server", retry=False, timeout_s=0.2)

    assert address.fingerprint in str(caught.value)
    assert "runyard login https://127.0.0.1" in caught.value.hint
    assert [len(data) for data in seen][:1] == [0]
    assert TOKEN.encode() in seen[1]


def test_without_a_pin_the_systems_authorities_decide(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, fresh_authorities: None
) -> None:
    with served(certificate, always({"ok": True})) as (_, pinned):
        address = replace(pinned, fingerprint="")
        with pytest.raises(NotTrusted, match="is not trusted"):
            Transport(address).request("GET", "/server")
        tls._verifying_context.cache_clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        transport = Transport(address)
        assert transport.request("GET", "/server").json() == {"ok": True}
        transport.close()
        with pytest.raises(NotTrusted, match="localhost"):
            Transport(replace(address, host="localhost")).request("GET", "/server")


def test_who_speaks_no_tls_is_told_apart_from_who_is_not_there(certificate: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        address = Address("tcp", host="127.0.0.1", port=port, token=TOKEN, tls=True, fingerprint="0" * 64)

        def answer_plainly() -> None:
            peer, _ = listener.accept()
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.close()

        thread = threading.Thread(target=answer_plainly)
        thread.start()
        with pytest.raises(ProtocolError, match="does not speak TLS"):
            Transport(address).request("GET", "/server")
        thread.join()
        with pytest.raises(ServerUnreachable, match=r"within 0\.2 s"):  # nobody shakes hands
            Transport(address, timeout_s=0.2).request("GET", "/server")
    with pytest.raises(ServerUnreachable):
        Transport(address).request("GET", "/server")
    with served(certificate, always({})) as (_, there), pytest.raises(ServerUnreachable, match="https://"):
        Transport(replace(there, tls=False)).request("GET", "/server")


def test_a_connection_that_was_closed_meanwhile_is_opened_again(certificate: Path) -> None:
    def once(peer: Peer) -> None:
        peer.read_request()
        peer.answer({"n": 1})

    with served(certificate, once, always({"n": 2})) as (server, address):
        transport = Transport(address)
        answers = [transport.request("GET", "/server").json()["n"] for _ in range(2)]
        transport.close()
        assert server.connections == 2
    assert answers == [1, 2]


CLIENT = """
import json, signal, sys
from runyard.client.address import parse_url
from runyard.client.transport import Transport
from runyard.core.errors import NotTrusted
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
url, token = json.loads(sys.stdin.read())
answer = Transport(parse_url(url, token)).request("POST", "/x", body=b"y" * 2000000)
try:
    Transport(parse_url(url[:-64] + "0" * 64, token)).request("GET", "/server")
except NotTrusted:
    print(json.dumps(answer.json()))
"""


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_every_python_that_runs_may_use_pins_a_certificate(certificate: Path, python: str) -> None:
    with served(certificate, always({"ok": [1, 2]})) as (_, address):
        url = f"{address}#sha256={address.fingerprint}"
        done = subprocess.run(
            [python, "-c", CLIENT],
            input=f'["{url}", "{TOKEN}"]',
            env={"PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert (done.returncode, done.stdout.strip()) == (0, '{"ok": [1, 2]}'), done.stderr


def test_a_peer_that_is_gone_does_not_kill_a_program_that_restored_sigpipe(certificate: Path) -> None:
    code = CLIENT.replace('b"y" * 2000000', 'b"y" * 20000000, retry=False')
    with served(certificate, lambda peer: None) as (_, address):
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=f'["{address}#sha256={address.fingerprint}", "{TOKEN}"]',
            env={"PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert done.returncode == 1 != -signal.SIGPIPE
    assert "ServerUnreachable" in done.stderr


def test_addresses_with_tls_are_read_and_written() -> None:
    pin = "AB:" * 31 + "AB"
    address = parse_url(f"https://[fd00::1]:8787/#sha256={pin}", "t")

    assert (address.host, address.port, address.tls, address.fingerprint) == ("[fd00::1]", 8787, True, "ab" * 32)
    assert (str(address), address.web_url) == ("https://[fd00::1]:8787", "https://[fd00::1]:8787")
    assert parse_url("https://team.example", "t").authority == "team.example"  # as a browser says it
    assert parse_url("https://team.example", "t").port == 443
    assert parse_fingerprint(f" {pin} ") == "ab" * 32
    for url, why in (
        ("http://h:1#sha256=" + "0" * 64, "plain HTTP"),
        ("https://h:1#sha256=xyz", "not the fingerprint"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            parse_url(url, "t")
