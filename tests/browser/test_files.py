"""The files of a run in a browser: previews of each kind, hostile names and contents, downloads."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote
from zipfile import ZipFile

import pytest
from playwright.sync_api import Locator, Page, expect

from azureml.core import Run
from tests.browser.conftest import NewPage
from tests.browser.studio import Studio, ask
from tests.browser.waiting import expect_soon

Show = Callable[[str], Locator]
EVIL = "<img src=x onerror=alert('name')>.html"
SCRIPT = r"""
import base64, json, os, struct, zlib
os.makedirs("outputs/deep/er", exist_ok=True)

def write(name, data):
    with open(os.path.join("outputs", name), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

rows = b"".join(b"\0" + bytes(v for x in range(160) for v in (x, y * 2, 160 - x)) for y in range(90))
png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 160, 90, 8, 2, 0, 0, 0))
png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
write("plot.png", png)
evil = "<script>alert('svg')</script>"
shape = '<rect width="120" height="60" fill="teal"/>'
root = '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="60" onload="alert(1)">'
write("drawing.svg", f"{root}{evil}{shape}</svg>")
write("page.png", "<html><script>alert('png')</script></html>")
write("notes.txt", "first line\nsecond <b>line</b>\n")
write("large.log", "".join(f"line {n} of a large file\n" for n in range(60_000)))
write("table.csv", 'name,score,"a, b"\n<script>alert(2)</script>,0.5,"x\ny"\n=cmd(),-1e-3,z\n')
write("long.csv", "n\n" + "".join(f"{n}\n" for n in range(1500)))
write("facts.json", '{"id": 12345678901234567890, "loss": NaN, "list": [1, {"deep": "<i>x</i>"}], "ok": true}')
write("broken.json", "{nothing")
write("page.html", "<html><body onload=\"alert('html')\"><script>alert('html')</script></body></html>")
readme = "# Results\n\nSome **bold** text, [good](https://good.example/x) and [evil](javascript:alert(3)).\n\n"
write("README.md", readme + "<img src=x onerror=alert(4)>\n\n- one\n- two\n\n```python\nx = 1\n```\n")
cells = [
    {"cell_type": "markdown", "source": ["## A notebook\n", "<script>alert(5)</script>"]},
    {"cell_type": "code", "execution_count": 7, "source": "print('hi')\nreturn_value = 3",
     "outputs": [{"output_type": "stream", "text": "hi\n"},
                 {"output_type": "display_data", "data": {"image/png": base64.b64encode(png).decode()}},
                 {"output_type": "display_data", "data": {"text/html": "<script>alert(6)</script>"}},
                 {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mValueError\x1b[0m: v"]}]},
]
write("work.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"
write("array.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + b"\0" * 48)
write("empty.txt", "")
write("deep/er/hidden.txt", "deep\n")
write("<img src=x onerror=alert('name')>.html", "<script>alert('content')</script>")
write("a\u202egnp.txt", "mirrored\n")
write("odd \u2603 #?&%;+'\".txt", "odd name\n")
"""


@pytest.fixture(scope="module")
def run(studio: Studio) -> Run:
    found = studio.submit(SCRIPT, experiment="files")
    found.wait_for_completion()
    return found


@pytest.fixture
def show(run: Run, page: Page) -> Show:
    def open_file(name: str) -> Locator:
        page.goto(f"/runs/{run.id}?tab=files&file={quote(f'outputs/{name}', safe='')}")
        expect(page.locator(".shown-head h2")).to_be_visible()
        return page.locator(".with-tree > .card").nth(1)

    return open_file


def test_the_tree_lists_filters_and_is_walked_by_keys(run: Run, page: Page) -> None:
    page.goto(f"/runs/{run.id}?tab=files&file=outputs/notes.txt")
    tree = page.get_by_role("tree", name="files")
    expect(tree.get_by_role("treeitem", name="notes.txt")).to_have_attribute("aria-current", "true")
    count = tree.get_by_role("treeitem").count()

    page.get_by_label("Filter files").fill("er hidden")
    expect(tree.get_by_role("treeitem")).to_have_count(4)  # outputs, deep, er and the file
    page.get_by_label("Filter files").press("Enter")
    expect(page.locator(".shown-head h2")).to_have_text("outputs/deep/er/hidden.txt")
    page.wait_for_url(lambda url: "file=outputs%2Fdeep%2Fer%2Fhidden.txt" in url)

    page.get_by_label("Filter files").fill("")
    expect(tree.get_by_role("treeitem")).to_have_count(count)
    folder = tree.get_by_role("treeitem", name="outputs")
    folder.focus()
    page.keyboard.press("ArrowLeft")
    expect(folder).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(folder).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect_soon(page, lambda: page.evaluate("document.activeElement.title"), "outputs/deep")


def test_images_are_drawn_and_a_script_in_an_svg_does_not_run(show: Show, page: Page) -> None:
    for name, size in (("plot.png", "160 × 90"), ("drawing.svg", "120 × 60")):
        card = show(name)
        expect(card.locator("figcaption")).to_have_text(size)
        width = card.locator("img").evaluate("image => image.naturalWidth")
        assert width == int(size.split()[0])
    assert (card.locator("img").get_attribute("src") or "").startswith("data:image/svg+xml,")


def test_text_has_numbers_and_a_link_to_each_line(show: Show, page: Page) -> None:
    card = show("notes.txt")
    expect(card.locator(".source-text")).to_have_text("first line\nsecond <b>line</b>\n")
    card.get_by_label("Line 2", exact=True).click()
    expect(card.locator(".source-chosen")).to_be_visible()
    page.wait_for_url(lambda url: url.endswith("&line=2"))


def test_only_the_first_megabyte_of_a_large_text_is_read(show: Show, page: Page) -> None:
    with page.expect_response(re.compile("/files/outputs/large.log")) as answered:
        card = show("large.log")
    expect(card).to_contain_text("The first 1.0 MB of 1.6 MB")
    assert answered.value.status == 206 and answered.value.headers["content-length"] == "1000000"
    expect(card.locator(".source-block").first).to_contain_text("line 0 of a large file")


def test_a_csv_is_a_table(show: Show) -> None:
    card = show("table.csv")
    expect(card.locator("thead th")).to_have_text(["#", "name", "score", "a, b"])
    cells = card.locator("tbody tr").nth(0).locator("td")
    expect_soon(card.page, cells.all_text_contents, ["1", "<script>alert(2)</script>", "0.5", "x\ny"])
    expect(card.locator("tbody tr").nth(1).locator("td").nth(2)).to_have_class("number")
    card.get_by_role("button", name="As text").click()
    expect(card.locator(".source-line").nth(0)).to_have_text('name,score,"a, b"')


def test_a_long_csv_is_cut_after_a_thousand_rows(show: Show) -> None:
    card = show("long.csv")
    expect(card.locator("tbody tr")).to_have_count(1000)
    expect(card).to_contain_text("The first 1\u202f000 rows")


def test_json_is_a_tree_that_keeps_every_digit(show: Show) -> None:
    card = show("facts.json")
    tree = card.locator(".json-view")
    expect(tree).to_contain_text("id: 12345678901234567890")
    expect(tree).to_contain_text("loss: NaN")
    expect(tree).not_to_contain_text("deep")
    tree.get_by_role("button", name=re.compile("1: { 1 key }")).click()
    expect(tree).to_contain_text('deep: "<i>x</i>"')
    card = show("broken.json")
    expect(card.locator(".source-line")).to_have_text("{nothing")


def test_html_is_shown_as_source(show: Show) -> None:
    card = show("page.html")
    expect(card.locator(".source-line")).to_contain_text("<script>alert('html')</script>")
    expect(card.locator("iframe, script")).to_have_count(0)


def test_html_by_the_name_of_an_image_is_no_image_and_no_page(show: Show) -> None:
    card = show("page.png")
    expect(card).to_contain_text("The browser cannot show this as an image")
    expect(card.locator("iframe, script, object, embed")).to_have_count(0)


def test_markdown_is_drawn_and_its_links_lead_to_the_web_only(show: Show) -> None:
    card = show("README.md")
    expect(card.locator(".markdown-h1")).to_have_text("Results")
    expect(card.locator(".markdown strong")).to_have_text("bold")
    assert card.locator(".markdown a").evaluate_all("links => links.map(link => link.href)") == [
        "https://good.example/x"
    ]
    expect(card.locator(".markdown")).to_contain_text("<img src=x onerror=alert(4)>")


def test_a_notebook_is_drawn_without_running_anything(show: Show) -> None:
    card = show("work.ipynb")
    expect(card.locator(".markdown-h2")).to_have_text("A notebook")
    expect(card.locator(".notebook-count").last).to_have_text("[7]")
    expect(card.locator(".notebook-output").first).to_have_text("hi\n")
    expect(card.locator(".notebook-output.bad")).to_have_text("ValueError: v\n")
    expect(card).to_contain_text("<script>alert(6)</script>")
    assert card.locator(".notebook-image").evaluate("image => image.decode().then(() => image.naturalWidth)") == 160
    expect(card.locator(".code-keyword, .code-string").first).to_be_visible()


def test_bytes_are_shown_in_hex_with_what_their_head_says(show: Show, run: Run) -> None:
    card = show("array.npy")
    expect(card).to_contain_text("NumPy array, shape (3, 4), type <f4")
    expect(card.locator(".hex")).to_contain_text("00000000  93 4e 55 4d 50 59 01 00")
    expect(card.locator(".command code")).to_have_text(f"runyard runs download {run.id} outputs/array.npy")
    expect(show("empty.txt")).to_contain_text("This file is empty")


@pytest.mark.parametrize(
    ("name", "shown", "content"),
    [
        (EVIL, EVIL, "<script>alert('content')</script>"),
        ("a\u202egnp.txt", "a\\u202egnp.txt", "mirrored"),
        ("odd \u2603 #?&%;+'\".txt", "odd \u2603 #?&%;+'\".txt", "odd name"),
    ],
)
def test_a_hostile_name_is_text(show: Show, page: Page, name: str, shown: str, content: str) -> None:
    card = show(name)
    expect(card.locator("h2")).to_have_text(f"outputs/{shown}")
    expect(card.locator(".source-line")).to_have_text(content)
    expect(page.get_by_role("tree").get_by_role("treeitem", name=shown)).to_have_attribute("aria-current", "true")
    with page.expect_download() as loading:
        card.get_by_role("link", name="Download").click()
    assert content in Path(loading.value.path()).read_text()


def test_a_folder_and_all_files_are_downloaded_as_a_zip(run: Run, page: Page) -> None:
    page.goto(f"/runs/{run.id}?tab=files")
    with page.expect_download() as loading:
        page.get_by_label("Download deep as a zip").click()
    with ZipFile(loading.value.path()) as packed:
        assert packed.namelist() == ["outputs/deep/er/hidden.txt"]
    everything = ask(page, f"/api/v1/runs/{run.id}/zip").body()
    with ZipFile(io.BytesIO(everything)) as packed:
        assert json.loads(packed.read("outputs/work.ipynb"))["nbformat"] == 4


def test_a_missing_file_and_a_run_without_files_say_so(studio: Studio, run: Run, page: Page) -> None:
    page.goto(f"/runs/{run.id}?tab=files&file=outputs/none")
    expect(page.get_by_role("heading", name="There is no such file")).to_be_visible()


def test_files_appear_while_the_run_goes_on(studio: Studio, page: Page) -> None:
    script = """
        import os, sys, time
        os.makedirs("outputs", exist_ok=True)
        open("outputs/one.txt", "w").write("one")
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.05)
        open("outputs/two.txt", "w").write("two")
        time.sleep(60)
    """
    run = studio.submit(script, str(studio.home / "go"), experiment="files")
    try:
        page.goto(f"/runs/{run.id}?tab=files")
        expect(page.get_by_role("treeitem", name="one.txt")).to_be_visible(timeout=30_000)
        (studio.home / "go").touch()
        expect(page.get_by_role("treeitem", name="two.txt")).to_be_visible(timeout=30_000)
    finally:
        run.cancel()
        run.wait_for_completion(raise_on_error=False)


def test_it_is_usable_on_a_narrow_screen(run: Run, new_page: NewPage) -> None:
    page = new_page(width=360, height=740)
    page.goto(f"/runs/{run.id}?tab=files&file=outputs/notes.txt")
    expect(page.locator(".source-text").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_log_that_was_empty_when_it_was_opened_is_shown_as_it_fills(studio: Studio, page: Page) -> None:
    gate = studio.project / "gate"
    run = studio.submit(
        """
        import os, sys, time
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.05)
        print("first words", flush=True)
        """,
        str(gate),
    )
    page.goto(f"/runs/{run.id}?tab=files&file=user_logs/std_log.txt")
    expect(page.get_by_text("This file is empty.")).to_be_visible(timeout=60_000)
    gate.touch()

    expect(page.locator(".source")).to_contain_text("first words", timeout=60_000)
    run.wait_for_completion()
