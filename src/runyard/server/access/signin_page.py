"""What a browser without a session sees: how to sign in. No request, one style that its policy names.

Only the page that ends a sign-in has a script: it puts the page's half of the session where this port alone reads it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape

_STYLE = """
:root{color-scheme:light dark;--page:#f7f8fa;--surface:#fff;--line:#dfe3e9;--text:#1b1f27;--soft:#586172;--code:#eff1f4}
@media(prefers-color-scheme:dark){
:root{--page:#0f1218;--surface:#161a22;--line:#2a303c;--text:#e6e9ef;--soft:#a3acbc;--code:#0b0e13}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:24px 16px;background:var(--page);
color:var(--text);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:32rem;background:var(--surface);border:1px solid var(--line);border-radius:12px;padding:28px}
svg{display:block;margin-bottom:16px}
h1{font-size:20px;line-height:1.3;margin:0 0 8px}
p{margin:0 0 12px;color:var(--soft)}
p:last-child{margin-bottom:0}
pre{margin:0 0 16px;padding:10px 12px;background:var(--code);border:1px solid var(--line);border-radius:8px;
white-space:pre-wrap;overflow-wrap:anywhere;color:var(--text);user-select:all}
a{display:inline-block;padding:7px 16px;border-radius:8px;background:#3557d6;color:#fff;font-weight:600;
text-decoration:none}
a:focus-visible{outline:2px solid var(--text);outline-offset:2px}
h1{overflow-wrap:anywhere}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
"""
_ICON = (
    '<svg width="36" height="36" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" '
    'fill="#3a5bd9"/><path d="M7 23V9m6 14V13m6 10V9m6 14v-8" stroke="#fff" stroke-width="3" stroke-linecap="round"/>'
    "</svg>"
)
_REFRESH = '<meta http-equiv="refresh" content="0">'
# The key's name is that in web/src/api/session.ts.
_KEEP = (
    "const {key, next} = document.currentScript.dataset; localStorage.setItem('runyard-session', key); "
    "location.replace(next);"
)


def _hash(text: str) -> str:
    return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
).encode()
LANDING_POLICY = POLICY + f"; script-src {_hash(_KEEP)}".encode()
_RUN = re.compile(rb"/runs/([A-Za-z0-9_\-]{1,200})")  # nothing else of a request is ever written into the page


def signin_page(path: bytes) -> bytes:
    """Return the page for who asked for `path` without being signed in."""
    run = _RUN.fullmatch(path)
    command = f"runyard studio {run.group(1).decode()}" if run else "runyard studio"
    used = "<p>This link was used before, or is older than twelve hours.</p>" if path.startswith(b"/signin/") else ""
    return _page(
        "Sign in",
        f"<h1>This browser is not signed in</h1>{used}"
        f"<p>In a terminal, type</p><pre>{command}</pre><p>and open the link that it prints. It works once, within "
        "twelve hours; this browser then stays signed in for a week.</p>"
        "<p>On a team’s server, <code>runyard login</code> comes first, on your own machine.</p>",
    )


def again_page() -> bytes:
    """Return a page that asks for its own address again, from here."""
    return _page("Opening", "<h1>One moment</h1><p>The page is being opened.</p>", _REFRESH)


def landing_page(target: str, key: str) -> bytes:
    """Return the page that keeps the session's half for pages of this port, and leads on to `target`."""
    return _page(
        "Signed in",
        "<h1>Signed in</h1><noscript><p>The studio needs JavaScript.</p></noscript>"
        f'<script data-key="{escape(key)}" data-next="{escape(target)}">{_KEEP}</script>',
    )


def confirm_page(name: str) -> bytes:
    """Return a page that asks whether this browser should be signed in as `name`: another site's page led here."""
    return _page(
        "Sign in",
        f"<h1>Sign in as {escape(name) or 'a user who is gone'}?</h1>"
        "<p>A page of another site led here. Go on only if the link is yours: what you do then is done in that "
        'name.</p><a href="">Sign in</a>',
    )


def _page(title: str, body: str, head: str = "") -> bytes:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title} · Runyard</title>'
        f'<link rel="icon" href="data:,">{head}<style>{_STYLE}</style></head>'
        f"<body><main>{_ICON}{body}</main></body></html>"
    ).encode()
