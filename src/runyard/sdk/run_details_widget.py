"""`RunDetails`: a live card of a run in a notebook, without ipywidgets; a few lines of text elsewhere."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Dict, Optional

from runyard.core.errors import RunyardError
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_card import Card, card_html, card_text, make_card

if TYPE_CHECKING:
    from runyard.sdk.run import Run

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 5.0


class RunDetails:
    def __init__(self, run_instance: Run) -> None:
        """Raises UserErrorException: that is no run."""
        if not hasattr(run_instance, "get_status"):
            raise UserErrorException(f"RunDetails shows a run, not a {type(run_instance).__name__}.")
        self._run = run_instance
        self._thread: Optional[threading.Thread] = None

    def show(self, render_lib: Any = None, widget_settings: Optional[Dict[str, Any]] = None) -> None:
        """Show the run; in a notebook the card follows it until it ends, while other cells go on."""
        card = make_card(self._run)
        if not _has_notebook():
            print(card_text(card))
            return
        ipython = _drawing()
        handle = ipython.display(ipython.HTML(card_html(card)), display_id=True)
        if handle is not None and not card.status.is_terminal:
            self._thread = threading.Thread(target=self._follow, args=(handle,), name="runyard-card", daemon=True)
            self._thread.start()

    def get_widget_data(self, widget_settings: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        card = make_card(self._run)
        return {
            "status": card.status.value,
            "workbench_run_details_uri": card.link,
            "run_id": card.run_id,
            "run_properties": dict(self._run.get_properties()),
            "run_metrics": [{"name": line.name, "last": line.last} for line in card.lines],
            "error": card.note,
        }

    def _follow(self, handle: Any) -> None:
        """Draw the card anew while the run goes on; a server that is away for a moment changes nothing."""
        ipython = _drawing()
        pause_s, shown = FIRST_PAUSE_S, ""
        while True:
            threading.Event().wait(pause_s)
            card = self._look()
            html = card_html(card) if card is not None else shown
            if html != shown:
                handle.update(ipython.HTML(html))
            pause_s = FIRST_PAUSE_S if html != shown else min(pause_s * 1.5, LONGEST_PAUSE_S)
            shown = html
            if card is not None and card.status.is_terminal:
                return

    def _look(self) -> Optional[Card]:
        try:
            return make_card(self._run)
        except RunyardError:
            return None


def _drawing() -> Any:
    import IPython.display  # it is loaded where there is a notebook

    return IPython.display


def _has_notebook() -> bool:
    """Whether this is a notebook's kernel: there is something that draws HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
