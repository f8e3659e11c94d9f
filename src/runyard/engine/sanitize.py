"""Hides secrets in a run's arguments, variables and command, and makes text from runs safe to store.

The processes get the secrets; the stored record does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runyard.core.config.logins import HIDDEN, hide_passwords
from runyard.core.formats.plain import to_plain
from runyard.core.secret_names import is_plural, is_secret
from runyard.core.secret_values import hide_values
from runyard.core.specs import EnvironmentSpec, RunSpec

__all__ = ["HIDDEN", "redact", "redact_arguments", "redact_command", "redact_variables"]

# A word of a shell's command: what is between spaces, with its quotes.
_WORD = re.compile(r"(?:[^\s'\"\\;|&()]|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\")+|['\"]")
_ASSIGNMENT = re.compile(r"([-+]{0,2}[A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_FLAG = re.compile(r"-{1,2}[A-Za-z]")
# Options of other programs that say nothing by their names: `curl -u name:password`, `sshpass -p password`.
_LOGIN = frozenset({"-u", "--user", "--proxy-user", "-U", "--login", "--auth"})
_LOGIN_VALUE = re.compile(r"([^:/\s]+):(?!//)(.*[^\d].*)")
_PASSWORD_OPTIONS = {"sshpass": "-p", "mysql": "-p", "mysqldump": "-p", "redis-cli": "-a", "login": "-p"}
_ENDS_COMMAND = frozenset(";|&()\n")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def redact(spec: RunSpec) -> RunSpec:
    """Return the spec as it may be stored and shown; the same object when it holds no secret."""
    environment = _redact_environment(spec.environment)
    shown = replace(
        spec,
        arguments=redact_arguments(spec.arguments),
        command=redact_command(spec.command) if spec.command else spec.command,
        variables=redact_variables(spec.variables),
        environment=environment,
        definition=_redact_definition(spec.definition),
    )
    return spec if shown == spec else shown


def holds_hidden(spec: RunSpec) -> bool:
    """Whether something of this stored spec is hidden, so that its processes need the whole one."""
    return _is_hidden_in(to_plain(spec))


def _is_hidden_in(value: Any) -> bool:
    if isinstance(value, str):
        return HIDDEN in value or "//****@" in value  # the mark in addresses that servers of 0.2 and earlier stored
    if isinstance(value, dict):
        return any(_is_hidden_in(item) for item in value.values())
    return isinstance(value, list) and any(_is_hidden_in(item) for item in value)


def _redact_environment(spec: EnvironmentSpec) -> EnvironmentSpec:
    """Hide the registry's password, and those in the addresses of indexes and packages."""
    container = spec.container
    if container is not None and container.password:
        container = replace(container, password=HIDDEN)
    return replace(
        spec,
        variables=redact_variables(spec.variables),
        pip_packages=[hide_passwords(line) for line in spec.pip_packages],
        pip_options=[hide_passwords(line) for line in spec.pip_options],
        conda_channels=[hide_passwords(line) for line in spec.conda_channels],
        container=container,
        definition=_redact_definition(spec.definition),
    )


def redact_arguments(arguments: Sequence[str]) -> list[str]:
    """Hide what follows `--password` and its like, `--password=…` too, and secrets that are known by their form."""
    return _Words().redact(arguments)


def redact_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with secret values hidden."""
    return {name: _redact_variable(name, value) for name, value in variables.items()}


def redact_command(command: str) -> str:
    """Hide the secrets of a shell's command, also in `NAME=value program`, and leave the rest as it was written."""
    words = _Words()
    pieces: list[str] = []
    end = 0
    for match in _WORD.finditer(command):
        gap = command[end : match.start()]
        if not _ENDS_COMMAND.isdisjoint(gap):
            words.start_over()
        pieces += [gap, words.redact_quoted(match[0])]
        end = match.end()
    return hide_values("".join(pieces) + command[end:])


