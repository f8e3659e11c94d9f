"""Values of metrics: which are accepted, what they become, and how they are packed as journal records.

The first functions turn values of any library into plain Python scalars. The rest packs them into number cells, long
records and payloads for side files.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from types import GeneratorType
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Type, Union

from runyard.core.errors import InvalidArgument
from runyard.core.formats import journal
from runyard.core.names import check_metric_name

PLAIN = frozenset({float, int, bool, str, type(None)})
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
_NUMPY_KINDS = "biufU"  # bool, int, unsigned, float, text; not datetime64, whose item() may be a bare integer
_NOT_A_SCALAR = object()


class UseLogList(InvalidArgument):
    """`log()` was given a list; Azure's SDK raises UserErrorException here and AzureMLException elsewhere."""


def to_name(name: object) -> str:
    """Return a metric's or column's name in its one form.

    Raises:
        InvalidArgument: it cannot be one.
    """
    return _known_name(name) if type(name) is str else check_metric_name(name)


def to_logged(name: str, value: object, *, stacklevel: int) -> Any:
    """Return what `log()` stores: a plain scalar, or `repr(value)` with a warning.

    Raises:
        UseLogList: the value is a list, a range or a generator.
    """
    plain = _unwrap(value)
    if plain is not _NOT_A_SCALAR:
        return plain
    if isinstance(value, (list, range, GeneratorType)):
        raise UseLogList(
            f"The metric `{name}` was given a {type(value).__name__}, and `log()` takes one value.",
            hint=f"Use `run.log_list({name!r}, values)` for several values.",
        )
    warnings.warn(
        f"The metric `{name}` was given a {_type_name(value)}, which is no number or text; its repr() is stored.",
        stacklevel=stacklevel + 1,
    )
    return _safe_repr(value)


def to_scalar(name: str, value: object) -> Any:
    """Return `value` as a plain scalar.

    Raises:
        InvalidArgument: it is not one.
    """
    plain = _unwrap(value)
    if plain is _NOT_A_SCALAR:
        raise InvalidArgument(
            f"The metric `{name}` was given a {_type_name(value)} where one number or text belongs.",
            why=f"Found {_safe_repr(value)[:200]}.",
            hint="Use int, float, bool, str, None, or a numpy, torch or TensorFlow scalar.",
        )
    return plain


def to_scalars(name: str, values: object) -> List[Any]:
    """Return the items of any iterable as plain scalars.

    Raises:
        InvalidArgument: it cannot be iterated, or an item is no scalar.
    """
    items = list(_iterate(name, values))
    if PLAIN.issuperset(map(type, items)):
        return items
    return [to_scalar(name, item) for item in items]


def to_row(name: str, columns: Mapping[str, object]) -> Dict[str, object]:
    if not columns:
        raise InvalidArgument(
            f"The row of `{name}` has no columns.", hint=f"Give them as arguments: `run.log_row({name!r}, x=1, y=2)`."
        )
    return {to_name(str(column)): to_scalar(name, value) for column, value in columns.items()}


def to_table(name: str, value: object) -> Dict[str, List[Any]]:
    """Return a table's columns as lists of one length; a scalar is one row."""
    if not isinstance(value, Mapping):
        raise InvalidArgument(
            f"The table `{name}` was given a {_type_name(value)}.",
            hint=f"Give a dict of columns: `run.log_table({name!r}, {{'x': [1, 2], 'y': [3, 4]}})`.",
        )
    columns = {to_name(str(column)): _column(name, cells) for column, cells in value.items()}
    lengths = {column: len(cells) for column, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidArgument(
            f"The columns of the table `{name}` have different lengths.",
            why=", ".join(f"`{column}` has {length}" for column, length in lengths.items()),
            hint="Give every column one value per row; use None where a row has none.",
        )
    return columns


def to_step(name: str, step: object) -> int:
    """Return a step as an integer of 64 bits.

    Raises:
        InvalidArgument: it is not a whole number of that size.
    """
    plain = _unwrap(step)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    if isinstance(plain, int) and SMALLEST <= plain <= LARGEST:
        return int(plain)
    raise InvalidArgument(
        f"The step of the metric `{name}` is {_safe_repr(step)[:100]}.",
        why="A step is a whole number of at most 64 bits.",
        hint=f"Use `run.log({name!r}, value, step=int(...))`.",
    )


@lru_cache(maxsize=4096)
def _known_name(name: str) -> str:
    return check_metric_name(name)


def _column(name: str, cells: object) -> List[Any]:
    plain = _unwrap(cells)
    return [plain] if plain is not _NOT_A_SCALAR else to_scalars(name, cells)


def _iterate(name: str, values: object) -> Iterable[object]:
    if getattr(values, "ndim", None) == 1 and getattr(getattr(values, "dtype", None), "kind", "") in ("b", "i", "f"):
        values = values.tolist()  # type: ignore[attr-defined]  # a numpy array: one call instead of one per item
    try:
        return iter(values)  # type: ignore[call-overload,no-any-return]  # what cannot be iterated raises TypeError
    except TypeError:
        raise InvalidArgument(
            f"The metric `{name}` was given a {_type_name(values)}, which holds no items.",
            hint=f"Use `run.log({name!r}, value)` for one value.",
        ) from None


def _unwrap(value: object) -> Any:
    """Return a plain scalar or _NOT_A_SCALAR. numpy's float64 and str_ are subclasses of ours."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    try:
        return _item(value)
    except Exception:  # a stranger's object may raise anything from any attribute
        return _NOT_A_SCALAR


def _item(value: Any) -> Any:
    """Ask a numpy, torch, JAX or TensorFlow scalar for its Python value; nothing of theirs is imported."""
    if tuple(value.shape) != () or getattr(value.dtype, "kind", "f") not in _NUMPY_KINDS:
        return _NOT_A_SCALAR
    plain = value.item() if hasattr(value, "item") else value.numpy().item()
    if type(plain).__name__ in ("longdouble", "float128", "float96"):
        plain = float(plain)  # its item() is itself
    return plain if type(plain) in PLAIN else _NOT_A_SCALAR


def _type_name(value: object) -> str:
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # a broken __repr__ must not end a training run
        return object.__repr__(value)


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


def long_record(kind: int, payload: journal.Payload) -> Record:
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
