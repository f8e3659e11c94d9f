"""How large the record of a run may grow. Every list shows records whole, so one run must not make them all slow.

A person's request that goes beyond a limit is refused with the limit's number. What a run's own machinery reports is
never refused, because nobody is there to read the refusal: it is cut, and the record says how much was left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from runyard.core.errors import TooLarge
from runyard.core.formats.documents import EnvironmentFacts, RunError, RunWarning
from runyard.core.records import Run

MIB = 1 << 20
MOST_WARNINGS = 1000
MOST_WARNING_BYTES = MIB  # of all warnings of a run
MOST_TEXT = 10_000  # characters of one text in a warning or an error
MOST_ERROR_BYTES = 256 << 10
MOST_ENVIRONMENT_BYTES = 4 * MIB
MOST_NAME = 64 << 10  # characters of a run's display name
MOST_DESCRIPTION = MIB  # characters
MOST_LABELS = 100_000  # tags, properties and parameters of a run together
MOST_LABEL_BYTES = 8 * MIB
LEFT_OUT = "left_out"  # in the last warning: how many more there were

Labels = Mapping[str, "str | None"]


def add_warnings(warnings: Sequence[RunWarning], new: Sequence[RunWarning]) -> list[RunWarning]:
    """Return the warnings with the new ones behind them; those beyond the limits are counted in one last entry."""
    kept: list[RunWarning] = [{**warning} for warning in warnings if LEFT_OUT not in warning]
    left_out = sum(_count(warning.get("left_out")) for warning in warnings if LEFT_OUT in warning)
    size = sum(map(size_of, kept)) if new else 0
    for warning in new:
        if len(kept) < MOST_WARNINGS and not left_out:
            short = short_warning(warning)
            size += size_of(short)
            if size <= MOST_WARNING_BYTES:
                kept.append(short)
                continue
        left_out += 1
    return [*kept, _left_out(left_out)] if left_out else kept


def without_known(warnings: Sequence[RunWarning], new: Sequence[RunWarning]) -> list[RunWarning]:
    """Return those of the new warnings that the record does not hold yet, each once."""
    known = {_key(warning) for warning in warnings}
    fresh: dict[str, RunWarning] = {}
    for warning in new:
        key = _key(short_warning(warning))
        if key not in known:
            fresh.setdefault(key, {**warning})
    return list(fresh.values())


def short_warning(warning: RunWarning) -> RunWarning:
    """Return the warning with its texts cut; of an oversized one, source, code and message stay."""
    short = {str(key)[:MOST_TEXT]: short_texts(value) for key, value in warning.items() if key != LEFT_OUT}
    if size_of(short) <= 8 * MOST_TEXT:
        return cast("RunWarning", short)
    least = {key: short_text(str(short.get(key, ""))) for key in ("source", "code", "message") if key in short}
    return cast("RunWarning", least)


def short_error(error: Mapping[str, Any]) -> RunError:
    """Return an error with its texts cut; details that are still too large are left out, and the message says so."""
    short = {str(key)[:MOST_TEXT]: short_texts(value) for key, value in error.items()}
    size = size_of(short)
    if size <= MOST_ERROR_BYTES:
        return cast("RunError", short)
    message = short_text(str(short.get("message", "")))
    note = f"(Its details, {size:,} bytes, were left out: {MOST_ERROR_BYTES:,} bytes are the most.)"
    return {"code": str(short.get("code", ""))[:200], "message": f"{message}\n{note}"}


def short_texts(value: Any) -> Any:
    """Return a JSON value with every text in it cut to `MOST_TEXT` characters."""
    if isinstance(value, str):
        return short_text(value)
    if isinstance(value, Mapping):
        return {str(key)[:MOST_TEXT]: short_texts(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [short_texts(item) for item in value]
    return value


def short_text(text: str) -> str:
    """Return the text, or its beginning and how much was cut."""
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}… and {len(text) - MOST_TEXT:,} more characters"


def fit_environment(
    environment: EnvironmentFacts | None,
) -> tuple[EnvironmentFacts | None, list[RunWarning]]:
    """Return the facts of an environment, or none and a warning where they are too large to keep."""
    size = 0 if environment is None else size_of(environment)
    if size <= MOST_ENVIRONMENT_BYTES:
        return environment, []
    message = (
        f"The facts of the run's environment have {size:,} bytes; {MOST_ENVIRONMENT_BYTES:,} are the most. "
        "They were left out."
    )
    return None, [{"source": "environment", "message": message}]


def check_texts(run_id: str, *, display_name: str | None, description: str | None) -> None:
    """Raises: TooLarge: a run's name or description is beyond its limit."""
    for noun, text, most in (
        ("display name", display_name, MOST_NAME),
        ("description", description, MOST_DESCRIPTION),
    ):
        if text is not None and len(text) > most:
            raise TooLarge(
                f"The {noun} of run `{run_id}` has {len(text):,} characters; {most:,} are the most.",
                hint="Keep long texts in a file: run.upload_file().",
            )


