"""The program that builds environments, on a node that has none: the server's own, kept for later runs."""

from __future__ import annotations

import logging
import os
import platform
import shutil
from pathlib import Path
from typing import Dict

from runyard.client.nodes import NodeCalls
from runyard.core.errors import RunyardError
from runyard.core.folders import cache_folder
from runyard.core.specs import JobSpec

logger = logging.getLogger(__name__)

_BUILT = ("uv", "conda")  # kinds of environments that need it


def with_uv(job: JobSpec, nodes: NodeCalls) -> Dict[str, str]:
    """Return the variables of the job's processes, with a PATH that ends in a folder with `uv` where one is needed.

    Where the server cannot give it, the build says what is missing.
    """
    path = job.submitter.get("PATH") or os.defpath
    if job.spec.environment.kind not in _BUILT or shutil.which("uv", path=path):
        return job.submitter
    folder = cache_folder(Path(job.home)) / "tools"
    try:
        if not (folder / "uv").exists():
            _fetch(nodes, folder)
    except (OSError, RunyardError) as error:
        logger.warning("uv could not be fetched from the server: %s", error)
    return {**job.submitter, "PATH": f"{path}{os.pathsep}{folder}"}


def _fetch(nodes: NodeCalls, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = folder / f"uv.{os.urandom(4).hex()}.new"
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
        with open(fd, "wb") as file:
            for part in nodes.iter_uv(platform.system(), platform.machine()):
                file.write(part)
        os.rename(beside, folder / "uv")
    finally:
        if beside.exists():
            beside.unlink()
