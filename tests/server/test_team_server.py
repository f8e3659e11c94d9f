"""A team's server: the private server of a home that also listens for others, over TLS."""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from azureml.core import Experiment, ScriptRunConfig, Workspace
from runyard.client.address import Address
from runyard.client.client import Client
from runyard.client.private_server import connect as connect_to
from runyard.client.transport import Transport
from runyard.core.config.logins import Login, store_login
from runyard.core.config.server_settings import ServerSettings
from runyard.core.config.settings import Settings
from runyard.core.errors import NotAllowed, NotAuthenticated, NotTrusted, ServerNotStarted
from runyard.sdk.exceptions import AuthenticationException
from runyard.sdk.runs.details import portal_url, signin_url
from runyard.sdk.workspaces.server import connect
from runyard.server.access.hosts import TeamNames
from runyard.server.net.certificates import fingerprint_of, make_certificate
from runyard.server.net.team_port import open_team_port
from tests.conftest import end_home
from tests.server import private
from tests.server.browser_session import both_halves, led_to
from tests.server.guarded import serving
from tests.server.private import python_prints
from tests.server.raw_http import Answer, read_answer
from tests.server.team import HOST, free_port, start_team, team_address
from tests.waiting import wait_for


@dataclass(frozen=True)
class Team:
    home: Path
    own: Client  # over the unix socket
    address: Address  # for others
    made: list[Client] = field(default_factory=list)

    def client(self, token: str | None = None) -> Client:
        self.made.append(Client(Transport(replace(self.address, token=token or self.own.address.token))))
        return self.made[-1]

    def close(self) -> None:
        for client in (self.own, *self.made):
            client.transport.close()

    def ask(self, method: str, target: str, *lines: str, host: str | None = None) -> Answer:
        """Send one request over TLS with exactly these header lines."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        text = "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host or self.address.authority}", *lines, "", ""])
        with socket.create_connection((HOST, int(self.address.port or 0)), 10) as sock:
            with context.wrap_socket(sock) as wrapped:
                wrapped.sendall(text.encode())
                return read_answer(wrapped)

    def bearer(self) -> str:
        return f"Authorization: Bearer {self.own.address.token}"


@pytest.fixture(scope="module")
def team(session_folder: Path) -> Iterator[Team]:
    home = Path(tempfile.mkdtemp(prefix="t", dir=session_folder))
    own = start_team(home, names=["team.example"])
    address = team_address(own)
    found = Team(home, own, replace(address, host=HOST, web_url=f"https://{HOST}:{address.port}"))
    yield found
    found.close()
    end_home(home)


def test_others_reach_it_by_the_certificate_that_it_names(team: Team) -> None:
    info = team.client().server.info()

    assert info.pid == private.pid_of(team.own)
    assert (info.team, info.database, info.idle_stop_s) == (True, "SQLite", 0.0)
    assert info.url == f"https://team.example:{team.address.port}"
    assert info.listens_on[-1] == f"{info.url}#sha256={team.address.fingerprint}"
    assert team.address.fingerprint == fingerprint_of(team.home / "server/tls/certificate.pem")
    assert private.mode_of(team.home / "server/tls/key.pem") == 0o600
    with pytest.raises(NotTrusted):
        Client(Transport(replace(team.address, fingerprint="f" * 64))).server.info()
    with pytest.raises(NotAuthenticated):
        team.client("wrong").server.info()


def test_it_listens_where_it_was_told_and_on_loopback_only(team: Team) -> None:
    assert {address for address, _ in private.listening_addresses(private.pid_of(team.own))} == {HOST, "127.0.0.1"}


def test_names_are_compared_exactly(team: Team) -> None:
    port = team.address.port
    good = [f"{HOST}:{port}", "team.example", f"team.example:{port}", f"Team.Example:{port}", f"localhost:{port}"]
    bad = ["evil.example", f"evil.team.example:{port}", "team.example:1", "127.0.0.1", "runyard", "team.example."]

    assert [team.ask("GET", "/api/v1/server", team.bearer(), host=host).status for host in good] == [200] * 5
    assert [team.ask("GET", "/api/v1/server", team.bearer(), host=host).status for host in bad] == [421] * 6


def test_plain_http_gets_no_answer(team: Team) -> None:
    with socket.create_connection((HOST, int(team.address.port or 0)), 10) as sock:
        sock.sendall(f"GET /api/v1/health HTTP/1.1\r\nHost: {team.address.authority}\r\n\r\n".encode())
        assert b"HTTP" not in sock.recv(4096)


def test_who_does_not_shake_hands_keeps_nobody_out(team: Team) -> None:
    place = (HOST, int(team.address.port or 0))
    silent = [socket.create_connection(place, 10) for _ in range(600)]
    try:
        statuses = [team.ask("GET", "/api/v1/server", team.bearer()).status for _ in range(12)]
    finally:
        for sock in silent:
            sock.close()

    assert statuses == [200] * 12
    assert "The lobby of the team's port has 512 connections" in (team.home / "server/server.log").read_text()


def test_a_page_of_the_server_is_https_and_signs_a_browser_in_over_tls_only(team: Team) -> None:
    url = signin_url(team.client(), "/runs/x")
    base = f"https://{HOST}:{team.address.port}"
    assert url.startswith(f"{base}/signin/")
    assert signin_url(team.own, "/").startswith(f"https://team.example:{team.address.port}/signin/")
    assert portal_url(team.client(), "/runs/x") == f"{base}/runs/x"  # may be sent to others

    answer = team.ask("GET", url[len(base) :])
    cookie = answer.headers["set-cookie"]
    assert (answer.status, led_to(answer)) == (200, "/runs/x")
    assert "Secure" in cookie.split("; ")
    session = f"Cookie: {both_halves(answer)}"
    assert team.ask("GET", "/api/v1/server", session).status == 200
    changes = [
        team.ask("POST", "/api/v1/server/collect", session, f"Origin: {origin}").status
        for origin in (base, base.replace("https", "http"), "https://evil.example", "null")
    ]
    assert changes == [200, 403, 403, 403]


def test_a_run_is_submitted_from_elsewhere_and_the_submitters_variables_stay_at_home(
    team: Team, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_login(home, Login(str(team.address), team.own.address.token, team.address.fingerprint))
    monkeypatch.setenv("SECRET_OF_THE_LAPTOP", "s3cret")
    (tmp_path / "train.py").write_text(
        "import os\nfrom azureml.core import Run\nrun = Run.get_context()\nrun.log('x', 4)\n"
        "print(os.environ.get('SECRET_OF_THE_LAPTOP', 'none here'), run.get_portal_url())\n"
    )
    workspace = Workspace.from_config()
    run = Experiment(workspace, "far").submit(ScriptRunConfig(str(tmp_path), script="train.py"))
    run.wait_for_completion(raise_on_error=True)

    assert run.get_metrics() == {"x": 4}
    assert run.get_portal_url().startswith(f"https://{HOST}:{team.address.port}/")
    run.download_file("user_logs/std_log.txt", str(tmp_path / "log"))
    assert (tmp_path / "log").read_text().split() == [
        "none",
        "here",
        f"https://team.example:{team.address.port}/runs/{run.id}",
    ]
    assert not (home / "server").exists()  # nothing was started here


ELSEWHERE = """
import json, os, pathlib
from azureml.core import Experiment, Workspace

