"""Requirements that name a folder, such as `/home/me/project[extra]` or `--editable /home/me/project`.

An environment made from a folder is known by the folder's content, not by its name. Of an editable folder only what
decides on the installation counts: its code is imported from the folder itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from typing import Iterator, List, Optional, Tuple
from urllib.parse import quote, unquote, urlsplit

EDITABLE = ("-e ", "--editable ", "--editable=")
_LINE = re.compile(
    r"(?P<head>(?:(?:-e|--editable)[\s=]\s*)?(?:[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?\s*@\s*)?)"
    r"(?P<path>(?:file:|/)[^\s;\[]*)(?P<tail>.*)"
)
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".tox", ".nox", "node_modules"})
_OF_BUILDS = ("build", "dist")  # at the top, where builds leave them
_CACHES = re.compile(r"\.(?:\w+_cache|mypy_cache|ipynb_checkpoints|eggs)$")
_COMPILED = (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".f90", ".h", ".hpp", ".pyx", ".pxd", ".rs")
_MOST_METADATA_BYTES = 1 << 20
_ENVIRONMENT_SIGNS = ("pyvenv.cfg", "conda-meta")


def folder_of(line: str) -> Optional[str]:
    """Return the folder that a requirement names by its whole path; None for any other requirement.

    The folder need not be on this machine: a path with the ending of an archive is taken for one.
    """
    match = _LINE.fullmatch(line.strip())
    if match is None or re.search(r"\.(?:whl|zip|tar\.gz|tgz|tar\.bz2)$", match["path"]):
        return None
    path = unquote(urlsplit(match["path"]).path) if match["path"].startswith("file:") else match["path"]
    return os.path.normpath(path)


def with_folder(line: str, folder: str) -> str:
    """Return a requirement that names another folder."""
    match = _LINE.fullmatch(line.strip())
    assert match is not None
    path = f"file://{quote(folder)}" if match["path"].startswith("file:") else folder
    return f"{match['head']}{path}{match['tail']}"


def is_editable(line: str) -> bool:
    return line.startswith(EDITABLE)


def is_named_by_content(folder: str) -> bool:
    """Whether the folder's name is a digest, as that of a copy is."""
    return re.fullmatch(r"[0-9a-f]{32}", os.path.basename(folder)) is not None


def folder_digest(folder: str, *, editable: bool) -> str:
    """Return a digest of the files of a folder: all of them, or those that decide on an editable installation."""
    digest = hashlib.sha256(b"editable" if editable else b"")
    for below, path in iter_files(folder):
        if editable and not _decides(below, path):
            continue
        digest.update(f"\0{below}\0".encode("utf-8", "surrogateescape"))
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
    return digest.hexdigest()[:32]


def copy_folder(folder: str, target: str) -> None:
    """Copy what `folder_digest` looks at; the copy is complete or not there."""
    beside = f"{target}.{os.urandom(4).hex()}"
    try:
        os.makedirs(beside, mode=0o700)
        for below, path in iter_files(folder):
            copy = os.path.join(beside, below)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(path, copy)
            shutil.copymode(path, copy)
        try:
            os.rename(beside, target)
        except OSError:
            if not os.path.isdir(target):  # else another process was faster
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def iter_files(folder: str) -> Iterator[Tuple[str, str]]:
    """Yield (path below the folder, path) of its regular files in order, without caches and environments."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _stays_out(place, name))
        if place == folder:
            folders[:] = [name for name in folders if name not in _OF_BUILDS]
        for name in sorted(files):
            path = os.path.join(place, name)
            if os.path.isfile(path) and not name.endswith((".pyc", ".pyo")):
                yield os.path.relpath(path, folder), path


def built_modules(folder: str) -> List[str]:
    """Return the paths, below the folder, of the modules that were compiled into it."""
    return [below for below, _ in iter_files(folder) if below.endswith((".so", ".pyd"))]


def _stays_out(place: str, name: str) -> bool:
    if name in _LEFT_OUT or _CACHES.search(name) or name.endswith(".egg-info"):
        return True
    return any(os.path.exists(os.path.join(place, name, sign)) for sign in _ENVIRONMENT_SIGNS)


def _decides(below: str, path: str) -> bool:
    if below.endswith(_COMPILED):
        return True
    is_metadata = os.sep not in below and (below == "setup.py" or not below.endswith((".py", ".ipynb", ".log")))
    return is_metadata and os.path.getsize(path) <= _MOST_METADATA_BYTES
