"""Work folders that wait for the next run of their snapshot: `<home>/cache/work/<root>.<umask>.<random>`.

A spare is taken and put there by a rename, so nothing is used twice. It may be dropped at any moment; then the next run
makes its work folder anew.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from pathlib import Path

MOST = 2
_DROPPED = ".dropped"


def list_spares(folder: Path, prefix: str = "") -> List[str]:
    """Return the paths of the spares whose names start with `prefix`."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith(prefix)]
    except OSError:
        return []


def drop_spares(folder: Path, *, but: int = 0) -> None:
    """Remove the spares but for the newest ones, and what an earlier removal left. Errors are ignored."""
    import shutil  # most processes that load this remove nothing

    dated = []
    for path in list_spares(folder):
        try:
            dated.append((not path.endswith(_DROPPED), os.lstat(path).st_mtime_ns, path))
        except OSError:
            continue  # a run took it
    for is_whole, _, path in sorted(dated, reverse=True)[but:]:
        gone = f"{path}{_DROPPED}" if is_whole else path
        try:
            os.rename(path, gone)  # no run takes it from now on
        except OSError:
            continue
        shutil.rmtree(gone, ignore_errors=True)
