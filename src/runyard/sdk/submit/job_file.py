"""Read a job from a YAML file: its keys are the names of the options of `runyard submit`."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Mapping

from runyard.core.errors import InvalidArgument, NotFound
from runyard.sdk.config.files import read_yaml
from runyard.sdk.submit.entry import shell_line
from runyard.sdk.submit.job import FRAMEWORKS, JobSettings

ENDINGS = (".yml", ".yaml")
_TIME = re.compile(r"([1-9][0-9]*)\s*([smhd]?)")
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def read_job(path: str) -> JobSettings:
    """Return the job of a file. Paths in it start from the file's folder; so does the job, unless `source` is given.

    Raises:
        NotFound: there is no such file.
        InvalidArgument: it is no YAML, or has a key or a value that no job has; the line is named.
    """
    if not os.path.isfile(path):
        raise NotFound(f"There is no job file `{path}`.", why=f"Looked in {os.getcwd()}.", hint="Give its path.")
    found = read_yaml(path)
    if "dependencies" in found and not {"script", "command", "module"} & set(found):
        raise InvalidArgument(
            f"{path} is a conda file, which describes an environment and no job.",
            hint=f"`runyard submit --environment {path} train.py` runs a script in it.",
        )
    return _JobFile(path, found).read()


class _JobFile:
    def __init__(self, path: str, found: Mapping[str, Any]) -> None:
        self._path, self._found = path, found
        self._folder = os.path.dirname(path)

    def read(self) -> JobSettings:
        values: Dict[str, object] = {}
        for key, value in self._found.items():
            name = str(key).replace("-", "_")
            reader = _KEYS.get(name)
            if reader is None:
                raise self._unknown(str(key))
            if value is not None:
                values[name] = reader(self, str(key), value)
        values["source"] = self.path(str(values.get("source", ""))) or "."
        return JobSettings(**values)  # type: ignore[arg-type]  # each reader returns its type

    def path(self, value: str) -> str:
        return os.path.join(self._folder, os.path.expanduser(value))

    def text(self, key: str, value: Any) -> str:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        raise self._wrong(key, value, "a text")

    def count(self, key: str, value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self._wrong(key, value, "a whole number")

    def framework(self, key: str, value: Any) -> str:
        if value in FRAMEWORKS:
            return str(value)
        raise self._wrong(key, value, f"one of {', '.join(FRAMEWORKS)}")

    def time(self, key: str, value: Any) -> int:
        match = _TIME.fullmatch(str(value))
        if match is None:
            raise self._wrong(key, value, "a time: seconds, or 10m, 2h, 1d")
        return int(match.group(1)) * _UNITS_S[match.group(2)]

    def words(self, key: str, value: Any) -> List[str]:
        """Return a list of words. A mapping means options: `{lr: 0.1}` is `--lr 0.1`, and `true` a flag."""
        if isinstance(value, Mapping):
            return [word for name, one in value.items() for word in self._option(key, str(name), one)]
        if isinstance(value, str):
            import shlex  # few files have one

            return shlex.split(value)
        if isinstance(value, list) and all(isinstance(one, (str, int, float)) for one in value):
            return [_text(one) for one in value]
        raise self._wrong(key, value, "a list of texts, or options as `name: value`")

    def command(self, key: str, value: Any) -> List[str]:
        """Return a line for the shell as one word; a list is a command's words."""
        if isinstance(value, str) and value.strip():
            return [value.strip()]
        words = self.words(key, value)
        return words if len(words) != 1 else [shell_line(words)]

    def files(self, key: str, value: Any) -> List[str]:
        return [self.path(one) for one in ([value] if isinstance(value, str) else self.words(key, value))]

    def pairs(self, key: str, value: Any) -> Dict[str, str]:
        if isinstance(value, Mapping) and all(not isinstance(one, (list, dict)) for one in value.values()):
            return {str(name): "" if one is None else _text(one) for name, one in value.items()}
        raise self._wrong(key, value, "`name: value` lines")

    def environment(self, key: str, value: Any) -> Any:
        if isinstance(value, str):
            path = self.path(value)
            return path if os.path.exists(path) or value.endswith((".txt", ".lock", ".toml", *ENDINGS)) else value
        if isinstance(value, Mapping):
            found = dict(value)
            for name in ("dockerfile", "file"):
                if isinstance(found.get(name), str):
                    found[name] = self.path(found[name])
            return found
        raise self._wrong(key, value, "a name, a file, or packages: `pip: [numpy]`")

    def mapping(self, key: str, value: Any) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        raise self._wrong(key, value, "`key: value` lines")

    def _option(self, key: str, name: str, value: Any) -> List[str]:
        option = name if name.startswith("-") else f"--{name}"
        if isinstance(value, bool):
            return [option] if value else []
        if isinstance(value, list):
            return [option, *(_text(one) for one in value)]
        if isinstance(value, Mapping) or value is None:
            raise self._wrong(f"{key}.{name}", value, "a text, a number, a list, or true")
        return [option, _text(value)]

    def _unknown(self, key: str) -> InvalidArgument:
        from difflib import get_close_matches  # only for the message

        near = get_close_matches(key.replace("-", "_"), _KEYS, n=1, cutoff=0.6)
        return InvalidArgument(
            f"{self._path}{self._line(key)}: a job has no key `{key}`.",
            hint=f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(_KEYS)}.",
        )

    def _wrong(self, key: str, value: Any, wanted: str) -> InvalidArgument:
        return InvalidArgument(f"{self._path}{self._line(key)}: `{key}` should be {wanted}, found {value!r:.80}.")

    def _line(self, key: str) -> str:
        """Return `, line 3`: where the key stands at the beginning of a line."""
        pattern = re.compile(rf"\s*(?:['\"])?{re.escape(key.split('.')[-1])}(?:['\"])?\s*:")
        with open(self._path, encoding="utf-8-sig") as file:
            found = next((number for number, line in enumerate(file, 1) if pattern.match(line)), None)
        return f", line {found}" if found is not None else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_Reader = Callable[[_JobFile, str, Any], Any]
_KEYS: Dict[str, _Reader] = {
    "script": _JobFile.text,
    "command": _JobFile.command,
    "module": _JobFile.text,
    "arguments": _JobFile.words,
    "source": _JobFile.text,
    "environment": _JobFile.environment,
    "image": _JobFile.text,
    "python": _JobFile.text,
    "target": _JobFile.text,
    "nodes": _JobFile.count,
    "processes": _JobFile.count,
    "framework": _JobFile.framework,
    "workers": _JobFile.count,
    "parameter_servers": _JobFile.count,
    "gpus": _JobFile.count,
    "resources": _JobFile.pairs,
    "variables": _JobFile.pairs,
    "env_file": _JobFile.files,
    "experiment": _JobFile.text,
    "display_name": _JobFile.text,
    "keep": _JobFile.words,
    "tags": _JobFile.pairs,
    "max_attempts": _JobFile.count,
    "time_limit": _JobFile.time,
    "sweep": _JobFile.mapping,
}