def check_labels(owner: str, *labels: Labels) -> None:
    """Raises: TooLarge: together, these tags, properties and parameters are beyond the limits."""
    count, size = sum(map(len, labels)), sum(map(labels_size, labels))
    if count > MOST_LABELS or size > MOST_LABEL_BYTES:
        raise TooLarge(
            f"{owner} would have {count:,} tags and properties of {size:,} bytes.",
            why=f"{MOST_LABELS:,} of {MOST_LABEL_BYTES:,} bytes together are the most.",
            hint="Remove some first, or keep long values in a file: run.upload_file().",
        )


class LabelRoom:
    """How many more labels a record takes; what does not fit is counted."""

    def __init__(self, *labels: Labels) -> None:
        self._count = MOST_LABELS - sum(map(len, labels))
        self._size = MOST_LABEL_BYTES - sum(map(labels_size, labels))
        self.left_out = 0

    def fit(self, old: Labels, new: Labels) -> dict[str, str | None]:
        """Return those of the new labels that fit; a new value of an old one counts by its size alone."""
        fitting: dict[str, str | None] = {}
        for key, value in new.items():
            size = _label_size(key, value)
            if key in old:
                size -= _label_size(key, old[key])
            if size > self._size or (key not in old and self._count < 1):
                self.left_out += 1
                continue
            self._size -= size
            self._count -= key not in old
            fitting[key] = value
        return fitting

    def notes(self) -> list[RunWarning]:
        """Return a warning for the labels that did not fit; none when all did."""
        if not self.left_out:
            return []
        message = (
            f"{self.left_out:,} tags or properties were left out: {MOST_LABELS:,} of {MOST_LABEL_BYTES:,} bytes "
            "together are the most of one run."
        )
        return [{"source": "tags", "message": message}]


def record_size(run: Run) -> int:
    """Return roughly how many bytes a run's record has: what can grow in it."""
    labels = labels_size(run.tags) + labels_size(run.properties) + labels_size(run.parameters)
    return labels + len(run.description) + size_of([run.warnings, run.environment, run.error])


def labels_size(labels: Labels) -> int:
    """Return the size of labels as they are stored, in bytes."""
    return sum(_label_size(key, value) for key, value in labels.items())


def size_of(value: Any) -> int:
    """Return the size of a JSON value as it is stored, in bytes."""
    try:
        return len(json.dumps(value, separators=(",", ":"), default=str))
    except RecursionError:
        return 1 << 62


def _label_size(key: str, value: str | None) -> int:
    return len(key) + len(value or "")


def _left_out(count: int) -> RunWarning:
    message = (
        f"… and {count:,} more warnings. A run keeps {MOST_WARNINGS:,} warnings of {MOST_WARNING_BYTES:,} bytes in all."
    )
    return {"source": "runyard", "message": message, "left_out": count}


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 1


def _key(warning: RunWarning) -> str:
    return json.dumps(warning, sort_keys=True, default=str)
