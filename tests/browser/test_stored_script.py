"""A60: over two hundred payloads wherever a user's text can be, on every page; none of it runs or becomes markup."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from azureml.core import Dataset, Environment, Experiment, Model, Run
from runyard.server.access.guard import PAGE_POLICY
from tests.browser.attacker import attacking
from tests.browser.payloads import payloads
from tests.browser.studio import Studio
from tests.browser.waiting import expect_soon
from tests.browser.watching import Watch

PAYLOADS = payloads()
ENDINGS = (".txt", ".md", ".csv", ".json", ".html", ".svg", ".xml", ".ipynb", ".png", ".py", ".log", "")

SCRIPT = """\
import json, os, sys
from azureml.core import Run

texts = json.loads(open("payloads.json").read())
run = Run.get_context()
os.makedirs("outputs", exist_ok=True)
for index, text in enumerate(texts):
    print(text, flush=index % 50 == 0)
    line = " ".join(text.split()).replace(chr(27), "").replace(chr(7), "")
    for value in (1, 2):
        run.log(line[:255], value)
    run.tag(f"{index} {text}"[:100], text)
    ending = json.loads(sys.argv[-1])[index % len(json.loads(sys.argv[-1]))]
    name = "".join(char for char in line if char not in "/\\\\%")[:80].strip().rstrip(".") + ending
    open(os.path.join("outputs", name), "w").write(body := "\\n".join(texts))
