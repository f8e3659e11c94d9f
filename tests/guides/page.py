"""A page's code blocks as steps: files to write, Python and commands to run, and what they print.

The rules, which CONTRIBUTING.md repeats for authors:

- A block whose first line is `# name.ext` is written to that file. So is one below `<!-- examples/folder/name.ext -->`,
  which `make docs` fills with that example.
- `python`, `sh` and `console` blocks are run, one after the other; blocks in other languages are not.
- A `text` block right after a block that is run is what it prints. `…` stands for anything.
- `print(value)  # text` at the start of a line prints that text.
- `<!-- not run: reason -->` before a block: it is only shown. `<!-- fails: reason -->`: it ends with an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import List, Optional

BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- (?:(?P<mark>not run|fails): (?P<reason>[^\n]*?)|(?P<example>examples/[^\n ]+)) -->\n\s*)?"
    r"```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
FILE_NAME = re.compile(r"# ([\w./-]+\.\w+|[\w./-]*Dockerfile)\n")
PRINTED = re.compile(r"^(?:    )*print\(.*\)  +# (.+)$", re.MULTILINE)


@dataclass
class Step:
    """One block of a page, or one command of a `console` block."""

    kind: str  # file, python, sh, shown
    text: str
    line: int
    name: str = ""
    fails: bool = False
    reason: str = ""
    expected: List[str] = field(default_factory=list)


def read_steps(page: str) -> list[Step]:
    steps: list[Step] = []
    last_end = -1
    for match in BLOCK.finditer(page):
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        line = page.count("\n", 0, match.start("text")) + 1
        previous = steps[-1] if steps else None
        is_output = match["language"] == "text" and not match["mark"] and not FILE_NAME.match(text)
        if is_output and previous and previous.kind in ("python", "sh") and not page[last_end : match.start()].strip():
            previous.expected += text.splitlines()
            continue
        last_end = match.end()
        if match["example"]:
            steps.append(Step("file", text, line, name=match["example"].rpartition("/")[2]))
            continue
        steps += _steps_of(match["language"], text, line, match["mark"], match["reason"] or "")
    return steps


def _steps_of(language: str, text: str, line: int, mark: Optional[str], reason: str) -> list[Step]:
    named = FILE_NAME.match(text)
    if mark == "not run":
        return [Step("shown", text, line, reason=reason)]
    if named is not None:
        return [Step("file", text, line, name=named[1])]
    if language == "python":
        expected = [] if mark else PRINTED.findall(text)
        return [Step("python", text, line, fails=mark == "fails", reason=reason, expected=expected)]
    if language == "sh":
        return [Step("sh", text, line, fails=mark == "fails", reason=reason)]
    if language == "console":
        steps = []
        for number, row in enumerate(text.splitlines()):
            if row.startswith("$ "):
                steps.append(Step("sh", row[2:], line + number, fails=mark == "fails", reason=reason))
            elif steps:
                steps[-1].expected.append(row)
        return steps
    return []


def find_missing(expected: list[str], output: str) -> Optional[str]:
    """Return the first expected line that the output does not have, in order; blanks count as one, `…` as anything."""
    rest = " ".join(output.split())
    for line in expected:
        pattern = ".*?".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        found = re.search(pattern, rest)
        if found is None:
            return line
        rest = rest[found.end() :]
    return None
