"""The container runtime of this machine, and its images.

`find_runtime` takes podman, docker or apptainer, whichever is installed and works. `Images` finds images on the
machine, fetches them from a registry, or builds them from a Dockerfile; each once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Match, NamedTuple, Optional, Tuple

from runyard.core.config.logins import HIDDEN
from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import ContainerSpec
from runyard.environments.base import Check, Say
from runyard.environments.cache import get_place
from runyard.environments.process import run_program
from runyard.environments.uv import wait_for_lock

PODMAN, DOCKER, APPTAINER = "podman", "docker", "apptainer"
_PROGRAMS = {"podman": PODMAN, "docker": DOCKER, "apptainer": APPTAINER, "singularity": APPTAINER}
_PROBES = {
    PODMAN: ["info", "--format", "{{.Host.Security.Rootless}}"],
    DOCKER: ["info", "--format", "{{.ServerVersion}} {{json .SecurityOptions}}"],
    APPTAINER: ["--version"],
}
_PROBE_S = 30.0
_FROM = re.compile(
    r"^(?P<head>\s*FROM\s+(?:--\S+\s+)*)(?P<image>\S+)(?P<tail>(?:\s+AS\s+(?P<stage>\S+))?)",
    re.IGNORECASE | re.MULTILINE,
)

# Variables that the container runtime's own program reads; it gets no other variable of the run.
_CLIENT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "REGISTRY_AUTH_FILE", "SSL_CERT_FILE"})
_CLIENT_PREFIXES = (
    "XDG_", "DOCKER_", "CONTAINER_", "CONTAINERS_", "STORAGE_", "BUILDAH_", "APPTAINER_", "SINGULARITY_", "DBUS_",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip


@dataclass(frozen=True)
class ContainerRuntime:
    """One container runtime. `before` goes in front of every command, `behind` behind `run`."""

    kind: str
    program: str
    is_rootless: bool = False
    before: List[str] = field(default_factory=list)
    behind: List[str] = field(default_factory=list)

    def command(self, *words: str) -> List[str]:
        return [self.program, *self.before, *words]


def find_runtime(settings: Optional[Settings], variables: Mapping[str, str]) -> ContainerRuntime:
    """Return the container runtime that RUNYARD_CONTAINER_ENGINE names, else the first that is installed and works.

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
        engine = ContainerRuntime(kind, os.path.abspath(program), before=before, behind=behind)
        works, said = _probe(engine, variables)
        if works:
            rootless = said.startswith("true") or "rootless" in said
            return ContainerRuntime(kind, engine.program, is_rootless=rootless, before=before, behind=behind)
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
    """Return those of the run's variables that the container runtime's own program gets."""
    kept = {name: value for name, value in variables.items() if name in _CLIENT or name.startswith(_CLIENT_PREFIXES)}
    return {"PATH": os.defpath, **kept}


def _probe(engine: ContainerRuntime, variables: Mapping[str, str]) -> Tuple[bool, str]:
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


class Image(NamedTuple):
    """An image that is on the machine: what `run` takes, and the id of its content."""

    reference: str
    id: str
    name: str  # as the user knows it


