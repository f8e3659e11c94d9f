"""A run in a notebook: the card of its state as HTML or text, `RunDetails`, and the table of a bare `run` in a cell.

All text of users is escaped. A card follows its run without ipywidgets; outside a notebook it is a few lines of text.
"""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from runyard.core.statuses import RunStatus
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core.records import MetricInfo
    from runyard.core.records import Run as RunRecord
    from runyard.sdk.runs.run import Run


MOST_METRICS = 12
MOST_CHILDREN = 1000
_WIDTH, _HEIGHT = 160, 28
# Readable on white and on black: a notebook does not say which it is.
_COLOURS = {RunStatus.COMPLETED: "#238a46", RunStatus.FAILED: "#e0443c", RunStatus.CANCELED: "#a97700"}
_LIVE = "#3b7fe0"
_CELL = 'style="text-align:left;padding:2px 12px 2px 0"'


@dataclass(frozen=True)
class CardLine:
    """One metric: its last value, and how it went."""

    name: str
    last: str
    curve: Sequence[float] = ()


@dataclass(frozen=True)
class Card:
    run_id: str
    experiment: str
    status: RunStatus
    seconds: Optional[float]
    note: str  # what it waits for, or why it failed
    link: str
    children: str = ""
    lines: List[CardLine] = field(default_factory=list)


def first_card(run: Run) -> Card:
    """Return the card to show in a cell: with all that this process wrote about the run before."""
    run._flush_family()
    return make_card(run, link=run.get_portal_url())


def make_card(run: Run, *, link: str) -> Card:
    """Ask the server how the run stands now; `link` is the address of its page."""
    record = run._client.runs.get(run.id)
    metrics = [metric for metric in run._client.runs.metrics(run.id) if metric.kind == "scalar"][:MOST_METRICS]
    return Card(
        run_id=run.id,
        experiment=record.experiment,
        status=record.status,
        seconds=_seconds(record),
        note=_note(record),
        link=link,
        children=_children(run, record.workspace),
        lines=[CardLine(metric.name, _shown(metric.last), _curve(run, metric)) for metric in metrics],
    )


def card_html(card: Card) -> str:
    colour = _COLOURS.get(card.status, _LIVE)
    head = (
        f'<b style="color:{colour}">● {escape(card.status.value)}</b> {escape(_duration(card.seconds))} · '
        f"{escape(card.experiment)} · <code>{escape(card.run_id)}</code> · "
        f'<a href="{escape(card.link)}" target="_blank" rel="noopener">open in the studio</a>'
    )
    below = [f"<div>{escape(text)}</div>" for text in (card.children, card.note) if text]
    rows = "".join(
        f"<tr><td {_CELL}>{escape(line.name)}</td><td {_CELL}>{escape(line.last)}</td><td>{_svg(line.curve)}</td></tr>"
        for line in card.lines
    )
    return f'<div style="font-family:sans-serif">{head}{"".join(below)}<table>{rows}</table></div>'


def card_text(card: Card) -> str:
    lines = [f"{card.status.value} {_duration(card.seconds)} · {card.experiment} · {card.run_id}"]
    lines += [text for text in (card.children, card.note) if text]
    lines += [f"  {line.name} = {line.last}" for line in card.lines]
    return "\n".join([*lines, card.link])


def _children(run: Run, workspace: str) -> str:
    page = run._client.runs.list(workspace, parent=run.id, limit=MOST_CHILDREN)
    counts: Dict[str, int] = {}
    for child in page.runs:
        counts[child.status.value] = counts.get(child.status.value, 0) + 1
    shown = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"children: {shown}{' and more' if page.next else ''}" if counts else ""


def _note(record: RunRecord) -> str:
    if record.error:
        return str(record.error.get("message", "")).strip().partition("\n")[0]
    return record.waits_for if not record.status.is_terminal else ""


def _seconds(record: RunRecord) -> Optional[float]:
    if record.started_at is None:
        return None
    return ((record.ended_at or datetime.now(timezone.utc)) - record.started_at).total_seconds()


def _duration(seconds: Optional[float]) -> str:
    if seconds is None:
        return "not started"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:80]