class _Words:
    """Goes over the words of one command: whether a word is a secret depends on those before it."""

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        self._program = ""
        self._option = ""  # whose value comes next

    def redact(self, words: Sequence[str]) -> list[str]:
        return [self._redact(word) for word in words]

    def redact_quoted(self, raw: str) -> str:
        """Return a word of a shell as it was written; where something is hidden, without its quotes."""
        word = _unquoted(raw)
        shown = self._redact(word)
        return raw if shown == word else shown if not re.search(r"\s", shown) else f'"{shown}"'

    def _redact(self, word: str) -> str:
        option, self._option = self._option, ""
        if not option and not self._program and not word.startswith("-") and "=" not in word:
            self._program = word.rpartition("/")[2]
        elif word == "login" and self._program in ("docker", "podman"):
            self._program = word
        if _FLAG.match(word) and "=" not in word:
            self._option = word
            return self._redact_glued(word)
        if option and not word.startswith("--"):
            shown = self._redact_value(option, word)
            if shown != word:
                if is_plural(option):
                    self._option = option
                return shown
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment is not None:
            return self._redact_assignment(assignment[1], assignment[2])
        return _redact_text(word)

    def _redact_value(self, option: str, value: str) -> str:
        if is_secret(option.lstrip("-"), value) or _PASSWORD_OPTIONS.get(self._program) == option:
            return HIDDEN
        login = _LOGIN_VALUE.fullmatch(value) if option in _LOGIN else None
        return f"{login[1]}:{HIDDEN}" if login is not None else value

    def _redact_assignment(self, name: str, value: str) -> str:
        if is_secret(name.lstrip("-+"), value, is_variable=not name.startswith("-")):
            return f"{name}={HIDDEN}"
        login = _LOGIN_VALUE.fullmatch(value) if name in _LOGIN else None
        return f"{name}={login[1]}:{HIDDEN}" if login is not None else hide_values(f"{name}={_redact_text(value)}")

    def _redact_glued(self, word: str) -> str:
        """`mysql -psecret`: the value stands behind the option's letter."""
        is_glued = self._program.startswith("mysql") and word.startswith("-p") and len(word) > 2
        return f"-p{HIDDEN}" if is_glued else hide_values(word)


def _redact_variable(name: str, value: str) -> str:
    return HIDDEN if is_secret(name, value, is_variable=True) else _redact_text(value)


def _redact_text(value: str) -> str:
    """A value with spaces may be a command of its own: `bash -c "PASSWORD=x python t.py"`."""
    return redact_command(value) if " " in value or "\n" in value else hide_values(value)


def _unquoted(raw: str) -> str:
    pieces = re.findall(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^'\"\\]+|.", raw, re.DOTALL)
    return "".join(_unquoted_piece(piece) for piece in pieces)


def _unquoted_piece(piece: str) -> str:
    if len(piece) >= 2 and piece[0] == piece[-1] == "'":
        return piece[1:-1]
    if len(piece) >= 2 and piece[0] == piece[-1] == '"':
        return re.sub(r'\\(["\\$`])', r"\1", piece[1:-1])
    return piece[1:] if piece.startswith("\\") else piece


def _redact_definition(value: Any, key: str = "") -> Any:
    """Walk Azure's `runDefinition`: its arguments, command and variables are those of the spec once more."""
    if isinstance(value, Mapping):
        if key == "environmentVariables":
            return {name: _redact_item(str(name), item) for name, item in value.items()}
        return {name: _redact_definition(item, str(name)) for name, item in value.items()}
    if isinstance(value, list) and key == "arguments":
        words = [str(item) for item in value]
        hidden = redact_arguments(words)
        return [item if word == shown else shown for item, word, shown in zip(value, words, hidden)]
    if isinstance(value, str) and key == "command":
        return redact_command(value)
    if isinstance(value, str) and key in ("pip", "channels"):
        return hide_values(hide_passwords(value))
    if isinstance(value, str):
        return hide_values(value)
    return [_redact_definition(item, key) for item in value] if isinstance(value, list) else value


def _redact_item(name: str, item: Any) -> Any:
    shown = _redact_variable(name, str(item))
    return item if shown == str(item) else shown


def printable(text: str) -> str:
    """Return `text` with lone surrogates (bytes that were no UTF-8) replaced."""
    return _SURROGATE.sub("\ufffd", text) if not text.isascii() else text


def storable(text: str) -> str:
    """Return `text` without what a database column refuses: lone surrogates and NUL."""
    return _UNSTORABLE.sub("\ufffd", text)


def storable_value(value: Any) -> Any:
    """Return a JSON value with every text in it storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable_value(item) for item in value]
    return value
