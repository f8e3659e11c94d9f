"""`runyard server start --host`, `set`, `settings`, `login` and `logout`."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.cli.app import run
from runyard.client import private_server
from runyard.core.config.database_change import refuse_database_change
from runyard.core.config.logins import find_login
from runyard.core.config.server_settings import ServerSettings, read_server_settings
from runyard.core.errors import Conflict
from runyard.server.net.certificates import fingerprint_of, load_context, make_certificate
from tests.client.standin import TOKEN, Peer, Standin, standin
from tests.server.private import settings_of
from tests.server.team import HOST, free_port


@pytest.fixture(autouse=True)
def no_server_known_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known: dict[str, object] = {}
    monkeypatch.setattr(private_server, "_known", known)
    yield
    for client in known.values():
        client.transport.close()  # type: ignore[attr-defined]  # clients


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    made, key = make_certificate([HOST])
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "certificate.pem").write_bytes(made)
    return tmp_path / "certificate.pem"


@pytest.fixture
def server(certificate: Path) -> Iterator[Standin]:
    def answer(peer: Peer) -> None:
        if peer.read_request()[1].get("authorization") == f"Bearer {TOKEN}":
            info: dict[str, object] = {
                "id": "x",
                "version": "9.9",
                "api": 1,
                "pid": 1,
                "host": "far",
                "path": "/signin/x",
            }
            info.update(name="ada", role="user")
            peer.answer(info, headers="connection: close\r\n")
        else:
            peer.answer({"error": {"code": "NotAuthenticated", "what": "no good"}}, status="401 No")

    with standin(answer, context=load_context(certificate, certificate.with_name("key.pem"))) as found:
        yield found


def log_in(monkeypatch: pytest.MonkeyPatch, *words: str, token: str = TOKEN) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
    return run(["login", *words, "--token-stdin"])


def test_a_login_is_kept_when_certificate_and_token_are_good_and_forgotten_by_logout(
    server: Standin,
    certificate: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, pin = str(server.address), fingerprint_of(certificate)

    assert log_in(monkeypatch, url) == 1  # nobody says that the certificate is the server's
    assert f"--fingerprint {pin}" in capsys.readouterr().err
    assert log_in(monkeypatch, url, "--fingerprint", "0" * 64) == 1
    assert "Your token was not sent" in capsys.readouterr().err
    assert log_in(monkeypatch, url, "--fingerprint", pin, token="wrong") == 1
    assert "no good" in capsys.readouterr().err
    assert find_login(home) is None

    assert log_in(monkeypatch, url.partition("://")[2], "--fingerprint", pin.upper()) == 0
    said = capsys.readouterr()
    assert f"Logged in to {url} (Runyard 9.9) as ada (user)." in said.err
    assert TOKEN not in said.out + said.err
    found = find_login(home)
    assert found is not None and (found.url, found.token, found.fingerprint) == (url, TOKEN, pin)

    assert run(["server", "status"]) == 0
    assert "`runyard login` was the last choice" in capsys.readouterr().out
    assert run(["server", "start", "--host", HOST]) == 1
    assert "does not change a team's server" in capsys.readouterr().err
    assert [run(["logout"]), run(["logout"])] == [0, 0]
    assert "You were not logged in" in capsys.readouterr().err
    assert find_login(home) is None
    assert not (home / "server").exists()


@pytest.mark.long
def test_a_server_opens_for_a_team_and_keeps_its_settings_when_new_ones_fail(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    assert run(["server", "start", "--host", HOST, "--port", str(port), "--name", f"team.example:{port}"]) == 0
    said = capsys.readouterr()
    assert said.out == f"https://team.example:{port}\n"
    assert f"runyard login https://team.example:{port}" in said.err
    assert fingerprint_of(home / "server/tls/certificate.pem") in said.err

    with socket.create_server((HOST, 0)) as taken:
        assert run(["server", "set", "server.port", str(taken.getsockname()[1])]) == 1
    said = capsys.readouterr()
    assert "continues with its old settings" in said.err and "Address already in use" in said.err
    assert run(["server", "settings", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["server.port"] == port
    running = private_server.find(settings_of(home))
    assert running is not None
    assert running.server.info().url == f"https://team.example:{port}"
    running.transport.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start", "--port", "8787"], "give --host too"),
        (["start", "--host", "0.0.0.0"], "--name"),
        (["start", "--host", "x", "--database", "mysql://h"], "PostgreSQL"),
        (["set", "server.hots", "x"], "Did you mean `server.host`"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_changes(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["server", *words]) != 0
    assert said in capsys.readouterr().err
    assert read_server_settings(home) == ServerSettings()
    assert not (home / "server/token").exists()


def test_passwords_of_databases_are_never_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["server", "set", "server.database", "postgresql://runyard:s3cret@db/runyard?password=s3cret&x=1"]) == 0
    assert run(["server", "settings"]) == 0
    said = capsys.readouterr()

    assert "s3cret" not in said.out + said.err
    assert "postgresql://********@db/runyard?password=********&x=1" in said.out
    assert read_server_settings(home).database == "postgresql://runyard:s3cret@db/runyard?password=s3cret&x=1"


def test_a_history_does_not_get_out_of_sight_unsaid(home: Path) -> None:
    import sqlite3

    other = ServerSettings(database="postgresql://db/runyard")
    refuse_database_change(home, ServerSettings(), other)  # no database yet
    (home / "server").mkdir()
    with sqlite3.connect(home / "server/runyard.db") as connection:
        connection.execute("CREATE TABLE runs (id)")
    refuse_database_change(home, ServerSettings(), other)
    with connection:
        connection.execute("INSERT INTO runs VALUES ('a'), ('b')")
    connection.close()
    with pytest.raises(Conflict, match="2 run"):
        refuse_database_change(home, ServerSettings(), other)
    with pytest.raises(Conflict, match="out of sight"):
        refuse_database_change(home, other, ServerSettings())
    refuse_database_change(home, other, other)
