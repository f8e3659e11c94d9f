"""Debian's Chromium, installed where it is missing, started without a way to any other machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Playwright

from tests import debian

# Other names resolve to nothing, so a page that asks for another host fails and nothing leaves this machine. An
# attacker's names lead to this machine: their own pages are here, and rebinding leads them to ours.
NAMES = (
    "MAP evil.example 127.0.0.1, MAP rebind.example 127.0.0.1, MAP * ~NOTFOUND, "
    "EXCLUDE 127.0.0.1, EXCLUDE 127.0.0.3, EXCLUDE localhost"
)
# Chromium itself keeps public pages from this machine by now; other browsers do not, and our server must.
TRUSTING = "--disable-features=LocalNetworkAccessChecks,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,Translate"
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    install()
    arguments = [*QUIET, TRUSTING, f"--host-resolver-rules={NAMES}"]
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
    try:
        yield browser
    finally:
        browser.close()


def install() -> None:
    if not shutil.which("chromium"):
        debian.install("chromium")
