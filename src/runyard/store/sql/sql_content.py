"""SqlStore's part for collecting content that nothing refers to any more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sqlalchemy import bindparam, delete, select, update

from runyard.core.records import Asset, RunFile
from runyard.store.base import References
from runyard.store.rules import chunks_of
from runyard.store.sql.database import Session
from runyard.store.sql.files import PACK, PLACES, PUT_PACK
from runyard.store.sql.rows import SqlPart, record_of, run_of
from runyard.store.sql.schema import asset_versions, assets, content_chunks, files, packs, runs, snapshots
from runyard.store.sql.statements import Statement

_SNAPSHOTS = Statement(select(snapshots.c.id, snapshots.c.root))
_DELETE_SNAPSHOT = Statement(delete(snapshots).where(snapshots.c.id == bindparam("snapshot")))
_RUNS = Statement(select(runs.c.document))
_FILES = Statement(select(files.c.document))
_MODELS = Statement(
    select(asset_versions.c.document)
    .join(assets, assets.c.id == asset_versions.c.asset_id)
    .where(assets.c.kind == "model")
)
_PLACES = Statement(PLACES)
_REMOVE = Statement(delete(content_chunks).where(content_chunks.c.id == bindparam("chunk")))
_DELETE_PACK = Statement(delete(packs).where(packs.c.name == bindparam("pack")))
_MOVE = Statement(
    update(content_chunks)
    .where(content_chunks.c.id == bindparam("chunk"))
    .values(pack_id=bindparam("new_pack"), start=bindparam("new_start"))
)


class SqlContent(SqlPart):
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
            found = [record_of(RunFile, row[0]) for row in session.all(_FILES)]
            models = [record_of(Asset, row[0]) for row in session.all(_MODELS)]
        chunks = {chunk for file in found if file.kind == "blob" for chunk in file.chunks}
        chunks.update(chunk for model in models for chunk in chunks_of(model))
        return References({root for root in roots if root is not None}, chunks)

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
