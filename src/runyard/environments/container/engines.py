"""The container engine of this machine: podman, docker or apptainer, whichever is there and works."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import field
from typing import Dict, List, Mapping, Optional, Tuple

from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.lazy_dataclass import dataclass

PODMAN, DOCKER, APPTAINER = "podman", "docker", "apptainer"
_PROGRAMS = {"podman": PODMAN, "docker": DOCKER, "apptainer": APPTAINER, "singularity": APPTAINER}
_PROBES = {
    PODMAN: ["info", "--format", "{{.Host.Security.Rootless}}"],
    DOCKER: ["info", "--format", "{{.ServerVersion}} {{json .SecurityOptions}}"],
    APPTAINER: ["--version"],
}
_PROBE_S = 30.0

# What the engine's own program reads; nothing else of the run's variables is for it.
_CLIENT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "REGISTRY_AUTH_FILE", "SSL_CERT_FILE"})
_CLIENT_PREFIXES = (
    "XDG_", "DOCKER_", "CONTAINER_", "CONTAINERS_", "STORAGE_", "BUILDAH_", "APPTAINER_", "SINGULARITY_", "DBUS_",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """One engine. `before` goes in front of every command, `behind` behind `run`."""

    kind: str
    program: str
    is_rootless: bool = False
    before: List[str] = field(default_factory=list)
    behind: List[str] = field(default_factory=list)

    def command(self, *words: str) -> List[str]:
        return [self.program, *self.before, *words]


def find_engine(settings: Optional[Settings], variables: Mapping[str, str]) -> Engine:
    """Return the engine that RUNYARD_CONTAINER_ENGINE names, else the first that is there and works.

    Raises:
        SubmitRejected: none works; the message says what each of them answered.
    """
    wanted = settings.container_engine if settings is not None else None
    before, behind = split_arguments(settings.container_arguments if settings is not None else "")
    answers: List[str] = []
    for name in [wanted] if wanted else list(_PROGRAMS):
        program = shutil.which(os.path.expanduser(name), path=variables.get("PATH") or os.defpath)
        if program is None:
            answers.append(f"{name} is not on this machine")
            continue
        kind = _PROGRAMS.get(os.path.basename(name), DOCKER)
        engine = Engine(kind, os.path.abspath(program), before=before, behind=behind)
        works, said = _probe(engine, variables)
        if works:
            rootless = said.startswith("true") or "rootless" in said
            return Engine(kind, engine.program, is_rootless=rootless, before=before, behind=behind)
        answers.append(f"{name} does not work ({said})")
    raise _none_works(answers, wanted)


def split_arguments(text: str) -> Tuple[List[str], List[str]]:
    """Return the words of RUNYARD_CONTAINER_ARGUMENTS before and behind `run`; `--` stands between them."""
    words = shlex.split(text)
    if "--" not in words:
        return [], words
    at = words.index("--")
    return words[:at], words[at + 1 :]


def client_variables(variables: Mapping[str, str]) -> Dict[str, str]:
    """Return what the engine's own program gets of the variables that the run's processes start from."""
    kept = {name: value for name, value in variables.items() if name in _CLIENT or name.startswith(_CLIENT_PREFIXES)}
    return {"PATH": os.defpath, **kept}


def _probe(engine: Engine, variables: Mapping[str, str]) -> Tuple[bool, str]:
    argv = engine.command(*_PROBES[engine.kind])
    environ = client_variables(variables)
    try:
        done = subprocess.run(
            argv, env=environ, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {_PROBE_S:g} s"
    except OSError as error:
        return False, str(error.strerror)
    said = (done.stdout if done.returncode == 0 else done.stderr).decode("utf-8", "replace").strip()
    return done.returncode == 0, said if done.returncode == 0 else (said.rpartition("\n")[2][:300] or "it says nothing")


def _none_works(answers: List[str], wanted: Optional[str]) -> SubmitRejected:
    return SubmitRejected(
        "The run asks for a container, and no container engine works here.",
        why="; ".join(answers) + ".",
        hint=(f"Start `{wanted}`, or unset RUNYARD_CONTAINER_ENGINE to try the others. " if wanted else "")
        + "Install one (`apt-get install podman`), or run without: DockerConfiguration(use_docker=False), "
        "env.docker.enabled = False.",
    )
