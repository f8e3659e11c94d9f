"""Environments from the files that a project or a script describes itself with.

`environment_of_file` knows a file by its name: requirements, conda file, Dockerfile, saved folder, uv's, Poetry's and
pixi's files. `environment_of_script` reads the header of a script (PEP 723). Locked versions are taken as they stand,
with their hashes; the project's own code comes from the snapshot.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.python_range import plain_range
from runyard.sdk.config.texts import warn
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.files import DEFINITION
from runyard.sdk.environments.lock_graph import NOTHING, Chosen, Locked
from runyard.sdk.environments.sources import from_conda, from_dockerfile, from_pip

if TYPE_CHECKING:
    from runyard.core.formats.toml import TomlTable

KNOWN = (
    "requirements.txt, a conda file (.yml), a Dockerfile, pyproject.toml, uv.lock, poetry.lock, pixi.toml, pixi.lock, "
    "a script with a `# /// script` header, or a folder of save_to_directory"
)
LOCKS = ("uv.lock", "poetry.lock", "pixi.lock")
_MAX_BYTES = 16 << 20
_HEADER = re.compile(r"(?m)^# /// script[ \t]*\r?\n((?:#(?: .*)?\r?\n)+)")


def environment_of_file(path: str, chosen: Chosen = NOTHING) -> Optional[Environment]:
    """Return the environment that a file or folder describes; None: it is the name of a registered one.

    An environment from a Dockerfile asks for a container by itself. `chosen` is for the files of projects.

    Raises:
        InvalidArgument: no environment can be made from it, or it has not what is chosen.
        NotFound: it is written like a file that is not there.
    """
    base = os.path.basename(path.rstrip("/"))
    stem = os.path.splitext(base)[0]
    has_definition = os.path.isfile(os.path.join(path, DEFINITION))
    if os.path.isdir(path) and not has_definition and ("/" in path or path in (".", "..")):
        return _of_folder(path, chosen)
    reader = _READERS.get(base)
    if reader is not None:
        return reader(_existing(path), chosen)
    if any(chosen):
        raise InvalidArgument(
            f"`{path}` has no extras, groups or environments to choose from.",
            why=f"They are in {', '.join(_READERS)}.",
            hint="Name one of these files, or choose nothing.",
        )
    if has_definition:
        return Environment.load_from_directory(path)
    if base == "Dockerfile" or base.startswith("Dockerfile.") or path.endswith((".Dockerfile", ".dockerfile")):
        environment = from_dockerfile(stem, _existing(path))
        environment.docker.enabled = True
        return environment
    if path.endswith((".yml", ".yaml")):
        return from_conda(stem, _existing(path))
    if path.endswith(".txt"):
        return from_pip(stem, _existing(path))
    if path.endswith(".py"):
        found = environment_of_script(_existing(path))
        if found is not None:
            return found
    if os.path.isfile(path):
        raise InvalidArgument(f"`{path}` is no file that an environment can be made from.", hint=f"It may be {KNOWN}.")
    if path.endswith((".lock", ".toml")):
        _existing(path)
    return None


def project_environment(name: str, path: str, chosen: Chosen = NOTHING) -> Environment:
    """Return the environment of a file under a name of its own."""
    found = environment_of_file(os.fspath(path), chosen)
    if found is None:
        raise NotFound(f"There is no file `{path}`.", why=f"Looked in {os.getcwd()}.", hint=f"It may be {KNOWN}.")
    found.name = name
    return found


def environment_of_script(path: str) -> Optional[Environment]:
    """Return the environment of a script's header, or of the lock that `uv lock --script` put beside it; None: neither.

    Raises:
        InvalidArgument: the header is no TOML, is not closed, or holds what no environment can have.
    """
    header = script_header(path)
    if header is None:
        return None
    name = os.path.splitext(os.path.basename(path))[0]
    if os.path.isfile(path + ".lock"):
        from runyard.sdk.environments.uv_lock import read_script_lock  # few scripts have a lock

        lock = _read(path + ".lock")
        return _made(read_script_lock(lock, folder=os.path.dirname(os.path.abspath(path)), name=name))
    python = str(header.get("requires-python", ""))
    lines = _texts(header.get("dependencies", []), f"{path}: dependencies")
    return _made(Locked(name, [*lines, *_indexes(header)], _python(python, path)))


def script_header(path: str) -> Optional[TomlTable]:
    """Return what the `# /// script` block of a script says; None where there is none.

    Raises:
        InvalidArgument: it is no TOML, is not closed, or stands there twice.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES)
    except (OSError, UnicodeDecodeError):
        return None
    found = list(_HEADER.finditer(text))
    if not found:
        return None
    lines = found[0].group(1).splitlines()
    ends = [at for at, line in enumerate(lines) if line.rstrip() == "# ///"]
    if len(found) > 1 or not ends:
        why = "It stands there twice." if len(found) > 1 else "Its last line should be `# ///`."
        raise InvalidArgument(f"The `# /// script` header of {path} cannot be read.", why=why, hint="Correct it.")
    block = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines[: ends[-1]])
    from runyard.core.formats.toml import read_toml  # most scripts have no header

    try:
        return read_toml(block)
    except ValueError as error:
        first = text[: found[0].start()].count("\n") + 1
        raise InvalidArgument(
            f"The `# /// script` header of {path} cannot be read.",
            why=f"It begins at line {first}. In it: {error}",
            hint="It is TOML: `# dependencies = ['numpy']`.",
        ) from error


