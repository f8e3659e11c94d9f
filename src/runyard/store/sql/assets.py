"""SqlStore's parts for assets, and for users of a team's server with the hashes of their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, func, select, update

from runyard.core.records import Asset
from runyard.core.users import Access, User, UserToken
from runyard.store.base import AssetEdit, Assets, Users
from runyard.store.rules import (
    asset_name_is_taken,
    change_asset,
    label_is_taken,
    new_asset,
    no_asset,
    no_user,
    rename_asset,
    user_is_taken,
)
from runyard.store.sql.database import Insert, Session, Statement, Upsert
from runyard.store.sql.rows import SqlPart, document_of, get_workspace_id, record_of
from runyard.store.sql.schema import asset_versions, assets, user_tokens, users
from runyard.store.text import clean, from_microseconds, to_microseconds

_MAKE = Upsert(assets, "workspace_id", "kind", "name", "last_version", keys=("workspace_id", "kind", "name"))
_NAMED_ASSET = select(assets.c.id, assets.c.last_version).where(
    assets.c.workspace_id == bindparam("workspace"),
    assets.c.kind == bindparam("asset_kind"),
    assets.c.name == bindparam("asset_name"),
)
_FIND = Statement(_NAMED_ASSET)
_FIND_TO_CHANGE = Statement(_NAMED_ASSET.with_for_update())
_COUNT_UP = Statement(
    update(assets).where(assets.c.id == bindparam("row")).values(last_version=bindparam("new_version"))
)
_INSERT_VERSION = Insert(asset_versions, "asset_id", "version", "key", "document")
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
_LAST_VERSION = Statement(
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
_ALL_VERSIONS = Statement(
    select(asset_versions.c.document)
    .join(assets, assets.c.id == asset_versions.c.asset_id)
    .where(assets.c.workspace_id == bindparam("workspace"), assets.c.kind == bindparam("asset_kind"))
    .order_by(assets.c.name, asset_versions.c.version)
)
_MOVE = Statement(
    update(asset_versions)
    .where(asset_versions.c.asset_id == bindparam("row"), asset_versions.c.version == bindparam("at_version"))
    .values(asset_id=bindparam("new_row"), document=bindparam("new_document"))
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
_ADD = Upsert(users, "name", "role", "created_us", keys=("name",))
_ROW = select(users.c.id, users.c.name, users.c.role, users.c.created_us)
_NAMED_USER = Statement(_ROW.where(users.c.name == bindparam("user_name")))
_NAMED_TO_CHANGE = Statement(_ROW.where(users.c.name == bindparam("user_name")).with_for_update())
_ALL = Statement(_ROW.order_by(users.c.name))
_SET_ROLE = Statement(update(users).where(users.c.id == bindparam("row")).values(role=bindparam("new_role")))
_REMOVE = Statement(delete(users).where(users.c.name == bindparam("user_name")))
_TOKENS = Statement(
    select(user_tokens.c.label, user_tokens.c.created_us, user_tokens.c.seen_us)
    .where(user_tokens.c.user_id == bindparam("row"))
    .order_by(user_tokens.c.id)
)
_ADD_TOKEN = Insert(user_tokens, "user_id", "label", "token_hash", "created_us")
_REMOVE_TOKENS = Statement(delete(user_tokens).where(user_tokens.c.user_id == bindparam("row")))
_REMOVE_TOKEN = Statement(
    delete(user_tokens).where(user_tokens.c.user_id == bindparam("row"), user_tokens.c.label == bindparam("old_label"))
)
_ACCESS = select(users.c.name, users.c.role, user_tokens.c.id).join_from(
    user_tokens, users, users.c.id == user_tokens.c.user_id
)
_BY_HASH = Statement(_ACCESS.where(user_tokens.c.token_hash == bindparam("hash")))
_BY_ID = Statement(_ACCESS.where(user_tokens.c.id == bindparam("row")))
_SEEN = Statement(update(user_tokens).where(user_tokens.c.id == bindparam("row")).values(seen_us=bindparam("now_us")))


class SqlAssets(SqlPart, Assets):
    """Named things of a workspace: a row each, and a row with a document for each version."""

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
            new = new_asset(workspace, kind, name, document, version=last + 1, key=key, owner=owner, now=self._clock())
            session.run(_COUNT_UP, row=row, new_version=new.version)
            session.run(_INSERT_VERSION, asset_id=row, version=new.version, key=clean(key), document=document_of(new))
            return new, True

        return self._database.write(put)

    def import_asset(self, asset: Asset) -> tuple[Asset, bool]:
        def put(session: Session) -> tuple[Asset, bool]:
            place = (asset.workspace, asset.kind, asset.name)
            workspace_id = get_workspace_id(session, asset.workspace)
            session.run(
                _MAKE, workspace_id=workspace_id, kind=clean(asset.kind), name=clean(asset.name), last_version=0
            )
            row, last = self._find(session, *place, to_change=True)
            known = _version(session, row, asset.version)
            if known is not None:
                return known, False
            if asset.version > last:
                session.run(_COUNT_UP, row=row, new_version=asset.version)
            values = {"version": asset.version, "key": clean(asset.key), "document": document_of(asset)}
            session.run(_INSERT_VERSION, asset_id=row, **values)
            return asset, True

        return self._database.write(put)

    def get_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> Asset:
        with self._database.reading() as session:
            row, _ = self._find(session, workspace, kind, name)
            asset = _version(session, row, version)
        if asset is None:
            raise no_asset(kind, name, version)
        return asset

    def list_assets(
        self, workspace: str, kind: str, *, name: str | None = None, all_versions: bool = False
    ) -> list[Asset]:
        with self._database.reading() as session:
            workspace_id = get_workspace_id(session, workspace)
            if name is None:
                statement = _ALL_VERSIONS if all_versions else _LATEST
                rows = session.all(statement, workspace=workspace_id, asset_kind=clean(kind))
                return [record_of(Asset, row[0]) for row in rows]
            found = session.one(_FIND, workspace=workspace_id, asset_kind=clean(kind), asset_name=clean(name))
            rows = [] if found is None else session.all(_VERSIONS, row=found[0])
            return [record_of(Asset, row[0]) for row in rows]

    def edit_asset(
        self, workspace: str, kind: str, name: str, edit: AssetEdit, *, version: int | None = None, stamp: bool = True
    ) -> Asset:
        def change(session: Session) -> Asset:
            row, _ = self._find(session, workspace, kind, name, to_change=True)
            old = _version(session, row, version)
            if old is None:
                raise no_asset(kind, name, version)
            new = change_asset(old, edit(old), now=self._clock() if stamp else None)
            session.run(_CHANGE, row=row, at_version=old.version, new_document=document_of(new))
            return new

        return self._database.write(change)

    def rename_assets(self, workspace: str, kinds: Sequence[str], name: str, new_name: str) -> None:
        def rename(session: Session) -> None:
            workspace_id, moved = get_workspace_id(session, workspace), 0
            for kind in kinds:
                place = {"workspace_id": workspace_id, "kind": clean(kind)}
                session.run(_MAKE, **place, name=clean(new_name), last_version=0)
                new_row, new_last = self._find(session, workspace, kind, new_name, to_change=True)
                if _version(session, new_row, None) is not None:
                    raise asset_name_is_taken(kinds, new_name)
                old = session.one(
                    _FIND_TO_CHANGE, workspace=workspace_id, asset_kind=clean(kind), asset_name=clean(name)
                )
                versions = (
                    [] if old is None else [record_of(Asset, row[0]) for row in session.all(_VERSIONS, row=old[0])]
                )
                for asset in versions:
                    document = document_of(rename_asset(asset, new_name, now=self._clock()))
                    session.run(_MOVE, row=old[0], at_version=asset.version, new_row=new_row, new_document=document)
                if versions:
                    session.run(_COUNT_UP, row=new_row, new_version=max(new_last, old[1]))
                moved += len(versions)
            if not moved:
                raise no_asset(kinds[0], name, None)

        self._database.write(rename)

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
    found = session.one(_LAST_VERSION, row=row) if version is None else session.one(_ONE, row=row, at_version=version)
    return None if found is None else record_of(Asset, found[0])


class SqlUsers(SqlPart, Users):
    """Users and their tokens, a row each."""

    def add_user(self, name: str, *, role: str, label: str, token_hash: str) -> User:
        now = to_microseconds(self._clock())

        def add(session: Session) -> User:
            if not session.run(_ADD, name=clean(name), role=clean(role), created_us=now):
                raise user_is_taken(name)
            row = _get_row(session, name)
            _put_token(session, row[0], label, token_hash, now)
            return _user(session, row)

        return self._database.write(add)

    def get_user(self, name: str) -> User:
        with self._database.reading() as session:
            return _user(session, _get_row(session, name))

    def list_users(self) -> list[User]:
        with self._database.reading() as session:
            return [_user(session, row) for row in session.all(_ALL)]

    def set_user_role(self, name: str, role: str) -> User:
        def change(session: Session) -> User:
            session.run(_SET_ROLE, row=_get_row(session, name, to_change=True)[0], new_role=clean(role))
            return _user(session, _get_row(session, name))

        return self._database.write(change)

    def remove_user(self, name: str) -> None:
        self._database.write(lambda session: session.run(_REMOVE, user_name=clean(name)))

    def add_user_token(self, name: str, *, label: str, token_hash: str) -> User:
        now = to_microseconds(self._clock())

        def add(session: Session) -> User:
            row = _get_row(session, name, to_change=True)
            if any(token[0] == label for token in session.all(_TOKENS, row=row[0])):
                raise label_is_taken(name, label)
            _put_token(session, row[0], label, token_hash, now)
            return _user(session, row)

        return self._database.write(add)

    def replace_user_tokens(self, name: str, *, label: str, token_hash: str) -> User:
        now = to_microseconds(self._clock())

        def replace(session: Session) -> User:
            row = _get_row(session, name, to_change=True)
            session.run(_REMOVE_TOKENS, row=row[0])
            _put_token(session, row[0], label, token_hash, now)
            return _user(session, row)

        return self._database.write(replace)

    def remove_user_token(self, name: str, label: str) -> User:
        def remove(session: Session) -> User:
            row = _get_row(session, name, to_change=True)
            session.run(_REMOVE_TOKEN, row=row[0], old_label=clean(label))
            return _user(session, row)

        return self._database.write(remove)

    def find_access(self, token_hash: str) -> Access | None:
        with self._database.reading() as session:
            return _access(session.one(_BY_HASH, hash=clean(token_hash)))

    def find_access_by_id(self, token_id: int) -> Access | None:
        with self._database.reading() as session:
            return _access(session.one(_BY_ID, row=token_id))

    def note_token_seen(self, token_id: int) -> None:
        now = to_microseconds(self._clock())
        self._database.write(lambda session: session.run(_SEEN, row=token_id, now_us=now))


def _get_row(session: Session, name: str, *, to_change: bool = False) -> Any:
    row = session.one(_NAMED_TO_CHANGE if to_change else _NAMED_USER, user_name=clean(name))
    if row is None:
        raise no_user(name)
    return row


def _put_token(session: Session, row: int, label: str, token_hash: str, now_us: int) -> None:
    session.run(_ADD_TOKEN, user_id=row, label=clean(label), token_hash=clean(token_hash), created_us=now_us)


def _user(session: Session, row: Any) -> User:
    tokens = [_token(found) for found in session.all(_TOKENS, row=row[0])]
    return User(str(row[1]), str(row[2]), from_microseconds(row[3]), tokens)


def _token(row: Any) -> UserToken:
    return UserToken(str(row[0]), from_microseconds(row[1]), None if row[2] is None else from_microseconds(row[2]))


def _access(row: Any) -> Access | None:
    return None if row is None else Access(str(row[0]), str(row[1]), int(row[2]))
