"""The settings of a home's server: strict, private, and refused when they do not fit together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.config.server_settings import (
    KEYS,
    ServerSettings,
    checked,
    is_loopback,
    read_server_settings,
    settings_file,
    with_setting,
    write_server_settings,
)
from runyard.core.errors import InvalidArgument, UserError

TEAM = ServerSettings(host="10.0.0.5", port=8787)


def write_text(home: Path, text: str, *, mode: int = 0o600) -> None:
    settings_file(home).parent.mkdir(exist_ok=True)
    settings_file(home).write_text(text)
    settings_file(home).chmod(mode)


def test_what_was_written_is_read_and_only_its_owner_can(tmp_path: Path) -> None:
    given = replace(TEAM, names=["team.example", "10.0.0.5:443"], database="postgresql://u:secret@h/d")

    assert read_server_settings(tmp_path) == ServerSettings()
    write_server_settings(tmp_path, given)

    assert read_server_settings(tmp_path) == given
    assert settings_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert set(json.loads(settings_file(tmp_path).read_text())) == {
        "server.host",
        "server.port",
        "server.names",
        "server.database",
    }
    assert [path.name for path in settings_file(tmp_path).parent.iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"server.hots": "x"}', "Did you mean `server.host`"),
        ('{"server.port": "8787"}', "must be a number"),
        ('{"server.port": true}', "must be a number"),
        ('{"server.names": ["a", 1]}', "must be a list of texts"),
        ('{"server.host": "10.0.0.5"}', "needs a port"),
        ("[]", "JSON object"),
        ("{", "not JSON"),
    ],
)
def test_a_file_that_says_what_it_cannot_is_an_error_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    write_text(tmp_path, text)

    with pytest.raises(UserError, match=words):
        read_server_settings(tmp_path)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    write_text(tmp_path, "{}", mode=0o640)
    with pytest.raises(UserError, match="Others can read it") as caught:
        read_server_settings(tmp_path)
    assert "chmod 600" in caught.value.hint

    settings_file(tmp_path).chmod(0o600)
    assert read_server_settings(tmp_path) == ServerSettings()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"port": 70000}, "not a port"),
        ({"port": 0}, "a port that stays"),
        ({"host": "https://team"}, "not a name or an address"),
        ({"tls_cert": "/c.pem"}, "needs its key"),
        ({"behind_proxy": True, "tls_cert": "/c", "tls_key": "/k"}, "the proxy has the certificate"),
        ({"behind_proxy": True}, "reach the proxy"),
        ({"host": "0.0.0.0"}, "does not know the name"),
        ({"host": "::"}, "does not know the name"),
        ({"database": "mysql://x"}, "PostgreSQL"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        checked(replace(TEAM, **changes))  # type: ignore[arg-type]  # one of each type
    assert checked(replace(TEAM, host="0.0.0.0", names=["team.example"])).is_team  # the control


def test_people_change_settings_by_text() -> None:
    changed = with_setting(with_setting(TEAM, "server.names", "a, b:80"), "server.behind_proxy", "yes")
    with pytest.raises(InvalidArgument, match="reach the proxy"):
        with_setting(changed, "server.names", "")

    assert (changed.names, changed.behind_proxy, changed.has_tls) == (["a", "b:80"], True, False)
    assert with_setting(with_setting(changed, "server.behind_proxy", ""), "server.names", "").names == []
    for key, text, words in (
        ("server.port", "x", "must be a number"),
        ("server.behind_proxy", "perhaps", "true or false"),
        ("server.nams", "x", "Did you mean `server.names`"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            with_setting(TEAM, key, text)


def test_the_names_that_others_know_a_server_by() -> None:
    assert TEAM.known_names == [("10.0.0.5", 8787)]
    assert replace(TEAM, host="fd00::1").known_names == [("[fd00::1]", 8787)]
    assert replace(TEAM, names=["team.example", "[fd00::1]:443"]).known_names == [
        ("team.example", 8787),
        ("[fd00::1]", 443),
    ]
    assert replace(TEAM, names=["team.example"], behind_proxy=True).known_names == [("team.example", 443)]
    assert [is_loopback(host) for host in ("localhost", "127.0.1.1", "::1", "10.0.0.5", "team")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_the_page_of_settings_describes_each() -> None:
    page = (Path(__file__).parent.parent.parent / "docs/reference/settings.md").read_text()

    assert [key for key in KEYS if f"| `{key}` |" not in page] == []
