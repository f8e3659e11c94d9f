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
│   ├── SubmissionLost        what a queued run was submitted with, and no database holds, is gone or damaged
│   ├── SnapshotRejected      the source folder cannot be stored as it is
│   ├── RunFailed             a run that was waited for failed or was canceled
│   ├── NotYetSupported       (also NotImplementedError) comes with a later release
│   │   ├── AbsentName        (also AttributeError) a name of Azure's SDK that Runyard does not have
│   │   └── AbsentModule      (also ModuleNotFoundError) a module of it, likewise
│   ├── MissingExtra          an optional library is not installed
│   └── TooLarge
└── SystemFailure             we, the disk or the network
    ├── ServerUnreachable     (also ConnectionError)
    ├── ServerNotStarted
    ├── BadGateway            a proxy between us and the server answered in its place
    ├── StoreUnavailable      disk full, database locked or away
    │   └── DamagedContent    stored bytes are damaged or missing; trying again does not help
    ├── TooManyRequests       one caller holds too much at once; later it works
    └── ProtocolError         a peer sent what we cannot read

Every failed call is one of two kinds, and `is_later` decides which: the server's verdict on what was asked or sent,
which stays the same however often it is repeated; or an outage, which passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Type

if TYPE_CHECKING:
    from runyard.core.formats.documents import ErrorAnswer

NOTICE_HEADER = "x-runyard-notice"  # of answers: a kind, a space, and what a person should know about the server
_PASSING_STATUSES = (408, 425, 429)


class RunyardError(Exception):
    """Base of all errors; `code` is stable and travels over HTTP."""

    code = "RunyardError"
    status = 0  # of the server's own answer that it came with; 0: it was raised on this side

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
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def to_plain(self) -> ErrorAnswer:
        plain: ErrorAnswer = {"code": self.code, "what": self.what, "why": self.why, "hint": self.hint}
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


class SubmissionLost(UserError):
    code = "SubmissionLost"


class SnapshotRejected(UserError):
    code = "SnapshotRejected"


class RunFailed(UserError):
    """`details["runs"]` maps the ids of the runs that did not complete to their statuses."""

    code = "RunFailed"


class NotYetSupported(UserError, NotImplementedError):
    code = "NotYetSupported"


class AbsentName(NotYetSupported, AttributeError):
    code = "AbsentName"


class AbsentModule(NotYetSupported, ModuleNotFoundError):
    code = "AbsentModule"


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


class BadGateway(SystemFailure):
    code = "BadGateway"


class StoreUnavailable(SystemFailure):
    code = "StoreUnavailable"


class DamagedContent(StoreUnavailable):
    code = "DamagedContent"


class TooManyRequests(SystemFailure):
    code = "TooManyRequests"


class ProtocolError(SystemFailure):
    code = "ProtocolError"


def is_later(error: RunyardError) -> bool:
    """Whether the same request may succeed later. False: the server has judged it, and would judge it the same again.

    A verdict is a 4xx answer of our own server (501 names what it cannot do). All else is an outage: any other 5xx,
    429 and 408, answers that are not ours, and every fault of the connection, a certificate that is not trusted
    included. An outage lasts as long as it lasts: a holder of data that must not be lost retries without a limit.
    """
    if isinstance(error, DamagedContent):
        return False
    if error.status:
        return error.status in _PASSING_STATUSES or (error.status >= 500 and error.status != 501)
    return isinstance(error, (SystemFailure, NotTrusted))


def error_from_plain(plain: Mapping[str, Any], *, status: int = 0) -> RunyardError:
    """Return the exception that a server's error answer describes; an unknown code becomes its family's base."""
    unknown = UserError if 400 <= status < 500 else SystemFailure
    cls = _by_code().get(str(plain.get("code")), unknown)
    error = cls(
        str(plain.get("what", "The server answered with an error.")),
        why=str(plain.get("why", "")),
        hint=str(plain.get("hint", "")),
        details=plain.get("details"),
    )
    error.status = status
    return error


def _by_code() -> Dict[str, Type[RunyardError]]:
    found: Dict[str, Type[RunyardError]] = {}
    waiting = [RunyardError]
    while waiting:
        cls = waiting.pop()
        found.setdefault(cls.code, cls)
        waiting.extend(cls.__subclasses__())
    return found