def lock_in(folder: str) -> Optional[str]:
    """Return the name of the lock file that the folder has, for a word about it."""
    return next((name for name in LOCKS if os.path.isfile(os.path.join(folder, name))), None)


def _of_folder(path: str, chosen: Chosen) -> Environment:
    for name in (*LOCKS, "pixi.toml", "pyproject.toml", "requirements.txt"):
        if os.path.isfile(os.path.join(path, name)):
            found = environment_of_file(os.path.join(path, name), chosen)
            assert found is not None
            return found
    raise FileNotFoundError(f"{path} holds no environment: there is no {DEFINITION}, and none of {', '.join(LOCKS)}.")


def _uv_lock(path: str, chosen: Chosen) -> Environment:
    return _of_uv(path, os.path.dirname(os.path.abspath(path)), chosen)


def _of_uv(lock: str, project: str, chosen: Chosen) -> Environment:
    from runyard.sdk.environments.uv_lock import read_uv_lock

    pyproject = _read_if_there(os.path.join(project, "pyproject.toml"))
    folder = os.path.dirname(os.path.abspath(lock))
    return _made(read_uv_lock(_read(lock), folder=folder, project=project, pyproject=pyproject, chosen=chosen))


def _poetry_lock(path: str, chosen: Chosen) -> Environment:
    from runyard.sdk.environments.poetry_lock import read_poetry_lock

    folder = os.path.dirname(os.path.abspath(path))
    pyproject = _read_if_there(os.path.join(folder, "pyproject.toml"))
    return _made(read_poetry_lock(_read(path), folder=folder, pyproject=pyproject, chosen=chosen))


def _pyproject(path: str, chosen: Chosen) -> Environment:
    """Return the environment of a project: of the lock beside it, else of the versions that it allows."""
    from runyard.sdk.environments.uv_lock import find_lock

    folder = os.path.dirname(os.path.abspath(path))
    lock = find_lock(folder)
    if lock is not None:
        return _of_uv(lock, folder, chosen)
    for name, reader in (("poetry.lock", _poetry_lock), ("pixi.lock", _pixi_lock)):
        if os.path.isfile(os.path.join(folder, name)):
            return reader(os.path.join(folder, name), chosen)
    found = _read(path)
    if "pixi" in found.get("tool", {}):
        return _of_pixi(found["tool"]["pixi"], folder, chosen)
    return _unlocked(found, path, folder, chosen)


def _unlocked(found: Mapping[str, Any], path: str, folder: str, chosen: Chosen) -> Environment:
    from runyard.sdk.environments.poetry_lock import declared, known_groups, project_name

    project, poetry = found.get("project"), found.get("tool", {}).get("poetry")
    if project is None and poetry is None:
        raise InvalidArgument(
            f"{path} describes no project.",
            why="It has neither [project] nor [tool.poetry].",
            hint="Write `[project]` with `dependencies = […]`, or name another file.",
        )
    extras = {**(poetry or {}).get("extras", {}), **(project or {}).get("optional-dependencies", {})}
    chosen.check(os.path.basename(path), extras=extras, groups=known_groups(found))
    if poetry and "dependencies" in poetry:
        lines, python = declared(poetry, chosen), str(poetry["dependencies"].get("python", ""))
    else:
        lines, python = [], ""
    lines += _texts((project or {}).get("dependencies", []), f"{path}: dependencies")
    optional = (project or {}).get("optional-dependencies", {})
    lines += [line for one in chosen.extras for line in _texts(optional.get(one, []), f"{path}: {one}")]
    lines += [line for one in chosen.groups for line in _group_lines(found.get("dependency-groups", {}), one, path)]
    python = str((project or {}).get("requires-python") or python)
    warn(f"{path} has no lock file, so the build chooses the versions. `uv lock` fixes them, for every run alike.")
    is_package = "build-system" in found and (poetry or {}).get("package-mode", True) is not False
    own = [f"--editable {folder}"] if is_package else []
    return _made(Locked(project_name(found), [*own, *lines, *_indexes(found)], _python(python, path)))


