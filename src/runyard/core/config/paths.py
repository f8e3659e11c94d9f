"""The paths of files and folders below RUNYARD_HOME."""

from __future__ import annotations

from pathlib import Path

from runyard.core.names import check_run_id, check_workspace_name


def server_folder(home: Path) -> Path:
    """Database, token, log and lock of the private server."""
    return home / "server"


def token_file(home: Path) -> Path:
    return server_folder(home) / "token"


def database_file(home: Path) -> Path:
    return server_folder(home) / "runyard.db"


def artifact_folder(home: Path) -> Path:
    return home / "artifacts"


def runs_folder(home: Path) -> Path:
    return home / "runs"


def run_folder(home: Path, run_id: str, attempt: int, external_writer: int = 0) -> Path:
    """The folder of an attempt or external writer on this node; docs/internals/run-folder.md says what is in it."""
    name = f"external-{int(external_writer)}" if external_writer else str(int(attempt))
    return runs_folder(home) / check_run_id(run_id) / name


def datastores_folder(home: Path, workspace: str) -> Path:
    """The folder datastores that every workspace has lie here, each under its name."""
    return home / "datastores" / check_workspace_name(workspace)


def cache_folder(home: Path) -> Path:
    """What can be made again: injection folders, stat caches, environments."""
    return home / "cache"


def spare_work_folder(home: Path) -> Path:
    """Work folders of ended runs that wait for the next run of their snapshot; docs/internals/snapshots.md says how."""
    return cache_folder(home) / "work"


def environments_folder(home: Path) -> Path:
    """Built environments, a folder per content key; docs/internals/environments.md says what is in it."""
    return home / "environments"
