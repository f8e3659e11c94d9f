"""Checks of a submit before anything is copied: source folder, script and compute target.

`report_azure_only` refuses a Spark job and warns once about settings that only Azure's services act on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List, Optional

from runyard.core.compute import RESERVED
from runyard.core.errors import NotFound, SubmitRejected
from runyard.core.specs import RunSpec
from runyard.sdk.config.objects import plain
from runyard.sdk.config.texts import warn_once
from runyard.sdk.run_config.run_configuration import RunConfiguration
from runyard.snapshots.rules import find_left_out

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace


_LOOK_AT = 2000  # files to look at for a near name
_FRAMEWORKS = ("python", "tensorflow", "pytorch", "cntk", "chainer", "r", "custom")
_WITHOUT_EFFECT = (
    "priority",
    "history.snapshot_project",
    "spark",
    "hdi",
    "paralleltask",
    "source_directory_data_store",
    "amlcompute",
    "auto_cluster_compute_specification",
    "kubernetescompute",
    "credential_passthrough",
    "application_endpoints",
    "container_instance",
    "auto_prepare_environment",
    "environment.asset_id",
    "environment.docker.gpu_support",
    "environment.docker.platform",
    "environment.inferencing_stack_version",
    "environment.python.base_conda_environment",
    "environment.spark",
    "environment.databricks",
    "environment.r",
)


def check_source(source_directory: Optional[str]) -> str:
    """Return the source folder's absolute path; none given means the current folder.

    Raises:
        SubmitRejected: it does not exist, is no folder or cannot be read.
    """
    given = os.fspath(source_directory) if source_directory is not None else "."
    path = os.path.abspath(os.path.expanduser(given))
    if not os.path.exists(path):
        raise SubmitRejected(
            f"The source directory `{given}` does not exist.",
            why=f"Looked for {path}.",
            hint="Give source_directory the folder that holds the script, such as source_directory='.'.",
        )
    if not os.path.isdir(path):
        raise SubmitRejected(
            f"The source directory `{given}` is not a folder.",
            hint=f"Use source_directory={os.path.dirname(given) or '.'!r}, script={os.path.basename(given)!r}.",
        )
    if not os.access(path, os.R_OK | os.X_OK):
        raise SubmitRejected(
            f"The source directory `{given}` cannot be read.",
            why="Its permissions do not allow you to list it.",
            hint=f"chmod u+rx {given}",
        )
    return path


def check_script(source: str, script: str) -> str:
    """Return the script's path relative to the source folder, with `/`.

    Raises:
        SubmitRejected: it lies outside, does not exist or is no readable file.
    """
    if not isinstance(script, (str, os.PathLike)) or not os.fspath(script):
        raise SubmitRejected(f"script must be the path of a file, found {script!r}.", hint="script='train.py'")
    given = os.fspath(script)
    path = os.path.normpath(os.path.join(source, given))
    relative = os.path.relpath(path, source)
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        raise SubmitRejected(
            f"The script `{given}` is outside the source directory.",
            why=f"Only files below {source} travel with the run.",
            hint="Move the script there, or give a source_directory that holds it.",
        )
    if not os.path.isfile(path):
        raise _missing_script(source, given, path)
    if not os.access(path, os.R_OK):
        raise SubmitRejected(f"The script `{given}` cannot be read.", hint=f"chmod u+r {path}")
    _check_not_ignored(source, relative)
    return relative.replace(os.sep, "/")


def check_output_folder(name: str) -> str:
    """Return a folder of the run's work folder that is collected.

    Raises:
        SubmitRejected: it leaves the work folder.
    """
    clean = os.path.normpath(str(name)).replace(os.sep, "/")
    if not clean or clean == "." or os.path.isabs(clean) or clean.split("/")[0] == os.pardir:
        raise SubmitRejected(
            f"The folder `{name}` in history.directories_to_watch cannot be collected.",
            why="Only folders below the run's working folder are.",
            hint="directories_to_watch = ['logs']",
        )
    return clean


def _check_not_ignored(source: str, relative: str) -> None:
    found = find_left_out(source, relative.replace(os.sep, "/"))
    if found is not None:
        path, rule = found
        raise SubmitRejected(
            f"The script `{relative}` would not travel with the run.",
            why=f"`{path}` is left out of snapshots"
            + (f" by line {rule.line} of `{rule.file}`, `{rule.text}`." if rule is not None else "."),
            hint=f"Add the line `!/{path}` to `.amlignore`, or move the script.",
        )


def _missing_script(source: str, given: str, path: str) -> SubmitRejected:
    what = "is a folder" if os.path.isdir(path) else "does not exist"
    near = _near_names(source, given)
    return SubmitRejected(
        f"The script `{given}` {what} in the source directory.",
        why=f"Looked for {path}.",
        hint=f"Did you mean {' or '.join(f'`{name}`' for name in near)}?"
        if near
        else f"The path of script is relative to source_directory; `ls {source}` shows what is there.",
    )


def _near_names(source: str, given: str) -> List[str]:
    from difflib import get_close_matches  # only for the message

    files: List[str] = []
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [os.path.relpath(os.path.join(folder, name), source) for name in sorted(names)]
        if len(files) >= _LOOK_AT:
            break
    wanted = os.path.basename(given)
    same = [name for name in files if os.path.basename(name).lower() == wanted.lower()]
    near = same + get_close_matches(given, files, n=3, cutoff=0.6)
    scripts = [name for name in files if name.endswith((".py", ".sh"))] if not near else []
    return list(dict.fromkeys(near + scripts[:3]))[:3]


def check_target(workspace: Workspace, spec: RunSpec) -> None:
    """Return when the workspace has the target and the run fits on it.

    Raises:
        SubmitRejected: it has not, or the run asks for more nodes than the target ever has.
    """
    if spec.target in RESERVED:
        return
    try:
        target = workspace._client.compute.get(workspace.name, spec.target)
    except NotFound as error:
        raise SubmitRejected(error.what, why=f"{error.why} `local` is this machine.", hint=error.hint) from None
    nodes = spec.distribution.node_count
    if 0 < target.spec.max_nodes < nodes:  # 0: only the cluster knows
        raise SubmitRejected(
            f"The run asks for {nodes} nodes of `{target.name}`.",
            why=f"That compute target has {target.spec.max_nodes} at most.",
            hint=f"Ask for less, or make it bigger: `runyard compute update {target.name} --max-nodes {nodes}`.",
        )


def report_azure_only(config: RunConfiguration) -> None:
    """Say which settings that differ from their defaults have no effect here.

    Raises:
        SubmitRejected: the run is a Spark job.
    """
    if str(config.framework).lower() == "pyspark":
        raise SubmitRejected(
            "Spark jobs are not run (framework = 'PySpark').",
            why="Runyard starts Python scripts and shell commands.",
            hint="Set run_config.framework = 'Python', or start Spark yourself: command='spark-submit train.py'.",
        )
    if str(config.framework).lower() not in _FRAMEWORKS:
        warn_once(
            f"run_config.framework {config.framework!r} is not known here ({', '.join(_FRAMEWORKS)}); "
            "the script is started as Python starts one."
        )
    default = RunConfiguration()
    names = [name for name in _WITHOUT_EFFECT if _setting(config, name) != _setting(default, name)]
    if names:
        warn_once(f"Without effect here: run_config.{', run_config.'.join(names)}. Only Azure's services act on them.")


def _setting(config: RunConfiguration, path: str) -> Any:
    found: Any = config
    for name in path.split("."):
        found = getattr(found, name, None)
    return plain(found)
