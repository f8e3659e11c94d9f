"""Resolve the package set of every curated environment on today's index, as a build would; fail where none goes."""

from __future__ import annotations

import os
import sys

from runyard.core.errors import RunyardError
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import never
from runyard.environments.pip import plan_pip
from runyard.environments.pythons import find_python, list_pythons
from runyard.environments.wheels import WheelSearch
from runyard.sdk.environments.registry import package_sets

SOURCES = ("chainer", "mpi4py")  # there are sources of these alone, or wheels that depend on the machine's MPI


def resolve(python_version: str, packages: list[str]) -> str:
    """Return the Python and what stands in the place of versions that it cannot have."""
    packages = [line for line in packages if line.partition("=")[0] not in SOURCES]
    environ = dict(os.environ)
    python = find_python(python_version or None, sys.executable, variables=environ, cache=None)
    pip = plan_pip(EnvironmentSpec(name="curated", kind="uv", pip_packages=packages), variables=environ)
    choice = WheelSearch(pip, python, check=never).choose([python, *list_pythons(environ, None)])
    if choice is None:
        return ""
    changed = [line for line in choice.requirements if line not in packages]
    return f"Python {choice.python.version} {' '.join(changed) or 'as named'}"


def main() -> int:
    failed = 0
    for (python, *packages), names in package_sets().items():
        try:
            found = resolve(python, packages)
        except RunyardError as error:
            print(error)
            found = ""
        failed += not found
        print(f"{'ok  ' if found else 'FAIL'} {', '.join(names)}\n     {' '.join(packages)}\n     {found}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
