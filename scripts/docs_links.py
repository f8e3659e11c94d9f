"""A hook of mkdocs: links that leave docs/ lead to the repository, and the footer says which version this is."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(\]\()(\.\.?/[^)\s#]*)(#[^)\s]*)?(\))")


def on_config(config: Any) -> Any:
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/runyard/__init__.py").read_text())
    config.copyright = f"Runyard {version[1] if version else ''} · Apache-2.0"
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    place = PurePosixPath("docs", page.file.src_uri).parent
    return LINK.sub(lambda found: _outside(found, place, str(config.repo_url).rstrip("/")), markdown)


def _outside(found: re.Match[str], place: PurePosixPath, repository: str) -> str:
    target = (ROOT / place / found[2]).resolve().relative_to(ROOT)
    if target.parts[:1] == ("docs",):
        return found[0]
    kind = "tree" if (ROOT / target).is_dir() else "blob"
    return f"{found[1]}{repository}/{kind}/main/{target.as_posix()}{found[3] or ''}{found[4]}"
