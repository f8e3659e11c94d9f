"""SqlStore's part for assets: what a workspace keeps by name, in versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, delete, func, select, update

from runyard.core.records import Asset
from runyard.store.rules import changed_asset, made_asset, no_asset
from runyard.store.sql.database import Session
from runyard.store.sql.rows import SqlPart, document_of, get_workspace_id, record_of
from runyard.store.sql.schema import asset_versions, assets
from runyard.store.sql.statements import Insert, Statement, Upsert
from runyard.store.text import clean

_MAKE = Upsert(assets, "workspace_id", "kind", "name", "last_version", keys=("workspace_id", "kind", "name"))
_NAMED = select(assets.c.id, assets.c.last_version).where(
    assets.c.workspace_id == bindparam("workspace"),
    assets.c.kind == bindparam("asset_kind"),
    assets.c.name == bindparam("asset_name"),
)
_FIND = Statement(_NAMED)
_FIND_TO_CHANGE = Statement(_NAMED.with_for_update())
_COUNT_UP = Statement(
    update(assets).where(assets.c.id == bindparam("row")).values(last_version=bindparam("new_version"))
)
_INSERT = Insert(asset_versions, "asset_id", "version", "key", "document")
_VERSIONS = Statement(
    select(asset_versions.c.document)
    .where(asset_versions.c.asset_id == bindparam("row"))
    .order_by(asset_versions.c.version)
)
_ONE = Statement(
    select(asset_versions.c.document).where(
        asset_versions.c.asset_id == bindparam("row"), asset_versions.c.version == bindparam("at_version")
    )
)
_LAST = Statement(
    select(asset_versions.c.document)
    .where(asset_versions.c.asset_id == bindparam("row"))
    .order_by(asset_versions.c.version.desc())
    .limit(1)
)
_NEWEST = (
    select(asset_versions.c.asset_id, func.max(asset_versions.c.version).label("version"))
    .join(assets, assets.c.id == asset_versions.c.asset_id)
    .where(assets.c.workspace_id == bindparam("workspace"), assets.c.kind == bindparam("asset_kind"))
    .group_by(asset_versions.c.asset_id)
    .subquery()
)
_LATEST = Statement(
    select(asset_versions.c.document)
    .join(_NEWEST, (_NEWEST.c.asset_id == asset_versions.c.asset_id) & (_NEWEST.c.version == asset_versions.c.version))
    .join(assets, assets.c.id == asset_versions.c.asset_id)
    .order_by(assets.c.name)
)
_CHANGE = Statement(
    update(asset_versions)
    .where(asset_versions.c.asset_id == bindparam("row"), asset_versions.c.version == bindparam("at_version"))
    .values(document=bindparam("new_document"))
)
_DELETE = Statement(delete(asset_versions).where(asset_versions.c.asset_id == bindparam("row")))
_DELETE_ONE = Statement(
    delete(asset_versions).where(
        asset_versions.c.asset_id == bindparam("row"), asset_versions.c.version == bindparam("at_version")
    )
)


class SqlAssets(SqlPart):
    def put_asset(
        self,
        workspace: str,
        kind: str,
        name: str,
        document: Mapping[str, Any],
        *,
        key: str = "",
        owner: str | None = None,
    ) -> tuple[Asset, bool]:
        def put(session: Session) -> tuple[Asset, bool]:
            workspace_id = get_workspace_id(session, workspace)
            session.run(_MAKE, workspace_id=workspace_id, kind=clean(kind), name=clean(name), last_version=0)
            row, last = self._find(session, workspace, kind, name, to_change=True)
            newest = _version(session, row, None)
            if key and newest is not None and newest.key == key:
                return newest, False
            new = made_asset(workspace, kind, name, document, version=last + 1, key=key, owner=owner, now=self._clock())
            session.run(_COUNT_UP, row=row, new_version=new.version)
            session.run(_INSERT, asset_id=row, version=new.version, key=clean(key), document=document_of(new))
            return new, True

        return self._database.write(put)

    def get_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> Asset:
        with self._database.reading() as session:
            row, _ = self._find(session, workspace, kind, name)
            found = _version(session, row, version)
        if found is None:
            raise no_asset(kind, name, version)
        return found

    def list_assets(self, workspace: str, kind: str, *, name: str | None = None) -> list[Asset]:
        with self._database.reading() as session:
            workspace_id = get_workspace_id(session, workspace)
            if name is None:
                rows = session.all(_LATEST, workspace=workspace_id, asset_kind=clean(kind))
                return [record_of(Asset, row[0]) for row in rows]
            found = session.one(_FIND, workspace=workspace_id, asset_kind=clean(kind), asset_name=clean(name))
            rows = [] if found is None else session.all(_VERSIONS, row=found[0])
            return [record_of(Asset, row[0]) for row in rows]

    def update_asset(self, workspace: str, kind: str, name: str, *, version: int, document: Mapping[str, Any]) -> Asset:
        def change(session: Session) -> Asset:
            row, _ = self._find(session, workspace, kind, name, to_change=True)
            old = _version(session, row, version)
            if old is None:
                raise no_asset(kind, name, version)
            new = changed_asset(old, document, now=self._clock())
            session.run(_CHANGE, row=row, at_version=version, new_document=document_of(new))
            return new

        return self._database.write(change)

    def delete_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> None:
        def remove(session: Session) -> None:
            workspace_id = get_workspace_id(session, workspace)
            found = session.one(_FIND_TO_CHANGE, workspace=workspace_id, asset_kind=clean(kind), asset_name=clean(name))
            if found is not None and version is None:
                session.run(_DELETE, row=found[0])
            elif found is not None:
                session.run(_DELETE_ONE, row=found[0], at_version=version)

        self._database.write(remove)

    def _find(
        self, session: Session, workspace: str, kind: str, name: str, *, to_change: bool = False
    ) -> tuple[int, int]:
        statement = _FIND_TO_CHANGE if to_change else _FIND
        workspace_id = get_workspace_id(session, workspace)
        found = session.one(statement, workspace=workspace_id, asset_kind=clean(kind), asset_name=clean(name))
        if found is None:
            raise no_asset(kind, name, None)
        return found[0], found[1]


def _version(session: Session, row: int, version: int | None) -> Asset | None:
    """Return that version of an asset, the newest by default."""
    found = session.one(_LAST, row=row) if version is None else session.one(_ONE, row=row, at_version=version)
    return None if found is None else record_of(Asset, found[0])