def _group_lines(groups: Mapping[str, Any], name: str, path: str, above: Sequence[str] = ()) -> List[str]:
    """Return the requirements of a dependency group, with those of the groups that it includes (PEP 735)."""
    lines: List[str] = []
    for one in groups.get(name, []) if name not in above else []:
        if isinstance(one, dict) and "include-group" in one:
            lines += _group_lines(groups, str(one["include-group"]), path, [*above, name])
        else:
            lines += _texts([one], f"{path}: the group {name}")
    return lines


def _pixi_lock(path: str, chosen: Chosen) -> Environment:
    from runyard.sdk.config.files import read_yaml  # few environments are pixi's
    from runyard.sdk.environments.pixi import read_pixi_lock

    folder = os.path.dirname(os.path.abspath(path))
    name, wanted = os.path.basename(folder), _pixi_choice(chosen)
    return _made(read_pixi_lock(read_yaml(path), folder=folder, name=name, chosen=wanted))


def _pixi_toml(path: str, chosen: Chosen) -> Environment:
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isfile(os.path.join(folder, "pixi.lock")):
        return _pixi_lock(os.path.join(folder, "pixi.lock"), chosen)
    return _of_pixi(_read(path), folder, chosen)


def _pixi_choice(chosen: Chosen) -> str:
    """Return the environment that is chosen; extras and groups are no notions of pixi's."""
    if chosen.extras or chosen.groups or chosen.without_groups:
        raise InvalidArgument(
            "pixi's files have no extras and groups to choose from.",
            why="Their features are gathered in environments.",
            hint="Choose an environment: pixi_environment= or --pixi-environment.",
        )
    return chosen.pixi_environment


def _of_pixi(found: Mapping[str, Any], folder: str, chosen: Chosen) -> Environment:
    from runyard.sdk.environments.pixi import read_pixi_project

    wanted = _pixi_choice(chosen)
    warn(f"{folder} has no pixi.lock, so the build chooses the versions. `pixi lock` fixes them.")
    return _made(read_pixi_project(found, folder=folder, chosen=wanted))


_READERS: Dict[str, Callable[[str, Chosen], Environment]] = {
    "uv.lock": _uv_lock,
    "poetry.lock": _poetry_lock,
    "pyproject.toml": _pyproject,
    "pixi.lock": _pixi_lock,
    "pixi.toml": _pixi_toml,
}


def _made(locked: Locked) -> Environment:
    environment = Environment(re.sub(r"[^A-Za-z0-9._-]+", "-", locked.name).strip("-.") or "project")
    made = CondaDependencies.create(pip_packages=locked.lines, conda_packages=locked.conda)
    if locked.python:
        made.set_python_version(locked.python)
    if locked.channels:
        made._channels = list(locked.channels)
    environment.python.conda_dependencies = made
    return environment


def _indexes(found: Mapping[str, Any]) -> List[str]:
    """Return the indexes of `[tool.uv]`, or of a header's."""
    uv = found.get("tool", {}).get("uv", {})
    lines = []
    for index in uv.get("index", []):
        kind = "--index-url" if index.get("default") else "--extra-index-url"
        lines.append(f"{kind} {index.get('url')}")
    lines += [f"--index-url {uv['index-url']}"] if uv.get("index-url") else []
    lines += [f"--extra-index-url {url}" for url in uv.get("extra-index-url", [])]
    return lines + [f"--find-links {place}" for place in uv.get("find-links", [])]


def _python(text: str, path: str) -> str:
    try:
        return plain_range(text) if text else ""
    except ValueError as error:
        raise InvalidArgument(
            f"{path} asks for the Python {text!r}.", why=f"{error}.", hint="Such as '>=3.10'."
        ) from error


def _texts(found: Any, place: str) -> List[str]:
    if isinstance(found, list) and all(isinstance(one, str) and one.strip() for one in found):
        return list(found)
    raise InvalidArgument(f"{place} should be a list of texts, found {found!r:.100}.", hint="['numpy', 'torch>=2']")


def _read_if_there(path: str) -> TomlTable:
    return _read(path) if os.path.isfile(path) else {}


def _read(path: str) -> TomlTable:
    from runyard.core.formats.toml import TomlError, read_toml  # each kind of file loads its own reader

    try:
        with open(path, encoding="utf-8-sig") as file:
            return read_toml(file.read(_MAX_BYTES))
    except TomlError as error:
        raise InvalidArgument(f"{path} is no TOML.", why=str(error), hint="Correct that line.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{path} cannot be read.", why=f"{error}.", hint=f"Look at it: `ls -l {path}`."
        ) from error


def _existing(path: str) -> str:
    if os.path.isfile(path):
        return path
    raise NotFound(f"There is no file `{path}`.", why=f"Looked in {os.getcwd()}.", hint="Give its path, or a name.")
