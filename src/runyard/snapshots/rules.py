"""Which entries of a source folder stay out of a snapshot: ignored files, and files that look like secrets.

The ignore file is the root's `.amlignore`, else its `.gitignore`. Files look like secrets by name or content, and stay
out unless the ignore file takes them in. A name is on the list when hardly anything else is called so: `token.txt` is a
secret, `tokens.txt` is a vocabulary.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import re
from typing import Any, List, Optional, Pattern, Tuple

from runyard.core.errors import MissingExtra, SnapshotRejected

LIST_VERSION = "2"  # another one has every name of a source folder looked at again
SECRET_FILES = (
    ".env",
    ".env.*",
    "*.env",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".pypirc",
    ".npmrc",
    ".boto",
    ".s3cfg",
    ".htpasswd",
    ".git-credentials",
    ".vault-token",
    ".dockercfg",
    ".dockerconfigjson",
    "kaggle.json",
    "kubeconfig",
    "kubeconfig.*",
    "*.kubeconfig",
    "*.tfstate",
    "*.tfstate.backup",
    "credentials*",
    "application_default_credentials.json",
    "client_secret*.json",
    "service[-_]account*.json",
    "sa-key*.json",
    "*[-_]sa-key.json",
    "gcp[-_]key*.json",
    "secret.txt",
    "secret.json",
    "secrets.txt",
    "secrets.ini",
    "secrets.json",
    "secrets.toml",
    "secrets.y*ml",
    ".token",
    "token.txt",
    "api[-_]token*.txt",
    "auth[-_]token*.txt",
    "access[-_]token*.txt",
    "hf[-_]token*.txt",
    "github[-_]token*.txt",
    "wandb[-_]token*.txt",
    "api[-_]key*.txt",
    "apikey*.txt",
    "password.txt",
    "passwords.txt",
    "passwords.csv",
    "passwd.txt",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.ppk",
    "*.kdbx",
    "*.keystore",
)
SECRET_FOLDERS = (".aws", ".azure", ".gcloud", ".gnupg", ".kube", ".ssh")
# Code, samples and public parts that share such a name.
HARMLESS = (
    *(
        "*.py",
        "*.pyi",
        "*.pyc",
        "*.ipynb",
        "*.js",
        "*.jsx",
        "*.ts",
        "*.tsx",
        "*.go",
        "*.rs",
        "*.java",
        "*.kt",
        "*.scala",
    ),
    *(
        "*.c",
        "*.cc",
        "*.cpp",
        "*.h",
        "*.hpp",
        "*.cu",
        "*.rb",
        "*.r",
        "*.jl",
        "*.sql",
        "*.html",
        "*.css",
        "*.md",
        "*.rst",
    ),
    *("*.pub", "*.example", "*.sample", "*.template", "*.dist", "cacert.pem"),
)
_MOST_BYTES = 64 << 10  # of a file with a key in it
_KEY_FILE = re.compile(rb"\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_ACCOUNT_FILE = re.compile(rb'\s*\{(?=.*"private_key"\s*:\s*"-----BEGIN)', re.DOTALL)
IGNORE_FILES = (".amlignore", ".gitignore")
ALWAYS_OUT = frozenset({".git", "__pycache__"})
KEEP, IGNORED, SECRET = 0, 1, 2
_MAX_BYTES = 1 << 20


def _any_of(patterns: tuple[str, ...]) -> Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns), re.IGNORECASE)


_FILES, _FOLDERS, _HARMLESS = _any_of(SECRET_FILES), _any_of(SECRET_FOLDERS), _any_of(HARMLESS)


def looks_secret(name: str, *, is_folder: bool) -> bool:
    if is_folder:
        return _FOLDERS.match(name) is not None
    return _FILES.match(name) is not None and _HARMLESS.match(name) is None


def holds_key(file: int, name: str, size: int) -> bool:
    """Whether the open file is a private key, or a service account with one, whatever it is called.

    Code that has a key among other things, as a test may, is none.
    """
    if not 64 <= size <= _MOST_BYTES or _HARMLESS.match(name) is not None:
        return False
    head = os.pread(file, 4096, 0)
    return _KEY_FILE.match(head) is not None or _ACCOUNT_FILE.match(head) is not None


def git_excludes() -> List[str]:
    """Return git pathspecs that keep these files out of a patch."""
    files = [f":(exclude,icase,glob)**/{pattern}" for pattern in SECRET_FILES]
    return files + [f":(exclude,icase,glob)**/{pattern}/**" for pattern in SECRET_FOLDERS]


class Rules:
    """The rules of one source folder. `digest` tells whether they changed since the last walk."""

    def __init__(self, spec: Any = None, *, file: str = "", digest: str = "") -> None:
        self._spec = spec
        self.file = file  # the file they came from; "" when there is none
        self.digest = f"{LIST_VERSION}:{digest}"

    def takes_in(self, path: str) -> bool:
        """Whether a line `!name` of the ignore file says that the file is meant to travel."""
        return self._spec is not None and self._spec.check_file(path).include is False

    def verdict(self, path: str, name: str, *, is_folder: bool) -> int:
        """Say about one entry (its path below the root, and its name): KEEP, IGNORED or SECRET."""
        if name in ALWAYS_OUT:
            return IGNORED
        ignored: Optional[bool] = None
        if self._spec is not None:
            ignored = self._spec.check_file(f"{path}/" if is_folder else path).include
        if ignored:
            return IGNORED
        # `!name` in the ignore file is the user's word that the file is meant to travel.
        return SECRET if ignored is None and looks_secret(name, is_folder=is_folder) else KEEP


def read_rules(root_fd: int) -> Tuple[Rules, List[str]]:
    """Return the rules of the folder behind `root_fd`, and notes about what could not be used.

    Raises:
        SnapshotRejected: the ignore file cannot be read or understood.
        MissingExtra: there are rules, but no pathspec to apply them.
    """
    for name in IGNORE_FILES:
        try:
            text = _read(root_fd, name)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == errno.ELOOP:  # git does not follow such a link either
                return Rules(), [f"`{name}` is a symbolic link and was not read: nothing is ignored by it."]
            raise SnapshotRejected(
                f"`{name}` cannot be read.", why=f"{error.strerror}.", hint=f"Try `chmod u+r {name}`, or remove it."
            ) from error
        return _parse(name, text), []
    return Rules(), []


def _read(root_fd: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=root_fd)
    try:
        data = b""
        while len(data) <= _MAX_BYTES:
            more = os.read(fd, _MAX_BYTES)
            if not more:
                return data
            data += more
    finally:
        os.close(fd)
    raise SnapshotRejected(
        f"`{name}` is longer than {_MAX_BYTES} bytes.",
        why="An ignore file holds a few patterns, one in each line.",
        hint=f"Look into it with `head {name}`.",
    )


def _parse(name: str, text: bytes) -> Rules:
    lines = text.decode("utf-8", "surrogateescape").splitlines()
    if not any(line.strip() and not line.startswith("#") for line in lines):
        return Rules(file=name)
    try:
        spec = _spec_class(name).from_lines(lines)
    except ValueError as error:
        raise SnapshotRejected(
            f"`{name}` cannot be understood.",
            why=f"{error}.",
            hint="Its syntax is that of gitignore; correct that line.",
        ) from error
    return Rules(spec, file=name, digest=hashlib.sha256(text).hexdigest())


def _spec_class(name: str) -> Any:
    try:
        # Only a folder with an ignore file needs it, and only then may it be missing.
        from pathspec import GitIgnoreSpec

        if hasattr(GitIgnoreSpec, "check_file"):
            return GitIgnoreSpec
    except ImportError:
        pass
    raise MissingExtra(
        f"The rules in `{name}` cannot be applied.",
        why="They need the package pathspec, 0.12 or newer, which this Python does not have.",
        hint=f"Type `pip install -U pathspec`, or remove `{name}` to send every file.",
    )
