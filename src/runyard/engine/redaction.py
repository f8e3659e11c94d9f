"""Secrets in a run's arguments and variables: the process gets them, the record does not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runyard.core.specs import EnvironmentSpec, RunSpec
from runyard.core.urls import hide_passwords

HIDDEN = "********"

# `--max_tokens` and `--pad_token` are hyper-parameters, so a token needs a word that says what it opens.
_OPENS = r"(?:access|api|auth|bearer|gh|github|gitlab|hf|hub|login|refresh|secret|session|wandb)"
_SECRET_NAME = re.compile(
    rf"(?:^|[_\-.])(?:pass(?:word|wd|phrase)|secret|credentials?|connection[_-]?string|sas"
    rf"|(?:{_OPENS}|private|account|storage|encryption|signing)[_-]?key|{_OPENS}[_-]?token)$|^(?:token|pwd)$",
    re.IGNORECASE,
)
_SECRET_VARIABLE = re.compile(r"(?:_|^)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"^(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abp]-|AKIA|ry[tr]_)[\w\-]{16,}$|^eyJ[\w\-]+\.eyJ[\w\-]+\."
)
_IN_COMMAND = re.compile(r"(--?([\w\-.]+)(?:=|\s+))(\"[^\"]*\"|'[^']*'|\S+)")


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
    """Hide what follows `--password` and its like, `--password=…` included, and what looks like a known token."""
    shown: list[str] = []
    hides_next = False
    for word in arguments:
        name, equals, value = word.partition("=")
        is_flag = word.startswith("-")
        if hides_next and not is_flag:
            shown.append(HIDDEN)
        elif is_flag and equals and (_SECRET_NAME.search(name.lstrip("-")) or _SECRET_VALUE.match(value)):
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(HIDDEN if _SECRET_VALUE.match(word) else word)
        hides_next = is_flag and not equals and bool(_SECRET_NAME.search(word.lstrip("-")))
    return shown


def redact_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if _is_secret(name, value) else value for name, value in variables.items()}


def redact_command(command: str) -> str:
    def hide(match: re.Match[str]) -> str:
        return match[1] + HIDDEN if _SECRET_NAME.search(match[2]) or _SECRET_VALUE.match(match[3]) else match[0]

    return _IN_COMMAND.sub(hide, command)


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name) or _SECRET_VARIABLE.search(name) or _SECRET_VALUE.match(value))


def _redact_definition(value: Any, key: str = "") -> Any:
    """Walk Azure's `runDefinition`: its arguments, command and variables are those of the spec once more."""
    if isinstance(value, Mapping):
        if key == "environmentVariables":
            return {name: HIDDEN if _is_secret(str(name), str(item)) else item for name, item in value.items()}
        return {name: _redact_definition(item, str(name)) for name, item in value.items()}
    if isinstance(value, list) and key == "arguments":
        words = [str(item) for item in value]
        hidden = redact_arguments(words)
        return [item if word == shown else shown for item, word, shown in zip(value, words, hidden)]
    if isinstance(value, str) and key == "command":
        return redact_command(value)
    if isinstance(value, str) and key in ("pip", "channels"):
        return hide_passwords(value)
    return [_redact_definition(item, key) for item in value] if isinstance(value, list) else value
