"""MLflow's search language: comparisons joined by AND, and `order_by` clauses. Parsed here, never run as code.

comparison := key operator value, or key IS NULL, key IS NOT NULL
key        := metrics.x, params.x, tags.x, datasets.x, attributes.x or an attribute alone; odd names in ` or "
value      := a number, a text in ' or ", or a list of texts in parentheses

A `Grammar` says which keys a kind of record has. `parse_clauses` and `parse_order` give plain values; `fits` tests a
clause on a value for records that are few enough to be tested one by one. A text is taken as it is: no escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from runyard.core.formats.filters import OPERATORS
from runyard.server.mlflow.errors import MlflowError

MAX_LENGTH = 100_000
MAX_CLAUSES = 200  # SQLite takes expressions of depth 1,000 and joins of 64 tables
MAX_ORDERS = 30
METRIC, PARAM, TAG, ATTRIBUTE, DATASET = "metric", "parameter", "tag", "attribute", "dataset"
EQUALITY = ("=", "!=")
SIZES = ("<", "<=", "=", "!=", ">", ">=")
LIKES = ("LIKE", "ILIKE")
LISTS = ("IN", "NOT IN")
NULLS = ("IS NULL", "IS NOT NULL")
_NAMES = {
    **dict.fromkeys(("metric", "metrics"), METRIC),
    **dict.fromkeys(("parameter", "parameters", "param", "params"), PARAM),
    **dict.fromkeys(("tag", "tags"), TAG),
    **dict.fromkeys(("attribute", "attributes", "attr", "run"), ATTRIBUTE),
    **dict.fromkeys(("dataset", "datasets"), DATASET),
}
_PART = r"""(?:`[^`]*`|"[^"]*"|[\w$\#@]+)"""
_KEY = rf"{_PART}(?:\.{_PART})*"
_TOKEN = re.compile(
    rf"""(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>'(?:''|\\'|[^'])*')|(?P<op><=|>=|!=|<>|=|<|>)|(?P<mark>[(),;])|(?P<key>{_KEY})|(?P<odd>\S)""",
    re.VERBOSE,
)
_ORDER = re.compile(rf"\s*(?P<key>{_KEY})(?:\s+(?P<direction>\S+))?\s*")


@dataclass(frozen=True)
class Clause:
    """One comparison. `value`: a float for metrics, a number for numeric attributes, a tuple for lists, else text."""

    kind: str
    key: str
    op: str
    value: str | float | int | tuple[str, ...] | None = None


@dataclass(frozen=True)
class OrderBy:
    """One key of an order."""

    kind: str
    key: str
    ascending: bool = True


@dataclass(frozen=True)
class Grammar:
    """What searches of one kind of record may name."""

    kinds: tuple[str, ...]  # of keys
    attributes: tuple[str, ...]
    orders: tuple[str, ...]  # attributes that an order may name
    numeric: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()  # attributes that IN takes
    null_kinds: tuple[str, ...] = ()  # of keys that IS NULL takes
    spellings: tuple[str, ...] = tuple(_NAMES)  # of kinds, as they may be written
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of attributes


RUNS = Grammar(
    kinds=(METRIC, PARAM, TAG, ATTRIBUTE, DATASET),
    attributes=("run_id", "run_name", "user_id", "status", "artifact_uri", "start_time", "end_time"),
    orders=("run_id", "run_name", "user_id", "status", "artifact_uri", "start_time", "end_time"),
    numeric=("start_time", "end_time"),
    listed=("run_id",),
    null_kinds=(PARAM, TAG),
    aliases={
        **dict.fromkeys(("created", "Created"), "start_time"),
        **dict.fromkeys(("run name", "Run name", "Run Name"), "run_name"),
    },
)
EXPERIMENTS = Grammar(
    kinds=(ATTRIBUTE, TAG),
    attributes=("name", "experiment_id", "creation_time", "last_update_time"),
    orders=("name", "experiment_id", "creation_time", "last_update_time"),
    numeric=("creation_time", "last_update_time"),
    listed=("experiment_id",),
    null_kinds=(TAG,),
    spellings=("attribute", "tag", "tags"),
)
REGISTERED_MODELS = Grammar(
    kinds=(ATTRIBUTE, TAG),
    attributes=("name",),
    orders=("name", "creation_timestamp", "last_updated_timestamp"),
    listed=("name",),
    spellings=("attribute", "tag", "tags"),
    aliases={"timestamp": "last_updated_timestamp"},
)
MODEL_VERSIONS = Grammar(
    kinds=(ATTRIBUTE, TAG),
    attributes=("name", "version_number", "run_id", "source_path"),
    orders=("name", "version_number", "creation_timestamp", "last_updated_timestamp"),
    numeric=("version_number",),
    listed=("name", "run_id"),
    spellings=("attribute", "tag", "tags"),
)
_LOGGED_MODEL = (
    "name",
    "model_id",
    "model_type",
    "status",
    "source_run_id",
    "experiment_id",
    "creation_timestamp",
    "creation_time",
    "last_updated_timestamp",
    "last_updated_time",
)
LOGGED_MODELS = Grammar(
    kinds=(METRIC, PARAM, TAG, ATTRIBUTE),
    attributes=_LOGGED_MODEL,
    orders=_LOGGED_MODEL,
    numeric=("creation_timestamp", "creation_time", "last_updated_timestamp", "last_updated_time"),
    listed=("name", "model_id", "model_type", "status", "source_run_id", "experiment_id"),
    spellings=tuple(name for name in _NAMES if not name.startswith("dataset")),
)


def parse_clauses(text: str, grammar: Grammar) -> list[Clause]:
    """Return the comparisons of a filter; none for an empty one.

    Raises:
        MlflowError: it cannot be read, in MLflow's words.
    """
    if len(text) > MAX_LENGTH:
        raise MlflowError(f"The filter has {len(text)} characters; {MAX_LENGTH} is the most.")
    parser = _FilterParser(text, grammar)
    clauses = []
    while (clause := parser.next_clause()) is not None:
        clauses.append(clause)
        if len(clauses) > MAX_CLAUSES:
            raise MlflowError(f"The filter has more than {MAX_CLAUSES} comparisons.")
    return clauses


def parse_order(text: str, grammar: Grammar) -> OrderBy:
    """Return the key and direction of an `order_by` clause.

    Raises:
        MlflowError: it cannot be read, in MLflow's words.
    """
    match = _ORDER.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise MlflowError(f"Invalid order_by clause '{text[:300]}'. Could not be parsed.")
    direction = (match["direction"] or "asc").lower()
    if direction not in ("asc", "desc"):
        raise MlflowError(f"Invalid ordering key in order_by clause '{text[:300]}'.")
    kind, key = _key_of(match["key"], grammar, grammar.orders)
    if kind == DATASET:
        raise MlflowError(f"Invalid identifier type '{kind}'")
    return OrderBy(kind, key, direction == "asc")


def fits(clause: Clause, value: str | float | int | None) -> bool:
    """Whether a record with that value (None: it lacks the key) fits the clause. NaN fits `!=` alone."""
    if clause.op in NULLS:
        return (value is None) == (clause.op == "IS NULL")
    if value is None:
        return False
    if clause.op in LISTS:
        return (value in _texts(clause.value)) == (clause.op == "IN")
    if clause.op in LIKES:
        flags = re.DOTALL | (re.IGNORECASE if clause.op == "ILIKE" else 0)
        return re.fullmatch(like_pattern(str(clause.value)), str(value), flags) is not None
    return bool(OPERATORS[clause.op](value, clause.value))


def like_pattern(pattern: str) -> str:
    """Return the regular expression of a LIKE pattern: `%` is any text, `_` one character."""
    return "".join({"%": ".*", "_": "."}.get(part, re.escape(part)) for part in re.findall("%+|.", pattern, re.DOTALL))


def _texts(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


class _FilterToken(NamedTuple):
    kind: str  # number, text, op, mark, key, odd or end
    text: str


_END = _FilterToken("end", "")


class _FilterParser:
    def __init__(self, text: str, grammar: Grammar) -> None:
        self._grammar = grammar
        self._tokens = list(_split(text))
        self._next = 0

    def next_clause(self) -> Clause | None:
        while self._word(0) == "AND":
            self._next += 1
        if self._peek(0) is _END:
            return None
        if self._peek(0).kind != "key":
            self._refuse_clause()
        left = self._peek(0).text
        op, length = self._operator()
        self._next += 1 + length
        kind, key = _key_of(left, self._grammar, self._grammar.attributes)
        if op in NULLS:
            if kind not in self._grammar.null_kinds:
                allowed = " and ".join(f"{name}s" for name in ("tag", "param") if self._allows_null(name))
                raise MlflowError(
                    f"IS NULL / IS NOT NULL is only supported for {allowed or 'nothing'}, not for '{kind}' '{key}'"
                )
            return Clause(kind, key, op)
        value = self._value(kind, key, op)
        self._check_operator(kind, key, op)
        return Clause(kind, key, op, value)

    def _allows_null(self, name: str) -> bool:
        return _NAMES[name] in self._grammar.null_kinds

    def _operator(self) -> tuple[str, int]:
        """Return the operator behind a key, and how many tokens it has."""
        words = [self._word(at) for at in (1, 2, 3)]
        if self._peek(1).kind == "op":
            return {"<>": "!="}.get(self._peek(1).text, self._peek(1).text), 1
        if words[0] in (*LIKES, "IN"):
            return words[0], 1
        if words[:2] == ["NOT", "IN"]:
            return "NOT IN", 2
        if words == ["IS", "NOT", "NULL"]:
            return "IS NOT NULL", 3
        if words[:2] == ["IS", "NULL"]:
            return "IS NULL", 2
        self._refuse_clause()

    def _refuse_clause(self) -> NoReturn:
        """Refuse what is no comparison: the words up to the next AND."""
        clause: list[str] = []
        while self._peek(0) is not _END and not (clause and self._word(0) == "AND"):
            clause.append(self._peek(0).text)
            self._next += 1
        raise MlflowError(f"Invalid clause(s) in filter string: '{' '.join(clause)[:300]}'")

    def _value(self, kind: str, key: str, op: str) -> str | float | int | tuple[str, ...]:
        token = self._peek(0)
        if token is _END or self._word(0) == "AND":
            raise MlflowError("Invalid comparison clause. Expected 3 tokens found 2")
        self._next += 1
        if kind == METRIC:
            if token.kind != "number":
                raise MlflowError(f"Expected numeric value type for metric. Found {token.text[:300]}")
            return float(token.text)
        if kind == ATTRIBUTE and key in self._grammar.numeric:
            if token.kind != "number":
                raise MlflowError(f"Expected numeric value type for numeric attribute: {key}. Found {token.text[:300]}")
            return int(token.text) if re.fullmatch(r"-?\d{1,18}", token.text) else float(token.text)
        if token.text == "(" and kind in (ATTRIBUTE, DATASET):
            if kind == ATTRIBUTE and key not in self._grammar.listed:
                raise MlflowError(
                    f"Only {sorted(self._grammar.listed)} attributes support comparison with a list of quoted string "
                    "values."
                )
            return self._list()
        return _text_of(kind, token)

    def _list(self) -> tuple[str, ...]:
        values: list[str] = []
        while self._peek(0).text != ")":
            token = self._peek(0)
            quoted = token.kind == "text" or (token.kind == "key" and token.text[:1] == '"' == token.text[-1:])
            if token.kind == "number":
                raise MlflowError(
                    "While parsing a list in the query, expected string value, punctuation, or whitespace, but got "
                    f"different type in list: {token.text[:100]}"
                )
            if not quoted or self._peek(1).text not in (",", ")"):
                raise MlflowError(
                    "While parsing a list in the query, expected a non-empty list of string values, but got "
                    "ill-formed list."
                )
            values.append(token.text[1:-1])
            self._next += 2 if self._peek(1).text == "," else 1
        self._next += 1
        if not values:
            raise MlflowError(
                "While parsing a list in the query, expected a non-empty list of string values, but got empty list"
            )
        return tuple(values)

    def _check_operator(self, kind: str, key: str, op: str) -> None:
        if kind == METRIC or (kind == ATTRIBUTE and key in self._grammar.numeric):
            allowed: tuple[str, ...] = SIZES
        elif kind in (PARAM, TAG):
            allowed = (*EQUALITY, *LIKES, *(NULLS if kind in self._grammar.null_kinds else ()))
        else:
            is_listed = kind == DATASET or key in self._grammar.listed
            allowed = (*EQUALITY, *LIKES, *(LISTS if is_listed else ()))
            is_list = self._next and self._peek(-1).text == ")"
            if op in LISTS and not is_list:
                allowed = (*EQUALITY, *LIKES)
            elif is_list:
                allowed = LISTS
        if op not in allowed:
            raise MlflowError(f"Invalid comparator '{op}' not one of '{set_of(allowed)}'")

    def _peek(self, ahead: int) -> _FilterToken:
        at = self._next + ahead
        return self._tokens[at] if at < len(self._tokens) else _END

    def _word(self, ahead: int) -> str:
        token = self._peek(ahead)
        return token.text.upper() if token.kind == "key" else ""


def _split(text: str) -> Iterator[_FilterToken]:
    for match in _TOKEN.finditer(text):
        yield _FilterToken(str(match.lastgroup), match[0])


def _key_of(text: str, grammar: Grammar, attributes: tuple[str, ...]) -> tuple[str, str]:
    written, dot, key = text.partition(".")
    kind = ATTRIBUTE
    if not dot:
        key = written
    else:
        written = _without(written, "`")
        if written not in grammar.spellings:
            raise MlflowError(f"Invalid entity type '{written[:300]}'. Valid values are {list(grammar.kinds)}")
        kind = _NAMES[written]
    key = _without(_without(_without(key, '"'), "'"), "`")
    if kind == ATTRIBUTE:
        key = grammar.aliases.get(key, key)
        if key not in attributes:
            raise MlflowError(f"Invalid attribute key '{key[:300]}' specified. Valid keys are '{set_of(attributes)}'")
    if kind == DATASET and key not in ("name", "digest", "context"):
        valid = set_of(("name", "digest", "context"))
        raise MlflowError(f"Invalid dataset key '{key[:300]}' specified. Valid keys are '{valid}'")
    return kind, key


def _text_of(kind: str, token: _FilterToken) -> str:
    text = token.text
    if token.kind == "text" or (token.kind == "key" and len(text) > 1 and text[0] == '"' == text[-1]):
        return text[1:-1]
    if token.kind == "key":
        raise MlflowError(
            f"Parameter value is either not quoted or unidentified quote types used for string value {text[:300]}. "
            "Use either single or double quotes."
        )
    if kind in (PARAM, TAG):
        raise MlflowError(f"Expected a quoted string value for {kind} (e.g. 'my-value'). Got value {text[:300]}")
    noun = "dataset attributes" if kind == DATASET else "attributes"
    raise MlflowError(f"Expected a quoted string value for {noun}. Got value {text[:300]}")


def _without(text: str, mark: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == mark == text[-1] else text


def set_of(names: tuple[str, ...]) -> str:
    """Return names as MLflow's messages list them."""
    return "{" + ", ".join(repr(name) for name in sorted(names)) + "}"
