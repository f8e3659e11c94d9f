"""What the gateway is told about services: plain records, the same on the control socket and in its state file."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any, List, Mapping, Tuple, Type, TypeVar

from runyard.core.errors import InvalidArgument
from runyard.serving.protocol import Json

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"[0-9a-f]{64}")

Record = TypeVar("Record")


@dataclass(frozen=True)
class RevisionConfig:
    """One revision of a service: whose workers belong to it, and its limits."""

    number: int
    worker_token: str = ""  # the SHA-256 of what its workers say
    scoring_timeout_ms: int = 60_000
    max_wait_ms: int = 60_000  # in the queue, while there is a worker
    cold_start_ms: int = 120_000  # in the queue, while there is none
    max_queue: int = 1024
    max_body: int = 100 << 20
    failed: str = ""  # why it cannot answer; "": it can


@dataclass(frozen=True)
class ServiceConfig:
    """A service: who may call it, and which share of its requests each revision gets."""

    name: str
    id: str = ""
    auth: bool = True
    keys: Tuple[str, ...] = ()  # SHA-256 of each
    token_secret: str = field(default="", repr=False)
    revisions: Tuple[RevisionConfig, ...] = ()
    weights: Tuple[Tuple[int, float], ...] = ()
    port: int = 0  # of a listener of its own on loopback; 0: none
    cors_origins: Tuple[str, ...] = ()
    failure_status: int = 502  # of a run() that raised
    timeout_status: int = 504
    server_version: str = ""

    def to_plain(self) -> Json:
        return asdict(self)

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> ServiceConfig:
        """Return the record; fields that a newer peer knows are dropped.

        Raises:
            InvalidArgument: a field has no usable value.
        """
        values = dict(plain)
        try:
            values["revisions"] = tuple(_read(RevisionConfig, one) for one in plain.get("revisions") or ())
            values["weights"] = tuple((int(number), float(weight)) for number, weight in plain.get("weights") or ())
            for name in ("keys", "cors_origins"):
                values[name] = tuple(str(one) for one in plain.get(name) or ())
            found = _read(ServiceConfig, values)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument("A service's record cannot be read.", why=f"{error}.") from error
        fault = _fault_of(found)
        if fault:
            raise InvalidArgument(f"The service `{found.name}` cannot be served.", why=fault)
        return found


def _read(kind: Type[Record], plain: Mapping[str, Any]) -> Record:
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]  # both are dataclasses
    return kind(**{name: value for name, value in plain.items() if name in known})


def _fault_of(service: ServiceConfig) -> str:
    """Return why the record cannot be used; "" when it can."""
    numbers: List[int] = [one.number for one in service.revisions]
    if not isinstance(service.name, str) or not _NAME.fullmatch(service.name):
        return "A name has letters, digits, dots, dashes and underscores."
    if len(set(numbers)) != len(numbers):
        return f"A revision is there twice: {numbers}."
    if any(number not in numbers or weight < 0 for number, weight in service.weights):
        return f"The weights {list(service.weights)} do not fit the revisions {numbers}."
    if not all(_DIGEST.fullmatch(one) for one in (*service.keys, *(r.worker_token for r in service.revisions))):
        return "Keys and the tokens of workers are given as their SHA-256, 64 hexadecimal digits."
    if service.auth and not service.keys and not service.token_secret:
        return "It wants keys (auth) and has neither keys nor a secret for tokens."
    return ""
