"""Asks an interpreter what it is and which packages it sees; answers are kept until it or its folders change."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional

_FACTS_TIMEOUT_S = 20.0
_PACKAGES_TIMEOUT_S = 60.0

_FACTS = """
import json, platform, sys
print(json.dumps({"interpreter": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3],
                  "implementation": sys.implementation.name, "platform": platform.platform()}))
"""

# The current folder, put first by -c, is none of the interpreter's. Only the head of METADATA is read: the email parser
# behind `distribution.metadata` takes ten times as long.
PACKAGES_SCRIPT = """
import json, os, platform, re, sys
sys.path.pop(0)
from importlib.metadata import distributions
field = re.compile(r"^(Name|Version): *(.+?) *$", re.M)
packages = {}
for found in distributions():
    text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    fields = dict(field.findall(text.split("\\n\\n", 1)[0]))
    if "Name" in fields:
        packages.setdefault(fields["Name"], fields.get("Version", ""))
folders = [folder for folder in sys.path if os.path.isdir(folder)]
print(json.dumps({"interpreter": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3],
                  "platform": platform.platform(), "packages": packages,
                  "folders": {folder: os.stat(folder).st_mtime_ns for folder in folders}}))
"""


class NotPython(Exception):
    """The program did not answer as a Python does; the text says what it did."""


def find_facts(
    interpreter: str, *, variables: Optional[Mapping[str, str]] = None, cache: Optional[Path] = None
) -> Dict[str, Any]:
    """Return {"interpreter", "python", "implementation", "platform"}.

    Raises:
        NotPython: it is none.
    """
    kept = _kept_file(cache, "facts", interpreter, "")
    return _cached(kept, lambda answer: True, lambda: _ask(interpreter, _FACTS, variables, timeout_s=_FACTS_TIMEOUT_S))


def find_packages(
    interpreter: str, *, variables: Optional[Mapping[str, str]] = None, cache: Optional[Path] = None
) -> Dict[str, object]:
    """Return {"interpreter", "python", "platform", "packages": {name: version}} as the interpreter itself sees them.

    Raises:
        NotPython: it is none.
    """
    environ = os.environ if variables is None else variables
    kept = _kept_file(cache, "packages", interpreter, environ.get("PYTHONPATH", ""))
    answer = _cached(
        kept, _is_unchanged, lambda: _ask(interpreter, PACKAGES_SCRIPT, variables, timeout_s=_PACKAGES_TIMEOUT_S)
    )
    return {**{key: value for key, value in answer.items() if key != "folders"}, "interpreter": interpreter}


def _ask(interpreter: str, script: str, variables: Optional[Mapping[str, str]], *, timeout_s: float) -> Dict[str, Any]:
    argv = [interpreter, "-c", script]
    environ = {**(os.environ if variables is None else variables), "PYTHONWARNINGS": "ignore"}
    environ.pop("RUNYARD_RUN_FOLDER", None)  # this process is no part of a run
    try:
        done = subprocess.run(
            argv,
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotPython(f"It gave no answer within {timeout_s:g} s.") from None
    except OSError as error:
        raise NotPython(f"It cannot be started: {error.strerror}.") from error
    try:
        answer = json.loads(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
    except ValueError:
        answer = None
    if done.returncode != 0 or not isinstance(answer, dict):
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2] or "nothing"
        raise NotPython(f"Asked for its version, it exited with {done.returncode} and said {said[:300]!r}.")
    return answer


def _is_unchanged(answer: Mapping[str, Any]) -> bool:
    folders = answer.get("folders")
    return isinstance(folders, dict) and all(_mtime(folder) == mtime for folder, mtime in folders.items())


def _mtime(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return -1


def _kept_file(cache: Optional[Path], what: str, interpreter: str, path: str) -> Optional[Path]:
    if cache is None:
        return None
    try:
        found = os.stat(interpreter)
    except OSError:
        return None
    key: List[object] = [what, interpreter, path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
    return cache / f"{what}-{hashlib.sha256(repr(key).encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _cached(
    kept: Optional[Path], is_good: Callable[[Dict[str, Any]], bool], ask: Callable[[], Dict[str, Any]]
) -> Dict[str, Any]:
    if kept is not None:
        try:
            answer = json.loads(kept.read_text(encoding="utf-8"))
            if isinstance(answer, dict) and is_good(answer):
                return answer
        except (OSError, ValueError):
            pass
    answer = ask()
    if kept is not None:
        _keep(kept, answer)
    return answer


def _keep(kept: Path, answer: Dict[str, Any]) -> None:
    beside = kept.with_name(f".{kept.name}.{os.urandom(4).hex()}")
    try:
        for folder in (kept.parent.parent, kept.parent):  # not the home above: one that was removed stays so
            folder.mkdir(mode=0o700, exist_ok=True)
        beside.write_text(json.dumps(answer), encoding="utf-8")
        beside.replace(kept)
    except OSError:  # a cache that cannot be written costs time, nothing else
        pass
