"""Addresses that carry a password: what may be shown of them."""

from __future__ import annotations

import re

HIDDEN = "****"

_USER_INFO = re.compile(r"(\w[\w+.-]*://)[^/\s'\"]+@(?=[^\s/])")


def hide_passwords(text: str) -> str:
    """Return the text with what stands before the `@` of each address hidden; `git@` names an account and stays."""
    return _USER_INFO.sub(lambda match: match[0] if match[0].endswith("//git@") else f"{match[1]}{HIDDEN}@", text)
