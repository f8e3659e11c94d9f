"""Passwords in addresses."""

from __future__ import annotations

import pytest

from runyard.core.config.logins import hide_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--index-url https://me:pw@host/simple", "--index-url https://********@host/simple"),
        ("a @ https://token@host/a.whl and http://u:p%40@b/", "a @ https://********@host/a.whl and http://********@b/"),
        ("git+https://oauth2:pw@host/x.git@main", "git+https://********@host/x.git@main"),
        ("git+ssh://git@host/x.git@main", "git+ssh://git@host/x.git@main"),
        ("a @ https://host/a.whl#sha256=1@2", "a @ https://host/a.whl#sha256=1@2"),
        ("mail me@host or file:///a@b", "mail me@host or file:///a@b"),
        ("https://me:p@ss@host/simple", "https://********@host/simple"),
        ("https://me@corp.example:pw@host/simple", "https://********@host/simple"),
        ("postgres://me:p/w@host/db", "postgres://********@host/db"),
        ("git+ssh://git@host:team/x.git@main", "git+ssh://git@host:team/x.git@main"),
        ("git+https://host:8443/x.git@main", "git+https://host:8443/x.git@main"),
        ("git+https://t:pw@host/a/x.git@1#egg=x", "git+https://********@host/a/x.git@1#egg=x"),
        ("https://me@corp.example:p/w@host/simple", "https://********@host/simple"),
        ("https://token@host:8080/x?to=a@b", "https://********@host:8080/x?to=a@b"),
        ("http://host:8080?to=a@b", "http://host:8080?to=a@b"),
        ("numpy>=1", "numpy>=1"),
    ],
)
def test_what_stands_before_the_host_is_hidden(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://me:pw@host/db", "postgres://me:********@host/db"),
        ("https://me@corp.example:pw@host/simple", "https://me@corp.example:********@host/simple"),
        ("redis://:pw@host:6379/0", "redis://:********@host:6379/0"),
        ("https://token@host/x", "https://********@host/x"),
        ("https://token:@host/x", "https://********@host/x"),
        ("abfss://data@account.example/path", "abfss://data@account.example/path"),
    ],
)
def test_a_user_beside_a_password_can_stay(text: str, shown: str) -> None:
    assert hide_passwords(text, keep_user=True) == shown
