"""Requirements whose meaning may change while their text stays: folders of the source, and branches of git.

A folder of the source folder is installed from the snapshot, out of a copy that is named by its content, so that the
environment is found again as long as the content is the same. A branch becomes its commit. Loaded only for
environments that name such requirements.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import replace
from typing import Callable, Dict, List, Mapping, NamedTuple

from runyard.core.config.logins import hide_passwords
from runyard.core.errors import SubmitRejected
from runyard.core.machine.files import write_whole
from runyard.core.specs import EnvironmentSpec
from runyard.environments.folder_requirements import (
    built_modules,
    copy_folder,
    folder_digest,
    folder_of,
    is_editable,
    with_folder,
)
from runyard.environments.git_requirements import GitReference, ask_commit, find_reference, with_commit
from runyard.supervisor.lifecycle.imports import snapshot_path

Say = Callable[[str], None]
_UNUSED_S = 30 * 24 * 3600.0
_NAME = re.compile(r"""^\s*name\s*=\s*["']?([A-Za-z0-9][\w.-]*)""", re.M)
_VERSION_OF_GIT = re.compile(r"scm|vcs|versioneer|dunamai")


class PinnedRequirements(NamedTuple):
    """An environment whose requirements mean one thing."""

    spec: EnvironmentSpec
    mirrors: Dict[str, str]  # copies that are installed as editable → the folders of the snapshot that they copy
    variables: Dict[str, str]  # that a build needs
    commits: Dict[str, str]  # requirement as it was given → commit
    warnings: List[str]


def pin_requirements(
    spec: EnvironmentSpec, *, source: str, work: str, cache: str, variables: Mapping[str, str], say: Say
) -> PinnedRequirements:
    """Return the environment with folders of the source folder and branches replaced by what they mean now.

    Raises:
        SubmitRejected: a folder of the source folder is not in the snapshot.
    """
    folders = _Folders(source, work, os.path.join(cache, "sources"), say)
    branches = _Branches(os.path.join(cache, "git_references.json"), variables, say)
    packages, options = (
        [branches.pin(folders.pin(line)) for line in lines] for lines in (spec.pip_packages, spec.pip_options)
    )
    branches.save()
    pinned = replace(spec, pip_packages=packages, pip_options=options)
    return PinnedRequirements(pinned, folders.mirrors, folders.variables, branches.commits, branches.warnings)


def bring_built_modules(mirrors: Mapping[str, str]) -> None:
    """Copy modules that an editable installation compiled into its copy to the snapshot, which has none."""
    for copy, folder in mirrors.items():
        for below in built_modules(copy):
            target = os.path.join(folder, below)
            if not os.path.lexists(target) and os.path.isdir(os.path.dirname(target)):
                shutil.copyfile(os.path.join(copy, below), target)


class _Folders:
    def __init__(self, source: str, work: str, copies: str, say: Say) -> None:
        self._say = say
        self._source = source
        self._work = work
        self._copies = copies
        self.mirrors: Dict[str, str] = {}
        self.variables: Dict[str, str] = {}

    def pin(self, line: str) -> str:
        named = folder_of(line)
        if named is None or not self._source:
            return line
        folder = snapshot_path(named, self._source, self._work)
        if folder is None:
            if os.path.realpath(named).startswith(self._source.rstrip("/") + "/"):
                raise _not_in_snapshot(line, named)
            return line
        if not os.path.isdir(folder):
            return line
        copy = self._copy(folder, editable=is_editable(line))
        if is_editable(line):
            self.mirrors[os.path.realpath(copy)] = folder
        self.variables.update(_version_variables(folder))
        self._say(f"`{line}` is installed from the run's snapshot, out of the copy {copy}.")
        return with_folder(line, copy)

    def _copy(self, folder: str, *, editable: bool) -> str:
        _forget_unused(self._copies)
        target = os.path.join(self._copies, folder_digest(folder, editable=editable))
        os.makedirs(self._copies, mode=0o700, exist_ok=True)
        if os.path.isdir(target):
            os.utime(target)  # its time is that of the last use
        else:
            copy_folder(folder, target)
        return target


class _Branches:
    """Commits by branch; where a repository cannot be asked, the commit of the last time serves."""

    def __init__(self, path: str, variables: Mapping[str, str], say: Say) -> None:
        self._path = path
        self._variables = variables
        self._say = say
        self._known = _read_known(path)
        self._is_changed = False
        self.commits: Dict[str, str] = {}
        self.warnings: List[str] = []

    def pin(self, line: str) -> str:
        reference = find_reference(line)
        if reference is None:
            return line
        shown, key = hide_passwords(line), hide_passwords(" ".join(reference))
        commit = ask_commit(reference, self._variables)
        if commit is None:
            commit = self._known.get(key)
            if commit is None:
                return line  # the installation will say why it cannot be had
            self.warnings.append(
                f"The repository of `{shown}` could not be asked for the commit of {_name(reference)}; the environment "
                f"has the one of an earlier build, {commit[:12]}."
            )
        elif self._known.get(key) != commit:
            self._known[key] = commit
            self._is_changed = True
        self.commits[shown] = commit
        self._say(f"`{shown}`: {_name(reference)} is commit {commit}.")
        return with_commit(line, commit)

    def save(self) -> None:
        if self._is_changed:
            try:
                os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
                write_whole(self._path, json.dumps(self._known).encode())
            except OSError:  # it is for days without a network
                pass


def _name(reference: GitReference) -> str:
    return "the default branch" if reference.ref == "HEAD" else f"`{reference.ref}`"


def _read_known(path: str) -> Dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return {str(key): str(value) for key, value in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _version_variables(folder: str) -> Dict[str, str]:
    """Return what tells tools their version that read it from git, which a snapshot does not hold."""
    for file in ("pyproject.toml", "setup.cfg", "setup.py"):
        try:
            with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as opened:
                text = opened.read(1 << 20)
        except OSError:
            continue
        name = _NAME.search(text)
        if name is not None and _VERSION_OF_GIT.search(text):
            word = re.sub(r"[^A-Z0-9]+", "_", name[1].upper())
            return {f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{word}": "0.0.0"}
    return {}


def _forget_unused(copies: str) -> None:
    try:
        with os.scandir(copies) as entries:
            old = [entry.path for entry in entries if entry.stat().st_mtime < time.time() - _UNUSED_S]
    except OSError:
        return
    for path in old:
        shutil.rmtree(path, ignore_errors=True)


def _not_in_snapshot(line: str, folder: str) -> SubmitRejected:
    return SubmitRejected(
        f"The requirement `{line}` cannot be installed.",
        why=f"`{folder}` is not in the run's snapshot: an ignore file left it out.",
        hint="`runyard runs show` names the line; keep the folder with a line such as `!vendor/` in `.amlignore`.",
    )
