"""Passwords in addresses."""

from __future__ import annotations

import pytest

from runyard.core.urls import hide_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--index-url https://me:pw@host/simple", "--index-url https://****@host/simple"),
        ("a @ https://token@host/a.whl and http://u:p%40@b/", "a @ https://****@host/a.whl and http://****@b/"),
        ("git+https://oauth2:pw@host/x.git@main", "git+https://****@host/x.git@main"),
        ("git+ssh://git@host/x.git@main", "git+ssh://git@host/x.git@main"),
        ("a @ https://host/a.whl#sha256=1@2", "a @ https://host/a.whl#sha256=1@2"),
        ("mail me@host or file:///a@b", "mail me@host or file:///a@b"),
        ("https://me:p@ss@host/simple", "https://****@host/simple"),
        ("numpy>=1", "numpy>=1"),
    ],
)
def test_what_stands_before_the_host_is_hidden(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown
