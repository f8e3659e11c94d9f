"""A61 and A62: whatever a file holds and is called, opening it runs nothing of it where it could call the API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page

from runyard.server.access import guard
from runyard.server.http import answers
from tests.browser.stored_file import add_file, add_run
from tests.browser.studio import Studio, ask, ticketed
from tests.browser.waiting import expect_soon
from tests.browser.watching import Watch
from tests.server.guarded import Guarded, serving

# Tells that it ran, where it thinks it is, and what the API says to it.
SCRIPT = (
    "hit('ran in ' + self.origin);"
    "try { const headers = { 'Runyard-Session': localStorage.getItem('runyard-session') };"
    "fetch('/api/v1/users/me', { headers })"
    ".then((found) => found.text()).then((text) => hit('read ' + text), () => 0); } catch {}"
)
HTML = f"<!doctype html><body><script>{SCRIPT}</script><img src=x onerror=\"hit('ran')\">"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="hit(\'ran\')"><script>{SCRIPT}</script></svg>'
XHTML = f'<html xmlns="http://www.w3.org/1999/xhtml"><body><script><![CDATA[{SCRIPT}]]></script></body></html>'
XSL = f'<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="#s"?>{XHTML}'
PDF = (
    "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\n"
    "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R>>endobj\ntrailer<</Root 1 0 R>>"
)
MARKDOWN = f'# x\n\n<script>{SCRIPT}</script>\n\n[x](javascript:hit(1)) ![x](x "onerror=hit(1)")\n\n{HTML}'
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": [MARKDOWN]},
            {
                "cell_type": "code",
                "metadata": {},
                "source": ["x"],
                "outputs": [
                    {"output_type": "display_data", "data": {kind: [HTML]}, "metadata": {}}
                    for kind in ("text/html", "image/svg+xml", "application/javascript", "text/markdown", "text/latex")
                ],
            },
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
DOCUMENTS = {
    "page.html": HTML, "page.htm": HTML, "page.xhtml": XHTML, "page.shtml": HTML, "page.mhtml": HTML,
    "picture.svg": SVG, "data.xml": XHTML, "style.xml": XSL, "paper.pdf": PDF, "notes.md": MARKDOWN,
    "notebook.ipynb": NOTEBOOK,
}  # fmt: skip
# A62: bytes that a browser would take for HTML or script if it looked at them.
SNIFFED = {"log.txt": HTML, "picture.png": HTML, "picture.gif": f"GIF89a/*{HTML}*/=1", "data": HTML, "table.csv": HTML,
           "data.json": HTML, "model.pkl": HTML, "code.js": SCRIPT, "code.mjs": SCRIPT, "code.css": HTML,
           "bom.txt": "\ufeff" + HTML, "utf7.txt": "+ADw-script+AD4-hit(1)+ADw-/script+AD4-"}  # fmt: skip


@pytest.fixture(scope="module")
def paths(studio: Studio) -> dict[str, str]:
    """Name → download of each file."""
    with studio.store() as store:
        run_id = add_run(store, "stored_1")
    given = {**DOCUMENTS, **SNIFFED}
    return {name: add_file(studio.client, run_id, f"outputs/{name}", text.encode()) for name, text in given.items()}


def hooked(context: BrowserContext) -> list[str]:
    hits: list[str] = []
    context.expose_function("hit", lambda word="": hits.append(str(word)))
    return hits


def open_all(page: Page, paths: Mapping[str, str], shown: Callable[[str], bool] = lambda _: False) -> list[str]:
    """Open each address as a person would and return which were saved instead of shown."""
    saved = []
    for name, address in paths.items():
        path = ticketed(page, address)
        if shown(name):
            page.goto(path)
            page.wait_for_timeout(150)
            continue
        with page.expect_download() as download:
            with pytest.raises(Error, match="Download is starting"):
                page.goto(path)
        saved.append(name)
        download.value.cancel()
    return saved


def test_a61_a62_an_address_of_a_file_is_a_download_whatever_it_is(
    page: Page, watch: Watch, paths: dict[str, str]
) -> None:
    watch.allow("Download")
    hits = hooked(page.context)

    assert open_all(page, paths) == list(paths)
    assert hits == []


def test_a61_a_file_that_a_page_of_ours_previews_does_not_run(page: Page, paths: dict[str, str], watch: Watch) -> None:
    watch.allow("status of 404")
    hits = hooked(page.context)
    for name in paths:
        page.goto(f"/runs/stored_1?tab=files&file=outputs%2F{name}")
        page.wait_for_selector("main", state="attached")
        page.wait_for_function("() => !document.querySelector('main .loading')")
        page.wait_for_timeout(100)
        assert page.locator("iframe, object, embed").count() == 0, name
        assert page.evaluate("() => document.querySelectorAll('main script, main [onerror]').length") == 0, name

    assert hits == []


def test_a61_a_picture_opened_by_itself_does_not_run_either(page: Page, paths: dict[str, str], watch: Watch) -> None:
    """In a tab of its own: a `data:` address has no origin of ours, and a `blob:` one has our policy."""
    watch.allow("Content Security Policy")
    hits = hooked(page.context)
    page.goto("/runs/stored_1?tab=files&file=outputs%2Fpicture.svg")
    address = page.locator("main figure img").get_attribute("src") or ""
    assert address.startswith("data:image/svg+xml,")
    alone = page.context.new_page()
    alone.goto(address)
    alone.wait_for_timeout(200)
    assert alone.evaluate("self.origin") == "null"
    assert not any(word.startswith("read") for word in hits)
    hits.clear()
    made = "(text) => { location.href = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' })) }"
    page.evaluate(made, SVG)
    page.wait_for_url(re.compile("^blob:"))
    page.wait_for_timeout(200)

    assert page.evaluate("document.documentElement.localName") == "svg"
    assert hits == []


def test_a62_no_file_is_taken_for_our_own_script_or_style(page: Page, paths: dict[str, str], watch: Watch) -> None:
    """Our policy trusts scripts of this origin; a run's file is of this origin too and must not be one."""
    watch.allow("MIME")
    watch.allow("Content Security Policy")
    watch.allow("Failed to load module script")
    watch.allow("TrustedScriptURL")
    hits = hooked(page.context)
    page.goto("/runs")
    for name in ("code.js", "code.mjs", "data.json", "page.html"):
        assert (
            page.evaluate("(path) => import(path).then(() => 'ran', () => 'refused')", ticketed(page, paths[name]))
            == "refused"
        )
    loaded = """(path) => new Promise((done) => {
      const link = Object.assign(document.createElement('link'), { rel: 'stylesheet', href: path });
      link.onload = () => done('taken'); link.onerror = () => done('refused'); document.head.append(link); })"""
    assert page.evaluate(loaded, ticketed(page, paths["code.css"])) == "refused"
    worker = "(path) => { try { new Worker(path); return 'ran' } catch { return 'refused' } }"
    assert page.evaluate(worker, ticketed(page, paths["code.js"])) == "refused"
    assert hits == []


