"""What a browser keeps of a sign-in: the cookie, and the page's half, which tests send as two lines of a request."""

from __future__ import annotations

import re
from html import unescape
from typing import Any


def both_halves(answer: Any) -> str:
    """Return the value of a `Cookie` header, and the line that follows it with the page's half."""
    return f"{bare_cookie(answer)}\r\nRunyard-Session: {page_key(answer)}"


def bare_cookie(answer: Any) -> str:
    return str(answer.headers["set-cookie"]).partition(";")[0]


def page_key(answer: Any) -> str:
    found = re.search(rb'data-key="([0-9a-f]{64})"', answer.body)
    assert found is not None
    return found[1].decode()


def led_to(answer: Any) -> str:
    """Return where the page that ends a sign-in leads to."""
    found = re.search(r'data-next="([^"]*)"', answer.body.decode())
    assert found is not None
    return unescape(found[1])
