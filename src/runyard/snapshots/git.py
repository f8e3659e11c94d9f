"""Git facts of a source folder, as the run properties that Azure sets, and the patch of a dirty tree.

Three git commands run under one time limit; a failure leaves facts out and never stops a submit. Nothing that the
repository configures is run: no hooks, fsmonitor, external diff or text conversion, no fetch of objects that a partial
clone lacks, and no filter. Filters of the user's own configuration (git-lfs) stay, unless the repository's
configuration mentions filters: then all are off.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import field
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.core.lazy_dataclass import dataclass
from runyard.snapshots.secret_files import git_excludes, looks_secret

MAX_OUTPUT_BYTES = 8 << 20
TIME_LIMIT_S = 10.0
_SAFE = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "diff.external="),
    *("-c", "status.submoduleSummary=false"),
    *("-c", "safe.bareRepository=explicit"),
    "--no-pager",
    "--no-optional-locks",
)
# The few files that `diff` is given need no look at all others, which `status` has just had.
_FASTER = {"diff": ("-c", "core.preloadIndex=false")}
_STATUS = ("--porcelain=v2", "-z", "--branch", "--no-renames", "--ignore-submodules=dirty", "--", ".")
_ADDRESS = ("--get-url",)
_DIFF = (
    *("HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"),
    "--submodule=short",
)
_FILTERS = ("-z", "--name-only", "--get-regexp", r"^filter\.")
_FILTER_KEY = re.compile(r"filter\.([^=\n]+)\.[a-z]+")
# A configuration without these words defines no filter, in no spelling, and reads no other file that could.
_SAYS_FILTER = re.compile(rb"filter|include|lfs", re.IGNORECASE)
_FIELDS = {"1": 7, "2": 8, "u": 9}  # fields before the path in a line of that kind
_MOST_PATHS = 500
_KEPT_VARIABLES = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
_OVERRIDES = {
    "repository_uri": "AZUREML_GIT_REPOSITORY_URI",
    "branch": "AZUREML_GIT_BRANCH",
    "commit": "AZUREML_GIT_COMMIT",
    "dirty": "AZUREML_GIT_DIRTY",
    "build_id": "AZUREML_GIT_BUILD_ID",
    "build_uri": "AZUREML_GIT_BUILD_URI",
}
_MLFLOW = {"repository_uri": "repoURL", "branch": "branch", "commit": "commit"}


class Repository(NamedTuple):
    folder: str
    config_mtime_ns: int
    config_size: int
    config_inode: int


_addresses: Dict[Repository, str] = {}  # a process that submits again need not ask again


@dataclass(frozen=True)
class GitFacts:
    properties: Dict[str, str] = field(default_factory=dict)
    patch: Optional[bytes] = None  # `git diff HEAD --binary` of the source folder, when it is dirty
    notes: List[str] = field(default_factory=list)


def git_facts(
    source: str | os.PathLike[str],
    *,
    environ: Optional[Mapping[str, str]] = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> GitFacts:
    """Return what git says about `source`; nothing where it is no repository or there is no git. Never raises."""
    env = os.environ if environ is None else environ
    try:
        found, patch, notes = _ask(os.path.realpath(source), env, time_limit_s)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        found, patch, notes = {}, None, [f"The git facts were left out: {error}"]
    for fact, variable in _OVERRIDES.items():
        if env.get(variable):
            found[fact] = env[variable]
    if "repository_uri" in found:
        found["repository_uri"] = without_credentials(found["repository_uri"])
    return GitFacts(_properties(found), patch, notes)


def without_credentials(uri: str) -> str:
    """Return a repository's address without user, password and query; an SSH address keeps its user, `git@host`."""
    match = re.match(r"(?P<scheme>[A-Za-z][\w+.-]*)://(?:(?P<user>[^/]*)@)?(?P<rest>[^?#]*)", uri)
    if match is None:
        return uri
    scheme, user, rest = match.group("scheme"), match.group("user"), match.group("rest")
    name = (user or "").partition(":")[0]
    keeps_user = scheme.lower() in ("ssh", "git+ssh") and name
    return f"{scheme}://{name}@{rest}" if keeps_user else f"{scheme}://{rest}"


