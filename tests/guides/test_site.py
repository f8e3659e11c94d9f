"""The site builds without a warning, finds what people look for, and fetches nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.conftest import ROOT

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, str(ROOT / "scripts/docs_site.py"), "--site-dir", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("resume", "guides/retries/"),
        ("out of memory", "guides/failures/"),
        ("slurm", "tutorials/slurm/"),
        ("tensorboard", "guides/tensorboard/"),
        ("scikit-learn", "tutorials/sklearn/"),
        ("backup", "guides/operations/"),
    ],
)
def test_the_search_index_finds_the_page_about(site: Path, words: str, page: str) -> None:
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    titles = [entry["location"] for entry in entries if words in re.sub("<[^>]+>", "", entry["title"]).lower()]
    texts = [entry["text"] for entry in entries if entry["location"].startswith(page)]

    assert any(words in text.lower() for text in texts)
    assert any(location.startswith(page) for location in titles)


def test_links_that_leave_the_documentation_lead_to_the_repository(site: Path) -> None:
    page = (site / "guides/first-run/index.html").read_text()

    assert "https://github.com/runyard/runyard/blob/main/examples/first_run/submit.py" in page


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loaded = set()
    for page in site.rglob("*.html"):
        loaded |= set(re.findall(r'<(?:script|img|iframe)[^>]* src="?(https?:[^" >]+)', page.read_text()))
        for link in re.findall(r"<link[^>]+>", page.read_text()):
            if not re.search(r'rel="?(canonical|next|prev|edit)', link):
                loaded |= set(re.findall(r'href="?(https?:[^" >]+)', link))

    assert loaded == set()
