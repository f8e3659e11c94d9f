"""What waits to be written: number cells, long records, payloads for side files."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type, Union

from runyard.core.formats import journal
from runyard.runtime.values import LARGEST, SMALLEST

Packer = Tuple[int, Callable[..., bytes]]  # the kind of a number cell and what packs it


class Packers(Dict[type, Packer]):
    """How a value of each type is packed. Pickled, it starts anew: what `struct` made cannot travel."""

    def __init__(self) -> None:
        super().__init__()
        self[float] = (journal.FLOAT, journal.pack_number)
        self[int] = (journal.INT, journal.pack_integer)
        self[bool] = (journal.BOOL, journal.pack_integer)

    def __reduce__(self) -> Tuple[Type[Packers], Tuple[()]]:
        return Packers, ()


PACKERS = Packers()


class Cell(NamedTuple):
    """A number; its name gets its id from the segment that it is written to."""

    name: str
    packer: Packer
    flags: int
    step: int
    time: int
    value: Any


class Side(NamedTuple):
    """A payload that goes into a file of its own."""

    kind: int
    body: bytes


Record = Union[Cell, Side, bytes]


def long_record(kind: int, payload: Dict[str, Any]) -> Record:
    body = journal.dump(payload)
    return Side(kind, body) if len(body) > journal.MAX_PAYLOAD else journal.pack_payload(kind, body)


def value_record(name: str, value: Any, step: Optional[int], time: int) -> Record:
    """Return the record of one plain scalar."""
    packer = packer_of(value)
    if packer is None:
        return long_record(journal.VALUES, {"name": name, "values": [value], "step": step, "t": time})
    return Cell(name, packer, 0 if step is None else journal.HAS_STEP, step or 0, time, value)


def list_records(name: str, values: List[Any], time: int) -> List[Record]:
    """Return the records of plain scalars in order: numbers as cells, each run of others as one long record."""
    records: List[Record] = []
    others: List[Any] = []
    for value in values:
        packer = packer_of(value)
        if packer is None:
            others.append(value)
            continue
        if others:
            records.append(_values(name, others, time))
            others = []
        records.append(Cell(name, packer, 0, 0, time, value))
    if others:
        records.append(_values(name, others, time))
    return records


def packer_of(value: Any) -> Optional[Packer]:
    """Return how a plain scalar fits into a number cell, or None."""
    packer = PACKERS.get(type(value))
    if packer is not None and packer[0] == journal.INT and not SMALLEST <= value <= LARGEST:
        return None
    return packer


def _values(name: str, values: List[Any], time: int) -> Record:
    return long_record(journal.VALUES, {"name": name, "values": values, "step": None, "t": time})
