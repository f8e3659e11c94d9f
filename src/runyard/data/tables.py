"""Tables in files, read batch by batch with pyarrow: memory holds one batch and what the caller keeps."""

from __future__ import annotations

import logging
import os
import random
import tempfile
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from runyard.core.errors import InvalidArgument
from runyard.data.columns import cast, convert, load_pyarrow
from runyard.data.expressions import columns_of, mask

logger = logging.getLogger(__name__)

DELIMITED, PARQUET, JSON_LINES = "delimited", "parquet", "json_lines"
FIRST_ONLY, COMBINED = "first", "combined"  # which files have headers, beside True and False
PATH_COLUMN = "Path"
CODECS = {
    "utf8": "utf8",
    "utf8bom": "utf-8-sig",
    "iso88591": "latin-1",
    "latin1": "latin-1",
    "ascii": "ascii",
    "utf16": "utf-16",
    "utf32": "utf-32",
    "windows1252": "cp1252",
}
_WORDS = {DELIMITED: "delimited text", PARQUET: "Parquet", JSON_LINES: "lines of JSON"}
_HINTS = {
    DELIMITED: "Look at separator=, encoding= and support_multi_line=, and whether each row has as many values.",
    PARQUET: "Is it a Parquet file, and whole?",
    JSON_LINES: "invalid_lines='drop' leaves lines out that are no JSON objects; encoding= says how it is written.",
}
_BLOCK = 8 << 20
_ROWS = 65536

Batch = Any  # pyarrow.RecordBatch
Batches = Iterable[Batch]


def read_batches(
    paths: Sequence[str],
    reader: Mapping[str, Any],
    names: Sequence[str] = (),
    partitions: Sequence[Mapping[str, Any]] = (),
    *,
    fail: bool = False,
) -> Iterator[Batch]:
    """Yield the rows of the files, one after another; all have the columns of the first.

    Args:
        names: what the column `Path` says for each file, where the reader asks for it.
        partitions: the values that each file's path says, which become columns.
        fail: a value that does not fit its column's type is an error; otherwise it is null.

    Raises:
        InvalidArgument: a file cannot be read.
    """
    schema = None
    also = _all_names(paths, reader) if reader.get("header") == COMBINED else []
    for index, path in enumerate(paths):
        named = names[index] if names else path
        header = reader.get("header", True)
        if header == FIRST_ONLY and index > 0 and schema is not None:
            header = [name for name in schema.names if name != PATH_COLUMN and name not in (partitions or [{}])[0]]
        skipped = reader.get("skip_rows", 0) if index == 0 or reader.get("skip_mode") != FIRST_ONLY else 0
        with _explained(named, reader), _without_comments(path, reader) as plain:
            for read in _read(plain, {**reader, "header": header, "skip_rows": skipped}, fail):
                said = dict(partitions[index]) if partitions else {}
                batch = _with_columns(read, {**({PATH_COLUMN: named} if reader.get("include_path") else {}), **said})
                batch = _typed(batch, reader.get("types") or {}, fail)
                schema = schema or _with_names(batch.schema, also)
                yield batch if batch.schema.equals(schema) else _fitted(batch, schema, fail)


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


@contextmanager
def _explained(name: str, reader: Mapping[str, Any]) -> Iterator[None]:
    """Let what pyarrow and the codecs say reach the user in words."""
    kind = str(reader.get("format", DELIMITED))
    try:
        yield
    except (load_pyarrow().ArrowException, UnicodeError, LookupError) as error:
        raise InvalidArgument(
            f"The file `{name}` could not be read as {_WORDS[kind]}.",
            why=str(error).strip().partition("\n")[0][:500],
            hint=_HINTS[kind],
        ) from error