def _ask(source: str, env: Mapping[str, str], time_limit_s: float) -> tuple[Dict[str, str], Optional[bytes], List[str]]:
    git = shutil.which("git", path=env.get("PATH"))
    repository = _find_repository(source)
    if git is None or repository is None:
        return {}, None, []
    deadline = time.monotonic() + time_limit_s
    off: List[str] = []
    if _says_filter(repository.folder):
        asked = _Command(git, "config", _FILTERS, source, env)
        names = _read_filters(asked, deadline)
        if names is None:
            return (
                {},
                None,
                [f"The git facts were left out: {asked.fault or 'a filter has a name that git cannot take.'}"],
            )
        off = [part for name in names for part in _without_filter(name)]
    status = _Command(git, "status", _STATUS, source, env, off)
    text = status.read(deadline)
    if text is None:
        return {}, None, [f"The git facts were left out: {status.fault}"]
    found, changed = _read_status(text)
    paths = _diff_paths(changed)
    known = _addresses.get(repository)
    address = _Command(git, "ls-remote", _ADDRESS, source, env) if known is None else None
    diff = _Command(git, "diff", [*_DIFF, "--", *paths], source, env, off) if paths else None
    uri = known if address is None else _read_address(address, deadline)
    if uri:
        found["repository_uri"] = uri
    if uri is not None and repository.config_inode:
        _addresses[repository] = uri
    if diff is None:
        return found, None, []
    patch = diff.read(deadline)
    notes = [f"The patch of the uncommitted changes was left out: {diff.fault}"] if patch is None else []
    return found, patch or None, notes


def _read_status(text: bytes) -> Tuple[Dict[str, str], List[str]]:
    """Return the facts in `git status --porcelain=v2 -z --branch`, and the changed paths that git tracks."""
    found = {"dirty": "False"}
    changed: List[str] = []
    for line in text.decode("utf-8", "surrogateescape").split("\0"):
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.oid" and not value.startswith("("):
                found["commit"] = value
            elif name == "branch.head":
                found["branch"] = "HEAD" if value == "(detached)" else value
        elif kind in _FIELDS:
            changed.append(rest.split(" ", _FIELDS[kind])[-1])
        if kind in ("1", "2", "u", "?"):
            found["dirty"] = "True"
    return found, changed


def _diff_paths(changed: Sequence[str]) -> List[str]:
    """Return what to compare: the files themselves, which is fast, or everything when they are many. Never secrets."""
    if len(changed) > _MOST_PATHS:
        return [".", *git_excludes()]
    paths = [path for path in changed if not any(_is_secret(path))]
    return [f":(top,literal){path}" for path in paths]


def _is_secret(path: str) -> Iterator[bool]:
    *folders, name = path.split("/")
    yield looks_secret(name, is_folder=False)
    for folder in folders:
        yield looks_secret(folder, is_folder=True)


def _properties(found: Mapping[str, str]) -> Dict[str, str]:
    properties = {f"azureml.git.{fact}": value for fact, value in found.items()}
    properties.update({f"mlflow.source.git.{name}": found[fact] for fact, name in _MLFLOW.items() if fact in found})
    return properties


def _read_address(command: _Command, deadline: float) -> Optional[str]:
    """Return the repository's address; "" when it has none, None when git did not say."""
    said = command.read(deadline)
    if said is None:
        return "" if "No remote configured" in command.fault else None
    text = said.decode("utf-8", "replace").strip()
    return "" if text == "origin" else text


def _find_repository(source: str) -> Optional[Repository]:
    """Return which repository holds the folder, and when it was configured; None: asking git is not worth a process."""
    folder = source
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder or _is_bare(folder):
            return None
        folder = parent
    try:
        status = os.stat(os.path.join(folder, ".git", "config"))
    except OSError:  # a worktree's `.git` is a file: its configuration may change unseen
        return Repository(folder, time.time_ns(), 0, 0)
    return Repository(folder, status.st_mtime_ns, status.st_size, status.st_ino)


def _is_bare(folder: str) -> bool:
    """Whether git would take the folder itself for a repository: its files could have come with a stranger's code."""
    return all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))


