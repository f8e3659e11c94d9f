"""Secrets of a workspace: encrypted in the database, with a key that lies beside it and never in it."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.core.config.paths import server_folder
from runyard.core.errors import InvalidArgument, NotFound, StoreUnavailable
from runyard.core.records import Asset
from runyard.server.access.token_file import make_private_file, read_private_file
from runyard.store.base import RunStore

KIND = "secret"
KEY_FILE = "secrets.key"
MOST_BYTES = 64 << 10
READERS, EVERYONE = "readers", "*"
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,126}")
_NONCE = 12
_KEY_BYTES = 32


@dataclass(frozen=True)
class SecretAccess:
    owner: str | None
    readers: tuple[str, ...]

    def is_readable_by(self, user: str) -> bool:
        return self.owner == user or EVERYONE in self.readers or user in self.readers


class Vault:
    """AES-256-GCM with the secret's place as associated data: a row that was moved does not decrypt."""

    def __init__(self, store: RunStore, home: Path) -> None:
        self._store = store
        self._path = server_folder(home) / KEY_FILE

    def put(
        self, workspace: str, name: str, value: str | None, *, readers: Sequence[str] | None = None, owner: str = ""
    ) -> None:
        """Keep the value; an earlier one is gone for good. What is None stays; a new secret is its owner's."""
        check_secret_name(name)
        if value is not None and len(value.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise InvalidArgument(f"The secret `{name}` is larger than {MOST_BYTES >> 10} KiB.")
        self._store.get_workspace(workspace)
        known = self._find(workspace, name)
        if known is None and value is None:
            raise NotFound(f"There is no secret `{name}` in workspace `{workspace}`.", hint="Set its value first.")
        document = dict(known.document) if known is not None else {READERS: []}
        if value is not None:
            document["sealed"] = self.seal(workspace, name, value)
        if readers is not None:
            document[READERS] = sorted(set(readers))
        if known is None:
            self._store.put_asset(workspace, KIND, name, document, owner=owner)
        else:
            self._store.update_asset(workspace, KIND, name, version=known.version, document=document)

    def find_access(self, workspace: str, name: str) -> SecretAccess | None:
        """Return the owner and the readers of a secret; None when there is none of that name."""
        known = self._find(workspace, check_secret_name(name))
        if known is None:
            return None
        # Secrets from before there were readers were everybody's, and runs of others count on them.
        return SecretAccess(known.owner, tuple(known.document.get(READERS, (EVERYONE,))))

    def get(self, workspace: str, name: str) -> str:
        """Raises NotFound: there is none of that name."""
        check_secret_name(name)
        try:
            asset = self._store.get_asset(workspace, KIND, name)
        except NotFound:
            raise NotFound(
                f"There is no secret `{name}` in workspace `{workspace}`.",
                why=f"Known here: {', '.join(self.list_names(workspace)) or 'none yet'}.",
                hint=f"Set it: `runyard secrets set {name}`.",
            ) from None
        return self.open(workspace, name, str(asset.document.get("sealed", "")))

    def _find(self, workspace: str, name: str) -> Asset | None:
        return next(iter(self._store.list_assets(workspace, KIND, name=name)), None)

    def list_names(self, workspace: str) -> list[str]:
        return [asset.name for asset in self._store.list_assets(workspace, KIND)]

    def delete(self, workspace: str, name: str) -> None:
        """Twice is fine."""
        self._store.delete_asset(workspace, KIND, check_secret_name(name))

    def seal(self, workspace: str, name: str, value: str) -> str:
        """Return the value as it may be stored; it opens in that place alone."""
        # Loaded with the first secret: most servers have none.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE)
        sealed = AESGCM(self._key()).encrypt(nonce, value.encode("utf-8", "surrogatepass"), _place(workspace, name))
        return base64.b64encode(nonce + sealed).decode("ascii")

    def open(self, workspace: str, name: str, sealed: str) -> str:
        """Return what `seal` was given.

        Raises:
            StoreUnavailable: the key that it was sealed with is not there any more.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        data = base64.b64decode(sealed)
        try:
            value = AESGCM(self._key()).decrypt(data[:_NONCE], data[_NONCE:], _place(workspace, name))
        except InvalidTag as error:
            raise StoreUnavailable(
                f"The secret `{name}` of workspace `{workspace}` cannot be opened.",
                why=f"It was sealed with another key than the one in `{self._path}`, or was altered.",
                hint=f"Put the key file of that time back, or set the secret again: `runyard secrets set {name}`.",
            ) from error
        return value.decode("utf-8", "surrogatepass")

    def _key(self) -> bytes:
        if not os.path.lexists(self._path):
            make_private_file(self._path, os.urandom(_KEY_BYTES).hex())
        text = read_private_file(self._path, pattern=r"[0-9a-f]{64}", what="key of its secrets")
        return bytes.fromhex(text)


def check_secret_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name[:80]!r} cannot be the name of a secret.",
            why="It has 1 to 127 letters, digits and `-`, as in Azure.",
            hint="Write `db-password` rather than `db_password`.",
        )
    return name


def _place(workspace: str, name: str) -> bytes:
    return f"{workspace}\0{name}".encode()