@contextmanager
def _without_comments(path: str, reader: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of the file without the lines that begin with the reader's `comment`."""
    mark = reader.get("comment")
    if not mark:
        yield path
        return
    encoding = _codec(reader)
    with tempfile.NamedTemporaryFile("w", encoding=encoding, newline="") as plain:
        with open(path, encoding=encoding, newline="") as lines:
            plain.writelines(line for line in lines if not line.startswith(mark))
        plain.flush()
        yield plain.name


def _read(path: str, reader: Mapping[str, Any], fail: bool) -> Iterator[Batch]:
    kind = reader.get("format", DELIMITED)
    if kind == PARQUET:
        parquet = load_pyarrow("parquet")
        yield from parquet.ParquetFile(path).iter_batches(batch_size=_ROWS)
    elif os.path.getsize(path) == 0:
        return
    elif kind == JSON_LINES:
        yield from _read_json_lines(path, reader)
    else:
        yield from _read_delimited(path, reader, fail)


def _read_json_lines(path: str, reader: Mapping[str, Any]) -> Iterator[Batch]:
    encoding, drops = _codec(reader), reader.get("invalid_lines") == "drop"
    if encoding == "utf8" and not drops:
        yield from _open_json(path)
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".jsonl") as valid:
        with open(path, encoding=encoding, errors="replace" if drops else "strict") as lines:
            valid.writelines(line for line in lines if not drops or _is_json(line))
        valid.flush()
        if os.path.getsize(valid.name):
            yield from _open_json(valid.name)


def _open_json(path: str) -> Iterator[Batch]:
    json = load_pyarrow("json")
    options = json.ReadOptions(block_size=_BLOCK)
    if hasattr(json, "open_json"):
        yield from json.open_json(path, read_options=options)
    else:  # pyarrow before 20 reads the whole file
        yield from json.read_json(path, read_options=options).to_batches(_ROWS)


def _is_json(line: str) -> bool:
    import json

    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _read_delimited(path: str, reader: Mapping[str, Any], fail: bool) -> Iterator[Batch]:
    """Read with the types that the first block suggests; from the first value that does not fit, by our own rules."""
    arrow = load_pyarrow()
    names, inferred = _first_block(path, reader)
    texts = dict.fromkeys(names, arrow.string())
    types = {**texts, **(inferred if reader.get("infer_column_types", True) else {})}
    types.update((name, arrow.string()) for name in reader.get("types") or {} if name in types)
    done = 0
    try:
        for batch in _open_delimited(path, reader, names, types):
            done += batch.num_rows
            yield batch
        return
    except arrow.ArrowInvalid as error:
        if fail or "conversion error" not in str(error):
            raise
    schema = arrow.schema(list(types.items()))
    for batch in _skip(_open_delimited(path, reader, names, texts), {"count": done}, ""):
        yield _fitted(batch, schema, fail)


def _first_block(path: str, reader: Mapping[str, Any]) -> Tuple[List[str], Dict[str, Any]]:
    """Return the columns' names, and the types that the first block suggests; an empty column is one of text."""
    arrow = load_pyarrow()
    header = reader.get("header", True)
    schema = _open_delimited(path, reader, None, {}).schema
    if isinstance(header, list):
        names = header
    else:
        names = schema.names if header else [f"Column{index + 1}" for index in range(len(schema))]
    types = [arrow.string() if arrow.types.is_null(kind) else kind for kind in schema.types]
    return names, dict(zip(names, types))


def _open_delimited(path: str, reader: Mapping[str, Any], names: Optional[List[str]], types: Mapping[str, Any]) -> Any:
    csv = load_pyarrow("csv")
    has_names = reader.get("header", True) in (True, FIRST_ONLY, COMBINED)
    read = csv.ReadOptions(
        block_size=_BLOCK,
        encoding=_codec(reader),
        skip_rows=int(reader.get("skip_rows", 0)),
        column_names=None if has_names else names,
        autogenerate_column_names=not has_names and names is None,
    )
    parse = csv.ParseOptions(
        delimiter=reader.get("separator", ","), newlines_in_values=bool(reader.get("support_multi_line"))
    )
    convert = csv.ConvertOptions(column_types=dict(types), strings_can_be_null=not reader.get("empty_as_string"))
    return csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)


def _all_names(paths: Sequence[str], reader: Mapping[str, Any]) -> List[str]:
    found: Dict[str, None] = {}
    for path in paths:
        with _explained(path, reader):
            found.update(dict.fromkeys(_first_block(path, reader)[0] if os.path.getsize(path) else ()))
    return list(found)


