"""The filter language of lists of runs: `metrics.loss < 0.1 and tags.team = "vision"`. Parsed here, never run as code.

filter     := and-terms joined by `or`; `and` binds closer, `not` closest, parentheses group
comparison := field operator value, or a field alone: the run has it
field      := status, experiment, name, type, target, user, number, created, duration, metrics.<name>,
              params.<name>, tags.<key>, properties.<key>

Metrics and `number` are numbers, `created` is a time, and `duration` is seconds or a text such as 90s 15m 2h 1d. The
duration of a run that has not ended is its time so far. All other fields are text for = and !=. Parameters, tags and
properties are compared as numbers by < <= > >=. A run that lacks the field, or has no number there, fits no comparison;
`not` turns that round.
"""

from __future__ import annotations

import difflib
import operator
import re
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Tuple, Union

from runyard.core.errors import InvalidArgument
from runyard.core.lazy_dataclass import dataclass
from runyard.core.statuses import RunStatus

MAX_LENGTH = 4000
MAX_DEPTH = 20
MAX_COMPARISONS = 100
PRESENT = "present"
OPERATORS: Dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

PLAIN_FIELDS = ("status", "experiment", "name", "type", "target", "user", "number", "created", "duration")
KEYED_FIELDS = ("metrics", "params", "tags", "properties")
EXAMPLE = 'metrics.loss < 0.1 and tags.team = "vision"'

_OPTIONAL = (*KEYED_FIELDS, "name", "type", "user", "duration")  # a run may lack them
_EQUALITY = ("=", "!=")
_ORDERED = (*KEYED_FIELDS, "number", "created", "duration")
_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>[()])|(?P<op><=|>=|!=|==|=|<|>)"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[^\s()<>=!"']+))""",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_WORD = re.compile(r"""[^\s()<>=!"']+""")
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII)


@dataclass(frozen=True)
class Comparison:
    """`field[.key] op value`. The value: a number for metrics, `number`, `duration` (seconds) and wherever labels are
    compared by size, a time for `created`, else text; `present` has none."""

    field: str
    op: str
    value: Union[str, float, datetime, Tuple[str, ...], None] = None
    key: str = ""


@dataclass(frozen=True)
class Junction:
    op: str  # "and" or "or"
    parts: Tuple[Filter, ...]


@dataclass(frozen=True)
class Negation:
    part: Filter


Filter = Union[Comparison, Junction, Negation]


def parse_filter(text: str) -> Filter:
    """Return what the text asks for.

    Raises:
        InvalidArgument: it cannot be read; says where, why, and how it would be right.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidArgument(f"The filter has {len(text)} characters; {MAX_LENGTH} is the most.")
    return _Parser(text).parse()


@dataclass(frozen=True)
class Field:
    """What lists of runs are compared, sorted and grouped by: `status`, `metrics.loss`."""

    name: str
    key: str = ""

    @property
    def title(self) -> str:
        return f"{self.name}.{self.key}" if self.key else self.name

    @property
    def text(self) -> str:
        """The field as a filter spells it."""
        if not self.key:
            return self.name
        return f"{self.name}.{self.key if _WORD.fullmatch(self.key) else quoted(self.key)}"


def parse_field(text: str) -> Field:
    """Return the field of a name such as `status` or `metrics.loss`; whatever is behind the dot is the name.

    Raises:
        InvalidArgument: there is none of that name.
    """
    name, dot, key = text.partition(".")
    if (name in KEYED_FIELDS and key) or (name in PLAIN_FIELDS and not dot):
        return Field(name, key)
    raise InvalidArgument(f"There is no field `{text[:60]}`.", hint=_advice(name))


def fitting(field: Field, value: Union[str, float, None]) -> str:
    """Return the filter that asks for runs with that value in the field; None: without the field."""
    if value is None:
        return f"not {field.text}"
    return f"{field.text} = {quoted(value) if isinstance(value, str) else repr(value)}"


def _advice(name: str) -> str:
    known = [*PLAIN_FIELDS, *(f"{field}.<name>" for field in KEYED_FIELDS)]
    near = difflib.get_close_matches(name, [*PLAIN_FIELDS, *KEYED_FIELDS], n=1)
    return f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(known)}."


def quoted(text: str) -> str:
    """Return `text` as a value that a filter can hold, whatever is in it."""
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def find_number(text: Optional[str]) -> Optional[float]:
    """Return the number that a label's text is, for comparisons by size."""
    return float(text) if text is not None and _NUMBER.fullmatch(text) else None


def holds(wanted: Filter, test: Callable[[Comparison], bool]) -> bool:
    """Whether the filter is true where `test` says which comparisons are."""
    if isinstance(wanted, Comparison):
        return test(wanted)
    if isinstance(wanted, Negation):
        return not holds(wanted.part, test)
    combine = all if wanted.op == "and" else any
    return combine(holds(part, test) for part in wanted.parts)


def conjuncts(wanted: Optional[Filter]) -> List[Comparison]:
    """Return comparisons that every run must fit."""
    if isinstance(wanted, Comparison):
        return [wanted]
    if isinstance(wanted, Junction) and wanted.op == "and":
        return [found for part in wanted.parts for found in conjuncts(part)]
    return []


