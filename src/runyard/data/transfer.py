"""Transfer many files to a datastore and from it: counted, and existing ones left alone unless told otherwise."""

from __future__ import annotations

import filecmp
import os
import threading
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterable, List, Sequence, Tuple, TypeVar

from runyard.core.errors import InvalidArgument
from runyard.data.base import Count, Storage, StoredFile, count_nothing

Say = Callable[[str], None]
T = TypeVar("T")


def _silent(_: str) -> None:
    pass


@dataclass
class Transferred:
    count: int = 0
    size_bytes: int = 0
    skipped: List[str] = field(default_factory=list)  # there already, and not to be overwritten

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def add(self, size_bytes: int, say: Say, text: str, total: int) -> None:
        with self._lock:
            self.count += 1
            self.size_bytes += size_bytes
            say(f"{text} ({self.count} of {total}).")

    def skip(self, name: str, say: Say, text: str) -> None:
        with self._lock:
            self.skipped.append(name)
            say(text)


def upload(
    storage: Storage,
    files: Iterable[Tuple[str, str]],
    *,
    overwrite: bool,
    say: Say = _silent,
    count: Count = count_nothing,
) -> Transferred:
    """Store files, given as (path here, name there). `count` hears of their bytes, those of skipped files too.

    Raises:
        InvalidArgument: two of them would get the same name; nothing was stored.
    """
    wanted = list(files)
    _refuse_doubles(wanted)
    done = Transferred()

    def move(pair: Tuple[str, str]) -> None:
        source, name = pair
        if not overwrite and storage.find_file(name) is not None:
            done.skip(name, say, f"{name} is there already and stays as it is.")
            count(os.path.getsize(source))
            return
        storage.put_file(source, name, count)
        done.add(os.path.getsize(source), say, f"Uploaded {name}", len(wanted))

    for_all(move, wanted, storage.at_once)
    return done


def download(
    storage: Storage,
    files: Iterable[StoredFile],
    place: Callable[[str], str],
    *,
    overwrite: bool,
    say: Say = _silent,
    count: Count = count_nothing,
) -> Transferred:
    """Write files to where `place(name)` says. `count` hears of their bytes, those of skipped files too."""
    wanted = list(files)
    done = Transferred()

    def move(file: StoredFile) -> None:
        target = place(file.name)
        if not overwrite and os.path.lexists(target):
            done.skip(file.name, say, f"{target} is there already and stays as it is.")
            count(file.size)
            return
        storage.fetch_file(file.name, target, count)
        done.add(file.size, say, f"Downloaded {file.name}", len(wanted))

    for_all(move, wanted, storage.at_once)
    return done


def for_all(move: Callable[[T], None], items: Sequence[T], at_once: int) -> None:
    """Move one after another, or several at once where that is quicker; the first error is raised."""
    if at_once <= 1 or len(items) <= 1:
        for item in items:
            move(item)
        return
    from concurrent.futures import ThreadPoolExecutor  # folders need none

    with ThreadPoolExecutor(at_once, thread_name_prefix="runyard-data") as pool:
        started = [pool.submit(move, item) for item in items]
        try:
            for one in started:
                one.result()
        finally:
            for one in started:
                one.cancel()  # what has not begun when another failed, or Ctrl-C came


def is_stored(storage: Storage, source: str, name: str) -> bool:
    """Whether the datastore, where it lies on this machine, holds the very content of `source` as `name`."""
    there = storage.find_local(name)
    return there is not None and os.path.isfile(there) and filecmp.cmp(source, there, shallow=False)


def _refuse_doubles(files: List[Tuple[str, str]]) -> None:
    seen: Dict[str, str] = {}
    for source, name in files:
        other = seen.setdefault(name, source)
        if other != source:
            raise InvalidArgument(
                f"{other} and {source} would both be stored as `{name}`.",
                hint="Give relative_root, a folder above both, so that their names differ.",
            )