def _codec(reader: Mapping[str, Any]) -> str:
    """Return Python's name for an encoding of Azure's."""
    name = str(reader.get("encoding") or "utf8").lower().replace("-", "").replace("_", "")
    return CODECS.get(name, str(reader.get("encoding")))


def _with_columns(batch: Batch, values: Mapping[str, Any]) -> Batch:
    """Put columns before those of the file, each with one value."""
    if not values:
        return batch
    arrow = load_pyarrow()
    own = [name for name in batch.schema.names if name not in values]
    made = [
        arrow.array([value] * batch.num_rows, arrow.timestamp("us") if isinstance(value, datetime) else arrow.string())
        for value in values.values()
    ]
    return arrow.RecordBatch.from_arrays([*made, *map(batch.column, own)], names=[*values, *own])


def _with_names(schema: Any, names: Sequence[str]) -> Any:
    arrow = load_pyarrow()
    missing = [arrow.field(name, arrow.string()) for name in names if name not in schema.names]
    return arrow.schema([*schema, *missing])


def _typed(batch: Batch, types: Mapping[str, Any], fail: bool) -> Batch:
    """Convert the columns whose types a user set."""
    if not any(name in types for name in batch.schema.names):
        return batch
    columns = [
        convert(batch.column(name), name, types[name], fail=fail) if name in types else batch.column(name)
        for name in batch.schema.names
    ]
    return load_pyarrow().RecordBatch.from_arrays(columns, names=batch.schema.names)


def _fitted(batch: Batch, schema: Any, fail: bool) -> Batch:
    """Return the batch with the columns of another file: missing ones are empty, and types follow."""
    arrow = load_pyarrow()
    columns = [
        cast(batch.column(field.name), field.name, field.type, fail=fail)
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
        check_columns(batch, step["columns"])
        yield batch.select(list(step["columns"]))


def _drop(batches: Batches, step: Mapping[str, Any], _: str) -> Batches:
    for number, batch in enumerate(batches):
        missing = [name for name in step["columns"] if name not in batch.schema.names]
        if missing and number == 0:
            logger.warning("drop_columns: the table has no column %s.", ", ".join(map(repr, missing)))
        yield batch.select([name for name in batch.schema.names if name not in step["columns"]])


def _between(batches: Batches, step: Mapping[str, Any], timestamp: str) -> Batches:
    """Rows whose time is in a span; a side that is None is open."""
    timestamp = str(step.get("column") or timestamp)
    arrow, compute = load_pyarrow(), load_pyarrow("compute")
    first, last = _moment(step.get("first")), _moment(step.get("last"))
    inclusive = bool(step.get("inclusive", True))
    for batch in batches:
        check_columns(batch, [timestamp])
        times = convert(batch.column(timestamp), timestamp, "datetime", fail=True)
        mask = arrow.array([True] * batch.num_rows)
        if first is not None:
            after = compute.greater_equal if inclusive else compute.greater
            mask = compute.and_(mask, after(times, arrow.scalar(first, arrow.timestamp("us"))))
        if last is not None:
            before = compute.less_equal if inclusive else compute.less
            mask = compute.and_(mask, before(times, arrow.scalar(last, arrow.timestamp("us"))))
        yield batch.filter(compute.fill_null(mask, False))


def _filter(batches: Batches, step: Mapping[str, Any], _: str) -> Batches:
    for batch in batches:
        check_columns(batch, columns_of(step["condition"]))
        yield batch.filter(mask(step["condition"], batch))


_STEPS: Dict[str, Callable[[Batches, Mapping[str, Any], str], Batches]] = {
    "take": _take,
    "skip": _skip,
    "sample": _share,
    "split": _share,
    "keep": _keep,
    "drop": _drop,
    "between": _between,
    "filter": _filter,
}


def check_columns(batch: Batch, names: Sequence[str]) -> None:
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


def to_table(batches: Batches) -> Any:
    """Return all rows in memory."""
    found: List[Any] = list(batches)
    arrow = load_pyarrow()
    return arrow.Table.from_batches(found) if found else arrow.table({})
