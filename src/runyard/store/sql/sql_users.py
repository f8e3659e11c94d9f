"""SqlStore's part for users of a team's server: names, roles and the hashes of their tokens."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, delete, select, update

from runyard.core.users import Access, User, UserToken
from runyard.store.rules import label_is_taken, no_user, user_is_taken
from runyard.store.sql.database import Session
from runyard.store.sql.rows import SqlPart
from runyard.store.sql.schema import user_tokens, users
from runyard.store.sql.statements import Insert, Statement, Upsert
from runyard.store.text import clean, from_microseconds, to_microseconds

_ADD = Upsert(users, "name", "role", "created_us", keys=("name",))
_ROW = select(users.c.id, users.c.name, users.c.role, users.c.created_us)
_NAMED = Statement(_ROW.where(users.c.name == bindparam("user_name")))
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


class SqlUsers(SqlPart):
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
            if any(found[0] == label for found in session.all(_TOKENS, row=row[0])):
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
    row = session.one(_NAMED_TO_CHANGE if to_change else _NAMED, user_name=clean(name))
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
