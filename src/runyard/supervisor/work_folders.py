"""Where the processes of a run work: one folder for all nodes, unless the run asked for a copy for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List

from runyard.core.config.settings import Settings, settings_of_run
from runyard.core.specs import JobSpec
from runyard.supervisor.run_folder import RunFolder, remove_tree

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


def shares_folder(job: JobSpec) -> bool:
    """Whether all nodes of the job see one work folder, though several supervisors run them."""
    return job.is_gang and bool(job.shared_folder)


def prefix_of(job: JobSpec) -> str:
    """Return what the names of this node's files begin with: those of node 0 are the run's."""
    return f"node_{job.node_rank}/" if job.node_rank > 0 else ""


def work_folder(folder: RunFolder, job: JobSpec, node_rank: int) -> str:
    if shares_folder(job):
        return os.path.join(job.shared_folder, "work")
    return folder.at(f"work_{node_rank}" if node_rank > 0 and has_own_folders(job) else "work")


def work_folders(folder: RunFolder, job: JobSpec) -> List[str]:
    """Return all different ones, the first node's first."""
    ranks = [node.rank for node in job.nodes] or [0]
    return list(dict.fromkeys(work_folder(folder, job, rank) for rank in ranks))


def remove_shared(job: JobSpec) -> None:
    """Remove what node 0 made for all; the nodes' own run folders go with their supervisors."""
    if not shares_folder(job) or job.node_rank > 0:
        return
    remove_tree(job.shared_folder)
    try:
        os.rmdir(os.path.dirname(job.shared_folder))
    except OSError:
        pass  # another attempt's is there


def tracked_folders(folder: RunFolder, job: JobSpec) -> List[Dict[str, str]]:
    """Return the folders whose files are the run's, by name, for each work folder; or those where its process is."""
    if job.interactive_folders:
        return [dict(job.interactive_folders)]
    if shares_folder(job) and job.node_rank > 0:
        return []  # node 0's are theirs
    return [{name: f"{work}/{name}" for name in job.spec.output_folders} for work in work_folders(folder, job)]