experiment = Experiment(Workspace.from_config(), "far")
with experiment.start_logging(snapshot_directory=None) as run:
    run.log("x", 1)
    job = json.loads(pathlib.Path(os.environ["RUNYARD_HOME"], "runs", run.id, "0/job.json").read_text())
    pathlib.Path("outputs/model.txt").write_text("weights")
    with run.child_run("child") as child:
        child.log("y", 2)
known = next(each for each in experiment.get_runs() if each.id == run.id)
known.log("late", 3)
open_run = experiment.start_logging(snapshot_directory=None)
open_run.log("z", 4)
print(json.dumps([job, open_run.id]))
"""


def test_a_process_elsewhere_is_a_run_and_logs_on_others_with_a_watcher_of_its_own_machine(
    team: Team, home: Path, tmp_path: Path
) -> None:
    store_login(home, Login(str(team.address), team.own.address.token, team.address.fingerprint))
    job, open_run = json.loads(python_prints(ELSEWHERE, cwd=tmp_path))
    runs, run_id = team.own.runs, job["run_id"]
    names = {file.name for file in runs.files(run_id)}

    assert runs.get(run_id).status.value == "Completed"
    wait_for(lambda: {info.name for info in runs.metrics(run_id)} == {"x", "late"})
    assert {"outputs/model.txt", "logs/user_log.txt"} <= names
    children = runs.list("default", parent=run_id).runs
    assert [(child.status.value, runs.metrics(child.id)[0].name) for child in children] == [("Completed", "y")]
    assert not (team.home / "runs" / run_id).exists()  # of the server's machine nothing was used
    assert (job["server"]["tls"], job["server"]["fingerprint"]) == (True, team.address.fingerprint)
    wait_for(lambda: runs.get(open_run).status.is_terminal)  # its process is gone
    assert [info.name for info in runs.metrics(open_run)] == ["z"]

    as_run = team.client(job["token"])
    assert as_run.runs.get(run_id).id == run_id
    for forbidden in (lambda: as_run.runs.get(open_run), as_run.server.stop, lambda: as_run.server.signin_path("/")):
        with pytest.raises(NotAllowed):
            forbidden()


def test_a_config_file_names_the_server_and_each_user_logs_in_once(
    team: Team, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"workspace_name": "default", "runyard_url": str(team.address)}))
    with pytest.raises(AuthenticationException, match=f"runyard login {team.address}"):
        Workspace.from_config()
    store_login(home, Login(str(team.address), team.own.address.token, team.address.fingerprint))
    store_login(home, Login("https://other.example", "another token"))

    workspace = Workspace.from_config()
    workspace.write_config(str(tmp_path / "copy"))
    assert workspace._client.server.info().pid == private.pid_of(team.own)
    assert connect().server.info().pid == private.pid_of(team.own)  # the command line goes by it too
    assert json.loads((tmp_path / "copy/.azureml/config.json").read_text())["runyard_url"] == str(team.address)
    workspace._client.transport.close()


def test_it_is_the_same_after_a_crash_whoever_starts_it(team: Team) -> None:
    before = team.own.server.info()
    url = f"{team.address}#sha256={team.address.fingerprint}"
    far = connect_to(Settings(home=team.home, url=url, token=team.own.address.token))
    private.kill(before.pid)

    def start_again() -> None:
        private.start(team.home, RUNYARD_IDLE_STOP="1").transport.close()

    starter = threading.Timer(0.5, start_again)
    starter.start()
    assert far.server.info().pid != before.pid  # who used it before waits for it and goes on
    starter.join()
    again = private.start(team.home, RUNYARD_IDLE_STOP="1")

    after = again.server.info()
    again.transport.close()
    far.transport.close()
    assert after.pid != before.pid
    assert after.listens_on[-1] == before.listens_on[-1]
    assert after.idle_stop_s == 0.0
    assert team.client().server.info().pid == after.pid


def test_given_files_are_used_and_unfitting_ones_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        certificate, key = make_certificate(["127.0.0.3"])
        (tmp_path / f"{name}.pem").write_bytes(certificate)
        (tmp_path / f"{name}.key").write_bytes(key)
    given = ServerSettings(HOST, free_port(), tls_cert=str(tmp_path / "a.pem"), tls_key=str(tmp_path / "a.key"))

    port = open_team_port(given, tmp_path)
    assert port is not None and port.context is not None
    port.listener.close()
    assert port.fingerprint == fingerprint_of(tmp_path / "a.pem")
    with pytest.raises(ServerNotStarted, match="certificate cannot be used"):
        open_team_port(replace(given, tls_key=str(tmp_path / "b.key")), tmp_path)
    with socket.create_server((HOST, given.port)), pytest.raises(ServerNotStarted, match="Address already in use"):
        open_team_port(given, tmp_path)
    with pytest.raises(ServerNotStarted, match=r"missing\.pem"):
        open_team_port(replace(given, tls_cert=str(tmp_path / "missing.pem")), tmp_path)


def test_a78_open_to_all_addresses_it_has_tls_or_a_proxy_in_front(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    settings = ServerSettings("0.0.0.0", free_port("0.0.0.0"), names=["team.example"])

    port = open_team_port(settings, tmp_path)
    assert port is not None and port.context is not None  # never plain HTTP
    port.listener.close()
    assert port.node_address is not None
    assert (port.node_address["host"], port.node_address["tls"]) == ("team.example", True)
    assert port.node_address["fingerprint"] == port.fingerprint
    proxied = open_team_port(replace(settings, behind_proxy=True), tmp_path)  # the control: said in so many words
    assert proxied is not None and proxied.context is None
    proxied.listener.close()
    assert proxied.node_address is not None
    assert (proxied.node_address["port"], proxied.node_address["fingerprint"]) == (443, "")


def test_nodes_are_not_sent_to_an_address_that_only_this_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server").mkdir()
    port = open_team_port(ServerSettings(HOST, free_port()), tmp_path)
    assert port is not None
    port.listener.close()
    assert port.node_address is None

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", free_port("127.0.1.1")))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)  # as Debian's /etc/hosts has it
    with pytest.raises(ServerNotStarted, match=r"is 127\.0\.1\.1, which is the machine itself") as caught:
        open_team_port(ServerSettings("my-machine", 8787), tmp_path)
    assert "--name my-machine" in caught.value.hint


def test_behind_a_proxy_pages_are_https_although_requests_are_not() -> None:
    with serving(names=TeamNames(frozenset({b"team.example"}))) as server:
        answer = server.tcp.ask("GET", server.signin.make_path("/"), host="team.example")
        assert answer.status == 200
        assert "Secure" in answer.headers["set-cookie"].split("; ")
        session = f"Cookie: {both_halves(answer)}"
        statuses = [
            server.tcp.ask("POST", "/api/v1/server/collect", [session, f"Origin: {origin}"], host="team.example").status
            for origin in ("https://team.example", "http://team.example")
        ]
    assert statuses == [200, 403]
