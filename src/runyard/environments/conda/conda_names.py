"""Conda's package specifications read as pip's: names that mean the same on PyPI, versions in pip's words. Pure."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Dict, List, NamedTuple, Optional

_PAIRS_FILE = "conda_pairs.txt"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._\-]*")
_CHANNEL = re.compile(r"^\S*::")
_IN_BRACKETS = re.compile(r"\[(.*)\]\s*$")
_VERSION_KEY = re.compile(r"\bversion\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([^\s,\]]+))")
_ONE = re.compile(r"(==|!=|>=|<=|~=|>|<|=)?\s*([0-9][0-9A-Za-z.!+_\-]*?)(\.?\*)?")
NOTHING = "-"


class CondaSpec(NamedTuple):
    name: str
    version: str  # as conda writes it, without the build: "", "=1.5", ">=1,<2"


class Translated(NamedTuple):
    requirements: List[str]  # pip's
    unknown: List[str]  # specifications whose name or version says nothing to pip
    left_out: List[str]  # names that wheels bring along


def translate(specs: List[str]) -> Translated:
    """Return conda's specifications as pip requirements, as far as they have the same meaning there."""
    found = Translated([], [], [])
    for spec in specs:
        parsed = parse_spec(spec)
        name = find_pair(parsed.name)
        version = pip_version(parsed.version)
        if name == NOTHING:
            found.left_out.append(parsed.name)
        elif name is None or version is None:
            found.unknown.append(spec)
        else:
            found.requirements.append(name + version)
    return found


def parse_spec(spec: str) -> CondaSpec:
    """Return name and version of `channel::name=1.5=build`, `name >=1,<2`, `name 1.5 build`, `name[version='1.5']`."""
    text = _CHANNEL.sub("", spec.strip())
    brackets = _IN_BRACKETS.search(text)
    if brackets:
        text = text[: brackets.start()]
    match = _NAME.match(text)
    if match is None:
        return CondaSpec(spec.strip(), "")
    name, rest = match.group().lower(), text[match.end() :]
    in_brackets = _VERSION_KEY.search(brackets.group(1)) if brackets else None
    if in_brackets:
        return CondaSpec(name, next(part for part in in_brackets.groups() if part is not None))
    return CondaSpec(name, _without_build(rest))


def pip_version(version: str) -> Optional[str]:
    """Return conda's version limits in pip's words; None when pip has none for them (`1.5|1.7`)."""
    if not version or version in ("*", "=*", "==*"):
        return ""
    limits = [_pip_limit(limit.strip()) for limit in version.split(",")]
    return None if None in limits else ",".join(limit for limit in limits if limit)


def find_pair(name: str) -> Optional[str]:
    """Return the same package's name on PyPI, `-` for what wheels bring along, None when no pair is known."""
    return all_pairs().get(name.lower())


@lru_cache(maxsize=None)
def all_pairs() -> Dict[str, str]:
    """Return the pairs of conda_pairs.txt: conda's name → PyPI's."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), _PAIRS_FILE), encoding="utf-8") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    return {words[0]: words[-1] for words in lines if words}


def _without_build(rest: str) -> str:
    """Return what follows the name less a build: `=1.5=py36_0` and ` 1.5 py36_0` name exactly that version."""
    rest = re.sub(r"\s*([,|<>=!~]+)\s*", r"\1", rest.strip())
    words = rest.split()
    if len(words) > 1 or (words and words[0][0].isdigit() and not words[0].endswith("*") and "," not in words[0]):
        exact = words[0].lstrip("=")
        return "==" + exact if exact[:1].isdigit() else words[0]
    built = re.fullmatch(r"={1,2}([^=<>!~,|]+)=[^=]+", rest)
    return "==" + built.group(1) if built else rest


def _pip_limit(limit: str) -> Optional[str]:
    if limit in ("", "*"):
        return ""
    match = _ONE.fullmatch(limit)
    if match is None:
        return None
    operator, number, star = match.groups()
    number = number.rstrip(".")
    if operator in (">=", "<=", ">", "<", "~="):
        return operator + number
    if operator == "!=":
        return "!=" + number + (".*" if star else "")
    if operator == "==" and not star:
        return "==" + number
    return f"=={number}.*" if star or operator == "=" else "==" + number
