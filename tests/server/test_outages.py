"""The server's database, disk or memory fails under a request: 503 for whoever asks, and nobody is judged by it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import exc

from runyard.core.errors import (
    DamagedContent,
    NotAuthenticated,
    RunyardError,
    StoreUnavailable,
    SystemFailure,
    is_later,
)
from runyard.core.formats.chunks import CHUNK_SIZE, chunk_id
from runyard.core.records import RunFile
from runyard.server.services import Services
from runyard.server.storage.health import FULL, OK, READ_ONLY, Health, check_disk
from runyard.testing.runs import a_new_run
from tests.server.guarded import TOKEN, Guarded, serving

AWAY = StoreUnavailable("The database `postgresql:///x` cannot be used.", why="It is stopped.")
OUTAGES = [
    AWAY,
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EDQUOT, "Disk quota exceeded"),
    OSError(errno.EIO, "Input/output error"),
    OSError(errno.EMFILE, "Too many open files"),
    MemoryError(),
    exc.TimeoutError("QueuePool limit of size 4 overflow 60 reached"),
    exc.OperationalError("SELECT 1", {}, Exception("server closed the connection unexpectedly")),
]


class FailingStore:
    """Stands before the store: all that it is asked fails as long as `fault` is set."""

    def __init__(self, store: object) -> None:
        self._store = store
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> object:
        found = getattr(self._store, name)

        def call(*args: object, **kwargs: object) -> object:
            if self.fault is not None and name != "find_fault":  # which asks nobody
                raise self.fault
            return found(*args, **kwargs)

        return call if callable(found) else found


@pytest.fixture(scope="module")
def failing() -> Iterator[tuple[Guarded, FailingStore]]:
    stores: list[FailingStore] = []

    def wrap(store: object) -> FailingStore:
        stores.append(FailingStore(store))
        return stores[-1]

    with serving(store=wrap) as guarded:
        guarded.services.store.create_run(a_new_run("r_1"))
        yield guarded, stores[0]


@contextmanager
def fault(store: FailingStore, error: Exception) -> Iterator[None]:
    store.fault = error
    try:
        yield
    finally:
        store.fault = None


@pytest.mark.parametrize("error", OUTAGES, ids=lambda error: f"{type(error).__name__} {str(error)[:20]}")
@pytest.mark.parametrize("who", ["owner", "user", "run"])
def test_an_outage_is_answered_as_one_to_everybody(
    failing: tuple[Guarded, FailingStore], who: str, error: Exception
) -> None:
    guarded, store = failing
    tokens = {"owner": lambda: TOKEN, "user": lambda: new_user(guarded), "run": lambda: guarded.run_token("r_1", 1)}
    client = guarded.client(tokens[who]())
    with fault(store, error):
        with pytest.raises(RunyardError) as caught:
            client.runs.get("r_1")
    client.transport.close()

    assert (caught.value.code, caught.value.status) == ("StoreUnavailable", 503)
    assert is_later(caught.value)


def test_a_fault_that_nobody_foresaw_in_a_look_up_is_our_json_too(failing: tuple[Guarded, FailingStore]) -> None:
    guarded, store = failing
    client = guarded.client(guarded.run_token("r_1", 1))
    with fault(store, ZeroDivisionError()):
        with pytest.raises(SystemFailure, match="could not do this") as caught:
            client.runs.heartbeat("r_1", 1)
    client.transport.close()

    assert caught.value.status == 500


def test_a_token_that_is_wrong_stays_wrong(failing: tuple[Guarded, FailingStore]) -> None:
    guarded, _ = failing
    client = guarded.client("ryr_" + "0" * 64)
    with pytest.raises(NotAuthenticated) as caught:
        client.runs.get("r_1")
    client.transport.close()

    assert not is_later(caught.value)


def test_health_names_the_part_that_is_away(failing: tuple[Guarded, FailingStore]) -> None:
    guarded, store = failing
    client = guarded.client()
    assert client.transport.request("GET", "/health").json() == {"ok": True, "parts": {"database": OK, "disk": OK}}
    guarded.services.health._began_at = -10.0
    with fault(store, AWAY):
        with pytest.raises(StoreUnavailable) as caught:
            client.transport.request("GET", "/health")
        info = client.server.info()
    client.transport.close()

    assert caught.value.details == {"parts": {"database": "away", "disk": "ok"}}
    assert "postgresql" not in str(caught.value)
    assert info.health == {"database": "away", "disk": "ok"}


def test_health_asks_once_a_second_and_waits_for_nobody_that_hangs() -> None:
    now, asked = [0.0], []

    def count() -> str:
        asked.append(now[0])
        return OK

    health = Health({"database": count}, clock=lambda: now[0])
    assert [health.look_now() for _ in range(5)] == [{"database": OK}] * 5
    now[0] = 1.5
    assert health.look_now() == {"database": OK}
    assert asked == [0.0, 1.5]


def test_health_of_a_disk(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    assert check_disk(tmp_path) == OK
    assert os.listdir(tmp_path / "server") == []
    assert check_disk(Path("/proc")) in (FULL, READ_ONLY)


def test_a_download_of_damaged_content_names_the_file_and_the_damage() -> None:
    with serving() as guarded:
        client = guarded.client()
        first, second = os.urandom(CHUNK_SIZE), os.urandom(1000)
        run_id = "r_1"
        guarded.services.store.create_run(a_new_run(run_id))
        for data in (first, second):
            client.content.put([(chunk_id(data), data)])
        whole = chunk_id(first + second)
        file = RunFile("outputs/model.bin", CHUNK_SIZE + 1000, sha256=whole, chunks=[chunk_id(first), chunk_id(second)])
        client.runs.put_file(run_id, file)
        damage(guarded.services, second)
        target = guarded.services.settings.home / "copy"
        with pytest.raises(DamagedContent, match=r"content of the file `outputs/model.bin` is damaged") as caught:
            client.runs.download(run_id, "outputs/model.bin", target)
        remove_packs(guarded.services)
        with pytest.raises(DamagedContent, match=r"(?s)`outputs/model.bin`.* missing"):
            client.runs.download(run_id, "outputs/model.bin", target)
        client.transport.close()

    assert caught.value.hint
    assert not target.exists()


def new_user(guarded: Guarded) -> str:
    client = guarded.client()
    name = f"user-{os.urandom(4).hex()}"
    token = client.users.add(name).token
    client.transport.close()
    return token


def packs(services: Services) -> list[Path]:
    return [path for path in (services.settings.home / "artifacts").rglob("*") if path.is_file()]


def damage(services: Services, data: bytes) -> None:
    """Flip a byte of what is stored for `data`."""
    for path in packs(services):
        stored = path.read_bytes()
        at = stored.find(data)
        if at >= 0:
            path.chmod(0o600)
            path.write_bytes(stored[: at + 10] + bytes([stored[at + 10] ^ 1]) + stored[at + 11 :])
            return
    raise AssertionError("it is nowhere")


def remove_packs(services: Services) -> None:
    for path in packs(services):
        path.unlink()
