"""Files that look like secrets, by name or content: they stay out of a snapshot unless an ignore file takes them in.

A name is on the list when hardly anything else is called so: `token.txt` is a secret, `tokens.txt` is a vocabulary.
"""

from __future__ import annotations

import fnmatch
import re
from typing import List, Pattern

from runyard.core.machine.portable import read_at

LIST_VERSION = "3"  # another one has every name of a source folder looked at again
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
    head = read_at(file, 4096, 0)
    return _KEY_FILE.match(head) is not None or _ACCOUNT_FILE.match(head) is not None


def git_excludes() -> List[str]:
    """Return git pathspecs that keep these files out of a patch."""
    files = [f":(exclude,icase,glob)**/{pattern}" for pattern in SECRET_FILES]
    return files + [f":(exclude,icase,glob)**/{pattern}/**" for pattern in SECRET_FOLDERS]
