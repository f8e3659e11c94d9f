"""Columns of tables: their conversion to the types that a user sets. A value that does not fit is null, or an error."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Sequence, Union

from runyard.core.errors import InvalidArgument
from runyard.core.plugins import load_extra

Array = Any  # pyarrow.Array
ColumnType = Union[str, Mapping[str, Any]]  # string, long, float, bool, datetime, stream; or {"kind": …} with options
_ARROW_FORMAT = re.compile(r"(?:[^%]|%[YmdHMSy])*")
_USUAL_FORMATS = (
    "%m/%d/%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%d.%m.%Y",
    "%Y%m%d",
)


def load_pyarrow(part: str = "") -> Any:
    """Load pyarrow, or one of its parts: only tables need it."""
    return load_extra(
        f"pyarrow.{part}" if part else "pyarrow",
        needs="Datasets of tables need",
        hint="`pip install 'runyard[tables]'`, or `pip install pyarrow pandas` in the run's environment.",
    )


def convert(column: Array, name: str, wanted: ColumnType, *, fail: bool) -> Array:
    """Return the column in the type that a user set.

    Raises:
        InvalidArgument: `fail` is set, and a value does not fit.
    """
    arrow, compute = load_pyarrow(), load_pyarrow("compute")
    options: Mapping[str, Any] = {"kind": wanted} if isinstance(wanted, str) else wanted
    kind = str(options["kind"])
    if _is_text(column.type) and kind not in ("string", "stream"):
        trimmed = compute.utf8_trim_whitespace(column)
        column = compute.if_else(compute.equal(trimmed, ""), arrow.scalar(None, trimmed.type), trimmed)
        mark = options.get("decimal_mark", ".")
        if mark != ".":
            column = compute.replace_substring(column, pattern=mark, replacement=".")
        if kind == "datetime":
            return _datetimes(column, name, options.get("formats") or (), fail=fail)
    return cast(column, name, arrow_type(kind), fail=fail)


def cast(column: Array, name: str, target: Any, *, fail: bool) -> Array:
    """Return the column in a type of pyarrow's; what does not fit is null.

    Raises:
        InvalidArgument: `fail` is set, and a value does not fit.
    """
    if column.type.equals(target):
        return column
    faults: List[Any] = []
    parts = _cast_parts(column, target, faults)
    if faults and fail:
        raise _unfit(name, target, faults)
    return load_pyarrow().concat_arrays(parts)


def cut_out_of_range(table: Any, *, fail: bool) -> Any:
    """Return the table without the times that pandas cannot hold in nanoseconds, 1677 to 2262: they are null.

    Raises:
        InvalidArgument: `fail` is set, and there is one.
    """
    arrow, compute = load_pyarrow(), load_pyarrow("compute")
    for index, field in enumerate(table.schema):
        is_wide = arrow.types.is_timestamp(field.type) and field.type.unit != "ns"
        if not is_wide and not arrow.types.is_date(field.type):
            continue
        first, last = (arrow.scalar(datetime(year, 1, 1), arrow.timestamp("us")) for year in (1678, 2262))
        naive = compute.cast(table.column(index), arrow.timestamp("us"))
        outside = compute.or_(compute.less(naive, first), compute.greater_equal(naive, last))
        if not compute.any(outside).as_py():
            continue
        if fail:
            raise InvalidArgument(
                f"Column {field.name!r} holds times that pandas cannot: {naive.filter(outside)[0].as_py()}.",
                hint="to_pandas_dataframe(out_of_range_datetime='null') gives null for them.",
            )
        kept = compute.if_else(outside, arrow.scalar(None, field.type), table.column(index))
        table = table.set_column(index, field, kept)
    return table


def arrow_type(kind: str) -> Any:
    arrow = load_pyarrow()
    known = {
        "string": arrow.string(),
        "stream": arrow.string(),
        "long": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "datetime": arrow.timestamp("us"),
    }
    return known[kind]


def kind_of(arrow_type: Any) -> str:
    """Return the nearest type that a user could set."""
    types = load_pyarrow().types
    tests: Dict[str, Any] = {
        "long": types.is_integer,
        "float": types.is_floating,
        "bool": types.is_boolean,
        "datetime": types.is_temporal,
    }
    return next((kind for kind, test in tests.items() if test(arrow_type)), "string")


def _is_text(kind: Any) -> bool:
    types = load_pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _cast_parts(column: Array, target: Any, faults: List[Any]) -> List[Array]:
    """Cast all at once; where that fails, the halves: few faults cost little."""
    arrow = load_pyarrow()
    try:
        return [load_pyarrow("compute").cast(column, target)]
    except arrow.ArrowException:
        if len(column) == 1:
            faults.append(column[0].as_py())
            return [arrow.nulls(1, target)]
        middle = len(column) // 2
        return [*_cast_parts(column[:middle], target, faults), *_cast_parts(column[middle:], target, faults)]


def _datetimes(column: Array, name: str, formats: Sequence[str], *, fail: bool) -> Array:
    """Read texts as times: by the formats that were given, else ISO 8601 and the usual ones, month before day."""
    arrow, compute = load_pyarrow(), load_pyarrow("compute")
    found = arrow.nulls(len(column), arrow.timestamp("us"))
    for attempt in formats or ("", "Z", *_USUAL_FORMATS):
        left = compute.and_(compute.is_valid(column), compute.is_null(found))
        if not compute.any(left).as_py():
            break
        texts = compute.if_else(left, column, arrow.scalar(None, column.type))
        found = compute.coalesce(found, _parsed(texts, attempt))
    unread = column.filter(compute.and_(compute.is_valid(column), compute.is_null(found)))
    if fail and len(unread):
        raise _unfit(name, "datetime", unread[:1].to_pylist())
    return found


def _parsed(texts: Array, form: str) -> Array:
    arrow, compute = load_pyarrow(), load_pyarrow("compute")
    if form in ("", "Z"):  # ISO 8601, without and with an offset
        zoned = arrow.concat_arrays(_cast_parts(texts, arrow.timestamp("us", tz="UTC" if form else None), []))
        return compute.cast(zoned, arrow.timestamp("us"))
    if _ARROW_FORMAT.fullmatch(form):
        return compute.strptime(texts, format=form, unit="us", error_is_null=True)
    distinct = {text: _moment(text, form) for text in compute.unique(texts).to_pylist() if text is not None}
    return arrow.array([distinct.get(text) for text in texts.to_pylist()], arrow.timestamp("us"))


def _moment(text: str, form: str) -> Any:
    try:
        found = datetime.strptime(text, form)
    except ValueError:
        return None
    return found if found.tzinfo is None else found.astimezone(timezone.utc).replace(tzinfo=None)


def _unfit(name: str, wanted: object, faults: Sequence[Any]) -> InvalidArgument:
    return InvalidArgument(
        f"Column {name!r} holds a value that is no {wanted}: {str(faults[0])[:100]!r}.",
        hint="on_error='null' gives null for it; set_column_types={'column': DataType.to_string()} keeps its text.",
    )
