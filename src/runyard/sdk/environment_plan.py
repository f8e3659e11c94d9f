"""An `Environment` → the frozen EnvironmentSpec that a node builds."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Dict, List, Mapping, Optional

from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.sdk.conda_dependencies import CondaDependencies, package_name
from runyard.sdk.environment import Environment
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.not_yet import refuse

# Packages whose place Runyard takes: every run has them without an installation.
PROVIDED = frozenset(
    {
        "azureml-contrib-tensorboard",
        "azureml-core",
        "azureml-defaults",
        "azureml-sdk",
        "azureml-telemetry",
        "azureml-tensorboard",
        "azureml-train",
        "azureml-train-core",
        "azureml-widgets",
        "pip",
        "python",
        "runyard",
    }
)
_EXAMPLE = ("EXAMPLE_ENV_VAR", "EXAMPLE_VALUE")


def plan_environment(environment: Any, *, use_docker: bool = False) -> EnvironmentSpec:
    """Return what the node needs to know.

    Raises:
        SubmitRejected: the interpreter does not exist.
        NotYetSupported: packages must be installed, or a container is asked for.
    """
    if not isinstance(environment, Environment):
        raise UserErrorException(f"environment must be an Environment, found {type(environment).__name__}.")
    if use_docker or environment.docker.enabled:
        refuse(
            "A run in a container",
            hint="Set use_docker=False (docker.enabled = False) to run on this machine's own Python.",
        )
    dependencies = environment.python.conda_dependencies
    managed = not environment.python.user_managed_dependencies
    if managed:
        _refuse_installs(environment.name, dependencies)
    interpreter = sys.executable if managed else environment.python.interpreter_path
    return EnvironmentSpec(
        name=environment.name,
        version=environment.version,
        kind="system",
        interpreter=find_interpreter(interpreter),
        pip_packages=_beyond_provided(dependencies.pip_packages) if dependencies is not None else [],
        conda_packages=_beyond_provided(dependencies.conda_packages) if dependencies is not None else [],
        conda_channels=list(dependencies.conda_channels) if dependencies is not None else [],
        python_version=dependencies._wanted_python if dependencies is not None else None,
        variables=variable_texts(environment.environment_variables, "Environment.environment_variables"),
        definition=environment.to_plain(),
    )


def find_interpreter(path: Optional[str]) -> str:
    """Return the interpreter's absolute path; `python` means the one that submits.

    Raises:
        SubmitRejected: there is none.
    """
    if path in (None, "", "python"):
        if not sys.executable:
            raise SubmitRejected(
                "This Python does not know its own path.", hint="Set env.python.interpreter_path = '/path/to/python'."
            )
        return sys.executable
    given = os.path.expanduser(str(path))
    found = shutil.which(given) if os.sep not in given else (os.path.abspath(given) if _is_program(given) else None)
    if found is None:
        raise SubmitRejected(
            f"The interpreter `{path}` does not exist.",
            why="It is not a program that can be run here (python.interpreter_path).",
            hint=f"`which python3` shows one; this script runs on {sys.executable}.",
        )
    return os.path.abspath(found)


def variable_texts(variables: Optional[Mapping[str, Any]], what: str) -> Dict[str, str]:
    """Return environment variables as texts.

    Raises:
        UserErrorException: a name or value that no process can have.
    """
    found: Dict[str, str] = {}
    for name, value in (variables or {}).items():
        text = value if isinstance(value, str) else str(value)
        if not isinstance(name, str) or not name or "=" in name or "\0" in name + text:
            raise UserErrorException(f"{what} holds the variable {name!r}={text!r:.50}, which no process can have.")
        found[name] = text
    return found


def _refuse_installs(name: str, dependencies: Optional[CondaDependencies]) -> None:
    if dependencies is None:
        return
    wanted = _beyond_provided([*dependencies.pip_packages, *dependencies.conda_packages])
    own = "{}.{}".format(*sys.version_info[:2])
    python = dependencies._wanted_python
    if python is not None and not (python + ".").startswith(own + "."):
        wanted.insert(0, f"python={python}")
    if wanted:
        refuse(
            f"Building an environment (`{name}` asks for {', '.join(wanted[:8])}{' …' if len(wanted) > 8 else ''})",
            hint="Install the packages yourself and set env.python.user_managed_dependencies = True; "
            "env.python.interpreter_path names the Python that has them (default: this one).",
        )


def _beyond_provided(packages: List[str]) -> List[str]:
    return [package for package in packages if package_name(package) not in PROVIDED]


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
