"""Which files an upload is about, and under which names."""

from __future__ import annotations

import os
import sys
from typing import Callable, Dict, List, Sequence

from runyard.data.walk import iter_files
from runyard.sdk.exceptions import UserErrorException


def files_below(src_dir: str) -> Dict[str, str]:
    """Return {path: name} of all files below the folder.

    Raises:
        UserErrorException: there is no such folder.
    """
    if not os.path.isdir(src_dir):
        raise UserErrorException(
            f"The folder {os.fspath(src_dir)!r} does not exist (looked in {os.getcwd()}).\n"
            "upload() takes a folder, upload_files() a list of files."
        )
    return {file.path: file.name for file in iter_files(os.fspath(src_dir))}


def common_folder(files: Sequence[str]) -> str:
    """Return the folder that holds all files."""
    return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in _checked(files)])


def targets_of(files: Sequence[str], root: str) -> Dict[str, str]:
    """Return {path: name below `root`}.

    Raises:
        UserErrorException: a file is missing, or is not below `root`.
    """
    found = {}
    for path in _checked(files):
        name = os.path.relpath(os.path.abspath(path), os.path.abspath(root))
        if name.split(os.sep)[0] == "..":
            raise UserErrorException(f"The file {path!r} is not below relative_root={root!r}.")
        found[path] = name.replace(os.sep, "/")
    return found


def progress(show: bool) -> Callable[[str], None]:
    return _print if show else lambda text: None


def _checked(files: Sequence[str]) -> List[str]:
    if isinstance(files, (str, bytes)) or not isinstance(files, Sequence) or not files:
        raise UserErrorException(f"files must be a list of paths with at least one, found {files!r:.100}.")
    missing = [path for path in files if not os.path.isfile(path)]
    if missing:
        raise UserErrorException(
            f"These files do not exist (looked in {os.getcwd()}): {', '.join(map(str, missing[:5]))}."
        )
    return [os.fspath(path) for path in files]


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
