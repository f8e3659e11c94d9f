"""Environments that are named on the command line by a file: requirements, conda file, Dockerfile, saved folder."""

from __future__ import annotations

import os

from runyard.core.errors import InvalidArgument, NotFound
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.files import DEFINITION
from runyard.sdk.environments.sources import from_conda, from_dockerfile, from_pip


def find_environment(name: str) -> Environment | None:
    """Return the environment that a file or folder describes; None: it is the name of one.

    Raises:
        InvalidArgument: it is another file.
        NotFound: it is written like a file that is not there.
    """
    base = os.path.basename(name.rstrip("/"))
    stem = os.path.splitext(base)[0]
    if os.path.isdir(name) and ("/" in name or os.path.isfile(os.path.join(name, DEFINITION))):
        return Environment.load_from_directory(name)
    if name.endswith((".yml", ".yaml")):
        return from_conda(stem, _existing(name))
    if name.endswith(".txt"):
        return from_pip(stem, _existing(name))
    if base == "Dockerfile" or name.endswith(".Dockerfile"):
        return from_dockerfile(stem, _existing(name))
    if os.path.isfile(name):
        raise InvalidArgument(
            f"`{name}` is no file that an environment can be made from.",
            hint="It may be a requirements.txt, a conda file (.yml), a Dockerfile, or a folder of save_to_directory.",
        )
    return None


def _existing(path: str) -> str:
    if os.path.isfile(path):
        return path
    raise NotFound(f"There is no file `{path}`.", why=f"Looked in {os.getcwd()}.", hint="Give its path, or a name.")
