"""Store the source folder with its git facts: what a run was made from."""

from __future__ import annotations

import functools
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional

from runyard.core.config.settings import read_settings
from runyard.core.errors import RunyardError
from runyard.core.machine.progress import Progress, shown_size
from runyard.core.records import IGNORED_PROPERTY, LEFT_OUT_PROPERTY, SNAPSHOT_PROPERTY, SOURCE_PROPERTY
from runyard.sdk.config.texts import warn
from runyard.sdk.runs.files import put_bytes
from runyard.snapshots.cache import SourceCache
from runyard.snapshots.git import GitFacts, git_facts
from runyard.snapshots.left_out import from_text, to_text
from runyard.snapshots.take import take_snapshot

if TYPE_CHECKING:
    from runyard.client.client import Client

MOST_SHOWN = 3  # rules of ignore files
PATCH_NAME = "git/uncommitted.patch"


@dataclass(frozen=True)
class StoredSource:
    snapshot_id: str
    root: str
    properties: Dict[str, str]
    patch: Optional[bytes] = None  # what a dirty tree differs from its commit


def store_source(client: Client, folder: str) -> StoredSource:
    """Send what the server lacks of `folder`; return what a run says about it.

    Raises:
        SnapshotRejected: the folder cannot be stored as it is.
    """
    answers: List[GitFacts] = []
    # git works in processes of its own, so both go on at once.
    asking = threading.Thread(target=lambda: answers.append(git_facts(folder)), name="runyard-git", daemon=True)
    asking.start()
    with Progress("storing the source folder") as progress:
        try:
            say = functools.partial(_say, progress=progress)
            snapshot = take_snapshot(folder, client.content, home=read_settings().home, say=say, progress=progress)
            progress.begin("asking git about the source folder")
        finally:
            asking.join()
    facts = answers[0] if answers else GitFacts()
    for note in facts.notes:
        _say(note)
    properties = {**facts.properties, SNAPSHOT_PROPERTY: snapshot.id, SOURCE_PROPERTY: os.path.realpath(folder)}
    if snapshot.left_out:
        properties[LEFT_OUT_PROPERTY] = snapshot.left_out
    if snapshot.ignored:
        properties[IGNORED_PROPERTY] = to_text(snapshot.ignored)
    return StoredSource(snapshot.id, snapshot.root, properties, facts.patch)


def ignored_text(properties: Mapping[str, str]) -> str:
    """Return what ignore files kept out of a run's snapshot, in one line; "" when that is nothing."""
    rules = from_text(properties.get(IGNORED_PROPERTY) or "")
    shown = [
        f"{', '.join(rule.paths[:2])}{' …' if len(rule.paths) > 2 else ''} ({'' if rule.is_all else 'more than '}"
        f"{rule.files:,} file(s), {shown_size(rule.size_bytes)}; {rule.file} line {rule.line})"
        for rule in rules[:MOST_SHOWN]
    ]
    return "; ".join([*shown, *([f"{len(rules) - MOST_SHOWN} more"] if len(rules) > MOST_SHOWN else [])])


def store_file(client: Client, path: str) -> StoredSource:
    """Store one file as a snapshot of a folder that holds nothing else."""
    from shutil import copy  # snapshots are nearly always folders
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="runyard-file-") as scratch:
        folder = os.path.join(scratch, "source")
        os.mkdir(folder)
        copy(path, folder)
        cache = SourceCache(Path(scratch, "stat"), folder)  # gone with the folder: its path never comes again
        snapshot = take_snapshot(folder, client.content, home=read_settings().home, say=_say, cache=cache)
    return StoredSource(snapshot.id, snapshot.root, {})


def store_git_patch(client: Client, run_id: str, source: StoredSource) -> None:
    """Keep the patch of a dirty tree as a file of the run. The run goes on when that fails."""
    if source.patch is None:
        return
    try:
        put_bytes(client, run_id, PATCH_NAME, source.patch)
    except (RunyardError, OSError) as error:
        warn(f"The uncommitted changes could not be stored with run {run_id}: {error}")


def _say(line: str, progress: Optional[Progress] = None) -> None:
    if progress is not None:
        progress.clear()
    print(f"runyard: {line}", file=sys.stderr)
