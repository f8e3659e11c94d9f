"""Check a folder: every Python file, notebook, run configuration and list of packages in it, line by line."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from runyard.core.errors import RunyardError
from runyard.core.provided_packages import ABSENT, PROVIDED, find_left_out
from runyard.sdk.config.files import read_yaml
from runyard.sdk.exceptions import AzureMLException
from runyard.sdk.migration.uses import Reader, Use, without_magic
from runyard.sdk.migration.verdicts import DIFFERS, MISSING, WORKS, judge

UNREAD = "unread"
_SKIPPED = ("__pycache__", "node_modules", "site-packages")
_MOST_BYTES = 8 << 20
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CheckedUse(NamedTuple):
    """One use, and what becomes of it: `works`, `differs`, `missing`; or a file that could not be read: `unread`."""

    path: str
    line: int  # 0: the file as a whole
    cell: int  # of a notebook, from 1; else 0
    name: str
    verdict: str
    text: str


def check_folder(folder: str) -> List[CheckedUse]:
    """Return the findings of a folder, or of one file, in the order of its files. Runs nothing of it."""
    return [finding for path in _files(folder) for finding in _check(path)]


def _files(folder: str) -> Iterator[str]:
    if os.path.isfile(folder):
        yield folder
        return
    for place, folders, names in os.walk(folder):
        is_environment = "pyvenv.cfg" in names or "conda-meta" in folders
        folders[:] = [] if is_environment else sorted(one for one in folders if one not in _SKIPPED and one != ".git")
        if not is_environment:
            yield from (os.path.join(place, name) for name in sorted(names))


def _check(path: str) -> Iterator[CheckedUse]:
    name = os.path.basename(path)
    reader = _reader_of(path, name)
    if reader is None:
        return
    if os.path.getsize(path) > _MOST_BYTES:
        yield CheckedUse(path, 0, 0, name, UNREAD, f"It is larger than {_MOST_BYTES >> 20} MiB.")
        return
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        yield from reader(path, text)
    except OSError as error:
        yield CheckedUse(path, 0, 0, name, UNREAD, f"{error.strerror or error}.")


def _reader_of(path: str, name: str) -> Any:
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    if name.endswith(".py"):
        return _python
    if name.endswith(".ipynb"):
        return _notebook
    if name.endswith(".runconfig") or (folder in (".azureml", "aml_config") and "." not in name):
        return _run_configuration
    if name.endswith((".yml", ".yaml")):
        return _conda
    return _requirements if re.fullmatch(r".*requirements.*\.txt", name) else None


def _python(path: str, text: str) -> Iterator[CheckedUse]:
    return _code(path, [(0, text)])


def _notebook(path: str, text: str) -> Iterator[CheckedUse]:
    try:
        notebook = json.loads(text)
        sheets = [notebook, *notebook.get("worksheets", [])]
        cells = [cell for sheet in sheets for cell in sheet.get("cells", [])]
    except (ValueError, AttributeError, TypeError):
        return iter([CheckedUse(path, 0, 0, os.path.basename(path), UNREAD, "It is no notebook.")])
    units = []
    for number, cell in enumerate(cells, 1):
        source = "".join(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "code" and not re.match(r"\s*%%(?!writefile|time|capture)", source):
            units.append((number, without_magic(source)))
    return _code(path, units)


def _code(path: str, units: Sequence[Tuple[int, str]]) -> Iterator[CheckedUse]:
    """Yield what is found in pieces of code, in which names of the earlier ones are known."""
    reader = Reader()
    seen = set()
    for cell, text in units:
        start = len(reader.uses)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader.visit(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError) as error:
            if "azureml" in text:
                line = getattr(error, "lineno", None) or 0
                yield CheckedUse(path, line, cell, "", UNREAD, f"It is no Python 3: {getattr(error, 'msg', error)}.")
            continue
        for use, line in zip(reader.uses[start:], reader.lines[start:]):
            finding = _of_use(path, line, cell, use)
            if finding not in seen:
                seen.add(finding)
                yield finding


def _of_use(path: str, line: int, cell: int, use: Use) -> CheckedUse:
    verdict = judge(use)
    name = use.ref.name or use.ref.module
    if name == "*":
        text = "Names that come with `*` are not followed: what is used of them is not checked."
        return CheckedUse(path, line, cell, f"{use.ref.module}.*", DIFFERS, text)
    shown = f"{name}.{use.ref.member}" if use.ref.member else name
    return CheckedUse(path, line, cell, f"{shown}()" if use.call else shown, verdict.word, verdict.text)


def _run_configuration(path: str, text: str) -> Iterator[CheckedUse]:
    """Load the configuration as a program would, and tell what that says."""
    from runyard.sdk.run_config.run_configuration import RunConfiguration
    from runyard.sdk.submit.checks import report_azure_only

    name = os.path.basename(path)

    def load() -> None:
        report_azure_only(RunConfiguration.load(path))

    said, error = _told(load)
    for message in said:
        yield CheckedUse(path, _line_of(message, text), 0, name, DIFFERS, message)
    if error:
        yield CheckedUse(path, _line_of(error, text), 0, name, MISSING, error)
    if not said and not error:
        yield CheckedUse(path, 0, 0, name, WORKS, "")


def _told(call: Callable[[], None]) -> Tuple[List[str], str]:
    """Return what a call warns of, and its error."""
    from runyard.sdk.config import texts

    before, texts._SAID = texts._SAID, set()  # what was said once is said of every file
    try:
        with _captured() as said:
            call()
    except (RunyardError, AzureMLException) as error:
        return said, str(getattr(error, "message", None) or error)
    finally:
        texts._SAID = before
    return said, ""


@contextmanager
def _captured() -> Iterator[List[str]]:
    said: List[str] = []

    class _Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, collector = logging.getLogger("runyard.sdk"), _Listener()
    is_passed_on, logger.propagate = logger.propagate, False
    logger.addHandler(collector)
    try:
        yield said
    finally:
        logger.removeHandler(collector)
        logger.propagate = is_passed_on


def _line_of(message: str, text: str) -> int:
    """Return the line of the setting that a message names, by the last part of its name; 0 when none is found."""
    words = {word.replace("_", "").lower() for word in _WORD.findall(message) if len(word) > 3}
    for number, line in enumerate(text.splitlines(), 1):
        key = line.partition(":")[0].strip().replace("_", "").lower()
        if ":" in line and key in words and key not in ("runconfig", "environment", "python"):
            return number
    return 0


def _conda(path: str, text: str) -> Iterator[CheckedUse]:
    """Yield what becomes of the packages of a conda file; other YAML files are none of ours."""
    if not re.search(r"^dependencies\s*:", text, re.MULTILINE):
        return
    try:
        found: Dict[str, Any] = read_yaml(path)
    except (RunyardError, AzureMLException) as error:
        yield CheckedUse(path, 0, 0, os.path.basename(path), MISSING, str(getattr(error, "message", None) or error))
        return
    listed = found.get("dependencies")
    for entry in listed if isinstance(listed, list) else []:
        inner = entry.get("pip") if isinstance(entry, dict) else [entry]
        for requirement in inner if isinstance(inner, list) else []:
            yield _package(path, str(requirement), text)


def _requirements(path: str, text: str) -> Iterator[CheckedUse]:
    for line in text.splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement and not requirement.startswith("-"):
            yield _package(path, requirement, text)


def _package(path: str, requirement: str, text: str) -> CheckedUse:
    line = next((at for at, one in enumerate(text.splitlines(), 1) if requirement in one), 0)
    known = find_left_out(requirement)
    if known is None:
        return CheckedUse(path, line, 0, requirement, WORKS, "")
    if known.state == PROVIDED:
        return CheckedUse(
            path, line, 0, requirement, WORKS, "Runyard's own `azureml` takes its place; it is not installed."
        )
    return CheckedUse(path, line, 0, requirement, MISSING if known.state == ABSENT else DIFFERS, known.said)
