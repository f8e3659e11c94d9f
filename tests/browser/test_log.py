"""The log in a browser: colours and hostile lines, search, errors, links, live growth over a killed server, 1 GB."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from runyard.artifacts.filesystem import FilesystemStore
from runyard.core.config.paths import artifact_folder
from runyard.core.records import NewRun, RunFile
from runyard.engine.runs.streams import stream_key
from tests.browser.studio import Studio
from tests.browser.watching import Watch
from tests.server import private

LOG = "user_logs/std_log.txt"
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\x1b]8;;javascript:window.hacked=1\x07a link\x1b]8;;\x07",
    "\x1b[38;2;255;0;0mred\x1b[0m \x1b[1;4;32mgreen\x1b[0m \x1b[48;5;226mon yellow\x1b[0m",
    "bell \x07 nul \x00 backwards \u202etxt.exe",
    " 10%\r 50%\r100% done",
    "&lt;b&gt; {{7*7}} ${7*7} <style>body{display:none}</style>",
]


def put_log(studio: Studio, run_id: str, data: bytes, name: str = LOG) -> None:
    """Have the server know a finished-looking run with this log, without running anything."""
    put_parts(studio, run_id, lambda: [data], name)


def put_parts(studio: Studio, run_id: str, parts: Callable[[], Any], name: str = LOG) -> None:
    key = stream_key(run_id, 1, name)
    with studio.store() as store:
        store.create_run(NewRun(f"key-{run_id}", run_id, "default", "logs"))
        artifacts = FilesystemStore(artifact_folder(studio.home))
        at = 0
        for part in parts():
            at = artifacts.append(key, at, part)
        artifacts.close()
        store.put_file(run_id, RunFile(name=name, size=at, kind="stream", chunks=[key], complete=True))


def row(page: Page, line: int) -> Any:
    return page.locator(f'.log-row[data-line="{line}"]')


def test_hostile_lines_are_text_and_colours_are_shown(studio: Studio, page: Page, shoot: Any) -> None:
    put_log(studio, "hostile", "\n".join(HOSTILE).encode())
    page.goto("/runs/hostile?tab=log")

    expect(row(page, 1).locator(".log-text")).to_have_text(HOSTILE[0])
    expect(row(page, 2).locator(".log-text")).to_have_text(HOSTILE[1])
    expect(row(page, 3).locator(".log-text")).to_have_text("a link")
    expect(row(page, 4).get_by_text("red")).to_have_css("color", "rgb(255, 0, 0)")
    expect(row(page, 4).get_by_text("green")).to_have_class("log-bold log-under log-f-2")
    expect(row(page, 5).locator(".log-text")).to_have_text("bell \u2407 nul \u2400 backwards <U+202E>txt.exe")
    expect(row(page, 6).locator(".log-text")).to_have_text("100% done")
    expect(row(page, 7).locator(".log-text")).to_have_text(HOSTILE[6])
    assert page.evaluate("window.hacked") is None
    assert page.locator(".log-lines :is(script, img, a, style)").count() == 0


def test_search_errors_links_and_keys(studio: Studio, new_page: Callable[..., Page], theme: str, shoot: Any) -> None:
    rows = [f"step {number} loss={1 / number:.4f}" for number in range(1, 5001)]
    rows[1999] = "\x1b[33mWARNING\x1b[0m a Needle in the middle"
    rows[3999:4003] = ["Traceback (most recent call last):", "  File 'train.py', line 3", "ValueError: needle", ""]
    put_log(studio, f"errors-{theme}", "\n".join(rows).encode())
    page = new_page(theme=theme)
    page.goto(f"/runs/errors-{theme}?tab=log")
    expect(row(page, 5000)).to_be_visible()  # begins at the end
    assert page.locator(".log-row").count() < 80

    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    expect(row(page, 2000)).to_have_class(re.compile("marked"))
    expect(page.locator(".log-count")).to_have_text("1 / 2")
    expect(row(page, 2000).locator("mark")).to_have_text("Needle")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # round, faster than it is drawn
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".log-count")).to_have_text("2 / 2")
    expect(page).to_have_url(re.compile("line=4002"))
    page.keyboard.press("Escape")  # out of the text, out of the box, then the mark
    expect(page.get_by_label("Search the whole log")).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator(".log-lines")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("line="))
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("line=4000"))
    expect(row(page, 4000)).to_have_class(re.compile("marked"))
    shoot(page, f"log-{theme}")
    page.keyboard.press("e")  # the next one
    expect(page).to_have_url(re.compile("line=4002"))
    page.keyboard.press("f")
    expect(row(page, 5000)).to_be_in_viewport()

    page.goto(f"/runs/errors-{theme}?tab=log&line=1234-1236")
    expect(row(page, 1234)).to_be_in_viewport()
    expect(page.locator(".log-row.marked")).to_have_count(3)
    row(page, 1240).locator(".log-number").click()
    expect(page).to_have_url(re.compile("line=1240$"))
    page.keyboard.press("w")
    expect(row(page, 1240)).to_be_in_viewport()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_text() == "\n".join(rows)


def test_long_lines_wrap_and_the_rest_is_shown_on_demand(
    studio: Studio, new_page: Callable[..., Page], shoot: Any
) -> None:
    rows = [f"{number} " + "word " * (number % 60) for number in range(1, 301)]
    put_log(studio, "long", "\n".join([*rows, "x" * 9000 + "END", "the last"]).encode())
    page = new_page(width=400, height=740)
    page.goto("/runs/long?tab=log")

    expect(row(page, 302)).to_be_in_viewport()  # wrapped by itself on a narrow screen
    box = page.locator(".log-lines")
    assert box.evaluate("e => e.scrollWidth <= e.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    row(page, 301).get_by_role("button", name="show the rest").click()
    expect(row(page, 301).locator(".log-text")).to_have_text("x" * 9000 + "END")
    page.locator(".log-lines").hover()
    for _ in range(200):
        page.mouse.wheel(0, -400)
        if row(page, 250).is_visible():
            break
    expect(page.locator(".log-end")).to_be_visible()
    shoot(page, "log-narrow")
    page.locator(".log-end").click()
    expect(row(page, 302)).to_be_in_viewport()


WATCHER = """() => {
  window.seen = new Map(); window.wrong = [];
  const look = () => { for (const row of document.querySelectorAll('.log-row[data-line]')) {
    const text = row.querySelector('.log-text').textContent, line = Number(row.dataset.line);
    if (text === '…') continue;
    const full = 'line ' + line + ' of the log';
    if (!full.startsWith(text)) window.wrong.push([line, text]);
    if (full === text) window.seen.set(line, text);
  } };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def test_m125_a_log_goes_on_over_a_killed_server_without_a_gap_or_a_line_twice(
    studio: Studio, page: Page, watch: Watch
) -> None:
    for words in (
        "ERR_CONNECTION_REFUSED",
        "ERR_CONNECTION_CLOSED",
        "ERR_EMPTY_RESPONSE",
        "ERR_INCOMPLETE_CHUNKED_ENCODING",
        "ERR_CONNECTION_RESET",
        "status of 503",  # of a server that is about to leave
    ):
        watch.allow(words)
    flags = [studio.home / "while-it-is-down", studio.home / "when-it-is-back"]
    script = f"""
        import os, sys, time
        for number in range(1, 401):
            sys.stdout.write(f"line {{number}} of"); sys.stdout.flush()
            for at, flag in zip((151, 301), {[str(flag) for flag in flags]}):
                while number == at and not os.path.exists(flag): time.sleep(0.05)
            sys.stdout.write(" the log\\n"); sys.stdout.flush()
    """
    run = studio.submit(script)
    page.goto(f"/runs/{run.id}?tab=log")
    expect(row(page, 151).locator(".log-text")).to_have_text("line 151 of", timeout=60_000)
    page.evaluate(WATCHER)

    os.kill(private.holder_of(studio.home)["pid"], signal.SIGKILL)
    flags[0].touch()  # in the middle of a line, which goes on while nobody takes it
    expect(page.get_by_text("does not answer").first).to_be_visible(timeout=20_000)
    private.start(studio.home)
    expect(row(page, 301).locator(".log-text")).to_have_text("line 301 of", timeout=60_000)
    flags[1].touch()
    run.wait_for_completion()

    expect(row(page, 400)).to_be_in_viewport(timeout=30_000)
    expect(page.get_by_text("400 lines")).to_be_visible()
    for line in range(1, 401, 15):
        page.locator(".log-lines").evaluate("(box, line) => { box.scrollTop = (line - 1) * 19 }", line)
        low = min(line + 14, 400)  # not on the screen before
        expect(row(page, low).locator(".log-text")).to_have_text(f"line {low} of the log")
        expect(page.locator(".log-text > .faint")).to_have_count(0)  # all that is seen was read

    assert page.evaluate("window.wrong") == []
    assert page.evaluate("[...window.seen.keys()].sort((a, b) => a - b)") == list(range(1, 401))


def test_who_scrolled_up_stays_there_while_the_log_grows(studio: Studio, page: Page) -> None:
    flag = studio.home / "go-on"
    script = f"""
        import os, time
        print(*(f"first {{number}}" for number in range(500)), sep="\\n", flush=True)
        while not os.path.exists({str(flag)!r}): time.sleep(0.05)
        print(*(f"second {{number}}" for number in range(500)), sep="\\n", flush=True)
    """
    run = studio.submit(script)
    page.goto(f"/runs/{run.id}?tab=log")
    expect(row(page, 500)).to_be_in_viewport(timeout=60_000)
    page.locator(".log-lines").hover()
    page.mouse.wheel(0, -3000)
    expect(page.get_by_text("paused here")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.log-row').dataset.line < 350")
    before = page.evaluate("document.querySelector('.log-lines').scrollTop")
    flag.touch()
    expect(page.get_by_text(re.compile("1\u202f000 lines"))).to_be_visible(timeout=30_000)

    assert page.evaluate("document.querySelector('.log-lines').scrollTop") == before
    page.locator(".log-end").click()
    expect(row(page, 1000)).to_be_in_viewport()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [1 << 30])
def test_a_log_of_1_gb_stays_fast(studio: Studio, page: Page, size: int) -> None:
    line = "{:09d} 2026-11-15 18:00:00,123 INFO trainer: epoch 3 loss=0.123456 lr=0.0003 it/s=12.3 gpu=97%\n"
    width = len(line.format(0))
    total = size // width

    def parts() -> Any:
        for first in range(1, total + 1, 200_000):
            yield "".join(line.format(one) for one in range(first, min(first + 200_000, total + 1))).encode()
        yield b"RuntimeError: CUDA error: an illegal needle was encountered\n"

    put_parts(studio, "huge", parts)
    figures: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> None:
        began = time.perf_counter()
        work()
        figures[name] = time.perf_counter() - began

    timed("first screen", lambda: (page.goto("/runs/huge?tab=log"), page.wait_for_selector("text=illegal needle")))
    timed("counted", lambda: expect(row(page, total + 1)).to_be_in_viewport(timeout=30_000))
    box = page.locator(".log-lines")
    timed("middle", lambda: _to_the_middle(page))
    middle = int(page.locator(".log-row .log-text").first.inner_text()[:9])
    assert abs(middle - total / 2) < total * 0.01
    box.hover()
    page.mouse.wheel(0, 190)  # ten lines, not ten thousand
    page.wait_for_function(f"() => Number(document.querySelector('.log-row').dataset.line) == {middle + 10}")
    assert page.locator(".log-row").count() < 80
    frames = page.evaluate(SCROLL)
    page.keyboard.press("e")
    timed("first error", lambda: expect(page).to_have_url(re.compile(f"line={total + 1}"), timeout=60_000))
    page.goto("/runs/huge?tab=log&line=1")
    expect(row(page, 1)).to_have_class(re.compile("marked"), timeout=30_000)
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    page.keyboard.press("Enter")
    timed("search", lambda: expect(page).to_have_url(re.compile(f"line={total + 1}"), timeout=60_000))
    expect(row(page, total + 1)).to_be_in_viewport()
    print({name: round(value, 3) for name, value in figures.items()}, f"{frames:.0f} frames/s", f"{total} lines")


def _to_the_middle(page: Page) -> None:
    page.locator(".log-lines").evaluate("e => { e.scrollTop = e.scrollHeight / 2 }")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.log-text')].every(one => /^\\d{9} /.test(one.textContent))",
        timeout=10_000,
    )


SCROLL = """() => new Promise(done => {
  const box = document.querySelector('.log-lines'), began = performance.now(); let frames = 0;
  const step = () => {
    frames++;
    box.dispatchEvent(new WheelEvent('wheel', { deltaY: 57, cancelable: true, bubbles: true }));
    if (performance.now() - began < 2000) requestAnimationFrame(step); else done(frames / 2);
  };
  requestAnimationFrame(step);
})"""
