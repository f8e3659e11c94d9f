"""Which entries of a source folder stay out of a snapshot: ignored ones, and files that look like secrets.

Every folder may have an ignore file, as with git: `.amlignore`, else `.gitignore`. The nearest one that says something
about an entry decides, and what any `.amlignore` says wins over every `.gitignore`. An `.amlignore` that has only lines
with `!` adds to the `.gitignore` beside it instead of taking its place. A folder that an `.amlignore` keeps (`!data/`)
is kept whatever a `.gitignore` says about its content.
"""

from __future__ import annotations

import errno
import hashlib
import os
from typing import Collection, Dict, List, NamedTuple, Optional, Tuple

from runyard.core.errors import SnapshotRejected
from runyard.core.machine.portable import OpenFolder, close_folder, open_file_at, open_folder
from runyard.snapshots.gitignore import IgnoreFile, IgnoreLine, parse_ignore_file
from runyard.snapshots.secret_files import LIST_VERSION, looks_secret

AML, GIT = IGNORE_FILES = (".amlignore", ".gitignore")
ALWAYS_OUT = frozenset({".git", "__pycache__"})
KEEP, IGNORED, SECRET = 0, 1, 2
_MAX_BYTES = 1 << 20
_MOST_FILES = 256  # ignore files that one entry is below: a decision has one byte for which it was


class Rule(NamedTuple):
    """The line that leaves an entry out."""

    file: str  # path of the ignore file below the root
    line: int
    text: str


class Rules:
    """The rules of one folder: those of its ignore files and of the folders above. `digest` tells when they changed."""

    __slots__ = ("_aml", "_git", "_ignores_git", "_is_taken", "_named", "digest", "file")

    def __init__(
        self,
        aml: Tuple[IgnoreFile, ...] = (),
        git: Tuple[IgnoreFile, ...] = (),
        *,
        digest: str = "",
        file: str = "",
        ignores_git: bool = False,
        is_taken: bool = False,
    ) -> None:
        self._aml = aml  # nearest first
        self._git = git
        self._ignores_git = ignores_git  # below a folder that an `.amlignore` keeps
        self._is_taken = is_taken  # below a folder that looks secret and is kept all the same
        self._named: Dict[int, Optional[Rule]] = {}  # rules by decision
        self.digest = digest or f"{LIST_VERSION}:"
        self.file = file  # the root's file to which a line that leaves something out can be added; "": there is none

    def decide(self, path: str, name: str, *, is_folder: bool) -> int:
        """Return a decision about one entry, by its path below the root and its name: see `verdict_of`, `rule_of`."""
        if name in ALWAYS_OUT:
            return IGNORED
        at, line = self._find(path, name, is_folder=is_folder)
        if line is not None:
            return KEEP if line.keeps else IGNORED + 4 * (at + _MOST_FILES * line.number)
        return SECRET if looks_secret(name, is_folder=is_folder) and not self._is_taken else KEEP

    def verdict(self, path: str, name: str, *, is_folder: bool) -> int:
        """Return KEEP, IGNORED or SECRET."""
        return verdict_of(self.decide(path, name, is_folder=is_folder))

    def rule_of(self, decision: int) -> Optional[Rule]:
        """Return the line that made a decision of these rules, of this or an earlier walk; None when no line did."""
        if decision not in self._named:
            number, at = divmod(decision >> 2, _MOST_FILES)
            found = [(file, line) for file in (self._aml + self._git)[at : at + 1] for line in file.lines]
            fitting = [Rule(file.file, number, line.text) for file, line in found if line.number == number]
            self._named[decision] = fitting[0] if fitting else None
        return self._named[decision]

    def takes_in(self, path: str, name: str) -> bool:
        """Whether a line `!name` says that the file is meant to travel."""
        _, line = self._find(path, name, is_folder=False)
        return self._is_taken or (line is not None and line.keeps)

    def below(self, path: str, name: str) -> Rules:
        """Return the rules for a subfolder that is kept, without those of its own ignore files."""
        is_taken = self._is_taken or looks_secret(name, is_folder=True)
        line = _first(self._aml, path, name, is_folder=True)[1] if not self._ignores_git else None
        ignores_git = self._ignores_git or (line is not None and line.keeps)
        if is_taken == self._is_taken and ignores_git == self._ignores_git:
            return self
        git = () if ignores_git else self._git
        return Rules(
            self._aml, git, digest=self.digest, file=self.file, ignores_git=ignores_git, is_taken=is_taken
        )  # fmt: skip

    def with_files(self, fd: OpenFolder, path: str, names: Collection[str]) -> Tuple[Rules, List[str]]:
        """Return the rules with the ignore files of the open folder, which are among `names`; and notes about them.

        Raises:
            SnapshotRejected: an ignore file cannot be read.
        """
        notes: List[str] = []
        found = {}
        for name in IGNORE_FILES:
            if name not in names or (name == GIT and self._ignores_git):
                continue
            read = _read(fd, f"{path}/{name}" if path else name, name, notes)
            if read is None:
                continue
            found[name] = read
            if name == AML and not read[0].only_keeps:
                break
        if not found:
            return self, notes
        digest = hashlib.sha256(
            self.digest.encode() + b"".join(b"\0%d\0" % len(data) + data for _, data in found.values())
        ).hexdigest()
        aml = (found[AML][0], *self._aml) if AML in found else self._aml
        git = (found[GIT][0], *self._git) if GIT in found else self._git
        rules = Rules(
            aml[:_MOST_FILES],
            git[: _MOST_FILES - len(aml)],
            digest=f"{LIST_VERSION}:{digest}",
            file=self.file if path else GIT if GIT in found else AML,
            ignores_git=self._ignores_git,
            is_taken=self._is_taken,
        )
        return rules, notes

    def _find(self, path: str, name: str, *, is_folder: bool) -> Tuple[int, Optional[IgnoreLine]]:
        """Return the line that decides, and where its file stands among all."""
        at, line = _first(self._aml, path, name, is_folder=is_folder)
        if line is None:
            at, line = _first(self._git, path, name, is_folder=is_folder)
            at += len(self._aml)
        return at, line


