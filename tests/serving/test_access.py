"""Who may call a service: keys, tokens, pages of other sites; and what workers get to know of them."""

from __future__ import annotations

import time
from pathlib import Path

from runyard.serving.tokens import digest_of, make_token
from tests.serving.deployments import Answer, Deployed, RunningGateway

ECHO = "def init(): pass\ndef run(d): return d"


def call(service: Deployed, key: str) -> Answer:
    return service.post("x", authorization=f"Bearer {key}")


def test_both_keys_open_and_a_changed_one_does_not(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO, auth=True, keys=(digest_of("first"), digest_of("second")))
    (worker,) = service.workers()

    assert [call(service, key).status for key in ("first", "second", "third", "")] == [200, 200, 401, 401]
    service.put(keys=(digest_of("new"), digest_of("second")))

    assert [call(service, key).status for key in ("first", "second", "new")] == [401, 200, 200]
    assert service.workers()[0]["pid"] == worker["pid"]
    refused = service.post("x")
    assert (refused.status, refused.header("www-authenticate")) == (401, "Bearer")
    assert "get_keys()" in refused.json["message"]
    assert service.get("/").status == 200


def test_a_key_or_token_of_one_service_does_not_open_another(gateway: RunningGateway, tmp_path: Path) -> None:
    ours = gateway.deploy(tmp_path, ECHO, auth=True, keys=(digest_of("one"),), token_secret="secret")
    other = gateway.deploy(tmp_path, ECHO, auth=True, keys=(digest_of("two"),), token_secret="secret")
    token = make_token("secret", ours.config.id, int(time.time()) + 100)

    assert [call(ours, "one").status, call(ours, token).status] == [200, 200]
    assert [call(other, "one").status, call(other, token).status] == [401, 401]
    assert call(ours, "secret-1").status == 401, "the token of a worker is no key"


def test_a_token_ends(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO, auth=True, keys=(digest_of("k"),), token_secret="secret")
    now = int(time.time())
    good = make_token("secret", service.config.id, now + 100)

    assert call(service, good).status == 200
    assert call(service, make_token("secret", service.config.id, now - 1)).status == 401
    assert call(service, make_token("guessed", service.config.id, now + 100)).status == 401
    assert call(service, good.replace(str(now + 100), str(now + 999))).status == 401


def test_a_worker_with_a_wrong_token_gets_no_requests(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO)

    stranger = gateway.replicate(service, variables={"RUNYARD_SERVING_TOKEN": "guessed"})

    assert stranger.process.wait(30) == 0, "its workers are told to stop"
    assert len(service.workers()) == 1


def test_a_worker_sees_neither_its_token_nor_the_clients_key(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(
        tmp_path,
        """
        import os
        def init(): pass
        def run(d, request_headers):
            return [sorted(request_headers), [name for name in os.environ if "TOKEN" in name]]
        """,
        auth=True,
        keys=(digest_of("mine"),),
    )

    headers, variables = call(service, "mine").json

    assert "Authorization" not in headers and "X-Request-Id" in headers
    assert variables == []


def test_a_service_without_keys_does_not_answer_pages_of_other_sites(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO, cors_origins=("https://friend.example",))

    assert service.post("x", host="evil.example").status == 403
    assert service.post("x", origin="https://evil.example").status == 403
    assert service.post("x", origin="null").status == 403
    friend = service.post("x", origin="https://friend.example")
    assert (friend.status, friend.header("access-control-allow-origin")) == (200, "https://friend.example")
    assert service.post("x").header("access-control-allow-origin") is None


def test_a_preflight_names_the_allowed_origin_alone(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, ECHO, cors_origins=("https://friend.example",))
    asked = {"access_control_request_method": "POST", "access_control_request_headers": "x-mine"}

    friend = service.post(None, method="OPTIONS", origin="https://friend.example", **asked)
    stranger = service.post(None, method="OPTIONS", origin="https://evil.example", **asked)

    assert friend.header("access-control-allow-origin") == "https://friend.example"
    assert friend.header("access-control-allow-headers") == "x-mine"
    assert friend.header("access-control-allow-methods") == "GET, POST"
    assert [stranger.header(f"access-control-allow-{one}") for one in ("origin", "headers", "methods")] == [None] * 3