cells = [{"cell_type": kind, "source": [text], "metadata": {}, "outputs": [
    {"output_type": "display_data", "data": {"text/html": [text], "text/plain": [text]}},
    {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]},
]} for text in texts[::8] for kind in ("markdown", "code")]
open("outputs/notebook.ipynb", "w").write(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
open("outputs/all.md", "w").write("\\n\\n".join(texts))
open("outputs/all.csv", "w").write("\\n".join('"' + text.replace('"', '""') + '",2' for text in texts))
open("outputs/all.json", "w").write(json.dumps({text: text for text in texts}))
run.log_table("table", {text[:50]: [1, 2] for text in texts[:5]})
run.log_list("list", texts[:20])
run.log("text metric", texts[0])
run.set_tags({"<b class=pwned>tag</b>": "<b class=pwned>value</b>"})
run.add_properties({f"p{index} {text}"[:100]: text for index, text in enumerate(texts)})
run.display_name = texts[0]
run.description = "\\n\\n".join(texts)
for text in texts[:3]:
    child = run.child_run(name=text)
    child.display_name = text
    child.complete()
run.flush()
raise RuntimeError("\\n".join(texts))
"""


@dataclass(frozen=True)
class Hostile:
    first: Run
    second: Run


@pytest.fixture(scope="module")
def hostile(studio: Studio) -> Hostile:
    """Two runs, a model, a dataset, an environment and a target full of payloads."""
    (studio.project / "payloads.json").write_text(json.dumps(PAYLOADS))
    for index, text in enumerate(PAYLOADS[:40]):
        name = "".join(char for char in text if char not in '/\\%\n\t"')[:60].strip()
        (studio.project / f"{name}{ENDINGS[index % len(ENDINGS)]}").write_text("\n".join(PAYLOADS))
    environment = Environment("hostile")
    environment.python.user_managed_dependencies = True
    environment.environment_variables = {f"PWNED_{index}": text for index, text in enumerate(PAYLOADS)}
    environment.register(studio.workspace)
    words = [word for index, text in enumerate(PAYLOADS) for word in (f"--p{index}", text)]
    words += [f"--{PAYLOADS[0]}", PAYLOADS[1], json.dumps(ENDINGS)]
    runs = [studio.submit(SCRIPT, *words, experiment="hostile", environment=environment) for _ in range(2)]
    for run in runs:
        run.wait_for_completion(raise_on_error=False)
    notes = dict(zip(PAYLOADS[:100], PAYLOADS[100:], strict=False))
    Experiment(studio.workspace, "hostile").set_tags(notes)
    runs[0].register_model("hostile", "outputs/all.md", tags=notes, properties=notes, description="\n".join(PAYLOADS))
    folder = studio.project / "data"
    folder.mkdir()
    (folder / "all.csv").write_text("\n".join(PAYLOADS))
    data = studio.workspace.get_default_datastore().upload(str(folder), "hostile")
    dataset = Dataset.File.from_files(data)
    dataset.register(studio.workspace, "hostile", description="\n".join(PAYLOADS), tags=notes)
    assert runs[0].get_status() == "Failed" and len(runs[0].get_metrics()) >= len(PAYLOADS)
    assert Model(studio.workspace, "hostile").tags == notes
    return Hostile(*runs)


def pages(hostile: Hostile, studio: Studio) -> list[str]:
    first, second = hostile.first.id, hostile.second.id
    tabs = ("overview", "metrics", "log", "files", "code", "environment", "children")
    columns = ",".join(quote(f"{kind}.{text}", safe="") for kind in ("metrics", "tags") for text in PAYLOADS[:3])
    found = [f"/runs/{first}?tab={tab}" for tab in tabs]
    found += [f"/runs/{first}?tab={tab}&file={quote(text, safe='')}" for tab in tabs for text in PAYLOADS[:3]]
    files = [file.name for file in studio.client.runs.files(first)]
    found += [f"/runs/{first}?tab=files&file={quote(name, safe='')}" for name in pick(files)]
    found += [f"/runs/{first}?tab=log&file={quote(name, safe='')}" for name in files if "logs/" in name]
    found += [f"/runs/{first}?tab=code&against={second}"]
    found += ["/", "/runs", "/runs?group=p0", "/experiments", "/experiments?view=All", f"/runs?columns={columns}"]
    found += [
        f"/runs?{name}={quote(PAYLOADS[index], safe='')}"
        for index, name in enumerate(
            ("workspace", "experiment", "filter", "sort", "columns", "group", "view", "children", "descending")
        )
    ]
    found += [f"/compare?run={first}&run={second}"]
    found += [f"/compare?run={first}&run={second}&tab={tab}" for tab in ("charts", "table", "parallel", "scatter")]
    found += [f"/compare?run={quote(PAYLOADS[0], safe='')}", f"/sweeps/{first}"]
    for kind in ("environments", "compute", "datasets", "models"):
        name = "local" if kind == "compute" else "hostile"
        found += [f"/{kind}", f"/{kind}/{name}", f"/{kind}/{quote(PAYLOADS[0], safe='')}"]
    return found


def pick(names: list[str]) -> list[str]:
    """Return two files of each ending and all that are named `all`."""
    chosen: dict[str, list[str]] = {}
    for name in names:
        chosen.setdefault(name.rpartition(".")[2] if "." in name[-6:] else "", []).append(name)
    few = [name for group in chosen.values() for name in group[:2]]
    return sorted({*few, *(name for name in names if "/all." in name or "notebook" in name)})


def hook(context: BrowserContext, hits: list[str]) -> None:
    context.expose_function("hit", lambda *words: hits.append(repr(words)))


MARKUP = """() => [...document.querySelectorAll('.pwned, [onerror], [onload], iframe, object, embed, base')]
    .map((one) => one.outerHTML.slice(0, 200))
    .concat([...document.querySelectorAll('a, form, area, button')]
      .filter((one) => /^\\s*(javascript|data|vbscript):/i.test(one.getAttribute('href') ?? one.formAction ?? ''))
      .map((one) => one.outerHTML.slice(0, 200)))"""


def settle(page: Page) -> None:
    """Wait until the page shows what it has, then open what can be opened."""
    page.wait_for_selector("main", state="attached")
    page.wait_for_function("() => !document.querySelector('main .loading')", timeout=15_000)
    for summary in page.locator("summary").all()[:5]:
        summary.click()
    page.wait_for_timeout(60)  # handlers of broken images and the like come after


@pytest.mark.timeout(400)
def test_a60_nothing_that_was_stored_runs_on_any_page(
    studio: Studio, hostile: Hostile, page: Page, watch: Watch
) -> None:
    watch.allow("status of 404")
    watch.allow("status of 400")
    hits: list[str] = []
    hook(page.context, hits)
    found: dict[str, object] = {}
    visited = pages(hostile, studio)
    for address in visited:
        page.goto(address)
        settle(page)
        markup = page.evaluate(MARKUP)
        if markup or hits:
            found[address] = (markup, list(hits))
            hits.clear()

    assert len(visited) > 60
    assert found == {}


SHOWN = (
    "/runs?experiment=hostile", "/runs/{}", "/runs/{}?tab=metrics", "/runs/{}?tab=log", "/runs/{}?tab=files",
    "/runs/{}?tab=files&file=outputs%2Fall.md", "/runs/{}?tab=files&file=outputs%2Fall.csv",
    "/runs/{}?tab=files&file=outputs%2Fall.json", "/runs/{}?tab=files&file=outputs%2Fnotebook.ipynb",
    "/runs/{}?tab=code", "/runs/{}?tab=environment", "/runs/{}?tab=children", "/environments/hostile",
    "/models/hostile", "/datasets/hostile",
)  # fmt: skip


@pytest.mark.parametrize("address", SHOWN)
def test_a60_the_payloads_are_shown_as_they_are(hostile: Hostile, page: Page, address: str) -> None:
    """They did reach the pages, so that the test above says something."""
    page.goto(address.format(hostile.first.id))
    settle(page)
    marks = [" ".join(one.split())[:40] for one in PAYLOADS if "pwned" in one]
    page.wait_for_function(
        "(marks) => { const text = document.querySelector('main').innerText.replace(/\\s+/g, ' ');"
        " return marks.some((mark) => text.includes(mark)) }",
        arg=marks,
    )


def test_a60_control_a_page_that_takes_text_for_markup_is_hit(browser: Browser) -> None:
    """Without our policy most run. Under it none does, and the markup that got in is there to be found."""
    counts = {}
    with attacking() as site:
        for policy in ("", PAGE_POLICY.decode().partition("; require-trusted-types")[0]):
            context = browser.new_context()
            hits: list[str] = []
            hook(context, hits)
            page = context.new_page()
            site.headers = {"Content-Security-Policy": policy} if policy else {}
            page.goto(site.address("127.0.0.1", "/"))
            for text in PAYLOADS:
                page.evaluate("(text) => document.body.insertAdjacentHTML('beforeend', `<div>${text}</div>`)", text)
            if policy:
                page.wait_for_timeout(500)
            else:
                expect_soon(page, lambda: len(set(hits)) > 60, True)  # noqa: B023  # it is called here
            counts[bool(policy)] = (len(set(hits)), len(page.evaluate(MARKUP)))
            context.close()

    assert counts[False][0] > 60 and counts[False][1] > 150
    assert counts[True][0] == 0 and counts[True][1] > 150


def test_a60_control_our_policy_refuses_text_as_markup(page: Page, watch: Watch) -> None:
    watch.allow("TrustedHTML")
    page.goto("/runs")
    assert (
        page.evaluate("() => { try { document.body.innerHTML = '<p>'; return 'taken' } catch { return 'refused' } }")
        == "refused"
    )
