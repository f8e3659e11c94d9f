"""The file names, snapshots and content index of the store in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from runyard.core.records import RunFile
from runyard.store.base import Files, References
from runyard.store.memory.tables import MemoryPart
from runyard.store.rules import check_file, chunks_of, snapshots_of, without_chunks


class MemoryFiles(MemoryPart, Files):
    """Files by run and name, snapshots and chunks by id."""

    def put_file(self, run_id: str, file: RunFile, *, replace: bool = True) -> RunFile:
        with self._tables.lock:
            self._tables.get_run(run_id)
            old = self._tables.files[run_id].get(file.name)
            new = check_file(run_id, old, file, replace_it=replace, now=self._tables.clock())
            self._tables.files[run_id][file.name] = new
            return new

    def delete_files(self, run_id: str, names: Collection[str]) -> None:
        with self._tables.lock:
            self._tables.get_run(run_id)
            for name in names:
                self._tables.files[run_id].pop(name, None)

    def find_file(self, run_id: str, name: str) -> RunFile | None:
        with self._tables.lock:
            self._tables.get_run(run_id)
            return self._tables.files[run_id].get(name)

    def list_files(self, run_id: str, *, with_chunks: bool = True) -> list[RunFile]:
        with self._tables.lock:
            self._tables.get_run(run_id)
            files = [file for _, file in sorted(self._tables.files[run_id].items())]
        return files if with_chunks else [without_chunks(file) for file in files]

    def sum_file_sizes(self, *, run_id: str | None = None, submitted_by: str | None = None) -> int:
        with self._tables.lock:
            return sum(
                file.size
                for id, files in self._tables.files.items()
                if id == run_id or (submitted_by is not None and self._tables.runs[id].submitted_by == submitted_by)
                for file in files.values()
            )

    def put_snapshot(self, snapshot_id: str, root: str, *, files: int, size_bytes: int) -> None:
        self._tables.snapshots.setdefault(snapshot_id, root)

    def find_snapshot(self, snapshot_id: str) -> str | None:
        return self._tables.snapshots.get(snapshot_id)

    def list_snapshots(self) -> dict[str, str]:
        with self._tables.lock:
            return dict(self._tables.snapshots)

    def delete_snapshots(self, ids: Collection[str]) -> None:
        with self._tables.lock:
            for id in ids:
                self._tables.snapshots.pop(id, None)

    def read_references(self) -> References:
        with self._tables.lock:
            roots = {run.snapshot_root for run in self._tables.runs.values() if run.snapshot_root is not None}
            files = (file for named in self._tables.files.values() for file in named.values() if file.kind == "blob")
            chunks = {chunk for file in files for chunk in file.chunks}
            kept = [asset for versions in self._tables.assets.values() for asset in versions]
            snapshots = {snapshot for asset in kept for snapshot in snapshots_of(asset)}
            return References(roots, chunks.union(*(chunks_of(asset) for asset in kept)), snapshots)

    def find_chunks(self, ids: Sequence[str]) -> dict[str, tuple[str, int, int, int, str]]:
        with self._tables.lock:
            return {id: self._tables.chunks[id] for id in ids if id in self._tables.chunks}

    def add_chunks(self, pack: str, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        with self._tables.lock:
            self._tables.packs.setdefault(pack)
            for id, (start, stored, plain, codec) in places.items():
                self._tables.chunks.setdefault(id, (pack, start, stored, plain, codec))

    def iter_packs(self) -> Iterator[str]:
        with self._tables.lock:
            return iter(list(self._tables.packs))

    def iter_chunk_places(self) -> Iterator[tuple[str, str, int, int, int, str]]:
        with self._tables.lock:
            return iter([(id, *place) for id, place in self._tables.chunks.items()])

    def remove_chunks(self, ids: Collection[str]) -> None:
        with self._tables.lock:
            for id in ids:
                self._tables.chunks.pop(id, None)

    def replace_pack(self, old: str, new: str | None, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        with self._tables.lock:
            if new is not None:
                self._tables.packs.setdefault(new)
                self._tables.chunks.update({id: (new, *place) for id, place in places.items()})
            self._tables.packs.pop(old, None)
