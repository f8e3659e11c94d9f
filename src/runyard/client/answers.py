"""What the calls return beside the records of `core`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Type, TypeVar, Union

from runyard.client.transport import Response
from runyard.core.errors import ProtocolError
from runyard.core.plain import from_plain
from runyard.core.records import Mark, Run
from runyard.core.statuses import RunStatus

T = TypeVar("T")


@dataclass(frozen=True)
class ServerInfo:
    id: str
    version: str
    api: int
    pid: int
    host: str
    url: str = ""
    home: str = ""
    started_at: str = ""
    runs_live: int = 0
    idle_stop_s: float = 0.0


@dataclass(frozen=True)
class CreatedRun:
    """`token` and `folder` are there for a run that we do not launch: its watcher needs them."""

    run: Run
    token: Optional[str] = field(default=None, repr=False)
    folder: Optional[str] = None


@dataclass(frozen=True)
class RunPage:
    runs: List[Run]
    next: Optional[str] = None


@dataclass(frozen=True)
class SeriesValues:
    """All values of one series. Numbers are a view of the answer's bytes: `to_list` makes Python values of them."""

    metric: str
    kind: str  # scalar, table or artifact
    column: str
    rank: int
    type: str  # f8, i8, b1 or json
    count: int
    values: Union[memoryview[int], memoryview[float], List[Any]]
    file: Optional[str] = None

    def to_list(self) -> List[Any]:
        return self.values.tolist() if isinstance(self.values, memoryview) else list(self.values)


@dataclass(frozen=True)
class FilePart:
    data: bytes
    size: int  # of the whole file, now
    complete: bool  # it will not grow


@dataclass(frozen=True)
class ShipAnswer:
    marks: List[Mark]
    logs: Dict[str, int] = field(default_factory=dict)
    desired: Optional[str] = None
    attempt: int = 0


@dataclass(frozen=True)
class RunWish:
    """What the server wants of a run: the answer to heartbeats and state reports."""

    desired: Optional[str] = None
    desired_error: Optional[Dict[str, Any]] = None
    attempt: int = 0
    status: Optional[RunStatus] = None


def read_record(cls: Type[T], response: Response) -> T:
    """Return the answer as a `cls`.

    Raises:
        ProtocolError: the server sent something else.
    """
    return _record(cls, response.json())


def read_records(cls: Type[T], response: Response) -> List[T]:
    plain = response.json()
    if not isinstance(plain, list):
        raise ProtocolError("The server's answer cannot be read.", why=f"A list was due, {type(plain).__name__} came.")
    return [_record(cls, item) for item in plain]


def _record(cls: Type[T], plain: Any) -> T:
    try:
        return from_plain(cls, plain)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ProtocolError(
            "The server's answer cannot be read.",
            why=f"It does not describe a {cls.__name__}: {error}.",
            hint="Client and server may be of different versions: `runyard server status` shows the server's.",
        ) from error
