"""Which server is used: RUNYARD_URL, a config.json's, a login's, the private one. No token goes elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runyard.client.login import choose
from runyard.core.config.logins import Login, find_login, login_file, remove_login, store_login
from runyard.core.config.settings import Settings
from runyard.core.errors import NotAuthenticated, UserError

TEAM = Login("https://team.example:8787", "ryu_team", "ab" * 32)
OTHER = Login("https://other.example", "ryu_other")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    store_login(tmp_path, OTHER)
    store_login(tmp_path, TEAM)
    return tmp_path


def test_logins_are_kept_for_their_owner_alone_and_forgotten_one_by_one(home: Path) -> None:
    assert login_file(home).stat().st_mode & 0o777 == 0o600
    assert find_login(home) == TEAM
    assert find_login(home, "https://other.example/") == OTHER
    assert remove_login(home, OTHER.url) == OTHER
    assert find_login(home) == TEAM
    assert remove_login(home) == TEAM
    assert (find_login(home), remove_login(home)) == (None, None)
    assert "ryu_" not in login_file(home).read_text()
    assert "ryu_team" not in repr(TEAM)


def test_the_first_of_environment_config_login_and_private_server_is_used(home: Path) -> None:
    private = Settings(home=home / "elsewhere")
    here = Settings(home=home)
    by_url = Settings(home=home, url="http://127.0.0.1:1", token="t")

    assert (choose(private).settings.url, choose(private).settings.token) == (None, None)
    assert choose(here).settings.url == f"{TEAM.url}#sha256={TEAM.fingerprint}"
    assert choose(here).settings.token == TEAM.token
    named = choose(here, config_url=OTHER.url, config_path="config.json")
    assert (named.settings.url, named.settings.token) == (OTHER.url, OTHER.token)
    assert "config.json" in named.why
    assert choose(by_url, config_url=OTHER.url).settings == by_url


def test_a_url_of_the_environment_takes_the_token_of_its_own_login_only(home: Path) -> None:
    known = choose(Settings(home=home, url=TEAM.url)).settings
    unknown = choose(Settings(home=home, url="https://third.example")).settings

    assert (known.url, known.token) == (TEAM.pinned_url, TEAM.token)
    assert (unknown.url, unknown.token) == ("https://third.example", None)


def test_no_token_goes_to_a_server_that_only_a_config_file_names(home: Path) -> None:
    settings = Settings(home=home, token="from RUNYARD_TOKEN")

    with pytest.raises(NotAuthenticated, match="evil") as caught:
        choose(settings, config_url="https://evil.example", config_path="/clone/config.json")
    assert caught.value.hint == "runyard login https://evil.example"
    assert choose(settings, config_url=TEAM.url).settings.token == TEAM.token


@pytest.mark.parametrize("servers", [[], {"https://x": "token"}])
def test_a_damaged_file_of_logins_is_named(tmp_path: Path, servers: object) -> None:
    login_file(tmp_path).write_text(json.dumps({"current": "https://x", "servers": servers}))
    login_file(tmp_path).chmod(0o600)

    with pytest.raises(UserError, match="does not hold logins"):
        find_login(tmp_path)
