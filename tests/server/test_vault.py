"""Secrets: sealed in the database, opened only with the key beside it, read by runs and never by readers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runyard.client.calls.workspace import SecretCalls
from runyard.core.config.paths import database_file, server_folder
from runyard.core.errors import InvalidArgument, NotAllowed, NotFound, ServerNotStarted, StoreUnavailable
from runyard.server.access.vault import KEY_FILE, KIND, Vault
from tests.server.conftest import Served

CANARY = "canary-7f3a9c"


def secrets_of(served: Served) -> SecretCalls:
    return SecretCalls(served.client.transport)


def test_a_secret_is_kept_replaced_listed_by_name_and_deleted(served: Served) -> None:
    secrets = secrets_of(served)
    secrets.put("default", "db-password", "first")
    secrets.put("default", "db-password", CANARY)
    secrets.put("default", "Other", "ünï ✓\n")

    assert secrets.get("default", "db-password") == CANARY
    assert secrets.get("default", "Other") == "ünï ✓\n"
    assert secrets.list("default") == ["Other", "db-password"]
    secrets.delete("default", "db-password")
    secrets.delete("default", "db-password")
    with pytest.raises(NotFound, match="no secret `db-password`"):
        secrets.get("default", "db-password")
    secrets.put("default", "db-password", "again")
    assert secrets.get("default", "db-password") == "again"


def test_no_file_of_the_server_holds_a_value(served: Served) -> None:
    secrets_of(served).put("default", "db-password", CANARY)
    home = served.services.settings.home
    files = [path for path in home.rglob("*") if path.is_file()]

    assert database_file(home) in files
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
    assert (server_folder(home) / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_a_run_reads_secrets_and_changes_none(served: Served) -> None:
    secrets_of(served).put("default", "db-password", CANARY)
    run = SecretCalls(served.as_run(served.submit()).transport)

    assert run.get("default", "db-password") == CANARY
    with pytest.raises(NotAllowed, match="may not change secret"):
        run.put("default", "db-password", "mine")
    with pytest.raises(NotAllowed, match="may not change secret"):
        run.delete("default", "db-password")


def test_the_assets_route_does_not_show_them(served: Served) -> None:
    secrets_of(served).put("default", "db-password", CANARY)

    with pytest.raises(InvalidArgument, match="no kind of asset"):
        served.client.assets.list("default", KIND)


@pytest.mark.parametrize("name", ["", "db_password", "-x", "a" * 128, "a/b", "ä"])
def test_a_name_that_azure_would_refuse_is_refused(served: Served, name: str) -> None:
    with pytest.raises((InvalidArgument, NotFound)):
        secrets_of(served).put("default", name, "x")
    assert secrets_of(served).list("default") == []


def test_with_another_key_or_in_another_place_a_secret_does_not_open(served: Served, tmp_path: Path) -> None:
    vault = served.services.vault
    vault.put("default", "a", CANARY)
    store = served.services.store
    store.put_asset("default", KIND, "b", store.get_asset("default", KIND, "a").document)

    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        vault.get("default", "b")
    other = Vault(store, tmp_path)
    (tmp_path / "server").mkdir()
    with pytest.raises(StoreUnavailable, match="another key"):
        other.get("default", "a")
    shutil.copy(server_folder(served.services.settings.home) / KEY_FILE, tmp_path / "server" / KEY_FILE)
    assert other.get("default", "a") == CANARY
    os.chmod(tmp_path / "server" / KEY_FILE, 0o644)
    with pytest.raises(ServerNotStarted, match="Others can read it"):
        other.get("default", "a")