class Images:
    """The images of a container runtime. `folder` keeps locks, and the image files of a runtime without a store."""

    def __init__(
        self, engine: ContainerRuntime, folder: Path, *, client: Mapping[str, str], say: Say, check: Check
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._client = dict(client)
        self._say = say
        self._check = check

    def get(self, spec: ContainerSpec) -> Image:
        """Return the image of `spec`, fetched or built when it is not here.

        Raises:
            SubmitRejected: the image cannot be had; the error holds the container runtime's own message.
        """
        if self._engine.kind == APPTAINER:
            return self._get_file(spec)
        name = built_name(spec) if spec.dockerfile else full_name(spec)
        image = self._find(name)
        if image is not None:
            return image
        if self._engine.kind == PODMAN and not spec.dockerfile:
            name = docker_name(name)
        place = get_place(self._folder, hashlib.sha256(name.encode()).hexdigest()[:32])
        with place.signed(wait_for_lock(place, say=self._say, check=self._check), "Another run"):
            image = self._find(name)
            if image is None:
                self._build(spec, name) if spec.dockerfile else self._fetch(spec, name)
                image = self._find(name)
        if image is None:
            raise _failed(f"The image `{name}` is not there after it was fetched.", [])
        return image

    def _find(self, name: str) -> Optional[Image]:
        lines: List[str] = []
        code = self._run(["image", "inspect", "--format", "{{.Id}}", name], lines.append)
        found = lines[-1].strip() if lines else ""
        return Image(found, found, name) if code == 0 and found else None

    def _fetch(self, spec: ContainerSpec, name: str) -> None:
        self._say(f"Fetching the image {name}.")
        lines: List[str] = []
        with self._logged_in(spec) as (before, behind):
            code = self._run([*before, "pull", *behind, name], self._hear(lines))
        if code != 0:
            raise _failed(f"The image `{name}` could not be fetched.", lines, hint=_fetch_hint(self._engine, name))

    def _build(self, spec: ContainerSpec, name: str) -> None:
        self._say("Building the image of the environment's Dockerfile.")
        lines: List[str] = []
        with self._logged_in(spec) as (before, behind), tempfile.TemporaryDirectory(prefix="runyard-") as empty:
            source = ["--file", "-", *behind, empty] if self._engine.kind == PODMAN else ["-"]
            text = self._with_registries(spec.dockerfile) if self._engine.kind == PODMAN else spec.dockerfile
            code = self._run([*before, "build", "--tag", name, *source], self._hear(lines), feed=text)
        if code != 0:
            hint = "The lines above are the engine's. The Dockerfile has no other files beside it, so COPY finds none."
            raise _failed("The image of the environment's Dockerfile could not be built.", lines, hint=hint)

    def _with_registries(self, dockerfile: str) -> str:
        """Return a Dockerfile whose base images have the registry that docker takes; those that are here stay."""
        stages = {match["stage"].lower() for match in _FROM.finditer(dockerfile) if match["stage"]}

        def named(match: Match[str]) -> str:
            image = match["image"]
            if "$" in image or image.lower() in {*stages, "scratch"} or self._find(image) is not None:
                return match[0]
            return match["head"] + docker_name(image) + match["tail"]

        return _FROM.sub(named, dockerfile)

    @contextmanager
    def _logged_in(self, spec: ContainerSpec) -> Iterator[Tuple[List[str], List[str]]]:
        """Yield arguments before and behind the command that make the runtime use the registry's password.

        It lies in a folder of ours for that long; the user's own logins count where the specification has none.
        """
        if not (spec.username and spec.password):
            yield [], []
            return
        with tempfile.TemporaryDirectory(prefix="runyard-") as folder:
            if self._engine.kind == DOCKER:
                _copy_context(self._client, folder)
                before, behind = ["--config", folder], []
            else:
                before, behind = [], ["--authfile", os.path.join(folder, "auth.json")]
            lines: List[str] = []
            words = [*before, "login", *behind, "--username", spec.username, "--password-stdin"]
            if self._run([*words, *([spec.registry] if spec.registry else [])], lines.append, feed=spec.password) != 0:
                what = f"The registry `{spec.registry}` refuses the user `{spec.username}`."
                hint = "Look at env.docker.base_image_registry: address, username, password."
                raise _failed(what, [line.replace(spec.password, HIDDEN) for line in lines], hint=hint)
            yield before, behind

    def _get_file(self, spec: ContainerSpec) -> Image:
        """For apptainer, whose images are files: one that is named, or one that we fetch from a registry."""
        if spec.dockerfile:
            raise SubmitRejected(
                "The environment's image is made by a Dockerfile, and apptainer cannot build those.",
                why="No other engine works here.",
                hint="Build the image elsewhere and name it in env.docker.base_image, or install podman.",
            )
        name = full_name(spec)
        if os.path.exists(os.path.expanduser(name)):
            path = os.path.abspath(os.path.expanduser(name))
            return Image(path, f"{path}:{os.stat(path).st_mtime_ns}", name)
        place = get_place(self._folder, hashlib.sha256(name.encode()).hexdigest()[:32])
        file = place.folder / "image.sif"
        with place.signed(wait_for_lock(place, say=self._say, check=self._check), "Another run"):
            if not file.exists():
                self._pull_file(spec, name, str(file))
        return Image(str(file), f"{name}:{file.stat().st_mtime_ns}", name)

    def _pull_file(self, spec: ContainerSpec, name: str, file: str) -> None:
        self._say(f"Fetching the image {name}.")
        lines: List[str] = []
        login = {"APPTAINER_DOCKER_USERNAME": spec.username, "APPTAINER_DOCKER_PASSWORD": spec.password}
        beside = f"{file}.new"
        source = name if "://" in name else f"docker://{name}"
        environ = login if spec.username else {}
        if self._run(["pull", "--force", beside, source], self._hear(lines), environ=environ) != 0:
            raise _failed(f"The image `{name}` could not be fetched.", lines, hint=_fetch_hint(self._engine, source))
        os.rename(beside, file)

    def _run(self, words: List[str], say: Say, *, feed: str = "", environ: Optional[Dict[str, str]] = None) -> int:
        argv = self._engine.command(*words)
        return run_program(argv, environ={**self._client, **(environ or {})}, say=say, check=self._check, feed=feed)

    def _hear(self, lines: List[str]) -> Say:
        def hear(line: str) -> None:
            lines.append(line)
            self._say(line)

        return hear


def full_name(spec: ContainerSpec) -> str:
    """Return the image's name with its registry."""
    if not spec.registry or spec.image.startswith(f"{spec.registry}/"):
        return spec.image
    return f"{spec.registry.partition('://')[2] or spec.registry}/{spec.image}"


def docker_name(name: str) -> str:
    """Return a name with the registry that docker takes for it; podman refuses to guess one.

    Azure's own images, which its SDK names without a registry too, are Microsoft's.
    """
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    if first == "azureml" and slash:
        return f"mcr.microsoft.com/{name}"
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def built_name(spec: ContainerSpec) -> str:
    """Return the name of a Dockerfile's image: the same text is the same image."""
    return f"localhost/runyard:{hashlib.sha256(spec.dockerfile.encode()).hexdigest()[:32]}"


def _copy_context(client: Mapping[str, str], folder: str) -> None:
    """Let docker find its daemon with another folder of settings: which one it talks to is in the user's."""
    own = client.get("DOCKER_CONFIG") or os.path.join(client.get("HOME") or os.path.expanduser("~"), ".docker")
    try:
        with open(os.path.join(own, "config.json"), encoding="utf-8") as file:
            current = json.load(file).get("currentContext")
        shutil.copytree(os.path.join(own, "contexts"), os.path.join(folder, "contexts"))
    except (OSError, ValueError, AttributeError):
        return
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"currentContext": current} if current else {}, file)


def _fetch_hint(engine: ContainerRuntime, name: str) -> str:
    return (
        f"Look at env.docker.base_image; `{os.path.basename(engine.program)} pull {name}` tries it by hand. A private "
        "registry needs env.docker.base_image_registry: address, username, password."
    )


def _failed(what: str, lines: List[str], *, hint: str = "") -> SubmitRejected:
    said = [line for line in lines if line.strip()][-20:]
    return SubmitRejected(what, why="\n".join(said) or "The engine says nothing.", hint=hint or "Submit again.")
