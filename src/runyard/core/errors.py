"""Every error a user can meet: what happened, why, and what to do next.

RunyardError
├── UserError                 they can fix it; the CLI prints no traceback
│   ├── InvalidArgument       (also ValueError)
│   ├── NotFound              (also LookupError)
│   ├── Conflict
│   │   └── InvalidTransition
│   ├── MissingContent        the server lacks blobs that a snapshot or file names
│   ├── NotAllowed            the token may not do this
│   ├── NotAuthenticated
│   ├── NotTrusted            the server's certificate is not the one that is trusted
│   ├── SubmitRejected        found before anything ran: script, target, environment
│   ├── SnapshotRejected      the source folder cannot be stored as it is
│   ├── NotYetSupported       (also NotImplementedError) comes with a later release
│   ├── MissingExtra          an optional library is not installed
│   └── TooLarge
└── SystemFailure             we, the disk or the network
    ├── ServerUnreachable     (also ConnectionError)
    ├── ServerNotStarted
    ├── StoreUnavailable      disk full, database locked or damaged
    └── ProtocolError         a peer sent what we cannot read
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Type


class RunyardError(Exception):
    """Base of all errors; `code` is stable and travels over HTTP."""

    code = "RunyardError"

    def __init__(self, what: str, *, why: str = "", hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint
        self.details: Dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(self.why)
        if self.hint:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)

    def to_plain(self) -> Dict[str, Any]:
        plain: Dict[str, Any] = {"code": self.code, "what": self.what, "why": self.why, "hint": self.hint}
        if self.details:
            plain["details"] = self.details
        return plain


class UserError(RunyardError):
    code = "UserError"


class InvalidArgument(UserError, ValueError):
    code = "InvalidArgument"


class NotFound(UserError, LookupError):
    code = "NotFound"


class Conflict(UserError):
    code = "Conflict"


class InvalidTransition(Conflict):
    code = "InvalidTransition"


class MissingContent(UserError):
    """`details["missing"]` lists the content ids that the server does not have."""

    code = "MissingContent"


class NotAllowed(UserError):
    code = "NotAllowed"


class NotAuthenticated(UserError):
    code = "NotAuthenticated"


class NotTrusted(UserError):
    code = "NotTrusted"


class SubmitRejected(UserError):
    code = "SubmitRejected"


class SnapshotRejected(UserError):
    code = "SnapshotRejected"


class NotYetSupported(UserError, NotImplementedError):
    code = "NotYetSupported"


class MissingExtra(UserError, ImportError):
    code = "MissingExtra"


class TooLarge(UserError):
    code = "TooLarge"


class SystemFailure(RunyardError):
    code = "SystemFailure"


class ServerUnreachable(SystemFailure, ConnectionError):
    code = "ServerUnreachable"


class ServerNotStarted(SystemFailure):
    code = "ServerNotStarted"


class StoreUnavailable(SystemFailure):
    code = "StoreUnavailable"


class ProtocolError(SystemFailure):
    code = "ProtocolError"


def error_from_plain(plain: Mapping[str, Any]) -> RunyardError:
    """Return the exception that a server's error answer describes; unknown codes keep their family's base."""
    cls = _by_code().get(str(plain.get("code")), SystemFailure)
    return cls(
        str(plain.get("what", "The server answered with an error.")),
        why=str(plain.get("why", "")),
        hint=str(plain.get("hint", "")),
        details=plain.get("details"),
    )


def _by_code() -> Dict[str, Type[RunyardError]]:
    found: Dict[str, Type[RunyardError]] = {}
    waiting = [RunyardError]
    while waiting:
        cls = waiting.pop()
        found.setdefault(cls.code, cls)
        waiting.extend(cls.__subclasses__())
    return found
