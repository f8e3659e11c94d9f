"""SqlStore's part for files' names, snapshots and the index of packed content.

SqlStore's part for collecting content that nothing refers to any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, or_, select, update

from runyard.core.errors import Conflict
from runyard.core.records import Asset, RunFile
from runyard.store.base import Files, References
from runyard.store.rules import (
    KINDS_WITH_FILES,
    KINDS_WITH_SNAPSHOTS,
    check_file,
    chunks_of,
    snapshots_of,
    without_chunks,
)
from runyard.store.sql.database import MAX_PARAMETERS, Session, Statement, Upsert
from runyard.store.sql.rows import SqlPart, document_of, get_serial, record_of, run_of
from runyard.store.sql.schema import asset_versions, assets, content_chunks, files, packs, runs, snapshots
from runyard.store.text import clean, indexed, load, to_microseconds

_FILE = Statement(
    select(files.c.document).where(files.c.run_serial == bindparam("row"), files.c.name == bindparam("file_name"))
)
_FILES = Statement(
    select(files.c.name, files.c.document).where(files.c.run_serial == bindparam("row")).order_by(files.c.name)
)
_SOME_FILES = select(files.c.name, files.c.document).where(
    files.c.run_serial == bindparam("row"), files.c.name.in_(bindparam("names", expanding=True))
)
_FILES_OF_USER = Statement(
    select(files.c.name, files.c.document)
    .join_from(files, runs, runs.c.serial == files.c.run_serial)
    .where(runs.c.submitted_by == bindparam("user"))
)
_PUT_FILE = Upsert(files, "run_serial", "name", "document", keys=("run_serial", "name"), change=("document",))
_DELETE_FILE = Statement(
    delete(files).where(files.c.run_serial == bindparam("row"), files.c.name == bindparam("file_name"))
)
_PUT_SNAPSHOT = Upsert(snapshots, "id", "root", "files", "size_bytes", "created_us", keys=("id",))
_SNAPSHOT = Statement(select(snapshots.c.root).where(snapshots.c.id == bindparam("snapshot")))
PUT_PACK = Upsert(packs, "name", keys=("name",))
PACK = Statement(select(packs.c.id).where(packs.c.name == bindparam("pack")))
_PACKS = Statement(select(packs.c.name).order_by(packs.c.id))
_PUT_CHUNK = Upsert(content_chunks, "id", "pack_id", "start", "stored", "plain", "codec", keys=("id",))
PLACES = select(
    content_chunks.c.id,
    packs.c.name,
    content_chunks.c.start,
    content_chunks.c.stored,
    content_chunks.c.plain,
    content_chunks.c.codec,
).join_from(content_chunks, packs, packs.c.id == content_chunks.c.pack_id)
_CHUNKS = PLACES.where(content_chunks.c.id.in_(bindparam("ids", expanding=True)))
_SNAPSHOTS = Statement(select(snapshots.c.id, snapshots.c.root))
_DELETE_SNAPSHOT = Statement(delete(snapshots).where(snapshots.c.id == bindparam("snapshot")))
_RUNS = Statement(select(runs.c.document))
_ALL_FILES = Statement(select(files.c.document))
_MODELS = Statement(
    select(asset_versions.c.document)
    .join(assets, assets.c.id == asset_versions.c.asset_id)
    .where(or_(*(assets.c.kind == kind for kind in (*KINDS_WITH_FILES, *KINDS_WITH_SNAPSHOTS))))
)
_PLACES = Statement(PLACES)
_REMOVE = Statement(delete(content_chunks).where(content_chunks.c.id == bindparam("chunk")))
_DELETE_PACK = Statement(delete(packs).where(packs.c.name == bindparam("pack")))
_MOVE = Statement(
    update(content_chunks)
    .where(content_chunks.c.id == bindparam("chunk"))
    .values(pack_id=bindparam("new_pack"), start=bindparam("new_start"))
)


class SqlFiles(SqlPart, Files):
    """Files of runs, snapshots, packs and chunks: a row each."""

    def put_file(self, run_id: str, file: RunFile, *, replace: bool = True) -> RunFile:
        def put(session: Session) -> RunFile:
            serial = get_serial(session, run_id)
            old = _find_file(session, serial, file.name)
            new = check_file(run_id, old, file, replace_it=replace, now=self._clock())
            session.run(_PUT_FILE, run_serial=serial, name=clean(file.name), document=document_of(new))
            return new

        return self._database.write(put)

    def put_files(self, run_id: str, files: Sequence[RunFile], *, replace: bool = True) -> list[RunFile | Conflict]:
        now = self._clock()
        # Made out here, since all writers wait for each other inside.
        stamped = [check_file(run_id, None, file, replace_it=True, now=now) for file in files]
        rows = [{"name": clean(file.name), "document": document_of(file)} for file in stamped]

        def put(session: Session) -> list[RunFile | Conflict]:
            serial = get_serial(session, run_id)
            results: list[RunFile | Conflict] = (
                [*stamped] if replace else _without_taken(session, serial, run_id, stamped, now)
            )
            good = [row for row, result in zip(rows, results) if isinstance(result, RunFile)]
            session.many(_PUT_FILE, [{**row, "run_serial": serial} for row in good])
            return results

        return self._database.write(put)

    def delete_files(self, run_id: str, names: Collection[str]) -> None:
        def delete_all(session: Session) -> None:
            serial = get_serial(session, run_id)
            session.many(_DELETE_FILE, [{"row": serial, "file_name": clean(name)} for name in names])

        self._database.write(delete_all)

    def find_files(self, run_id: str, names: Sequence[str]) -> dict[str, RunFile]:
        with self._database.reading() as session:
            return _find_files(session, get_serial(session, run_id), names)

    def find_file(self, run_id: str, name: str) -> RunFile | None:
        with self._database.reading() as session:
            return _find_file(session, get_serial(session, run_id), name)

    def list_files(self, run_id: str, *, with_chunks: bool = True) -> list[RunFile]:
        keep = (lambda file: file) if with_chunks else without_chunks
        with self._database.reading() as session:
            rows = session.each(_FILES, row=get_serial(session, run_id))
            return [keep(record_of(RunFile, document)) for _name, document in rows]

    def sum_file_sizes(self, *, run_id: str | None = None, submitted_by: str | None = None) -> int:
        with self._database.reading() as session:
            if run_id is not None:
                rows = session.each(_FILES, row=get_serial(session, run_id))
            else:
                rows = session.each(_FILES_OF_USER, user=indexed(submitted_by or ""))
            return sum(int(load(document)["size"]) for _name, document in rows)

    def put_snapshot(self, snapshot_id: str, root: str, *, files: int, size_bytes: int) -> None:
        created = to_microseconds(self._clock())
        self._database.write(
            lambda session: session.run(
                _PUT_SNAPSHOT, id=snapshot_id, root=root, files=files, size_bytes=size_bytes, created_us=created
            )
        )

    def find_snapshot(self, snapshot_id: str) -> str | None:
        with self._database.reading() as session:
            row = session.one(_SNAPSHOT, snapshot=clean(snapshot_id))
        return None if row is None else str(row[0])

    def find_chunks(self, ids: Sequence[str]) -> dict[str, tuple[str, int, int, int, str]]:
        wanted = list(dict.fromkeys(clean(item) for item in ids))
        places: dict[str, tuple[str, int, int, int, str]] = {}
        with self._database.reading() as session:
            for at in range(0, len(wanted), MAX_PARAMETERS):
                batch = wanted[at : at + MAX_PARAMETERS]
                for row in session.connection.execute(_CHUNKS, {"ids": batch}):
                    places[row[0]] = (row[1], row[2], row[3], row[4], row[5])
        return places

    def add_chunks(self, pack: str, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        def add(session: Session) -> None:
            session.run(PUT_PACK, name=pack)
            pack_id = session.one(PACK, pack=pack)[0]
            rows = [
                {"id": id, "pack_id": pack_id, "start": start, "stored": stored, "plain": plain, "codec": codec}
                for id, (start, stored, plain, codec) in places.items()
            ]
            session.many(_PUT_CHUNK, rows)

        self._database.write(add)

    def iter_packs(self) -> Iterator[str]:
        with self._database.reading() as session:
            names = [str(row[0]) for row in session.all(_PACKS)]
        return iter(names)

    def list_snapshots(self) -> dict[str, str]:
        with self._database.reading() as session:
            return {row[0]: row[1] for row in session.all(_SNAPSHOTS)}

    def delete_snapshots(self, ids: Collection[str]) -> None:
        rows = [{"snapshot": id} for id in ids]
        if rows:
            self._database.write(lambda session: session.many(_DELETE_SNAPSHOT, rows))

    def read_references(self) -> References:
        with self._database.reading() as session:
            roots = {run_of(row[0]).snapshot_root for row in session.all(_RUNS)}
            files_of_runs = [record_of(RunFile, row[0]) for row in session.all(_ALL_FILES)]
            models = [record_of(Asset, row[0]) for row in session.all(_MODELS)]
        chunks = {chunk for file in files_of_runs if file.kind == "blob" for chunk in file.chunks}
        chunks.update(chunk for model in models for chunk in chunks_of(model))
        snapshots = {snapshot for asset in models for snapshot in snapshots_of(asset)}
        return References({root for root in roots if root is not None}, chunks, snapshots)

    def iter_chunk_places(self) -> Iterator[tuple[str, str, int, int, int, str]]:
        with self._database.reading() as session:
            return iter(session.all(_PLACES))

    def remove_chunks(self, ids: Collection[str]) -> None:
        rows = [{"chunk": id} for id in ids]
        if rows:
            self._database.write(lambda session: session.many(_REMOVE, rows))

    def replace_pack(self, old: str, new: str | None, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        def change(session: Session) -> None:
            if new is not None:
                session.run(PUT_PACK, name=new)
                pack_id = session.one(PACK, pack=new)[0]
                rows = [{"chunk": id, "new_pack": pack_id, "new_start": place[0]} for id, place in places.items()]
                session.many(_MOVE, rows)
            session.run(_DELETE_PACK, pack=old)

        self._database.write(change)


def _find_file(session: Session, serial: int, name: str) -> RunFile | None:
    row = session.one(_FILE, row=serial, file_name=clean(name))
    return None if row is None else record_of(RunFile, row[0])


def _find_files(session: Session, serial: int, names: Sequence[str]) -> dict[str, RunFile]:
    by_key = {clean(name): name for name in names}
    keys = list(by_key)
    found: dict[str, RunFile] = {}
    for at in range(0, len(keys), MAX_PARAMETERS):
        batch = {"row": serial, "names": keys[at : at + MAX_PARAMETERS]}
        for key, document in session.connection.execute(_SOME_FILES, batch):
            found[by_key[key]] = record_of(RunFile, document)
    return found


def _without_taken(
    session: Session, serial: int, run_id: str, files: Sequence[RunFile], now: datetime
) -> list[RunFile | Conflict]:
    """Return the files, and a Conflict in the place of each that would replace other content."""
    taken = _find_files(session, serial, [file.name for file in files])
    results: list[RunFile | Conflict] = []
    for file in files:
        try:
            new = check_file(run_id, taken.get(file.name), file, replace_it=False, now=now)
        except Conflict as error:
            results.append(error)
        else:
            taken[file.name] = new
            results.append(new)
    return results
