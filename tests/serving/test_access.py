"""Who may call a service: keys, tokens, pages of other sites; and what workers get to know of them."""

from __future__ import annotations

import hmac
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from runyard.serving.config import ServiceConfig
from runyard.serving.gateway.access import Doorkeeper
from runyard.serving.standalone import StandaloneService
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


def test_a_token_is_good_until_its_second() -> None:
    config = ServiceConfig("svc", "id", keys=(digest_of("k"),), token_secret="secret")
    token = f"Bearer {make_token('secret', 'id', 1000)}".encode()

    def is_good(moment: float) -> bool:
        return Doorkeeper(config, frozenset(), clock=lambda: moment).may_enter(token)

    assert [is_good(moment) for moment in (0.0, 999.9, 1000.0, 1e9)] == [True, True, False, False]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
    """What was compared in constant time."""
    found: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: found.append((one, other)) or compare(one, other))
    return found


TOKEN = make_token("secret", "id", 2_000_000_000)
GIVEN = {
    "the first key": "first",
    "the second key": "second",
    "all but a letter": "firsu",
    "a longer one": "first2",
    "half of it": "fir",
    "nothing": "",
    "no ASCII": "prüm",
    "a token": TOKEN,
    "all but a letter of a token": TOKEN[:-1] + ("0" if TOKEN[-1] != "0" else "1"),
    "half of a token": TOKEN[:30],
    "a token of another service": make_token("secret", "other", 2_000_000_000),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN.keys())
def test_how_much_of_a_key_is_right_changes_no_work(compared: list[tuple[bytes, bytes]], given: str) -> None:
    """Each key is compared in constant time and as a digest, so in one length; a token's signature too."""
    keys = (digest_of("first"), digest_of("second"))
    door = Doorkeeper(ServiceConfig("svc", "id", keys=keys, token_secret="secret"), frozenset(), clock=lambda: 1e9)

    is_in = door.may_enter(f"Bearer {given}".encode())

    assert is_in == (given in ("first", "second", TOKEN))
    digest = bytes.fromhex(digest_of(given.encode()))
    assert compared[:2] == [(bytes.fromhex(key), digest) for key in keys]
    assert len(compared) == (3 if given.startswith("rys1.") else 2)
    assert all(given.endswith(one.decode()) for one, _ in compared[2:])


@pytest.mark.parametrize("given", ["key", "kez", "k", "", "a much longer one"])
def test_a_packaged_model_compares_its_key_in_constant_time(compared: list[tuple[bytes, bytes]], given: str) -> None:
    model = SimpleNamespace(call=SimpleNamespace(paths=(), takes_all_methods=False), swagger={"2": "{}"})
    service = StandaloneService(model, name="svc", key="key")  # type: ignore[arg-type]  # it calls no model

    status, _, _ = service.answer("GET", "/swagger.json", [(b"authorization", f"Bearer {given}".encode())], b"")

    assert status == (200 if given == "key" else 401)
    assert [{len(one), len(other)} for one, other in compared] == [{32}]


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
