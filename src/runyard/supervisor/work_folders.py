"""Where the processes of a run work: one folder for all nodes, unless the run asked for a copy for each."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List

from runyard.core.settings import Settings, settings_of_run
from runyard.core.specs import JobSpec
from runyard.supervisor.folder import RunFolder

PER_NODE = "per-node"  # a value of RUNYARD_WORK_FOLDER


def has_own_folders(job: JobSpec) -> bool:
    """Whether each node has a folder of its own, as nodes without a shared file system have.

    Raises:
        InvalidArgument: RUNYARD_WORK_FOLDER holds something else than it may.
    """
    if len(job.nodes) < 2:
        return False
    variables = {**job.submitter, **job.spec.environment.variables, **job.spec.variables}
    return settings_of_run(Settings(Path(job.home)), variables).work_folder == PER_NODE


def work_folder(folder: RunFolder, job: JobSpec, node_rank: int) -> str:
    return folder.at(f"work_{node_rank}" if node_rank > 0 and has_own_folders(job) else "work")


def work_folders(folder: RunFolder, job: JobSpec) -> List[str]:
    """Return all different ones, the first node's first."""
    ranks = [node.rank for node in job.nodes] or [0]
    return list(dict.fromkeys(work_folder(folder, job, rank) for rank in ranks))


def tracked_folders(folder: RunFolder, job: JobSpec) -> List[Dict[str, str]]:
    """Return the folders whose files are the run's, by name, for each work folder; or those where its process is."""
    if job.interactive_folders:
        return [dict(job.interactive_folders)]
    return [{name: f"{work}/{name}" for name in job.spec.output_folders} for work in work_folders(folder, job)]
