"""Requests that want to harm: the gateway refuses them, answers others meanwhile, and reads no model."""

from __future__ import annotations

import gzip
import json
import pickle
import socket
from pathlib import Path

import pytest

from runyard.serving.config import RevisionConfig
from tests.serving.deployments import Deployed, RunningGateway

ECHO = """
    def init(): pass
    def run(d, request_headers): return [d, request_headers.get("content-encoding")]
"""


@pytest.fixture(scope="module")
def service(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    return gateway.deploy(tmp_path_factory.mktemp("echo"), ECHO)


def raw(service: Deployed, data: bytes, *, timeout_s: float = 30) -> bytes:
    """Send bytes as they are, and return all that comes until the gateway closes or has answered."""
    with socket.create_connection(("127.0.0.1", service.gateway.port), timeout=timeout_s) as connection:
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the end
        found = b""
        try:
            while piece := connection.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            pass
        return found


def head(service: Deployed, *lines: str, path: str = "/score", method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {service.path}{path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 3", "Content-Length: 30"],
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 3"],
        ["Transfer-Encoding: xchunked", "Content-Length: 3"],
        ["Content-Length: -1"],
        ["Content-Length: 3,3"],
        ["Content-Length: 0x3"],
        ["Content-Length : 3"],
        [" folded: 1"],
        ["bad\0name: 1"],
        ["name: a\0b"],
    ],
)
def test_a_request_that_two_readers_could_cut_differently_is_refused(service: Deployed, lines: list[str]) -> None:
    smuggled = b"abc" + head(service, "Content-Length: 1") + b"X"

    said = raw(service, head(service, *lines) + smuggled)

    assert said.startswith(b"HTTP/1.1 400 ") and said.count(b"HTTP/1.1") == 1, said
    assert service.post("still here").status == 200


def test_a_head_has_at_most_64_kib(service: Deployed) -> None:
    many = [f"x-{number}: 1" for number in range(1_000_000)]

    assert raw(service, head(service, *many)).startswith(b"HTTP/1.1 431 ")
    assert raw(service, head(service, "x-long: " + "y" * 70_000)).startswith(b"HTTP/1.1 431 ")
    assert raw(service, b"GET /" + b"y" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 431 ")
    assert service.post("still here").status == 200


@pytest.mark.parametrize(
    "path", ["//score", "/../score", "/..%2fscore", "/score/", "/score%00", "/%2e%2e/%2e%2e/etc/passwd", "/score;x"]
)
def test_strange_paths_reach_no_script(service: Deployed, path: str) -> None:
    assert raw(service, head(service, "Content-Length: 1", "Connection: close", path=path) + b"x").startswith(
        b"HTTP/1.1 404 "
    )


@pytest.mark.parametrize("target", ["http://evil.example/", "*", "score", "evil.example:80"])
def test_a_target_must_be_a_path(service: Deployed, target: str) -> None:
    said = raw(service, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    assert said.startswith(b"HTTP/1.1 400 "), said


def test_a_compressed_body_is_passed_as_it_is(service: Deployed) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    refused = service.post(bomb, content_encoding="gzip")

    assert refused.status == 400, "its bytes are no UTF-8; nobody unpacked them"
    assert service.post("plain", content_encoding="gzip").json == ["plain", "gzip"]


def test_a_chunked_body_over_the_limit_is_cut_off(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO, revision=RevisionConfig(1, max_body=1 << 20))
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    begin = head(service, "Transfer-Encoding: chunked", "Connection: close")

    whole = raw(service, begin + chunk * 16 + b"0\r\n\r\n")
    large = raw(service, begin + chunk * 17 + b"0\r\n\r\n")

    assert whole.startswith(b"HTTP/1.1 200 ") and whole.count(b"x") >= 1 << 20
    assert large.startswith(b"HTTP/1.1 413 ")


@pytest.mark.long
def test_slow_heads_and_bodies_are_dropped_and_hold_nobody_up(service: Deployed) -> None:
    port = service.gateway.port
    with socket.create_connection(("127.0.0.1", port), timeout=60) as slow_head:
        slow_head.sendall(b"POST /")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as slow_body:
            slow_body.sendall(head(service, "Content-Length: 100") + b"x")
            assert service.post("others").status == 200

            assert slow_head.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
            try:
                assert slow_body.recv(1 << 16) == b""
            except ConnectionResetError:
                pass


def test_a_client_that_reads_nothing_holds_no_worker(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, "def init(): pass\ndef run(d): return d * 1_000_000 if d == 'xxxxxxxx' else d")
    with socket.create_connection(("127.0.0.1", gateway.port)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(head(service, "Content-Length: 8") + b"xxxxxxxx")

        assert [service.post(str(number)).json for number in range(20)] == [str(number) for number in range(20)]


def test_a_script_cannot_add_headers_through_a_value(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        from azureml.contrib.services.aml_response import AMLResponse
        def init(): pass
        def run(d): return AMLResponse("x", 200, {"x-given": "a\\r\\nset-cookie: b=1"})
        """,
    )

    answer = service.post("")

    assert answer.header("set-cookie") is None
    assert answer.header("x-given") == "a  set-cookie: b=1"


def test_a_page_of_a_script_is_no_page_of_ours(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        from azureml.contrib.services.aml_response import AMLResponse
        def init(): pass
        def run(d): return AMLResponse("<script>alert(1)</script>", 200)
        """,
    )

    answer = service.post("")

    assert str(answer.header("content-security-policy")).startswith("sandbox ")
    assert answer.header("x-content-type-options") == "nosniff"
    assert "allow-same-origin" not in str(answer.header("content-security-policy"))


class RunsCode:
    """Unpickling it writes the process that did it into a file."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> object:
        code = f"open({self._path!r}, 'a').write(str(__import__('os').getpid()) + '\\n')"
        return exec, (code,)


@pytest.mark.long
def test_what_a_pickle_does_it_does_in_a_worker(gateway: RunningGateway, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    service = gateway.deploy(
        tmp_path,
        "",
        "--no-code",
        "sklearn",
        files={"model.pkl": pickle.dumps(RunsCode(proof))},
        wait=False,
    )
    gateway.wait_ready(service)

    assert {int(line) for line in proof.read_text().split()} == {one["pid"] for one in service.workers()}


def test_deep_and_broken_json_is_the_clients_fault(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        from runyard import serving
        class Echo(serving.Scorer):
            def predict(self, value): return value
        """,
    )

    for body in ("[" * 100_000, "{", "", "\ufeff1"):
        assert service.post(body, content_type="application/json").status == 400
    assert service.post(json.dumps({"value": [1]})).json == [1]
