"""The program `uv`: where it is, the variables it runs with, and what its errors mean."""

from __future__ import annotations

import os
import re
import shutil
from typing import Dict, List, Mapping, Sequence

from runyard.core.config.logins import hide_passwords
from runyard.core.errors import SubmitRejected

# Of a user's own uv settings, those that say from where and how, not into what.
_TAKEN = (
    "UV_CACHE_DIR", "UV_CONCURRENT_", "UV_CONFIG_FILE", "UV_DEFAULT_INDEX", "UV_EXCLUDE_NEWER", "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS", "UV_HTTP_", "UV_INDEX", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER", "UV_LINK_MODE",
    "UV_NATIVE_TLS", "UV_NO_CONFIG", "UV_OFFLINE", "UV_PRERELEASE", "UV_PYTHON_INSTALL_DIR", "UV_REQUEST_TIMEOUT",
    "UV_SYSTEM_CERTS", "UV_TORCH_BACKEND",
)  # fmt: skip
# They would make uv, or the Python that it asks, look into another environment.
_LEFT_OUT = frozenset({"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"})

_HINTS = (
    (r"subsequent index|index-strategy", "A package is taken from the first index that has it, so that nobody can put "
     "another one of that name on a public index. If you trust all of these indexes alike, set the variable "
     "UV_INDEX_STRATEGY=unsafe-best-match for the environment: "
     "`environment.environment_variables['UV_INDEX_STRATEGY'] = 'unsafe-best-match'`."),
    (r"401|403|[Uu]nauthorized|[Ff]orbidden", "The package index refuses the user name or password. Put them into "
     "pip's configuration (`pip config set global.index-url https://USER:PASSWORD@…`) or `~/.netrc`."),
    (r"invalid peer certificate|UnknownIssuer|certificate", "The index's certificate is not trusted here. Name the "
     "file of your certificate authority: `pip config set global.cert /path/to/ca.pem`."),
    (r"dns error|error sending request|Failed to fetch|tcp connect|timed out|Connection refused",
     "The package index cannot be reached from this machine. `pip config list` shows which ones are asked; "
     "`pip config set global.index-url <address>` names another, `pip config set global.find-links <folder>` a folder "
     "of wheels."),
    (r"[Nn]o space left", "The disk is full. `runyard environments prune` removes environments that nobody uses."),
    (r"[Ff]ailed to build|build backend|Failed to download and build", "A package has no wheel for this Python and "
     "machine and was compiled here, which failed; the lines above say why. A version with a wheel, or another "
     "`python_version`, avoids that."),
    (r"Requires-Python|requires Python|Python version|Python ABI|python tag",
     "No version of a package fits this Python. Name another: `CondaDependencies.set_python_version('3.11')`."),
    (r"was not found in the|not found in the package registry|no versions? of",
     "Look at the name and version of the package, and at the indexes that are asked: `pip config list`."),
    (r"Because ", "The packages cannot be installed together. Loosen one of the versions that the message names."),
)  # fmt: skip


def find_uv(variables: Mapping[str, str]) -> str:
    """Return the path of uv: the one that came with Runyard, else the first on PATH.

    Raises:
        SubmitRejected: there is none.
    """
    try:
        from uv import find_uv_bin  # a wheel that holds the program; only builds need it

        return os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        pass
    found = shutil.which("uv", path=variables.get("PATH") or os.defpath)
    if found is None:
        raise SubmitRejected(
            "The program `uv`, which installs packages, is not on this machine.",
            why="It is neither beside Runyard's Python nor on PATH.",
            hint="`pip install uv` in the Python that runs Runyard's server.",
        )
    return os.path.abspath(found)


def uv_variables(
    variables: Mapping[str, str], indexes: Mapping[str, str], *, allows_downloads: bool = False
) -> Dict[str, str]:
    """Return the variables for uv: the run's own, less what would lead it astray, and `indexes` of pip's settings."""
    kept = {
        name: value
        for name, value in variables.items()
        if name not in _LEFT_OUT and (not name.startswith("UV_") or name.startswith(_TAKEN))
    }
    return {
        **kept,
        **indexes,
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        "UV_PYTHON_DOWNLOADS": "automatic" if allows_downloads else "never",
    }


def install_failed(name: str, code: int, lines: Sequence[str]) -> SubmitRejected:
    """Return the error of a failed installation: uv's own explanation, and what may help."""
    text = "\n".join(explanation(lines)) or f"uv exited with {code} and said nothing."
    return SubmitRejected(f"The packages of environment `{name}` could not be installed.", why=text, hint=_hint(text))


def explanation(lines: Sequence[str]) -> List[str]:
    """Return the part of uv's output that says why: from its error on."""
    shown = [hide_passwords(line) for line in lines if line.strip()]
    starts = [at for at, line in enumerate(shown) if re.match(r"\s*(error:|×|x )", line)]
    return shown[starts[0] if starts else -15 :][:60]


def _hint(text: str) -> str:
    for pattern, hint in _HINTS:
        if re.search(pattern, text):
            return hint
    return "The build log azureml-logs/20_image_build_log.txt of the run has all that uv said."
