"""The cache of built environments: a folder per content key. docs/internals/environments.md is its contract.

`lock_text` writes the installed packages of an environment as a requirements file with exact versions and hashes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypedDict, cast

from runyard.core.config.logins import hide_passwords
from runyard.environments.pip import NEXT_INDEX, PipInstall
from runyard.environments.process import run_program
from runyard.environments.system import Installed
from runyard.environments.uv_program import explanation, find_uv

MARKER = "ready.json"
FAILED = "failed.json"
GONE = ".gone-"
TIMEOUT_S = 25.0
_COMPILE = ("--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--no-strip-extras")


class Marker(TypedDict, total=False):
    """`ready.json`: what the builder noted about a finished environment."""

    kind: str
    name: str  # of the environment that was built first; another with the same content shares it
    python: str  # its version
    requirements: List[str]
    notes: List[str]  # what each run that uses it says: another Python or versions than those asked for
    conda: List[Dict[str, str]]  # name, version, build and sha256 of each package
    built_at: float
    build_s: float


class CacheEntry:
    """One environment's folder. It is finished when its marker is there, which is written last, and by rename.

    A build or a removal holds the lock alone; a run that takes a finished environment into use shares it for a moment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "prefix"

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def interpreter(self) -> Path:
        return self.prefix / "bin" / "python"

    def take(self, user: Optional[str]) -> Optional[Marker]:
        """Take the finished environment into use and return its marker; None when it is not there, or locked."""
        fd = self._open_lock(create=False)
        if fd is None:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return self.note_use(user) if self._is_current(fd) else None
        except BlockingIOError:
            return None
        finally:
            os.close(fd)

    def note_use(self, user: Optional[str]) -> Optional[Marker]:
        """As `take`; the caller holds the lock."""
        marker = self.read_marker()
        if marker is not None:
            os.utime(self.folder / MARKER)  # its time is that of the last use
            if user is not None:
                self._add_user(user)
        return marker

    def read_marker(self) -> Optional[Marker]:
        """Return what the builder noted; None when the environment is not finished, or its Python has gone."""
        found = self.read(MARKER)
        if found is None:
            return None
        marker = cast("Marker", found)
        if marker.get("kind") == "container":  # its Python is in the image
            return marker if os.path.islink(self.interpreter) else None
        return marker if os.access(self.interpreter, os.X_OK) else None

    def publish(self, marker: Marker) -> None:
        """Mark the environment as finished; the caller holds the lock."""
        self.write(MARKER, marker)

    def read(self, name: str) -> Optional[Dict[str, Any]]:
        try:
            with open(self.folder / name, encoding="utf-8") as file:
                value = json.load(file)
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def write(self, name: str, value: Mapping[str, object]) -> None:
        self.write_text(name, json.dumps(value))

    def write_text(self, name: str, text: str) -> None:
        """Write beside and rename into place."""
        beside = self.folder / f".{name}.{os.urandom(4).hex()}"
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(self.folder / name)
        finally:
            beside.unlink(missing_ok=True)

    def try_lock(self) -> Optional[int]:
        """Return a descriptor that holds the lock alone until it is closed; None when another process has it."""
        fd = self._open_lock(create=True)
        assert fd is not None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_current(fd):
                return fd
        except BlockingIOError:
            pass
        os.close(fd)
        return None

    @contextmanager
    def signed(self, fd: int, who: str) -> Iterator[None]:
        """Write the holder's name into the lock file, for processes that wait; close it at the end."""
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"who": who, "pid": os.getpid(), "since": time.time()}).encode(), 0)
            yield
        finally:
            os.close(fd)

    def clear(self) -> None:
        """Remove what an earlier build left; the caller holds the lock. The marker goes first."""
        for name in (MARKER, FAILED, "requirements.lock.txt", "size.json"):
            (self.folder / name).unlink(missing_ok=True)
        remove_tree(self.prefix)

    def erase(self) -> None:
        """Remove all of it; the caller holds the lock. A process that waits for the lock finds it outdated."""
        gone = self.folder.with_name(f"{GONE}{self.key}-{os.urandom(4).hex()}")
        os.rename(self.folder, gone)
        remove_tree(gone)

    def list_users(self) -> List[str]:
        """Return the run folders that use it and are not done. A folder that is gone, or done, is forgotten."""
        found = []
        for link in self._iter_links():
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if os.path.isdir(target) and not os.path.exists(os.path.join(target, "done")):
                found.append(target)
            else:
                link.unlink(missing_ok=True)
        return found

    def _iter_links(self) -> List[Path]:
        try:
            return sorted((self.folder / "users").iterdir())
        except OSError:
            return []

    def _add_user(self, user: str) -> None:
        users = self.folder / "users"
        users.mkdir(mode=0o700, exist_ok=True)
        parts = os.path.abspath(user).split(os.sep)
        try:
            os.symlink(os.path.abspath(user), users / ".".join(parts[-2:]))
        except FileExistsError:
            pass

    def remove_user(self, user: str) -> None:
        """Forget a user before its folder is gone."""
        parts = os.path.abspath(user).split(os.sep)
        (self.folder / "users" / ".".join(parts[-2:])).unlink(missing_ok=True)

    def _open_lock(self, *, create: bool) -> Optional[int]:
        while True:
            try:
                if create:
                    self.folder.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
                return os.open(self.folder / "lock", flags, 0o600)
            except FileNotFoundError:
                if not create:
                    return None
                os.stat(self.folder.parent)  # else the folder was just erased: try again

    def _is_current(self, fd: int) -> bool:
        """Whether the locked file is the one that others would lock: an erased file protects nothing."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self.folder / "lock"))
        except OSError:
            return False


def get_place(root: Path, key: str) -> CacheEntry:
    """Return the place of a key below `root`, which is made when it is missing; the home above it is not."""
    root.mkdir(mode=0o700, exist_ok=True)
    return CacheEntry(root / key)


def list_places(root: Path) -> List[CacheEntry]:
    return [CacheEntry(root / name) for name in _names(root) if not name.startswith(".") and (root / name).is_dir()]


def clear_leftovers(root: Path) -> None:
    """Remove what a killed removal left."""
    for name in _names(root):
        if name.startswith(GONE):
            remove_tree(root / name)


def _names(root: Path) -> List[str]:
    try:
        return sorted(os.listdir(root))
    except OSError:
        return []


def remove_tree(folder: Path) -> None:
    """Remove a folder if it is there; what could not be removed stays for the next one to try."""
    shutil.rmtree(folder, ignore_errors=True)


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