class _Token(NamedTuple):
    kind: str  # mark, op, text, word or end
    text: str
    at: int
    end: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0
        self._comparisons = 0

    def parse(self) -> Filter:
        found = self._either(0)
        rest = self._peek()
        if rest.kind != "end":
            self._fail(rest, f"Found `{rest.text}` where `and`, `or` or the end should be.")
        return found

    def _either(self, depth: int) -> Filter:
        return self._joined("or", lambda: self._joined("and", lambda: self._term(depth)))

    def _joined(self, word: str, parse: Callable[[], Filter]) -> Filter:
        parts = [parse()]
        while self._takes(word):
            parts.append(parse())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _term(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            self._fail(self._peek(), f"It is nested more than {MAX_DEPTH} deep.")
        if self._takes("not"):
            return Negation(self._term(depth + 1))
        if self._takes("("):
            found = self._either(depth + 1)
            if not self._takes(")"):
                self._fail(self._peek(), "A closing `)` is missing.")
            return found
        return self._comparison()

    def _comparison(self) -> Comparison:
        start = self._peek()
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            self._fail(start, f"It has more than {MAX_COMPARISONS} comparisons.")
        field, key = self._field()
        token = self._peek()
        if token.kind != "op":
            if field in _OPTIONAL and (token.kind in ("end", "mark") or token.text.lower() in ("and", "or")):
                return Comparison(field, PRESENT, None, key)
            self._fail(token, f"After `{field}` a comparison should be: {' '.join(OPERATORS)}.")
        op = "=" if token.text == "==" else token.text
        if op not in _EQUALITY and field not in _ORDERED:
            self._fail(token, f"`{field}` is text: it is compared by = or != only.")
        self._next += 1
        return Comparison(field, op, self._value(field, op), key)

    def _field(self) -> Tuple[str, str]:
        token = self._take()
        if token.kind != "word":
            self._fail(token, "A field should be here." if token.kind != "end" else "It ends where a field should be.")
        field, dot, key = token.text.partition(".")
        if dot and not key:
            key = self._quoted_key(token)
        if field in KEYED_FIELDS:
            if not key:
                self._fail(token, f"`{field}` needs a name, such as `{field}.loss`.")
            return field, key
        if field in PLAIN_FIELDS and not dot:
            return field, ""
        self._fail(token, f"There is no field `{token.text[:60]}`. {_advice(field)}")

    def _quoted_key(self, before: _Token) -> str:
        token = self._peek()
        if token.kind != "text" or token.at != before.end:
            return ""
        self._next += 1
        return _unquoted(token.text)

    def _value(self, field: str, op: str) -> Union[str, float, datetime]:
        token = self._take()
        if token.kind not in ("word", "text"):
            self._fail(token, "A value should be here.")
        text = _unquoted(token.text) if token.kind == "text" else token.text
        if field in ("metrics", "number") or (field in KEYED_FIELDS and op not in _EQUALITY):
            return self._number(token, field)
        if field == "duration":
            return self._duration(token)
        if field == "created":
            return self._time(token, text)
        return self._status(token, text) if field == "status" else text

    def _number(self, token: _Token, field: str) -> float:
        if token.kind != "word" or not _NUMBER.fullmatch(token.text):
            alone = {"metrics": "A metric is compared with a number.", "number": "`number` is compared with a number."}
            self._fail(token, alone.get(field, f"`{field}` are compared by size with a number only."))
        return float(token.text)

    def _duration(self, token: _Token) -> float:
        match = _DURATION.fullmatch(token.text)
        if match is None:
            self._fail(token, "`duration` is compared with seconds, or such as 90s, 15m, 2h, 1d.")
        return float(match[1]) * _UNITS[match[2]]

    def _time(self, token: _Token, text: str) -> datetime:
        match = _TIME.fullmatch(text)
        try:
            if match is None:
                raise ValueError(text)
            day, minute, second, fraction, zone = match.groups()
            clock = f"{minute or '00:00'}{second or ':00'}{(fraction or '.0').ljust(7, '0')}"
            zone = "+00:00" if zone in (None, "Z") else zone
            return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(timezone.utc)
        except (ValueError, OverflowError):
            self._fail(token, "`created` is compared with a time: 2026-11-15, or 2026-11-15T10:30 (UTC).")

    def _status(self, token: _Token, text: str) -> str:
        known = {status.value.lower(): status.value for status in RunStatus}
        if text.lower() not in known:
            self._fail(token, f"There is no status `{text[:40]}`. There are: {', '.join(known.values())}.")
        return known[text.lower()]

    def _takes(self, word: str) -> bool:
        token = self._peek()
        if token.kind in ("word", "mark") and token.text.lower() == word:
            self._next += 1
            return True
        return False

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        if token.kind != "end":
            self._next += 1
        return token

    def _split(self) -> List[_Token]:
        tokens, at = [], 0
        while self._text[at:].strip():
            match = _TOKEN.match(self._text, at)
            if match is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                odd = self._text[at]
                why = "A text is not closed." if odd in "\"'" else f"`{odd}` means nothing here."
                self._fail(_Token("odd", odd, at, at + 1), why)
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind), match.end()))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text.rstrip()), len(self._text))]

    def _fail(self, token: _Token, why: str) -> NoReturn:
        start = max(0, token.at - 60)
        shown = re.sub(r"\s", " ", self._text[start : token.at + 40])
        raise InvalidArgument(
            f"The filter cannot be read at character {token.at + 1}. {why}",
            why=f"  {shown}\n  {' ' * (token.at - start)}^",
            hint=f"A filter looks like this: {EXAMPLE}",
        )


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
