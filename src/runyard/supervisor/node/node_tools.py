"""The program that builds environments, on a node that has none: the server's own, kept for later runs."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Dict

from runyard.client.address import Address
from runyard.client.calls.nodes import NodeCalls
from runyard.client.transport import Transport
from runyard.core.config.paths import cache_folder
from runyard.core.errors import RunyardError, is_later
from runyard.core.formats.plain import from_plain
from runyard.core.machine.whole_files import written_beside
from runyard.core.specs import JobSpec
from runyard.supervisor.shipping.loops import Backoff

logger = logging.getLogger(__name__)

_BUILT = ("uv", "conda")  # kinds of environments that need it


def with_uv(job: JobSpec) -> Dict[str, str]:
    """Return the variables of the job's processes, with a PATH that ends in a folder with `uv` where one is needed.

    Where the server cannot give it, the build says what is missing.
    """
    if job.spec.environment.kind not in _BUILT:
        return job.submitter
    import shutil  # a start does not wait for what it does not need

    path = job.submitter.get("PATH") or os.defpath
    if shutil.which("uv", path=path):
        return job.submitter
    folder = cache_folder(Path(job.home)) / "tools"
    backoff = Backoff()
    while not (folder / "uv").exists():
        try:
            _fetch(job, folder)
        except (OSError, RunyardError) as error:
            logger.warning("uv could not be fetched from the server: %s", error)
            if not isinstance(error, RunyardError) or not is_later(error):
                break
            time.sleep(backoff.next_s())
    return {**job.submitter, "PATH": f"{path}{os.pathsep}{folder}"}


def _fetch(job: JobSpec, folder: Path) -> None:
    import platform

    nodes = NodeCalls(Transport(from_plain(Address, {**job.server, "token": job.token})))
    with written_beside(str(folder / "uv")) as beside:
        with open(beside, "xb") as file:
            for part in nodes.iter_uv(platform.system(), platform.machine()):
                file.write(part)
        os.chmod(beside, 0o700)