def _says_filter(folder: str) -> bool:
    """Whether the repository's own configuration could define a filter."""
    own = os.path.join(folder, ".git")
    if not os.path.isdir(own):  # of a worktree or a submodule: it is elsewhere
        return True
    for name in ("config", "config.worktree"):
        path = os.path.join(own, name)
        if not os.path.lexists(path):
            continue
        if not os.path.isfile(path):  # to read a FIFO would wait; git's own wait has a limit
            return True
        try:
            with open(path, "rb") as file:
                if _SAYS_FILTER.search(file.read(1 << 20)) or file.read(1):
                    return True
        except OSError:
            return True
    return False


def _read_filters(command: _Command, deadline: float) -> Optional[List[str]]:
    """Return the names of all filters that git knows here; None when it did not say, or one cannot be switched off."""
    said = command.read(deadline)
    if said is None:
        return [] if command.code == 1 else None  # 1: there is none
    keys = [key for key in said.decode("utf-8", "surrogateescape").split("\0") if key]
    found = [_FILTER_KEY.fullmatch(key) for key in keys]
    return None if None in found else sorted({match[1] for match in found if match is not None})


def _without_filter(name: str) -> List[str]:
    commands = [part for what in ("clean", "smudge", "process") for part in ("-c", f"filter.{name}.{what}=")]
    return [*commands, "-c", f"filter.{name}.required=false"]


class _Command:
    """One git command, started at once; its output is read up to a limit and a deadline, then it is gone."""

    def __init__(
        self,
        git: str,
        name: str,
        arguments: Sequence[str],
        source: str,
        env: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> None:
        self.fault = ""
        self.code: Optional[int] = None  # how it exited
        self._name = f"git {name}"
        self._process = subprocess.Popen(
            [git, *_SAFE, *options, *_FASTER.get(name, ()), name, *arguments],
            cwd=source,
            env=_git_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def read(self, deadline: float) -> Optional[bytes]:
        """Return the output; None when it failed, was too long or took too long: `fault` says which."""
        try:
            output = self._read(deadline)
            self.code = self._process.wait(max(0.0, deadline - time.monotonic()))
            return output if self._process.returncode == 0 else self._failed()
        except (subprocess.TimeoutExpired, _TooMuch) as error:
            much = isinstance(error, _TooMuch)
            self.fault = (
                f"`{self._name}` {f'gave more than {MAX_OUTPUT_BYTES >> 20} MiB' if much else 'took too long'}."
            )
            return None
        finally:
            self._stop()

    def _read(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        output = bytearray()
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not _readable(fd, left):
                raise subprocess.TimeoutExpired(self._name, left)
            piece = os.read(fd, 1 << 18)
            if not piece:
                return bytes(output)
            output += piece
            if len(output) > MAX_OUTPUT_BYTES:
                raise _TooMuch

    def _failed(self) -> Optional[bytes]:
        assert self._process.stderr is not None
        said = os.read(self._process.stderr.fileno(), 4096).decode("utf-8", "replace").strip().partition("\n")[0]
        self.fault = f"`{self._name}` exited with {self._process.returncode}: {said[:300]}"
        return None

    def _stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


class _TooMuch(Exception):
    pass


def _readable(fd: int, timeout_s: float) -> bool:
    import select  # poll has no limit on descriptor numbers, select has

    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(timeout_s * 1000))


def _git_environment(env: Mapping[str, str]) -> Dict[str, str]:
    kept = {name: value for name, value in env.items() if not name.startswith("GIT_") or name in _KEPT_VARIABLES}
    kept.update({"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"})
    # What a partial clone lacks would be fetched by commands of the repository. Git before 2.44 knows the second only.
    kept.update({"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"})
    return kept
