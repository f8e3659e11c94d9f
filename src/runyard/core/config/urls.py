"""Addresses that carry a password: what may be shown of them."""

from __future__ import annotations

import re

HIDDEN = "********"  # stands wherever a secret was

_PASSWORD_FIELD = re.compile(r"((?:\A|[?&\s])(?:ssl)?password=)[^&\s]*")
# What stands before the host. A user may hold `@`, a password `@` and `/` too; a port is no password.
_USER_INFO = re.compile(
    r"(?<![\w+.-])(\w[\w+.-]{0,31}://)([^:/\s'\"?#]{0,256})"
    r"(:(?!\d{1,5}(?:[/?#\s]|$))(?:[^\s'\"?#]{0,128}(?=@)|[^\s'\"/]{0,2048}))?@(?=[^\s/@'\"])"
)
_ACCOUNTS = ("ssh://", "sftp://", "git+ssh://", "abfss://", "wasbs://", "abfs://")  # a user here is no secret
_REPOSITORIES = ("git+", "hg+", "svn+", "bzr+", "git:", "ssh:")  # a branch may follow the path, behind an `@`


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
