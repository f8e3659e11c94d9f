"""What MLflow's server refuses in names, values and sizes, in its words, which clients and their tests look for."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from urllib.parse import unquote

from runyard.server.mlflow.errors import MlflowError

MOST_METRICS, MOST_PARAMS, MOST_TAGS, MOST_ENTITIES = 1000, 100, 100, 1000
MOST_KEY, MOST_PARAM, MOST_TAG = 250, 6000, 8000
MOST_EXPERIMENT_TAG = 20_000
MOST_TIMESTAMP = (1 << 63) // 1_000_000 - 1  # ms of a time that is kept in ns
MOST_DECODINGS = 10  # of a name that was encoded again and again
_RELATIVE = re.compile(r"(^|[/\\])\.\.([/\\]|$)|\x00")
_OUTSIDE = re.compile(rf"{_RELATIVE.pattern}|^[/\\]|^[A-Za-z]:[/\\]")
_KEY = re.compile(r"[/\w.\- :]*")


def check_key(key: str, path: str, noun: str) -> str:
    """Return the name of a metric, a parameter or a tag."""
    if not _KEY.fullmatch(key):
        raise _wrong(
            path,
            key,
            "Names may only contain alphanumerics, underscores (_), dashes (-), periods (.), spaces ( ), colon(:) and "
            "slashes (/).",
        )
    return check_length(check_path(key, path), noun, MOST_KEY)


def check_path(key: str, path: str) -> str:
    """Return a name that is the same as a path of a file."""
    plain = posixpath.normpath(key)
    if plain != key or plain == "." or plain.startswith(("..", "/")):
        raise _wrong(
            path,
            key,
            "Names may be treated as files in certain cases, and must not resolve to other names when treated as such. "
            f"This name would resolve to {plain!r}",
        )
    return key


def check_length(value: str, noun: str, most: int) -> str:
    """Return a text that is not too long."""
    if len(value) > most:
        raise MlflowError(f"'{noun}' exceeds the maximum length of {most} characters")
    return value


def check_timestamp(timestamp: int, key: str, value: float, path: str) -> int:
    """Return the time of a metric in ms."""
    if not 0 <= timestamp <= MOST_TIMESTAMP:
        raise _wrong(
            path, timestamp, f"metric '{key}' (value={value}). Timestamp must be a nonnegative long (64-bit integer) "
        )
    return timestamp


def check_batch(metrics: int, params: int, tags: int) -> None:
    """Raises: MlflowError: one request logs too much."""
    for noun, most, count in (
        ("metrics", MOST_METRICS, metrics),
        ("params", MOST_PARAMS, params),
        ("tags", MOST_TAGS, tags),
        ("metrics, params, and tags", MOST_ENTITIES, metrics + params + tags),
    ):
        if count > most:
            raise MlflowError(
                f"A batch logging request can contain at most {most} {noun}. Got {count} {noun}. "
                f"Please split up {noun} across multiple requests and try again."
            )


def check_unique(keys: Sequence[str]) -> None:
    """Raises: MlflowError: one request logs a parameter twice."""
    twice = [key for index, key in enumerate(keys) if key in keys[:index]]
    if twice:
        raise MlflowError(
            f"Duplicate parameter keys have been submitted: {twice}. Please ensure the request contains only one param "
            "value per param key."
        )


def leads_out(path: str, *, may_be_absolute: bool = False) -> bool:
    """Whether a path has `..` or NUL in it or is absolute, however often it was encoded; far too often is as bad."""
    pattern = _RELATIVE if may_be_absolute else _OUTSIDE
    for _ in range(MOST_DECODINGS):
        if pattern.search(path):
            return True
        path, before = unquote(path), path
        if path == before:
            return False
    return True


def _wrong(path: str, value: object, message: str) -> MlflowError:
    return MlflowError(f"Invalid value {json.dumps(value)} for parameter '{path}' supplied: {message}")
