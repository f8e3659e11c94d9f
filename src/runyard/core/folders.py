"""Where things lie below RUNYARD_HOME."""

from __future__ import annotations

from pathlib import Path

from runyard.core.names import check_run_id


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


def run_folder(home: Path, run_id: str, attempt: int) -> Path:
    """One attempt's folder on this node; docs/internals/run-folder.md says what is in it."""
    return runs_folder(home) / check_run_id(run_id) / str(int(attempt))


def cache_folder(home: Path) -> Path:
    """What can be made again: injection folders, stat caches, environments."""
    return home / "cache"
