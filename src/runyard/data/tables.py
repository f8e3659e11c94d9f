"""Tables in files, read batch by batch with pyarrow: memory holds one batch and what the caller keeps."""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from runyard.core.errors import InvalidArgument
from runyard.core.plugins import load_extra

DELIMITED, PARQUET, JSON_LINES = "delimited", "parquet", "json_lines"
PATH_COLUMN = "Path"
_BLOCK = 8 << 20
_ROWS = 65536

Batch = Any  # pyarrow.RecordBatch
Batches = Iterable[Batch]


def read_batches(paths: Sequence[str], reader: Mapping[str, Any], names: Sequence[str] = ()) -> Iterator[Batch]:
    """Yield the rows of the files, one after another; all have the columns of the first.

    Args:
        names: what the column `Path` says for each file, where the reader asks for it.
    """
    schema = None
    for index, path in enumerate(paths):
        for read in _read(path, reader):
            named = names[index] if names else path
            batch = _with_path(read, named) if reader.get("include_path") else read
            schema = schema or batch.schema
            yield batch if batch.schema.equals(schema) else _fitted(batch, schema)


def apply_steps(batches: Batches, steps: Sequence[Mapping[str, Any]], timestamp: str = "") -> Batches:
    """Narrow the rows or columns, step by step, lazily.

    Raises:
        InvalidArgument: a step that tables do not know.
    """
    for step in steps:
        what = str(step.get("do"))
        if what not in _STEPS:
            raise InvalidArgument(f"A dataset of tables cannot {what!r}.")
        batches = _STEPS[what](batches, step, timestamp)
    return batches


def _read(path: str, reader: Mapping[str, Any]) -> Iterator[Batch]:
    kind = reader.get("format", DELIMITED)
    if kind == PARQUET:
        parquet = load_pyarrow("parquet")
        yield from parquet.ParquetFile(path).iter_batches(batch_size=_ROWS)
    elif kind == JSON_LINES:
        yield from _read_json_lines(path)
    else:
        yield from _read_delimited(path, reader)


def _read_json_lines(path: str) -> Iterator[Batch]:
    json = load_pyarrow("json")
    options = json.ReadOptions(block_size=_BLOCK)
    if os.path.getsize(path) == 0:
        return
    if hasattr(json, "open_json"):
        yield from json.open_json(path, read_options=options)
    else:  # pyarrow before 20 reads the whole file
        yield from json.read_json(path, read_options=options).to_batches(_ROWS)


def _read_delimited(path: str, reader: Mapping[str, Any]) -> Iterator[Batch]:
    if os.path.getsize(path) == 0:
        return
    csv = load_pyarrow("csv")
    has_header = bool(reader.get("header", True))
    read = csv.ReadOptions(
        block_size=_BLOCK, encoding=reader.get("encoding", "utf8"), autogenerate_column_names=not has_header
    )
    parse = csv.ParseOptions(
        delimiter=reader.get("separator", ","), newlines_in_values=bool(reader.get("support_multi_line"))
    )
    types = {name: _type(kind) for name, kind in (reader.get("types") or {}).items()}
    if not reader.get("infer_column_types", True):
        names = csv.open_csv(path, read_options=read, parse_options=parse).schema.names
        types = {**dict.fromkeys(names, _type("string")), **types}
    convert = csv.ConvertOptions(column_types=types, strings_can_be_null=not reader.get("empty_as_string"))
    for batch in csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert):
        yield batch if has_header else _numbered(batch)


def _numbered(batch: Batch) -> Batch:
    """Columns without a header are called Column1, Column2 …"""
    return batch.rename_columns([f"Column{index + 1}" for index in range(batch.num_columns)])


def _with_path(batch: Batch, path: str) -> Batch:
    arrow = load_pyarrow()
    column = arrow.array([path] * batch.num_rows)
    return arrow.RecordBatch.from_arrays([column, *batch.columns], names=[PATH_COLUMN, *batch.schema.names])


