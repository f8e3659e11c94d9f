"""Repair a home while no server runs: its SQLite database, and a list of the stored content that is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from runyard.artifacts.filesystem import FilesystemStore
from runyard.artifacts.verify import Verified
from runyard.core.config.paths import artifact_folder, database_file
from runyard.core.config.server_settings import read_server_settings
from runyard.core.errors import Conflict, UserError
from runyard.core.formats.documents import RepairAnswer
from runyard.core.formats.plain import to_plain
from runyard.core.records import Run
from runyard.server.net.home_lock import take_lock
from runyard.server.storage.belonging import DATABASE_ID, find_content_folder, find_owner
from runyard.store import open_store
from runyard.store.base import Files, RunQuery, RunStore
from runyard.store.repair.repair import Repaired, repair

_MOST_PATHS = 20  # named of one run
_PAGE = 500


@dataclass(frozen=True)
class DamagedRun:
    """What cannot be read any more of one run."""

    run_id: str
    files: list[str] = field(default_factory=list)
    snapshot: list[str] = field(default_factory=list)  # files and folders of its code


@dataclass(frozen=True)
class RepairReport:
    database: Repaired
    missing_packs: int
    damaged_chunks: int
    runs: list[DamagedRun]


def repair_home(home: Path) -> RepairReport:
    """Repair the database where it needs it, then look at every byte of the stored content.

    Raises:
        Conflict: a server has the home.
        UserError: its database is PostgreSQL, or there is none.
        StoreUnavailable: nothing can be read of the database.
    """
    _refuse_what_is_not_ours(home)
    lock, holder = take_lock(home)
    if lock is None:
        raise Conflict(
            f"A server is running in `{home}`.",
            why=f"It is process {holder.pid}." if holder else "",
            hint="`runyard server stop`, then `runyard server repair`. Live runs go on meanwhile.",
        )
    try:
        path = database_file(home)
        repaired = repair(path)
        store = open_store(path)
        try:
            _restore_id(home, store)
            return _check_content(home, store, repaired)
        finally:
            store.close()
    finally:
        lock.release()


def plain_report(report: RepairReport) -> RepairAnswer:
    found = report.database.salvage
    kept = report.database.damaged_file
    return {
        "sound": kept is None,
        "damaged_file": None if kept is None else str(kept),
        "problems": list(found.problems),
        "tables": [{"name": table.name, "saved": table.saved, "lost": table.lost} for table in found.tables],
        "missing_packs": report.missing_packs,
        "damaged_chunks": report.damaged_chunks,
        "runs": [to_plain(run) for run in report.runs],
    }


def _refuse_what_is_not_ours(home: Path) -> None:
    if read_server_settings(home).database:
        raise UserError(
            "This home's database is PostgreSQL, which `runyard server repair` does not repair.",
            why="PostgreSQL has tools of its own, and checks its pages itself.",
            hint="`pg_amcheck` looks for damage, `reindexdb` makes its indexes anew; otherwise restore a backup "
            "(`pg_restore`).",
        )
    path = database_file(home)
    if not path.exists() or path.stat().st_size == 0:
        raise UserError(
            f"There is nothing to repair: `{path}` {'is empty' if path.exists() else 'does not exist'}.",
            hint="Restore a backup of it, or a copy that the server saved (`runyard.db.rescued-…` beside it).",
        )


def _restore_id(home: Path, store: RunStore) -> None:
    """Give a database that lost its id the one that its content knows it by."""
    owner = find_owner(home)
    if owner is not None and store.find_value(DATABASE_ID) is None:
        store.set_value(DATABASE_ID, owner)


def _check_content(home: Path, store: RunStore, repaired: Repaired) -> RepairReport:
    folder = find_content_folder(home, store, database_file(home)) if artifact_folder(home).exists() else None
    if folder is None:
        return RepairReport(repaired, 0, 0, [])
    artifacts = FilesystemStore(folder)
    try:
        found = Verified(artifacts, store.iter_chunk_places())
    finally:
        artifacts.close()
    runs = [damaged for run in _all_runs(store) if (damaged := _damaged(run, store, found)) is not None]
    return RepairReport(repaired, len(found.missing_packs), len(found.damaged), runs)


def _damaged(run: Run, store: Files, found: Verified) -> DamagedRun | None:
    files = [file.name for file in store.list_files(run.id) if file.kind == "blob" and found.damaged_of(file.chunks)]
    root = run.snapshot_root
    paths = list(islice(found.damaged_paths(root), _MOST_PATHS)) if root is not None else []
    return DamagedRun(run.id, files[:_MOST_PATHS], paths) if files or paths else None


def _all_runs(store: RunStore) -> Iterator[Run]:
    for workspace in store.list_workspaces():
        cursor: str | None = None
        while True:
            page = store.list_runs(
                RunQuery(workspace.name, include_children=True, view="all", limit=_PAGE, cursor=cursor)
            )
            yield from page.runs
            cursor = page.next
            if cursor is None:
                break
