"""Hostile names and paths, generated: every encoding of "leave your folder" that servers have fallen for."""

from __future__ import annotations

import itertools
from urllib.parse import quote

DOTS = [
    "..",
    "%2e%2e",
    "%2E.",
    ".%2e",
    "%252e%252e",
    "%c0%ae%c0%ae",
    "%uff0e%uff0e",
    "..;",
    "..%00",
    "．．",
    ". .",
    ".../..",
    "%e2%80%a5",
]
SLASHES = ["/", "%2f", "%2F", "%252f", "%5c", "\\", "%255c", "//", "/./", "%c0%af", "%ef%bc%8f", "／", "/;/"]
PREFIXES = ["", "outputs/", "outputs%2f", "./", "outputs/../outputs/", "x/../"]


def traversals(target: str) -> list[str]:
    """Return more than a thousand spellings of a path from a served folder to `target`, an absolute path."""
    tail = target.lstrip("/")
    found = []
    for prefix, dots, slash, depth in itertools.product(PREFIXES, DOTS, SLASHES, (3, 8)):
        found.append(prefix + (dots + slash) * depth + tail.replace("/", slash))
    return list(dict.fromkeys(found))


def absolutes(target: str) -> list[str]:
    """Return spellings of `target` itself."""
    tail = target.lstrip("/")
    plain = [
        target,
        f"//{tail}",
        f"///{tail}",
        f"file://{target}",
        f"file://./{tail}",
        f"file:/{tail}",
        f"/proc/self/root{target}",
    ]
    plain += [
        f"C:{target}",
        f"\\\\localhost{target}",
        f"//localhost/{tail}",
        f"~/../..{target}",
        f"/./{tail}",
        f"{target}\0.txt",
    ]
    return plain + [quote(text, safe="") for text in plain] + [quote(quote(text, safe=""), safe="") for text in plain]


def behind_marks(target: str) -> list[str]:
    """Return traversals hidden behind `?`, `#` and `;`."""
    up = "../" * 8 + target.lstrip("/")
    marks = ["?", "#", ";", "%3f", "%23", "%3b", "&", "%26"]
    return [f"outputs/a{mark}{up}" for mark in marks] + [f"outputs/a{mark}x=/{up}" for mark in marks]


HEADER_TOKENS = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer nothing",
    "Basic Og==",
    "bearer",
    "Token nothing",
    "Bearer null",
    "Bearer undefined",
    "Bearer ryt_" + "0" * 64,
    "Bearer ryr_" + "0" * 64,
    "Bearer " + "A" * 8000,
    "Bearer \t",
    "Bearer ' OR 1=1 --",
    "Negotiate x",
]

EXEMPT_TRICKS = [
    "/api/v1/server/health",
    "/api/v1/health/../server",
    "/api/v1/health/%2e%2e/server",
    "/api/v1/health%2f..%2fserver",
    "//api/v1/server",
    "/api//v1/server",
    "/API/v1/server",
    "/api/v1/server;health",
    "/api/v1/server?x=/api/v1/health",
    "/api/v1/server#/api/v1/health",
    "/api/v1/health;/../server",
    "/api/v1/health/server",
    "/api/v1/workspaces/health",
    "/signin/../api/v1/server",
    "/signin/x/../../api/v1/server",
    "/signin/%2e%2e/api/v1/server",
    "/static/../api/v1/server",
    "/api/v1/./server",
    "/api/v1/server/",
    "/api/v1/server%00/health",
    "/api/v1/server%2fhealth",
    "http://127.0.0.1/api/v1/server",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/api/v1/openapi.json",
    "/metrics",
    "/static/icon.svg",
    "/",
]
