"""Install pip requirements into a Python by uv: what every builder that installs from an index shares."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence
from urllib.parse import unquote, urlsplit

from runyard.core.config.urls import hide_passwords
from runyard.core.errors import SubmitRejected
from runyard.core.lazy_dataclass import dataclass
from runyard.core.provided_packages import split_provided
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import Check, Say
from runyard.environments.horovod import Horovod, plan_horovod, split_horovod
from runyard.environments.pip_settings import NEXT_INDEX, PipSettings, read_pip_settings
from runyard.environments.process import run_program
from runyard.environments.uv_program import find_uv, install_failed, uv_variables

_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_EDITABLE = ("-e ", "--editable ", "--editable=")


@dataclass(frozen=True)
class PipInstall:
    """The pip part of an environment: what is asked for, and from where it comes."""

    name: str
    requirements: List[str]
    provided: List[str]  # asked for and left out: every run has them
    constraints: List[str]
    settings: PipSettings
    variables: Dict[str, str] = field(repr=False, default_factory=dict)
    allows_downloads: bool = False
    horovod: Optional[Horovod] = None  # asked for: it is compiled, after all else is there
    run: Callable[..., int] = field(repr=False, compare=False, default=run_program)  # or one that runs uv elsewhere

    def what_counts(self) -> List[Any]:
        """Return all that decides on what gets installed, for the environment's key."""
        wanted = [self.requirements, self.constraints]
        return [[[hide_passwords(line), *_file_facts(line)] for line in lines] for lines in wanted] + [
            self.settings.what_counts(),
            *([] if self.horovod is None else [self.horovod.what_counts()]),
        ]

    def environ(self) -> Dict[str, str]:
        return uv_variables(self.variables, self.settings.as_variables(), allows_downloads=self.allows_downloads)


def plan_pip(
    spec: EnvironmentSpec,
    *,
    variables: Mapping[str, str],
    requirements: Optional[Sequence[str]] = None,
    allows_downloads: bool = False,
    horovod_wheels: Optional[Path] = None,
) -> PipInstall:
    """Return what to install for `spec`; `requirements` in place of its own. Installs nothing.

    With `horovod_wheels`, the folder for them, Horovod is built on this node instead of being asked for at the index.

    Raises:
        SubmitRejected: a line cannot be installed here.
    """
    if "HOME" not in variables:  # another machine than the submitter's: its own settings count
        variables = {**os.environ, **variables}
    lines = spec.pip_packages if requirements is None else requirements
    wanted, provided = split_provided([_checked(line) for line in lines])
    horovod = None
    if horovod_wheels is not None:
        wanted, asked = split_horovod(wanted)
        horovod = plan_horovod(variables, wheels=horovod_wheels, asked=asked) if asked else None
    editable = [line for line in spec.pip_options if line.startswith(_EDITABLE)]
    options = [line for line in spec.pip_options if line not in editable]
    return PipInstall(
        name=spec.name,
        requirements=sorted({*wanted, *editable}),
        provided=provided,
        constraints=sorted(set(spec.pip_constraints)),
        settings=read_pip_settings(variables, interpreter=spec.interpreter, options=options),
        variables=dict(variables),
        allows_downloads=allows_downloads,
        horovod=horovod,
    )


def install(pip: PipInstall, python: str, *, say: Say, check: Check, keep: Sequence[int] = ()) -> None:
    """Install into the environment of `python`.

    Raises:
        SubmitRejected: uv could not; the message is its own explanation.
    """
    if pip.requirements:
        _install_requirements(pip, python, say=say, check=check, keep=keep)
    if pip.horovod is not None:
        from runyard.environments.horovod_build import HorovodBuild  # few environments have it

        HorovodBuild(pip.horovod, pip, python, say=say, check=check, keep=keep).install()


def _install_requirements(pip: PipInstall, python: str, *, say: Say, check: Check, keep: Sequence[int]) -> None:
    lines: List[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        say(line)

    argv = [find_uv(pip.variables), "pip", "install", "--python", python, *pip.settings.as_arguments()]
    argv += ["--require-hashes"] if pip.settings.require_hashes else []
    with tempfile.NamedTemporaryFile("w", prefix="runyard-", suffix=".txt", encoding="utf-8") as limits:
        if pip.constraints:
            limits.write("\n".join(pip.constraints) + "\n")
            limits.flush()
            argv += ["-c", limits.name]
        feed = "\n".join(pip.requirements) + "\n"

        def run(**variables: str) -> int:
            environ = {**pip.environ(), **variables}
            return pip.run([*argv, "-r", "-"], environ=environ, say=hear, check=check, feed=feed, keep=keep)

        code = run()
        if code != 0 and pip.settings.is_first_index_only and _has_only_other_wheels(lines):
            say("warning: The first index has no wheel of it for this Python or machine; the next index is asked too.")
            lines.clear()
            code = run(UV_INDEX_STRATEGY=NEXT_INDEX)
    if code != 0:
        raise install_failed(pip.name, code, lines)


def _has_only_other_wheels(lines: Sequence[str]) -> bool:
    """Whether uv says that a package's first index has it for other Pythons or machines only, and that a later one has
    more. A version that only a later index has is another matter: a stranger may have put it there.
    """
    text = " ".join(lines)
    return "no wheels with a matching" in text and "subsequent index" in text


def _checked(line: str) -> str:
    text = line.strip()
    if text.startswith("-"):
        raise _refused(line, "It is an option of pip, not a package.", "Leave it out, or name the package itself.")
    head = re.split(r"[\s@;\[]", text, maxsplit=1)[0]
    if head.startswith(".") or ("/" in head and "://" not in head and not head.startswith(("/", "file:/"))):
        why = "A path that does not begin with / says nothing on the node that installs it."
        raise _refused(line, why, "Give the full path of a wheel or folder, or put the code into source_directory.")
    return text


def _refused(line: str, why: str, hint: str) -> SubmitRejected:
    return SubmitRejected(f"The requirement `{hide_passwords(line)}` cannot be installed.", why=why, hint=hint)


def _file_facts(line: str) -> List[int]:
    """Return sizes and times of the file that a requirement names: its content may change while its name stays."""
    target = line.partition(" @ ")[2].strip() or line.strip()
    path = unquote(urlsplit(target).path) if target.startswith("file:") else target
    if not path.startswith("/"):
        return []
    # Of a project's folder those by which uv itself tells whether to build it anew.
    files = [os.path.join(path, name) for name in _PROJECT] if os.path.isdir(path) else [path]
    found = [os.stat(file) for file in files if os.path.exists(file)]
    return [number for one in found for number in (one.st_size, one.st_mtime_ns)]