def verdict_of(decision: int) -> int:
    return decision & 3


def read_rules(root_fd: OpenFolder) -> Tuple[Rules, List[str]]:
    """Return the rules of the folder behind `root_fd`, and notes about what could not be used.

    Raises:
        SnapshotRejected: the ignore file cannot be read.
    """
    return Rules().with_files(root_fd, "", IGNORE_FILES)


def find_left_out(source: str, path: str) -> Optional[Tuple[str, Optional[Rule]]]:
    """Return which part of a file's path stays out of a snapshot of `source`, and by which line; None when none does.

    Raises:
        SnapshotRejected: an ignore file cannot be read.
    """
    parts = path.split("/")
    rules = Rules()
    for count, name in enumerate(parts, start=1):
        folder = open_folder(os.path.join(source, *parts[: count - 1]), follow=True)
        try:
            rules, _ = rules.with_files(folder, "/".join(parts[: count - 1]), IGNORE_FILES)
        finally:
            close_folder(folder)
        entry, is_folder = "/".join(parts[:count]), count < len(parts)
        decision = rules.decide(entry, name, is_folder=is_folder)
        if verdict_of(decision) != KEEP:
            return entry + "/" * is_folder, rules.rule_of(decision)
        if is_folder:
            rules = rules.below(entry, name)
    return None


def _first(files: Tuple[IgnoreFile, ...], path: str, name: str, *, is_folder: bool) -> Tuple[int, Optional[IgnoreLine]]:
    for at, file in enumerate(files):
        line = file.find(path, name, is_folder=is_folder)
        if line is not None:
            return at, line
    return 0, None


def _read(fd: OpenFolder, path: str, name: str, notes: List[str]) -> Optional[Tuple[IgnoreFile, bytes]]:
    """Return an ignore file and its bytes; None when it is not there, or a link, which git does not follow either."""
    try:
        data = _read_bytes(fd, path, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            notes.append(f"`{path}` is a symbolic link and was not read: nothing is ignored by it.")
            return None
        if error.errno in (errno.EISDIR, errno.ENXIO):  # a folder or a socket of that name
            return None
        raise SnapshotRejected(
            f"`{path}` cannot be read.", why=f"{error.strerror}.", hint=f"Try `chmod u+r {path}`, or remove it."
        ) from error
    return parse_ignore_file(data, file=path, base=path[: -len(name) - 1]), data


def _read_bytes(fd: OpenFolder, path: str, name: str) -> bytes:
    file = open_file_at(fd, name)
    try:
        data = b""
        while len(data) <= _MAX_BYTES:
            more = os.read(file, _MAX_BYTES)
            if not more:
                return data
            data += more
    finally:
        os.close(file)
    raise SnapshotRejected(
        f"`{path}` is longer than {_MAX_BYTES} bytes.",
        why="An ignore file holds a few patterns, one in each line.",
        hint=f"Look into it with `head {path}`.",
    )
