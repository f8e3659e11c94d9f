"""Words on stderr about work that takes longer than a second: what is done, how far it is, how fast it goes.

`StatusLine` speaks from a thread of its own, so that a request that hangs does not make it silent: on a terminal it
redraws one line, elsewhere it writes a line now and then. `Progress` counts and gives it the words. `progress_text` is
the same sentence for a run's record.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Callable, Optional, TextIO

FIRST_AFTER_S = 1.0
REDRAW_S = 0.25
EVERY_S = 1.0  # between two lines where nothing can be redrawn
LATER_EVERY_S, LATER_S = 10.0, 60.0  # after a minute, so that a long wait does not fill a log
_BAR = 20

Clock = Callable[[], float]
Show = Callable[[int], str]


def shown_size(size: float) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def progress_text(done: int, total: int, elapsed_s: float, *, show: Show = shown_size) -> str:
    """Return such as `412.0 MB of 1.0 GB, 85.3 MB/s`; a total of 0 is not known."""
    amount = f"{show(done)} of {show(max(done, total))}" if total else show(done)
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    return f"{amount}, {show(int(rate))}/s" if rate >= 1 else amount


class StatusLine:
    """Says `text()` on `out` after a second, and then again and again until the block ends.

    Work that is done within a second is silent. `text` is called by a thread, and may return "" to say nothing.
    Whoever writes to the same terminal calls `clear` first.
    """

    def __init__(
        self,
        text: Callable[[], str],
        *,
        out: Optional[TextIO] = None,
        first_after_s: float = FIRST_AFTER_S,
        every_s: float = EVERY_S,
        clock: Clock = time.monotonic,
    ) -> None:
        self._text = text
        self._out: Any = sys.stderr if out is None else out
        self._first_after_s = first_after_s
        self._every_s = every_s
        self._clock = clock
        self._redraws = _is_terminal(self._out)
        self._drawn = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> StatusLine:
        self._thread = threading.Thread(target=self._work, name="runyard-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Say nothing more, and remove a line that was drawn. May be repeated."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self.clear()

    def clear(self) -> None:
        """Remove the drawn line, so that other output starts on an empty one."""
        with self._lock:
            if self._drawn:
                self._drawn = False
                self._write("\r\x1b[K")

    def _work(self) -> None:
        start = self._clock()
        pause_s = self._first_after_s
        while not self._ended.wait(pause_s):
            self._say()
            lasts_s = self._clock() - start
            pause_s = REDRAW_S if self._redraws else self._every_s if lasts_s < LATER_S else LATER_EVERY_S

    def _say(self) -> None:
        text = "".join(char if char.isprintable() else "?" for char in self._text())  # names of files hold anything
        with self._lock:
            if not text or self._ended.is_set():
                return
            if self._redraws:
                self._drawn = True
                self._write(f"\r{_cut(text, _columns() - 1)}\x1b[K")
            else:
                self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        try:
            encoding = getattr(self._out, "encoding", None) or "utf-8"
            self._out.write(text.encode(encoding, "replace").decode(encoding))
            self._out.flush()
        except (OSError, ValueError):
            self._ended.set()  # nobody reads it any more


class Progress:
    """Counts work and shows it: `with Progress("storing the source", 10**9) as progress: progress.add(4096)`.

    Any thread may call `add` and `step`. `total` may be set later; 0 means that it is not known.
    """

    def __init__(
        self,
        verb: str,
        total: int = 0,
        *,
        show: Show = shown_size,
        out: Optional[TextIO] = None,
        first_after_s: float = FIRST_AFTER_S,
        every_s: float = EVERY_S,
        clock: Clock = time.monotonic,
    ) -> None:
        self.total = total
        self.done = 0
        self._verb = verb
        self._show = show
        self._what = ""
        self._clock = clock
        self._start = clock()
        self._lock = threading.Lock()
        self._line = StatusLine(self.text, out=out, first_after_s=first_after_s, every_s=every_s, clock=clock)

    def __enter__(self) -> Progress:
        self._start = self._clock()
        self._line.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.end()

    def add(self, amount: int, what: str = "") -> None:
        """Count some more work."""
        with self._lock:
            self.done += amount
            self._what = what or self._what

    def step(self, done: int, what: str = "") -> None:
        """Say how much is done in all."""
        with self._lock:
            self.done = done
            self._what = what or self._what

    def part(self, before: int, what: str) -> Callable[[int], None]:
        """Return what counts one piece of the work on, `before` having been done."""
        return lambda done: self.step(before + done, what)

    def begin(self, verb: str) -> None:
        """Go over to another activity, whose amount is not known."""
        with self._lock:
            self._verb, self._what, self.done, self.total, self._start = verb, "", 0, 0, self._clock()

    def clear(self) -> None:
        """Remove the drawn line before other output."""
        self._line.clear()

    def text(self) -> str:
        """Return the words: the activity, a bar, how far and how fast, and on what."""
        with self._lock:
            done, total, what, elapsed_s = self.done, self.total, self._what, self._clock() - self._start
        if not done and not total:
            return f"runyard: {self._verb}, {elapsed_s:.0f} s{f': {what}' if what else ''}"
        bar = f" [{'#' * (_BAR * min(done, total) // total):-<{_BAR}}]" if total else ""
        amount = progress_text(done, total, elapsed_s, show=self._show)
        return f"runyard: {self._verb}{bar} {amount}{f': {what}' if what else ''}"


def _is_terminal(out: Any) -> bool:
    try:
        return bool(out.isatty()) and os.environ.get("TERM") != "dumb"
    except (AttributeError, OSError, ValueError):
        return False


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return 80


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"