@contextmanager
def weakened(headers: dict[str, str], *, secured: bool) -> Iterator[tuple[Guarded, str]]:
    """Serve a run's files with these headers alone; `secured` false: and without those of every answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "download_headers", lambda *_, **__: headers)
        if not secured:
            patch.setattr(guard, "secured", list)
        with serving() as found:
            found.client().workspaces.put("default")
            yield found, add_run(found.services.store, "stored_1")


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("page.html", "text/html"), ("picture.svg", "image/svg+xml"), ("data.xml", "application/xhtml+xml")],
)
def test_a61_control_shown_as_what_it_says_it_runs_and_reads_the_api(
    browser: Browser, name: str, media_type: str
) -> None:
    """The second wall alone, a sandbox, keeps it from running and from our origin."""
    seen = {}
    sandbox = {"Content-Security-Policy": "sandbox; default-src 'none'"}
    for wall, headers in (("none", {}), ("sandbox", sandbox)):
        with weakened({"content-type": media_type, **headers}, secured=False) as (weak, run_id):
            context = browser.new_context(base_url=f"http://127.0.0.1:{weak.port}")
            hits = hooked(context)
            page = context.new_page()
            page.goto(weak.client().server.signin_path("/api/v1/health"))
            path = add_file(weak.client(), run_id, f"outputs/{name}", DOCUMENTS[name].encode())
            open_all(page, {name: path}, shown=lambda _: True)
            if wall == "none":
                expect_soon(page, lambda: tells_the_owner(hits), True)  # noqa: B023  # it is called here
            else:
                page.wait_for_timeout(200)
            seen[wall] = list(hits), page.evaluate("self.origin")
            context.close()

    assert any(word.startswith("ran") for word in seen["none"][0])
    assert tells_the_owner(seen["none"][0])
    assert seen["sandbox"] == ([], "null")


def tells_the_owner(words: list[str]) -> bool:
    return any('"role":"owner"' in word.replace(" ", "") for word in words)


def test_a62_control_with_a_scripts_type_it_would_be_taken_for_ours(browser: Browser) -> None:
    with weakened({"content-type": "text/javascript"}, secured=True) as (weak, run_id):
        context = browser.new_context(base_url=f"http://127.0.0.1:{weak.port}")
        hits = hooked(context)
        page = context.new_page()
        page.goto(weak.client().server.signin_path("/api/v1/health"))
        path = add_file(weak.client(), run_id, "outputs/code.js", SCRIPT.encode())
        page.goto("/")
        assert page.evaluate("(path) => import(path).then(() => 'ran', () => 'refused')", ticketed(page, path)) == "ran"
        expect_soon(page, lambda: any(word.startswith("ran") for word in hits), True)
        context.close()


def test_a61_every_download_of_the_server_says_so(studio: Studio, page: Page) -> None:
    """Files of runs, models, datastores and snapshots; those of zip files too."""
    run = studio.submit(
        "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/page.html', 'w').write('<script>')\n"
    )
    run.wait_for_completion()
    run.register_model("page", "outputs/page.html")
    (studio.project / "page.html").write_text(HTML)
    studio.workspace.get_default_datastore().upload_files([str(studio.project / "page.html")], target_path="x")
    snapshot = run.get_snapshot_id()
    answers = [
        f"/api/v1/runs/{run.id}/files/outputs/page.html",
        f"/api/v1/runs/{run.id}/zip",
        "/api/v1/workspaces/default/models/page/1/files/page.html",
        "/api/v1/workspaces/default/datastores/workspaceblobstore/files/x/page.html",
        f"/api/v1/snapshots/{snapshot}/files/train.py",
        f"/api/v1/snapshots/{snapshot}/zip",
    ]
    for path in answers:
        answer = ask(page, path)
        assert answer.ok, path
        assert answer.headers["content-disposition"].startswith("attachment"), path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert answer.headers["content-security-policy"].startswith("sandbox"), path
        assert answer.headers["content-type"] in ("application/octet-stream", "application/zip"), path
        assert answer.headers["cross-origin-resource-policy"] == "same-origin", path
