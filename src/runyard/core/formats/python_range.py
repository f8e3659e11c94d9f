"""Ranges of Python versions, as `requires-python`, conda files and Poetry write them: `>=3.9,<3.13`, `~=3.10`, `^3.9`.

Only released versions of Python are compared, so numbers are enough.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Tuple

_PART = re.compile(r"(===|==|!=|~=|>=|<=|>|<|=|\^|~)?\s*v?(\d+(?:\.\d+)*)(\.\*|\*)?")
_OLDEST, _NEWEST = 4, 40  # minor versions of Python 3 that a range may mean
_Number = Tuple[int, ...]
_COMPARE: Dict[str, Callable[[_Number, _Number], bool]] = {
    ">=": lambda found, limit: found >= limit,
    "<=": lambda found, limit: found <= limit,
    ">": lambda found, limit: found > limit,
    "<": lambda found, limit: found < limit,
}


def is_range(text: str) -> bool:
    """Whether the text is a range, not one version (`3.11`, `3.11.4`)."""
    return text.strip().startswith(("<", ">", "=", "!", "~", "^"))


def plain_range(text: str) -> str:
    """Return a range in the words of PEP 440: Poetry's and conda's `^3.9`, `~3.9`, `=3.9` and `||` are rewritten.

    Of `||` the last alternative is taken: the newest.

    Raises:
        ValueError: it is no range of versions.
    """
    parts: List[str] = []
    for part in filter(None, re.split(r"[,\s]+(?=[<>=!~^\d])", text.split("||")[-1].strip().strip(","))):
        if part in ("*", ">=*"):
            continue
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is no range of versions")
        parts += _plain(match.group(1) or "==", match.group(2), bool(match.group(3)), is_bare=match.group(1) is None)
    return ",".join(parts)


def fits(version: str, wanted: str) -> bool:
    """Whether a version of Python lies in a range of `plain_range`; an empty range holds every version."""
    number = _number(version)
    for part in filter(None, wanted.split(",")):
        match = _PART.fullmatch(part.strip())
        if match is None:
            return False
        operator, limit, is_prefix = match.group(1) or "==", _number(match.group(2)), bool(match.group(3))
        if operator in ("==", "===", "!=", "="):
            is_same = number[: len(limit)] == limit if is_prefix else _padded(number) == _padded(limit)
            if is_same == (operator == "!="):
                return False
        elif operator == "~=":
            if _padded(number) < _padded(limit) or number[: len(limit) - 1] != limit[:-1]:
                return False
        elif not _COMPARE[operator](_padded(number), _padded(limit)):
            return False
    return True


def nearest(wanted: str, own: str) -> str:
    """Return the version, as two numbers, that is next to `own` in a range; `own` itself where it or nothing fits."""
    number = _number(own)
    minors = sorted(range(_OLDEST, _NEWEST), key=lambda minor: (abs(minor - number[1]), -minor))
    versions = [own, *(f"3.{minor}.{patch}" for minor in minors for patch in (99, 0))]
    found = next((version for version in versions if fits(version, wanted)), own)
    return ".".join(found.split(".")[:2])


def lowest(wanted: str) -> str:
    """Return the lowest version that a range names, for a build that may fetch one; "" when it names none."""
    found = re.findall(r"(?:>=|==|~=)\s*(\d+\.\d+)", wanted)
    return max(found, key=_number) if found else ""


def _plain(operator: str, version: str, is_prefix: bool, *, is_bare: bool) -> List[str]:
    numbers = _number(version)
    if operator == "^":
        at = next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)
        return [f">={version}", f"<{_next(numbers, at)}"]
    if operator == "~":
        return [f">={version}", f"<{_next(numbers, min(1, len(numbers) - 1))}"]
    if operator in ("=", "==") and (is_prefix or operator == "=" or (is_bare and len(numbers) < 3)):
        return [f"=={version}.*"]
    if operator in ("<", ">", "<=", ">=") or not is_prefix:
        return [operator + version]
    return [f"{operator}{version}.*"]


def _next(numbers: _Number, at: int) -> str:
    return ".".join(str(number) for number in [*numbers[:at], numbers[at] + 1])


def _number(version: str) -> _Number:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _padded(number: _Number) -> _Number:
    return (*number, 0, 0, 0)[:3]
