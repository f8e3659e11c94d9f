"""Which server a process talks to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.client.private_server import client_for, connect, find, runtime_folder
from runyard.client.processes import server_command, server_variables
from runyard.core.config.settings import Settings
from runyard.core.errors import NotAuthenticated, ServerNotStarted, ServerUnreachable
from tests.server.guarded import TOKEN, Guarded, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with serving() as running:
        yield running


def elsewhere(url: str, token: str | None = TOKEN) -> Settings:
    return Settings(home=Path("/nonexistent"), url=url, token=token)


def test_a_url_with_its_token_is_used_and_nothing_is_started(server: Guarded) -> None:
    for url in (f"http://127.0.0.1:{server.port}", f"unix://{server.unix.place}"):
        client = connect(elsewhere(url))

        assert client.server.info().id == server.services.server_id
        assert connect(elsewhere(url)) is client
        client.transport.close()


def test_a_url_without_a_token_says_what_to_set(server: Guarded) -> None:
    with pytest.raises(NotAuthenticated, match="RUNYARD_TOKEN is not set") as caught:
        connect(elsewhere(f"http://127.0.0.1:{server.port}", None))

    assert "export RUNYARD_TOKEN" in caught.value.hint


def test_a_wrong_token_is_refused_at_once(server: Guarded) -> None:
    with pytest.raises(NotAuthenticated):
        connect(elsewhere(f"http://127.0.0.1:{server.port}", "ryt_" + "9" * 64))


def test_a_url_where_nobody_listens_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable):
        connect(elsewhere(f"unix://{tmp_path}/none"))


def test_a_home_without_a_server_is_found_to_have_none(tmp_path: Path) -> None:
    assert find(Settings(home=tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_home_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    home = tmp_path / "planted"
    (home / "server").mkdir(parents=True)
    (home / "server/token").write_text(TOKEN)
    os.chown(home, 12345, 12345)

    with pytest.raises(ServerNotStarted, match="belongs to user 12345"):
        find(Settings(home=home))


def test_a_team_servers_address_is_not_started_again(server: Guarded) -> None:
    client = client_for(server.client().address)

    assert client.address.home is None
    assert client.server.info().version
    client.transport.close()


def test_the_servers_command_and_variables_are_plain_values(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, url="http://x:1", token="secret", idle_stop_s=7.5, port=99, keep_run_folders=True
    )
    variables = server_variables(settings, {"PATH": "/bin", "LC_ALL": "C", "LD_PRELOAD": "x", "SECRET": "y"})

    assert server_command(settings, 5)[1:] == ["-m", "runyard.server", "--home", str(tmp_path), "--ready-fd", "5"]
    assert {name: variables[name] for name in ("PATH", "LC_ALL")} == {"PATH": "/bin", "LC_ALL": "C"}
    assert variables["RUNYARD_IDLE_STOP"] == "7.5"
    assert variables["RUNYARD_PORT"] == "99"
    assert variables["RUNYARD_KEEP_RUN_FOLDERS"] == "1"
    assert not {"LD_PRELOAD", "SECRET", "RUNYARD_URL", "RUNYARD_TOKEN"} & set(variables)


def test_the_runtime_folder_is_private_and_short(tmp_path: Path) -> None:
    folder = runtime_folder(Settings(home=tmp_path / ("deep/" * 50)))

    assert len(os.fsencode(folder / "s")) <= 107
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
