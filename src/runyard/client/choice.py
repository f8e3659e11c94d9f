"""Which server calls go to, and why: RUNYARD_URL, else what a config.json names, else the last login, else the private
one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Optional

from runyard.core.config.logins import Login, find_login, plain_url
from runyard.core.config.settings import Settings
from runyard.core.errors import NotAuthenticated


class Choice(NamedTuple):
    settings: Settings  # with `url` and `token` of the server; without `url` the private one
    why: str


def choose(settings: Settings, *, config_url: str = "", config_path: str = "") -> Choice:
    """Return the settings to connect with.

    A token goes to no other server than the one it was given for: a config.json may come from anybody.

    Raises:
        NotAuthenticated: the config.json names a server that nobody logged in to.
        UserError: the file of logins cannot be used.
    """
    if settings.url:
        return Choice(_with_known_token(settings, settings.url), "RUNYARD_URL is set")
    if config_url:
        login = find_login(settings.home, config_url)
        if login is None:
            raise _not_logged_in(config_url, config_path)
        return Choice(_at(settings, login), f"{config_path} names it")
    login = find_login(settings.home)
    if login is not None:
        return Choice(_at(settings, login), "`runyard login` was the last choice; `runyard logout` ends it")
    return Choice(settings, "neither RUNYARD_URL nor a login names another")


def _with_known_token(settings: Settings, url: str) -> Settings:
    if settings.token:
        return settings
    login: Optional[Login] = find_login(settings.home, url)
    if login is None:
        return settings
    return replace(settings, url=url if "#" in url else login.pinned_url, token=login.token)


def _at(settings: Settings, login: Login) -> Settings:
    return replace(settings, url=login.pinned_url, token=login.token)


def _not_logged_in(url: str, path: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"You are not logged in to {plain_url(url)}.",
        why=f"{path} names that server, and no token of yours is known for it.",
        hint=f"runyard login {plain_url(url)}",
    )
