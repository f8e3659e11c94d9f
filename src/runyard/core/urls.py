"""Addresses that carry a password: what may be shown of them."""

from __future__ import annotations

import re

HIDDEN = "****"

_PASSWORD_FIELD = re.compile(r"((?:\A|[?&\s])(?:ssl)?password=)[^&\s]*")
_USER_INFO = re.compile(r"(?<![\w+.-])(\w[\w+.-]{0,31}://)[^/\s'\"]+@(?=[^\s/])")


def hide_passwords(text: str) -> str:
    """Return the text with what stands before the `@` of each address hidden; `git@` names an account and stays."""
    return _USER_INFO.sub(lambda match: match[0] if match[0].endswith("//git@") else f"{match[1]}{HIDDEN}@", text)


def hide_database_password(url: str) -> str:
    """Return a database's address as it may be shown: passwords can also be among the words behind its `?`."""
    return _PASSWORD_FIELD.sub(rf"\g<1>{HIDDEN}", hide_passwords(url))
