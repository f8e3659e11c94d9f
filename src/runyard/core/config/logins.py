"""Logins at team servers, stored in `<home>/login.json`: each with its certificate and the user's token.

The functions at the end hide passwords in addresses that are shown.
"""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path
from typing import Any, Dict, Optional

from runyard.core.errors import UserError
from runyard.core.lazy_dataclass import dataclass
from runyard.core.machine.files import read_private, write_private

HIDDEN = "********"  # stands wherever a secret was
_PASSWORD_FIELD = re.compile(r"((?:\A|[?&\s])(?:ssl)?password=)[^&\s]*")
# What stands before the host. A user may hold `@`, a password `@` and `/` too; a port is no password.
_USER_INFO = re.compile(
    r"(?<![\w+.-])(\w[\w+.-]{0,31}://)([^:/\s'\"?#]{0,256})"
    r"(:(?!\d{1,5}(?:[/?#\s]|$))(?:[^\s'\"?#]{0,128}(?=@)|[^\s'\"/]{0,2048}))?@(?=[^\s/@'\"])"
)
_ACCOUNTS = ("ssh://", "sftp://", "git+ssh://", "abfss://", "wasbs://", "abfs://")  # a user here is no secret
_REPOSITORIES = ("git+", "hg+", "svn+", "bzr+", "git:", "ssh:")  # a branch may follow the path, behind an `@`


@dataclass(frozen=True)
class Login:
    url: str  # https://HOST:PORT
    token: str = field(repr=False)
    fingerprint: str = ""  # "": the system's authorities vouch for it

    @property
    def pinned_url(self) -> str:
        """The address with what is trusted, as RUNYARD_URL takes it."""
        return f"{self.url}#sha256={self.fingerprint}" if self.fingerprint else self.url


def login_file(home: Path) -> Path:
    return home / "login.json"


def find_login(home: Path, url: Optional[str] = None) -> Optional[Login]:
    """Return the login at that server, without one the last.

    Raises:
        UserError: the file cannot be used.
    """
    plain = read_private(login_file(home))
    wanted = plain_url(url) if url else plain.get("current")
    found = _servers(home, plain).get(str(wanted)) if wanted else None
    if found is None:
        return None
    return Login(str(wanted), str(found.get("token", "")), str(found.get("fingerprint", "")))


def store_login(home: Path, login: Login) -> None:
    """Keep it; calls go to this server from now on."""
    plain = read_private(login_file(home))
    known = {**_servers(home, plain), login.url: {"token": login.token, "fingerprint": login.fingerprint}}
    write_private(login_file(home), {"current": login.url, "servers": known})


def remove_login(home: Path, url: Optional[str] = None) -> Optional[Login]:
    """Forget a server, without `url` the present one; return what was forgotten."""
    found = find_login(home, url)
    if found is None:
        return None
    plain = read_private(login_file(home))
    known = {name: value for name, value in _servers(home, plain).items() if name != found.url}
    current = plain.get("current")
    write_private(login_file(home), {"current": None if current == found.url else current, "servers": known})
    return found


def plain_url(url: str) -> str:
    """Return the address alone, as it is stored."""
    return url.partition("#")[0].rstrip("/")


def _servers(home: Path, plain: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    known = plain.get("servers", {})
    if isinstance(known, dict) and all(isinstance(value, dict) for value in known.values()):
        return known
    raise UserError(
        f"The file `{login_file(home)}` cannot be used.",
        why="It does not hold logins.",
        hint=f"Remove it (`rm {login_file(home)}`) and log in again.",
    )


def hide_passwords(text: str, *, keep_user: bool = False) -> str:
    """Return the text with what stands before the `@` of each address hidden; `git@` names an account and stays.

    `keep_user` shows the user before a password. In the address of a package index that may be a token.
    """
    return _USER_INFO.sub(lambda found: _hide(*found.groups(""), keep_user=keep_user), text) if "@" in text else text


def hide_database_password(url: str) -> str:
    """Return a database's address as it may be shown: passwords can also be among the words behind its `?`."""
    return _PASSWORD_FIELD.sub(rf"\g<1>{HIDDEN}", hide_passwords(url))


def _hide(scheme: str, user: str, password: str, *, keep_user: bool) -> str:
    before, slash, path = password.partition("/")
    if slash and scheme.startswith(_REPOSITORIES):  # `git+https://me:pw@host/x.git@branch`
        info, at, host = f"{user}{before}".rpartition("@")
        name, colon, word = info.partition(":")
        shown = _hide(scheme, name, colon + word, keep_user=keep_user) if at else scheme
        return f"{shown}{host}/{path}@"
    if not password and (user in ("git", "") or scheme in _ACCOUNTS):
        return f"{scheme}{user}@"
    return f"{scheme}{user}:{HIDDEN}@" if keep_user and len(password) > 1 else f"{scheme}{HIDDEN}@"
