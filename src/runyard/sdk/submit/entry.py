"""What a job runs: a script, a notebook, a shell script, a module, a program, or a command line."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence

from runyard.core.errors import InvalidArgument, SubmitRejected
from runyard.core.specs import MODULE

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_PYTHON = re.compile(r"python[0-9.]*")
_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class Entry(NamedTuple):
    """Exactly one of script and command; arguments go with a script."""

    source: str
    script: Optional[str] = None
    command: Optional[str] = None
    arguments: List[str] = []  # noqa: RUF012  # never changed
    name: str = ""  # what the experiment is called, unless another name is given
    file: Optional[str] = None  # the script's path on this machine


def find_entry(
    script: Optional[str],
    *,
    module: Optional[str] = None,
    command: Optional[Sequence[str]] = None,
    arguments: Sequence[str] = (),
    source: Optional[str] = None,
) -> Entry:
    """Return what is run, and the folder that is stored with it.

    Args:
        command: the words of a command line; one word alone is a line for the shell.

    Raises:
        SubmitRejected: there is no such script, or nothing to run.
        InvalidArgument: two of them are given.
    """
    given = [name for name, value in (("script", script), ("module", module), ("command", command)) if value]
    if len(given) > 1:
        raise InvalidArgument(f"Both {given[0]} and {given[1]} are given.", hint="A job runs one of them.")
    if command:
        return _command(command, source or ".")
    if module:
        if not _MODULE.fullmatch(module):
            raise InvalidArgument(f"`{module}` is no name of a module.", hint="Write -m package.module.")
        return Entry(source or ".", MODULE + module, None, list(arguments), module.rpartition(".")[2])
    if not script:
        raise SubmitRejected(
            "There is nothing to run.",
            why="Neither a script, a module (-m) nor a command is given.",
            hint="`runyard submit train.py`, `runyard submit -m package.train`, `runyard submit -- torchrun train.py`.",
        )
    folder, inner = locate_script(script, source)
    path = str(folder / inner)
    if is_program(path):
        words = [inner if os.sep in inner else os.path.join(".", inner), *arguments]
        return Entry(str(folder), None, shell_line(words), [], Path(inner).stem)
    return Entry(str(folder), inner, None, list(arguments), Path(inner).stem, path)


def shell_line(words: Sequence[str]) -> str:
    """Return words as a line for the shell, in which `$NAME` is replaced on the node and nothing else is special."""
    return " ".join(_quoted(word) for word in words)


def is_program(path: str) -> bool:
    """Whether a file is started by itself: it may be executed, and is neither Python, a notebook nor a shell script."""
    if path.endswith((".py", ".ipynb", ".sh")) or not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(200)
    except OSError:
        return False
    first = head.split(b"\n", 1)[0]
    return head.startswith(b"\x7fELF") or (first.startswith(b"#!") and b"python" not in first)


def locate_script(script: str, source: Optional[str]) -> tuple[Path, str]:
    """Return the source folder and the script's path in it.

    Raises:
        SubmitRejected: there is no such script.
    """
    given = Path(script)
    if source is not None:
        folder = Path(source)
        if given.exists() and _is_inside(given, folder):
            return folder, os.path.relpath(given.resolve(), folder.resolve())
        return folder, script
    if given.is_dir():
        raise SubmitRejected(
            f"`{script}` is a folder.",
            why="A run needs a script to start.",
            hint=f"Name the script in it: `runyard submit --source {script} train.py`.",
        )
    if not given.exists():
        raise SubmitRejected(
            f"There is no script `{script}`.", why=f"Looked in {Path.cwd()}.", hint=_scripts_here(given)
        )
    if _is_inside(given, Path.cwd()):
        return Path("."), os.path.relpath(given.resolve(), Path.cwd().resolve())
    return given.resolve().parent, given.name


def _command(words: Sequence[str], source: str) -> Entry:
    if len(words) > 1 and _PYTHON.fullmatch(words[0]) and words[1].endswith(".py"):
        # `python train.py`: as a script it can be started in several processes.
        folder, inner = locate_script(words[1], None if source == "." else source)
        return Entry(str(folder), inner, None, list(words[2:]), Path(inner).stem, str(folder / inner))
    line = words[0] if len(words) == 1 else shell_line(words)
    named = next((word for word in words if word.endswith((".py", ".sh", ".ipynb"))), None)
    first = shlex.split(words[0])[:1] if len(words) == 1 and not re.search(r"[\"'\\]", words[0]) else [words[0]]
    return Entry(source, None, line, [], Path(named or (first[0] if first else "command")).stem)


def _quoted(word: str) -> str:
    """Return a word with `$NAME` alive; a name that is not known stays as it is, as in a script's arguments."""
    if not _VARIABLE.search(word):
        return shlex.quote(word)
    parts, at = [], 0
    for match in _VARIABLE.finditer(word):
        name = match.group(1) or match.group(2)
        parts.append(_escaped(word[at : match.start()]))
        unknown = match.group().replace("}", "\\}")
        parts.append(f"${{{name}-\\{unknown}}}" if not name.isdigit() else _escaped(match.group()))
        at = match.end()
    return '"' + "".join(parts) + _escaped(word[at:]) + '"'


def _escaped(text: str) -> str:
    return re.sub(r'([\\"`$])', r"\\\1", text)


def _is_inside(script: Path, folder: Path) -> bool:
    return folder.resolve() in script.resolve().parents


def _scripts_here(script: Path) -> str:
    folder = script.parent if script.parent.is_dir() else Path(".")
    found = sorted(str(path) for path in folder.glob("*.py"))[:8]
    return f"Scripts there: {', '.join(found)}." if found else "Go to the script's folder, or give its path."
