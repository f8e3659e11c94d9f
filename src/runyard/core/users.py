"""The users of a team's server: each has a role and one or more tokens."""

from __future__ import annotations

import re
from dataclasses import field
from datetime import datetime
from typing import List, NamedTuple, Optional

from runyard.core.errors import InvalidArgument
from runyard.core.lazy_dataclass import dataclass

ADMIN, USER, READER = "admin", "user", "reader"
ROLES = (ADMIN, USER, READER)
DEFAULT_LABEL = "first"
TOKEN_PREFIX = "ryu_"
_NAME = re.compile(r"[a-zA-Z0-9][\w.@\-]{0,63}", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z0-9][\w.\-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class UserToken:
    """One of a user's tokens; the token itself is nowhere."""

    label: str
    created_at: datetime
    seen_at: Optional[datetime] = None  # to the minute


@dataclass(frozen=True)
class User:
    name: str
    role: str
    created_at: datetime
    tokens: List[UserToken] = field(default_factory=list)  # oldest first


class MintedToken(NamedTuple):
    """A token as it is told this once."""

    user: User
    token: str

    def __repr__(self) -> str:
        return f"MintedToken(user={self.user.name!r})"


@dataclass(frozen=True)
class Access:
    """What one token of a user opens. `token_id` is never given again."""

    name: str
    role: str
    token_id: int


@dataclass(frozen=True)
class RunAccess:
    """What a run's token opens. `user` answers for the run, "" is the server's owner; `role` is None once the user is
    removed.
    """

    run_id: str
    attempt: int
    workspace: str
    user: str = ""
    role: Optional[str] = None
    external_writer: int = 0  # the number of a process that logs from outside; 0: a process of the attempt


def run_access(
    run_id: str,
    attempt: int,
    external_writer: int,
    workspace: str,
    *,
    owner: Optional[str],
    submitted_by: str,
    role: Optional[str],
) -> RunAccess:
    """Return what a token opens; `role` is that of the user named `owner`, else `submitted_by`.

    A run from before owners were recorded belongs to the user of its submitter's name, else to the server's owner.
    """
    user = owner if owner is not None else submitted_by if role is not None else ""
    return RunAccess(run_id, attempt, workspace, user, role, external_writer)


def check_user_name(value: str) -> str:
    return _checked(_NAME, value, "a user's name", "Letters, digits, `_`, `-`, `.` and `@`, at most 64, such as `ada`.")


def check_token_label(value: str) -> str:
    return _checked(
        _LABEL, value, "a token's label", "Letters, digits, `_`, `-` and `.`, at most 64, such as `laptop`."
    )


def check_role(value: str) -> str:
    if value not in ROLES:
        raise InvalidArgument(f"There is no role {value[:40]!r}.", hint=f"Roles: {', '.join(ROLES)}.")
    return value


def _checked(pattern: re.Pattern[str], value: str, what: str, rule: str) -> str:
    if not pattern.fullmatch(value):
        raise InvalidArgument(f"{value[:80]!r} is not {what}.", hint=rule)
    return value
