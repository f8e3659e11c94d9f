"""Names of files that look like secrets. They stay out of a snapshot unless the ignore file takes them back in."""

from __future__ import annotations

import fnmatch
import re
from typing import List, Pattern

SECRET_FILES = (
    ".env",
    ".env.*",
    "*.env",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    "credentials*",
    "client_secret*.json",
    "service[-_]account*.json",
    "secrets.json",
    "secrets.toml",
    "secrets.y*ml",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.ppk",
    "*.kdbx",
    "*.keystore",
)
SECRET_FOLDERS = (".aws", ".azure", ".gnupg", ".kube", ".ssh")
# Code, samples and public parts that share such a name.
HARMLESS = ("*.py", "*.pyi", "*.md", "*.rst", "*.pub", "*.example", "*.sample", "*.template", "*.dist", "cacert.pem")


def _any_of(patterns: tuple[str, ...]) -> Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns), re.IGNORECASE)


_FILES, _FOLDERS, _HARMLESS = _any_of(SECRET_FILES), _any_of(SECRET_FOLDERS), _any_of(HARMLESS)


def looks_secret(name: str, *, is_folder: bool) -> bool:
    if is_folder:
        return _FOLDERS.match(name) is not None
    return _FILES.match(name) is not None and _HARMLESS.match(name) is None


def git_excludes() -> List[str]:
    """Return git pathspecs that keep these files out of a patch."""
    files = [f":(exclude,icase,glob)**/{pattern}" for pattern in SECRET_FILES]
    return files + [f":(exclude,icase,glob)**/{pattern}/**" for pattern in SECRET_FOLDERS]
