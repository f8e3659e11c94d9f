"""Secrets that targets are attached with: in files that only this server's user reads, never in the database."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runyard.core.compute_options import SECRETS
from runyard.core.errors import InvalidArgument, SystemFailure
from runyard.engine.sanitize import HIDDEN

REFERENCE = "secret"  # {"secret": "<32 hex>"} stands for what the file of that name holds
_NAME = re.compile(r"[0-9a-f]{32}")
_AS_FILE = "private_key"  # programs want it as a file


class ComputeSecrets:
    """One file a secret. `folder` is made, 0700, with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as they may be stored.

        Raises:
            InvalidArgument: a secret is what we show instead of one.
        """
        return {name: self._keep(name, value) if name in SECRETS else value for name, value in options.items()}

    def resolve(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as a backend wants them: a private key as the path of its file, others as they are."""
        return {name: self._resolve(name, value) if name in SECRETS else value for name, value in options.items()}

    def is_same(self, kept: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
        """Whether options that were given are those that are kept."""
        if set(kept) != set(given):
            return False
        return all(
            given[name] == HIDDEN or _text_of(name, given[name]) == self._read(value)
            if name in SECRETS
            else given[name] == value
            for name, value in kept.items()
        )

    def forget(self, options: Mapping[str, Any]) -> None:
        for value in _references(options):
            self._file(value).unlink(missing_ok=True)

    def sweep(self, kept: Iterable[Mapping[str, Any]]) -> None:
        """Remove the files that no options name: a server was killed before it stored them."""
        named = {self._file(value).name for options in kept for value in _references(options)}
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name not in named:
                    path.unlink(missing_ok=True)

    def _keep(self, name: str, value: Any) -> Any:
        if value == HIDDEN:
            raise InvalidArgument(
                f"The option {name} is {HIDDEN}.",
                why="That is shown instead of a secret; it is none.",
                hint="Attach again with the secret itself.",
            )
        reference = {REFERENCE: os.urandom(16).hex()}
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(self._file(reference), flags, 0o600), "w", encoding="utf-8") as file:
            file.write(_text_of(name, value))
            file.flush()
            os.fsync(file.fileno())
        return reference

    def _resolve(self, name: str, value: Mapping[str, str]) -> Any:
        return str(self._file(value)) if name == _AS_FILE else json.loads(self._read(value))

    def _read(self, value: Mapping[str, str]) -> str:
        try:
            return self._file(value).read_text(encoding="utf-8")
        except OSError as error:
            raise SystemFailure(
                "The secret of a compute target cannot be read.", why=f"{error}.", hint="Attach the target again."
            ) from error

    def _file(self, reference: Mapping[str, str]) -> Path:
        name = str(reference[REFERENCE])
        if not _NAME.fullmatch(name):
            raise SystemFailure(f"{name[:40]!r} names no secret.")
        return self._folder / name


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without their secrets."""
    return {name: HIDDEN if name in SECRETS else value for name, value in options.items()}


def _references(options: Mapping[str, Any]) -> list[Mapping[str, str]]:
    return [value for name, value in options.items() if name in SECRETS]


def _text_of(name: str, value: Any) -> str:
    if name != _AS_FILE:
        return json.dumps(value, sort_keys=True)
    return value if value.endswith("\n") else f"{value}\n"  # ssh does not read a key without a line end
