"""Compare what scripts wrote into their ledgers with what the server has of their runs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from runyard.client.client import Client
from runyard.core.errors import NotFound
from runyard.core.records import Run

LOG_FOLDER = "user_logs/"
NOUNS = {
    "points": "points?|records?|values?",
    "lines": "lines?",
    "files": "files?",
    "points of children": "points?|records?",
}


@dataclass
class Ledger:
    """What one script saw succeed."""

    path: Path
    run_id: str = ""
    points: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    allowed: dict[str, set[str]] = field(
        default_factory=dict
    )  # what a file may hold: a save may be under way at a kill
    children: dict[str, list[int]] = field(default_factory=dict)  # points by child run
    refused: int = 0
    starts: int = 0
    ended: bool = False


def read_ledger(path: Path) -> Ledger:
    found = Ledger(path)
    for line in path.read_text().splitlines():
        kind, *words = line.split()
        if kind == "start":
            found.run_id, found.starts = words[0], found.starts + 1
        elif kind == "point":
            found.points.append(int(words[0]))
        elif kind == "line":
            found.lines.append(int(words[0]))
        elif kind == "next":
            found.allowed[words[0]] = {words[1], *([found.files[words[0]]] if words[0] in found.files else [])}
        elif kind == "file":
            found.files[words[0]] = words[1]
            found.allowed[words[0]] = {words[1]}
        elif kind == "child":
            found.children.setdefault(words[0], []).append(int(words[1]))
        elif kind == "refused":
            found.refused += 1
        found.ended = kind == "end"
    return found


@dataclass
class Account:
    """The sum over runs. `unexplained` has a line for each loss that no run owns up to."""

    counts: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)

    def check(self, ledger: Ledger, run: Run, client: Client) -> None:
        """Add one run that has ended."""
        words = [str(one.get("message", one)) for one in run.warnings] + ([str(run.error)] if run.error else [])
        self.counts.update(runs=1, points=len(ledger.points), lines=len(ledger.lines), files=len(ledger.files))
        self.counts[str(run.status)] += 1
        self.counts["refused to the script"] += ledger.refused
        self._sequence(run, "points", ledger.points, points_of(client, run.id, "n"), words)
        for child, points in ledger.children.items():
            self.counts.update({"children": 1, "points of children": len(points)})
            self._sequence(run, "points of children", points, points_of(client, child, "m"), words)
        self._sequence(run, "lines", ledger.lines, lines_of(client, run.id), words)
        self._files(run, ledger, client, words)

    def _sequence(self, run: Run, what: str, wanted: list[int], there: list[int], words: list[str]) -> None:
        lost = sorted(set(wanted) - set(there))
        doubled = len(there) - len(set(there))
        self.counts[f"{what} lost"] += len(lost)
        self.counts[f"{what} doubled"] += doubled
        if lost:
            span = f"{lost[0]}…{lost[-1]}" if len(lost) > 1 else str(lost[0])
            self._say(
                run, f"{len(lost)} of {len(wanted)} {what} lost ({span})", names_count(words, len(lost), what), words
            )
        if doubled:
            self._say(run, f"{doubled} of {len(wanted)} {what} doubled", False, words)
        if there != sorted(there):
            self._say(run, f"{what} out of order", False, words)

    def _files(self, run: Run, ledger: Ledger, client: Client, words: list[str]) -> None:
        there = {file.name for file in client.runs.files(run.id)}
        lost = [name for name in ledger.files if name not in there or not self._is_whole(run, ledger, client, name)]
        self.counts["files lost"] += len(lost)
        unnamed = [name for name in lost if not any(name in text for text in words)]
        if lost:
            text = f"{len(lost)} of {len(ledger.files)} files lost ({', '.join((unnamed or lost)[:5])})"
            self._say(run, text, not unnamed or names_count(words, len(lost), "files"), words)

    def _is_whole(self, run: Run, ledger: Ledger, client: Client, name: str) -> bool:
        return hashlib.sha256(client.runs.read_file(run.id, name).data).hexdigest() in ledger.allowed[name]

    def _say(self, run: Run, text: str, is_named: bool, words: list[str]) -> None:
        said = "; ".join(word[:160].replace("\n", " ") for word in words[:4]) or "nothing"
        (self.named if is_named else self.unexplained).append(f"{run.id} ({run.status}): {text}; the run says: {said}")
        self.counts["named" if is_named else "unexplained"] += 1


def points_of(client: Client, run_id: str, name: str) -> list[int]:
    try:
        if name not in {metric.name for metric in client.runs.metrics(run_id)}:
            return []
    except NotFound:
        return []
    [series] = client.runs.metric_values(run_id, name)
    return [int(value) for value in series.to_list()]


def lines_of(client: Client, run_id: str) -> list[int]:
    names = [file.name for file in client.runs.files(run_id) if file.name.startswith(LOG_FOLDER)]
    return numbers_in(b"".join(client.runs.read_file(run_id, name).data for name in names))


def numbers_in(data: bytes) -> list[int]:
    """Return the numbers of a script's lines `<n>`.

    On a full disk warnings of ours may stand between the halves of a line; the first may have lost its head, the last
    its end. They have no angle brackets, so they cannot bridge two lines of the script.
    """
    joined = re.sub(rb"(<\d*)[^\n<>\d][^\n<>]*?\n?(?:runyard: warning: [^\n<>]*?\n?)*(\d*>)", rb"\1\2", data)
    return [int(number) for number in re.findall(rb"<(\d+)>", joined)]


def names_count(words: Iterable[str], count: int, what: str) -> bool:
    """Whether a sentence has the number and what it counts close behind: `1,685 of 2,699 points are missing`."""
    number = rf"(?<![\d.,])(?:{count:,}|{count})(?![\d.,]*\d)"
    return any(re.search(rf"{number}(?:\W+\w+){{0,4}}?\W+(?:{NOUNS[what]})", text) for text in words)