def _fitted(batch: Batch, schema: Any) -> Batch:
    """Return the batch with the columns of another file: missing ones are empty, and types follow."""
    arrow = load_pyarrow()
    columns = [
        batch.column(field.name).cast(field.type, safe=False)
        if field.name in batch.schema.names
        else arrow.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)


def _take(batches: Batches, step: Mapping[str, Any], _: str) -> Batches:
    left = int(step["count"])
    for batch in batches:
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def _skip(batches: Batches, step: Mapping[str, Any], _: str) -> Batches:
    left = int(step["count"])
    for batch in batches:
        if left < batch.num_rows:
            yield batch.slice(left)
        left = max(0, left - batch.num_rows)


def _share(batches: Batches, step: Mapping[str, Any], _: str) -> Batches:
    """Each row is in or out by a number of its own: the same seed shares the rows out in the same way."""
    arrow = load_pyarrow()
    numbers, fraction = random.Random(str(step.get("seed"))), float(step["fraction"])
    wanted = not step.get("rest", False)
    for batch in batches:
        mask = [(numbers.random() < fraction) is wanted for _ in range(batch.num_rows)]
        yield batch.filter(arrow.array(mask, type=arrow.bool_()))


def _keep(batches: Batches, step: Mapping[str, Any], _: str) -> Batches:
    for batch in batches:
        _check_columns(batch, step["columns"])
        yield batch.select(list(step["columns"]))


def _drop(batches: Batches, step: Mapping[str, Any], _: str) -> Batches:
    for batch in batches:
        _check_columns(batch, step["columns"])
        yield batch.select([name for name in batch.schema.names if name not in step["columns"]])


def _between(batches: Batches, step: Mapping[str, Any], timestamp: str) -> Batches:
    """Rows whose time is in a span; a side that is None is open."""
    arrow, compute = load_pyarrow(), load_pyarrow("compute")
    first, last = _moment(step.get("first")), _moment(step.get("last"))
    inclusive = bool(step.get("inclusive", True))
    for batch in batches:
        _check_columns(batch, [timestamp])
        times = compute.cast(batch.column(timestamp), arrow.timestamp("us"))
        mask = arrow.array([True] * batch.num_rows)
        if first is not None:
            after = compute.greater_equal if inclusive else compute.greater
            mask = compute.and_(mask, after(times, arrow.scalar(first, arrow.timestamp("us"))))
        if last is not None:
            before = compute.less_equal if inclusive else compute.less
            mask = compute.and_(mask, before(times, arrow.scalar(last, arrow.timestamp("us"))))
        yield batch.filter(compute.fill_null(mask, False))


def recent_step(seconds: float, now: datetime) -> Dict[str, Any]:
    return {"do": "between", "first": (now - timedelta(seconds=seconds)).isoformat(), "last": None, "inclusive": True}


_STEPS: Dict[str, Callable[[Batches, Mapping[str, Any], str], Batches]] = {
    "take": _take,
    "skip": _skip,
    "sample": _share,
    "split": _share,
    "keep": _keep,
    "drop": _drop,
    "between": _between,
}


def _check_columns(batch: Batch, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in batch.schema.names]
    if missing:
        raise InvalidArgument(
            f"The table has no column {', '.join(map(repr, missing))}.",
            why=f"Its columns: {', '.join(batch.schema.names)}.",
        )


def _moment(text: Optional[str]) -> Optional[datetime]:
    if text is None:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is None else found.astimezone(timezone.utc).replace(tzinfo=None)


def _type(kind: str) -> Any:
    arrow = load_pyarrow()
    known = {
        "string": arrow.string(),
        "long": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "datetime": arrow.timestamp("us"),
    }
    return known[kind]


def load_pyarrow(part: str = "") -> Any:
    """Load pyarrow, or one of its parts: only tables need it."""
    return load_extra(
        f"pyarrow.{part}" if part else "pyarrow",
        needs="Datasets of tables need",
        hint="`pip install 'runyard[tables]'`, or `pip install pyarrow pandas` in the run's environment.",
    )


def to_table(batches: Batches) -> Any:
    """Return all rows in memory."""
    found: List[Any] = list(batches)
    arrow = load_pyarrow()
    return arrow.Table.from_batches(found) if found else arrow.table({})
