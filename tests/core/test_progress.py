"""Work that takes longer than a second says how far it is, on a terminal and elsewhere."""

from __future__ import annotations

import io

from runyard.core.machine.progress import Progress, StatusLine, progress_text
from tests.waiting import wait_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ticks:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_quick_work_says_nothing() -> None:
    out = io.StringIO()
    with Progress("comparing", 3, out=out) as progress:
        for done in range(3):
            progress.step(done)

    assert out.getvalue() == ""


def test_it_says_what_how_far_how_fast_and_on_what() -> None:
    clock = Ticks()
    progress = Progress("downloading", 4_000_000, clock=clock)
    progress.part(1_000_000, "outputs/model.bin (file 2 of 3)")(1_000_000)
    clock.now = 2.0

    assert progress.text() == (
        "runyard: downloading [##########----------] 2.0 MB of 4.0 MB, 1.0 MB/s: outputs/model.bin (file 2 of 3)"
    )
    progress.begin("asking git")
    assert progress.text() == "runyard: asking git, 0 s"
    assert progress_text(3, 10, 1.5, show=str) == "3 of 10, 2/s"


def test_work_that_hangs_is_not_silent() -> None:
    """The words come from a thread: a request that does not return made it silent before."""
    out = io.StringIO()
    with Progress("storing", out=out, first_after_s=0.01, every_s=0.01) as progress:
        progress.add(500_000, "a\x1b[31m.py")
        wait_for(lambda: out.getvalue().count("\n") >= 3)

    assert all(line.startswith("runyard: storing 500.0 kB") for line in out.getvalue().splitlines())
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_one_line_is_drawn_again_and_removed() -> None:
    out = Terminal()
    with StatusLine(lambda: "x" * 500, out=out, first_after_s=0.01) as line:
        wait_for(lambda: out.getvalue().endswith("\x1b[K"))
        line.clear()
        assert out.getvalue().endswith("\r\x1b[K")
    drawn = out.getvalue().split("\r")[1]

    assert "\n" not in out.getvalue() and len(drawn) < 500


def test_a_stream_that_nobody_reads_ends_the_words_and_not_the_work() -> None:
    out = io.StringIO()
    out.close()
    with StatusLine(lambda: "x", out=out, first_after_s=0.0) as line:
        wait_for(line._ended.is_set)
