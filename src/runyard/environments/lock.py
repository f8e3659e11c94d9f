"""The exact packages of an environment as a requirements file with hashes, made from what is installed."""

from __future__ import annotations

import re
import time
from typing import List, Optional, Sequence, Tuple

from runyard.core.config.urls import hide_passwords
from runyard.environments.installed import Installed
from runyard.environments.pip import PipInstall
from runyard.environments.pip_settings import NEXT_INDEX
from runyard.environments.process import run_program
from runyard.environments.uv_program import explanation, find_uv

TIMEOUT_S = 25.0
_COMPILE = ("--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--no-strip-extras")


def lock_text(pip: PipInstall, python: str, installed: Sequence[Installed], *, title: str) -> Tuple[str, bool]:
    """Return the file's text, and whether every package that can have hashes has them.

    The hashes are the index's own, of every file of that version, so the file serves other machines too. It names no
    index: who installs from it asks their own.
    """
    pins = [_pin(one) for one in installed if _is_portable(one)]
    folders = [f"# {one.name} {one.version} was installed from a folder and is not listed." for one in installed
               if not _is_portable(one)]  # fmt: skip
    lines, why = _compile(pip, python, pins)
    head = [
        f"# {title}",
        "# Install from it: pip install --require-hashes -r requirements.lock.txt"
        if why is None
        else f"# Without hashes: {why}",
        *folders,
    ]
    body = pins if why is not None else lines
    return hide_passwords("\n".join([*head, *body]) + "\n"), why is None


def _compile(pip: PipInstall, python: str, pins: Sequence[str]) -> Tuple[List[str], Optional[str]]:
    if not pins:
        return [], None
    lines: List[str] = []
    argv = [find_uv(pip.variables), "pip", "compile", *_COMPILE, "--python", python, *pip.settings.as_arguments(), "-"]
    # A pinned one may be a pre-release. An index that is gone since the build must not keep the run's end waiting.
    environ = {**pip.environ(), "UV_PRERELEASE": "allow", "UV_HTTP_RETRIES": "1"}
    if pip.settings.is_first_index_only:  # the build may have gone on to the next one
        environ["UV_INDEX_STRATEGY"] = NEXT_INDEX
    try:
        code = run_program(argv, environ=environ, say=lines.append, check=_Deadline(), feed="\n".join(pins) + "\n")
    except TimeoutError as error:
        return [], str(error)
    if code != 0:
        said = re.sub(r"\w+://\S+", "the index", "; ".join(explanation(lines)))  # it must name none
        return [], said[:300] or f"uv exited with {code}"
    return [line for line in lines if line.strip()], None


class _Deadline:
    def __init__(self) -> None:
        self._at = time.monotonic() + TIMEOUT_S

    def __call__(self) -> None:
        if time.monotonic() > self._at:
            raise TimeoutError(f"no index answered within {TIMEOUT_S:g} s")


def _is_portable(one: Installed) -> bool:
    return one.source is None or "dir_info" not in one.source


def _pin(one: Installed) -> str:
    source = one.source or {}
    url = str(source.get("url", ""))
    vcs = source.get("vcs_info")
    if isinstance(vcs, dict):
        return f"{one.name} @ {vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', '')}"
    return f"{one.name} @ {url}" if url else f"{one.name}=={one.version}"
