"""The assets and users of the store in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runyard.core.records import Asset
from runyard.core.users import Access, User, UserToken
from runyard.store.base import AssetEdit, Assets, Users
from runyard.store.memory.tables import MemoryPart, MemoryTables
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


class MemoryAssets(MemoryPart, Assets):
    """Versions of assets by workspace, kind and name, oldest first."""

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
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            place = (workspace, kind, name)
            versions = self._tables.assets.setdefault(place, [])
            if key and versions and versions[-1].key == key:
                return versions[-1], False
            version = self._tables.last_versions[place] = self._tables.last_versions.get(place, 0) + 1
            versions.append(
                new_asset(*place, document, version=version, key=key, owner=owner, now=self._tables.clock())
            )
            return versions[-1], True

    def import_asset(self, asset: Asset) -> tuple[Asset, bool]:
        with self._tables.lock:
            self._tables.get_workspace(asset.workspace)
            place = (asset.workspace, asset.kind, asset.name)
            versions = self._tables.assets.setdefault(place, [])
            for known in versions:
                if known.version == asset.version:
                    return known, False
            self._tables.last_versions[place] = max(self._tables.last_versions.get(place, 0), asset.version)
            versions.append(asset)
            versions.sort(key=lambda one: one.version)
            return asset, True

    def get_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> Asset:
        versions = [asset for asset in self.list_assets(workspace, kind, name=name) if version in (None, asset.version)]
        if not versions:
            raise no_asset(kind, name, version)
        return versions[-1]

    def list_assets(
        self, workspace: str, kind: str, *, name: str | None = None, all_versions: bool = False
    ) -> list[Asset]:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            if name is not None:
                return list(self._tables.assets.get((workspace, kind, name), ()))
            places = sorted(place for place in self._tables.assets if place[:2] == (workspace, kind))
            first = 0 if all_versions else -1
            return [asset for place in places for asset in self._tables.assets[place][first:]]

    def edit_asset(
        self, workspace: str, kind: str, name: str, edit: AssetEdit, *, version: int | None = None, stamp: bool = True
    ) -> Asset:
        with self._tables.lock:
            old = self.get_asset(workspace, kind, name, version=version)
            new = change_asset(old, edit(old), now=self._tables.clock() if stamp else None)
            versions = self._tables.assets[workspace, kind, name]
            versions[versions.index(old)] = new
            return new

    def rename_assets(self, workspace: str, kinds: Sequence[str], name: str, new_name: str) -> None:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            now, versions_of, last = self._tables.clock(), self._tables.assets, self._tables.last_versions
            if any(versions_of.get((workspace, kind, new_name)) for kind in kinds):
                raise asset_name_is_taken(kinds, new_name)
            if not any(versions_of.get((workspace, kind, name)) for kind in kinds):
                raise no_asset(kinds[0], name, None)
            for kind in kinds:
                old, new = (workspace, kind, name), (workspace, kind, new_name)
                moved = [rename_asset(asset, new_name, now=now) for asset in versions_of.pop(old, ())]
                if moved:
                    versions_of[new] = moved
                    last[new] = max(last.get(new, 0), last[old])

    def delete_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> None:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            versions = self._tables.assets.pop((workspace, kind, name), [])
            kept = [asset for asset in versions if version is not None and asset.version != version]
            if kept:
                self._tables.assets[workspace, kind, name] = kept


@dataclass
class _StoredToken:
    id: int
    user: str
    token_hash: str
    token: UserToken


class MemoryUsers(MemoryPart, Users):
    """Users by name, and their tokens by id."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)
        self._user_tokens: dict[int, _StoredToken] = {}
        self._last_token_id = 0

    def add_user(self, name: str, *, role: str, label: str, token_hash: str) -> User:
        with self._tables.lock:
            if name in self._tables.users:
                raise user_is_taken(name)
            self._tables.users[name] = User(name, role, self._tables.clock())
            return self._put_user_token(name, label, token_hash)

    def get_user(self, name: str) -> User:
        with self._tables.lock:
            user = self._tables.users.get(name)
            if user is None:
                raise no_user(name)
            return replace(user, tokens=[stored.token for stored in self._user_tokens.values() if stored.user == name])

    def list_users(self) -> list[User]:
        with self._tables.lock:
            return [self.get_user(name) for name in sorted(self._tables.users)]

    def set_user_role(self, name: str, role: str) -> User:
        with self._tables.lock:
            self._tables.users[name] = replace(self.get_user(name), role=role, tokens=[])
            return self.get_user(name)

    def remove_user(self, name: str) -> None:
        with self._tables.lock:
            if self._tables.users.pop(name, None) is not None:
                self._drop_user_tokens(name)

    def add_user_token(self, name: str, *, label: str, token_hash: str) -> User:
        with self._tables.lock:
            if any(token.label == label for token in self.get_user(name).tokens):
                raise label_is_taken(name, label)
            return self._put_user_token(name, label, token_hash)

    def replace_user_tokens(self, name: str, *, label: str, token_hash: str) -> User:
        with self._tables.lock:
            self.get_user(name)
            self._drop_user_tokens(name)
            return self._put_user_token(name, label, token_hash)

    def remove_user_token(self, name: str, label: str) -> User:
        with self._tables.lock:
            self.get_user(name)
            self._drop_user_tokens(name, label)
            return self.get_user(name)

    def find_access(self, token_hash: str) -> Access | None:
        return self._find_token(lambda stored: stored.token_hash == token_hash)

    def find_access_by_id(self, token_id: int) -> Access | None:
        return self._find_token(lambda stored: stored.id == token_id)

    def note_token_seen(self, token_id: int) -> None:
        with self._tables.lock:
            stored = self._user_tokens.get(token_id)
            if stored is not None:
                stored.token = replace(stored.token, seen_at=self._tables.clock())

    def _find_token(self, is_it: Callable[[_StoredToken], bool]) -> Access | None:
        with self._tables.lock:
            for stored in self._user_tokens.values():
                if is_it(stored):
                    return Access(stored.user, self._tables.users[stored.user].role, stored.id)
            return None

    def _put_user_token(self, name: str, label: str, token_hash: str) -> User:
        self._last_token_id += 1
        token = UserToken(label, self._tables.clock())
        self._user_tokens[self._last_token_id] = _StoredToken(self._last_token_id, name, token_hash, token)
        return self.get_user(name)

    def _drop_user_tokens(self, name: str, label: str | None = None) -> None:
        for id, stored in list(self._user_tokens.items()):
            if stored.user == name and label in (None, stored.token.label):
                del self._user_tokens[id]
