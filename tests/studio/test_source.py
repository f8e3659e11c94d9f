"""What the page's source must not hold: ways for text to become markup or code, and other hosts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "runyard" / "studio" / "static"

# How text becomes code, also in what the bundler made of others' libraries.
CODE = {
    "eval": r"\beval\s*\(",
    "a function out of text": r"\bnew\s+Function\b|\bFunction\s*\(\s*[\"'`]",
    "a timer with text": r"\bset(Timeout|Interval)\s*\(\s*[\"'`]",
    "document.write": r"\bdocument\s*\.\s*write(ln)?\b",
    "a javascript: address": r"javascript:",
    "another host": r"\b(?:https?|wss?|ftp)://(?!\$\{|www\.w3\.org/(?:2000/svg|1999/xhtml|1998/Math/MathML|1999/xlink)\b)",
    "another host, without a scheme": r"[\"'`(]//[a-z0-9]",
}
# How text becomes markup. Preact has `innerHTML` for who asks for it; nobody here does.
MARKUP = {
    "markup out of text": r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|srcdoc|setHTMLUnsafe"
    r"|parseHTMLUnsafe|createContextualFragment|DOMParser",
    "style as text": r"\bstyle\s*=\s*[\"'`]|\bstyle=\{\s*[\"'`]|setAttribute\(\s*[\"'`]style|\.cssText\b",
    "a handler as text": r"\bon[A-Za-z]+\s*=\s*\{?\s*[\"'`]|setAttribute\(\s*[\"'`]on",
    "an open door to whoever opened the page": r"window\.opener|postMessage\(|document\.domain",
}


def faults(text: str, *rules: dict[str, str]) -> list[str]:
    found = []
    for rule in rules:
        for name, pattern in rule.items():
            found += [f"{name}: {match.group()!r}" for match in re.finditer(pattern, text)]
    return found


def sources() -> list[Path]:
    kinds = (".ts", ".tsx", ".css", ".html", ".svg")
    found = [path for path in (WEB / "src").rglob("*") if path.suffix in kinds]
    found += [WEB / "index.html", *(WEB / "public").glob("*.svg")]
    assert len(found) > 20
    return [path for path in found if ".test." not in path.name]


def test_no_source_turns_text_into_markup_or_code_or_names_another_host() -> None:
    found = {str(path.relative_to(ROOT)): faults(path.read_text(), CODE, MARKUP) for path in sources()}

    assert {path: what for path, what in found.items() if what} == {}


def test_nothing_that_was_built_does() -> None:
    assert (STATIC / "index.html").is_file(), "type `make studio` first"
    found = {path.name: faults(path.read_text(), CODE) for path in STATIC.glob("*.*") if path.suffix in (".js", ".css")}

    assert len(found) > 5
    assert {name: what for name, what in found.items() if what} == {}


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    """Our policy would refuse them, and a page that needs one would be broken."""
    text = (STATIC / "index.html").read_text()

    assert faults(text, CODE, MARKUP) == []
    assert re.findall(r"<script(?![^>]*\ssrc=\"/static/)[^>]*>", text) == []
    assert re.findall(r"<script[^>]*>\s*[^<\s]", text) == [] and "<style" not in text
    assert re.findall(r"\s(?:src|href)=\"(?!/static/)[^\"]*\"", text) == []


@pytest.mark.parametrize(
    "line",
    [
        "<p dangerouslySetInnerHTML={{ __html: name }} />",
        "element.innerHTML = name;",
        "element.insertAdjacentHTML('beforeend', name);",
        "eval (text)",
        "new Function('return ' + text)",
        "setTimeout('go()', 5)",
        "document.write(name)",
        '<a href="javascript:go()">',
        "fetch('https://elsewhere.example/x')",
        '<img src="//elsewhere.example/x" />',
        "@import url(//elsewhere.example/x.css);",
        "new WebSocket('wss://elsewhere.example')",
        '<p style="color: red">',
        "<p style={'color: ' + color}>",
        "<p style={`color: ${color}`}>",
        "node.setAttribute('style', text)",
        '<button onclick="go()">',
        "<button onClick={'go()'}>",
        "<iframe srcdoc={text} />",
    ],
)
def test_control_such_a_line_is_found(line: str) -> None:
    assert faults(line, CODE, MARKUP) != []


@pytest.mark.parametrize(
    "line",
    [
        '<svg xmlns="http://www.w3.org/2000/svg">',
        "<p style={{ width: `${width}px` }}>",
        "<button onClick={() => go('x')}>",
        "const half = whole / 2; // a comment",
        "element.textContent = name;",
        "const page = `https://${host}/commit`;",  # of the run's own git remote, for who follows the link
    ],
)
def test_control_what_is_fine_is_not_found(line: str) -> None:
    assert faults(line, CODE, MARKUP) == []
