"""`RunDetails`: a live card of a run in a notebook, without ipywidgets; a few lines of text elsewhere."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.notebook import Card, card_html, card_text, first_card, make_card

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 5.0
MOST_CARDS = 20  # of one run that follow it; those shown before stay as they are


class RunDetails:
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