def _curve(run: Run, metric: MetricInfo) -> Sequence[float]:
    if metric.count < 2 or not isinstance(metric.last, (int, float)):
        return ()
    chart = run._client.runs.chart(run.id, metric.name, width=_WIDTH // 2)
    values = chart.get("last") or chart.get("maximum") or []
    return [float(value) for value in values if isinstance(value, (int, float)) and math.isfinite(value)]


def _svg(curve: Sequence[float]) -> str:
    if len(curve) < 2:
        return ""
    low, span = min(curve), (max(curve) - min(curve)) or 1.0
    points = " ".join(
        f"{index * _WIDTH / (len(curve) - 1):.1f},{(_HEIGHT - 2) * (1 - (value - low) / span) + 1:.1f}"
        for index, value in enumerate(curve)
    )
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}"><polyline fill="none" stroke="{_LIVE}" points="{points}"/></svg>'


FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 5.0
MOST_CARDS = 20  # of one run that follow it; those shown before stay as they are


@raises_azure_errors
class RunDetails(AzureClass):
    def __init__(self, run_instance: Run) -> None:
        """Raises UserErrorException: that is no run."""
        if not hasattr(run_instance, "get_status"):
            raise UserErrorException(f"RunDetails shows a run, not a {type(run_instance).__name__}.")
        self._run = run_instance

    def show(self, render_lib: Any = None, widget_settings: Optional[Dict[str, Any]] = None) -> None:
        """Show the run; in a notebook the card follows it until it ends, while other cells go on."""
        card = first_card(self._run)
        if has_notebook():
            show_card(self._run, card)
        else:
            print(card_text(card))

    def get_widget_data(self, widget_settings: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        card = first_card(self._run)
        return {
            "status": card.status.value,
            "workbench_run_details_uri": card.link,
            "run_id": card.run_id,
            "run_properties": dict(self._run.get_properties()),
            "run_metrics": [{"name": line.name, "last": line.last} for line in card.lines],
            "error": card.note,
        }


def show_card(run: Run, card: Card) -> None:
    """Show the card in the cell that runs, and have it follow the run."""
    import IPython.display  # it is loaded where there is a notebook

    drawing: Any = IPython.display
    handle = drawing.display(_drawn(run, card), raw=True, display_id=True)
    if handle is not None and not card.status.is_terminal:
        _follow(run, handle, card)


def has_notebook() -> bool:
    """Whether this is a notebook's kernel: there is something that draws HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class _Follower:
    """A thread that draws all cards of one run anew while the run goes on."""

    def __init__(self, run: Run, card: Card) -> None:
        self._run = run
        self._card = card
        self.handles: List[Any] = []
        self.thread = threading.Thread(target=self._go, name="runyard-card", daemon=True)

    def _go(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._card.status.is_terminal:
            threading.Event().wait(pause_s)
            card = self._look()
            is_same = card is None or replace(card, seconds=None) == replace(self._card, seconds=None)
            pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S) if is_same else FIRST_PAUSE_S
            if card is None:
                continue
            self._card = card
            if card.status.is_terminal:
                with _LOCK:
                    _FOLLOWED.pop(self._run.id, None)
            for handle in [*self.handles]:
                handle.update(_drawn(self._run, card), raw=True)

    def _look(self) -> Optional[Card]:
        try:
            return make_card(self._run, link=self._card.link)
        except Exception:
            # The edge of a thread: a server that is away for a moment changes nothing, and no cell shows a traceback.
            return None


_LOCK = threading.Lock()
_FOLLOWED: Dict[str, _Follower] = {}


def _follow(run: Run, handle: Any, card: Card) -> None:
    with _LOCK:
        follower = _FOLLOWED.get(run.id)
        if follower is None:
            follower = _FOLLOWED[run.id] = _Follower(run, card)
        follower.handles = [*follower.handles, handle][-MOST_CARDS:]
        if follower.thread.ident is None:
            follower.thread.start()


def _drawn(run: Run, card: Card) -> Dict[str, str]:
    return {"text/html": card_html(card), "text/plain": repr(run)}


def html_table(fields: Mapping[str, str], *, link: str) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in [*fields, "Details Page"])
    cells = "".join(f"<td>{escape(value)}</td>" for value in fields.values())
    anchor = f'<td><a href="{escape(link)}" target="_blank" rel="noopener">Link to Runyard</a></td>'
    return f'<table style="width:100%"><tr>{heads}</tr><tr>{cells}{anchor}</tr></table>'
