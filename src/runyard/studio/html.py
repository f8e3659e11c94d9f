"""Small pieces of HTML. Everything that comes from outside goes through `text`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from runyard.core.statuses import RunStatus

REFRESH_S = 3


def text(value: Any) -> str:
    """Return any value as text that cannot become markup."""
    return html.escape(str(value), quote=True)


def page(title: str, body: str, *, refresh: bool) -> str:
    again = f'<meta http-equiv="refresh" content="{REFRESH_S}">' if refresh else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'{again}<title>{text(title)}</title><link rel="stylesheet" href="/style.css"></head>'
        f"<body>{body}</body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """Return a table of cells that are HTML already; columns named in `numbers` stand to the right."""
    top = "".join(f"<th{_side(at, numbers)}>{text(name)}</th>" for at, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{_side(at, numbers)}>{cell}</td>" for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a two-column table of names and cells that are HTML already; empty cells are left out."""
    rows = "".join(f"<tr><th>{text(name)}</th><td>{cell}</td></tr>" for name, cell in pairs if cell)
    return f"<table>{rows}</table>" if rows else ""


def section(title: str, body: str) -> str:
    return f"<h2>{text(title)}</h2>{body}" if body else ""


def status(value: RunStatus) -> str:
    return f'<span class="status {text(value.value)}">{text(value.value)}</span>'


def moment(at: datetime | None) -> str:
    return "" if at is None else text(at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"))


def duration(start: datetime, end: datetime) -> str:
    seconds = max(0.0, (end - start).total_seconds())
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def number(value: Any) -> str:
    if isinstance(value, float):
        return text(f"{value:.6g}")
    return text("" if value is None else value)[:400]


def link(path: Sequence[str], label: str) -> str:
    """Return a link to a path of this server, each part encoded."""
    return f'<a href="/{text("/".join(quote(part, safe="") for part in path))}">{text(label)}</a>'


def _side(at: int, numbers: Sequence[int]) -> str:
    return ' class="number"' if at in numbers else ""
