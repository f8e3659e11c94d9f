"""The small table that a notebook shows for a bare `run` or `experiment` in a cell."""

from __future__ import annotations

from html import escape
from typing import Mapping


def html_table(fields: Mapping[str, str], *, link: str) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in [*fields, "Details Page"])
    cells = "".join(f"<td>{escape(value)}</td>" for value in fields.values())
    anchor = f'<td><a href="{escape(link)}" target="_blank" rel="noopener">Link to Runyard</a></td>'
    return f'<table style="width:100%"><tr>{heads}</tr><tr>{cells}{anchor}</tr></table>'
