"""The EnvironmentBuilder `container`: an image, and a container of it around each process of the run.

`find_image_python` runs the image once to find its Python.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from runyard.core.config.paths import cache_folder, environments_folder
from runyard.core.config.settings import Settings, read_settings
from runyard.core.errors import SubmitRejected
from runyard.core.formats.python_range import fits, is_range
from runyard.core.provided_packages import tell_absent
from runyard.core.specs import ContainerSpec, EnvironmentSpec
from runyard.environments.base import (
    BuiltEnvironment,
    Check,
    EnvironmentBuilder,
    Inside,
    Say,
    SupportsLock,
    never,
)
from runyard.environments.cache import CacheEntry, Marker, get_place
from runyard.environments.conda.prefix import translate
from runyard.environments.container.command import GPU_DEVICE, ContainerWrapper, has_gpus, run_in_container
from runyard.environments.container.images import (
    PODMAN,
    ContainerRuntime,
    Image,
    Images,
    client_variables,
    find_runtime,
)
from runyard.environments.pip import PipInstall, install, plan_pip
from runyard.environments.pythons import OLDEST, Python
from runyard.environments.system import PACKAGES_SCRIPT, list_installed
from runyard.environments.uv import build_once, environment_key, make_venv, say_left_out, who_asks

# Debian's images have python3 and no python. The first word is the name that was asked for.
_FIND = 'p=$(command -v "$1" || { [ "$1" = python ] && command -v python3; }) && exec "$p" -c "$2"'
# Its version first: an old Python says no more.
_ASK = """
import json, os, sys
print(json.dumps({"interpreter": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3],
                  "path": os.environ["PATH"]}))
"""

RunInside = Callable[[List[str]], "Answer"]
_FOR_UV = ("UV_", "SSL_", "NO_", "HTTP", "http", "no_", "ALL_PROXY", "all_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CLIENT_CERT")
NO_CDI = (
    "The containers see no GPU: podman knows of none. `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` tells it."
)


class Answer(NamedTuple):
    code: int
    lines: List[str]


class ImagePython(NamedTuple):
    interpreter: str
    version: str
    path: str  # the image's own PATH
    platform: str
    packages: Dict[str, str]


def find_image_python(image: Image, wanted: Optional[str], place: CacheEntry, run: RunInside) -> ImagePython:
    """Return the image's Python, `wanted` by name or path, else `python` or `python3`.

    Args:
        place: keeps the answer for as long as the image's content is the same.

    Raises:
        SubmitRejected: the image has none that runs can use.
    """
    key = json.dumps([image.id, wanted])
    known = place.read("python.json") or {}
    if known.get("key") != key:
        answer = run(["/bin/sh", "-c", _FIND, "sh", wanted or "python", _ASK + PACKAGES_SCRIPT])
        known = {"key": key, **_parse(image, wanted, answer)}
        place.folder.mkdir(mode=0o700, exist_ok=True)
        place.write("python.json", known)
    return ImagePython(*(known[name] for name in ImagePython._fields))


def _parse(image: Image, wanted: Optional[str], answer: Answer) -> Dict[str, object]:
    told: Dict[str, object] = {}
    for line in answer.lines:
        told.update(_object(line))
    version = str(told.get("python", ""))
    if version and tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise _unusable(image, f"Its Python is {version}; runs need {'.'.join(map(str, OLDEST))} or newer.")
    if answer.code != 0 or not set(ImagePython._fields) <= {*told, "version"}:
        said = "\n".join(line for line in answer.lines if line.strip())[-2000:]
        name = os.path.basename(wanted or "python")
        raise _unusable(image, f"Asked for its `{name}`, it exited with {answer.code}. {said}".strip())
    return {**told, "version": version}


def _object(line: str) -> Dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _unusable(image: Image, why: str) -> SubmitRejected:
    return SubmitRejected(
        f"The image `{image.name}` cannot run the script.",
        why=why,
        hint="Name an image with a Python in env.docker.base_image (`python:3.11-slim`), and with "
        "env.python.interpreter_path which one it is (user_managed_dependencies = True).",
    )


class ContainerBuilder(EnvironmentBuilder, SupportsLock):
    def __init__(self, *, cache: Optional[Path] = None, settings: Optional[Settings] = None) -> None:
        self._settings = settings or read_settings()
        self._inside: Optional[Tuple[Image, ImagePython]] = None  # what was built

    def build(
        self,
        spec: EnvironmentSpec,
        *,
        say: Say,
        variables: Optional[Mapping[str, str]] = None,
        check: Check = never,
        user: Optional[str] = None,
    ) -> BuiltEnvironment:
        environ = dict(os.environ if variables is None else variables)
        wrapper = self._find_image(_checked(spec), environ, say=say, check=check)
        python = self._find_python(spec, wrapper, check)
        self._inside = wrapper.image, python
        pip = self._plan_pip(spec, environ)
        say_left_out(pip.left_out, say)
        warnings = [*([NO_CDI] if _misses_gpus(wrapper.runtime) else []), *tell_absent(pip.left_out)]
        if _has_other_python(spec, python):
            warnings.append(
                f"Python {spec.python_version} is asked for, and the image `{wrapper.image.name}` has "
                f"{python.version}, which is used. RUNYARD_PYTHON_FALLBACK=never forbids this."
            )
            say(warnings[-1])
        if not pip.requirements:
            say(f"Using the image's Python {python.version} ({python.interpreter}).")
            own = _variables(python)
            return BuiltEnvironment(python.interpreter, variables=own, warnings=warnings, wrapper=wrapper)
        place = self._build_venv(wrapper, python, pip, say=say, check=check, user=user)
        return BuiltEnvironment(
            interpreter=str(place.interpreter),
            variables={**_variables(python), "VIRTUAL_ENV": str(place.prefix)},
            warnings=warnings,
            key=place.key,
            wrapper=wrapper.with_prefix(str(place.prefix)),
        )

    def describe(self, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None) -> Dict[str, object]:
        """As the base class says; `added` are the packages beside the image's own, `image` is its name and its id."""
        assert self._inside is not None
        image, python = self._inside
        added: Dict[str, str] = {}
        if built.key:
            place = get_place(environments_folder(self._settings.home), built.key)
            added = {one.name: one.version for one in list_installed(place.prefix)}
        return {
            "interpreter": built.interpreter,
            "python": python.version,
            "platform": python.platform,
            "packages": {**python.packages, **added},
            "added": added,
            "image": {"name": image.name, "id": image.id},
        }

    def lock(
        self, spec: EnvironmentSpec, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None
    ) -> str:
        """Return the exact versions, and the image by its content; its files have no hashes."""
        assert self._inside is not None
        image, python = self._inside
        described = self.describe(built, variables=variables)
        packages = described["packages"]
        assert isinstance(packages, dict)
        head = f"# Exact packages in the image {image.name} {image.id}, Python {python.version}. Without hashes."
        return "\n".join([head, *(f"{name}=={packages[name]}" for name in sorted(packages, key=str.lower))]) + "\n"

    def _find_image(
        self, container: ContainerSpec, environ: Mapping[str, str], *, say: Say, check: Check
    ) -> ContainerWrapper:
        machine = {**os.environ, **environ}  # the container runtime is this machine's, whatever the run's variables say
        runtime = find_runtime(self._settings, machine)
        say(f"Running in containers by {runtime.program}.")
        client = client_variables(machine)
        image = Images(runtime, self._images_folder(), client=client, say=say, check=check).get(container)
        say(f"The image is {image.name} ({image.id[:19]}).")
        return ContainerWrapper(runtime, image, container, client=client)

    def _find_python(self, spec: EnvironmentSpec, wrapper: ContainerWrapper, check: Check) -> ImagePython:
        key = hashlib.sha256(json.dumps([wrapper.image.id, spec.interpreter]).encode()).hexdigest()[:32]
        place = get_place(self._images_folder(), key)
        found = find_image_python(
            wrapper.image, spec.interpreter, place, lambda argv: self._ask(wrapper, argv, check=check)
        )
        if self._settings.python_fallback == "never" and _has_other_python(spec, found):
            raise SubmitRejected(
                f"Environment `{spec.name}` asks for Python {spec.python_version}.",
                why=f"The image `{wrapper.image.name}` has {found.version}, and packages are added to its own Python.",
                hint=f"Leave the Python version out, unset RUNYARD_PYTHON_FALLBACK, or name an image that has it "
                f"(`python:{spec.python_version}-slim`).",
            )
        return found

    def _plan_pip(self, spec: EnvironmentSpec, environ: Mapping[str, str]) -> PipInstall:
        """Return what goes on top of the image's Python: pip packages, and conda's by their names on PyPI."""
        plan = translate(spec.conda_packages)
        if plan.unknown:
            raise SubmitRejected(
                f"The conda packages of environment `{spec.name}` cannot be added to an image.",
                why=f"Of {', '.join(f'`{name}`' for name in plan.unknown)} no counterpart on PyPI is known.",
                hint="Put them into the image (env.docker.base_dockerfile: RUN conda install …) and set "
                "env.python.user_managed_dependencies = True.",
            )
        return plan_pip(spec, variables=environ, requirements=[*plan.requirements, *spec.pip_packages])

    def _build_venv(
        self,
        wrapper: ContainerWrapper,
        python: ImagePython,
        pip: PipInstall,
        *,
        say: Say,
        check: Check,
        user: Optional[str],
    ) -> CacheEntry:
        base = Python(python.interpreter, python.version)
        key = environment_key("container", Python("/", python.version), [wrapper.image.id, pip.what_counts()])
        place = get_place(environments_folder(self._settings.home), key)
        name = f"runyard-build-{key}"  # one at a time: another is of a build whose node was killed
        inside = replace(pip, run=lambda argv, **options: self._run_build(wrapper, name, list(argv), **options))

        def make(fd: int) -> Marker:
            wrapper.remove(name)
            say(f"Adding to the image's Python {python.version}: {', '.join(pip.requirements)}.")
            sees_image = ["--system-site-packages"]
            make_venv(place, base, inside, say=say, check=check, keep=[fd], options=sees_image)
            install(inside, str(place.interpreter), say=say, check=check, keep=[fd])
            return {"kind": "container", "name": pip.name, "python": python.version, "requirements": pip.requirements}

        build_once(place, make, say=say, check=check, user=user, who=who_asks(user))
        return place

    def _ask(self, wrapper: ContainerWrapper, argv: List[str], *, check: Check) -> Answer:
        lines: List[str] = []
        inside = Inside(name=f"runyard-ask-{os.urandom(6).hex()}", argv=argv, variables={}, work_folder="/")
        code = run_in_container(wrapper, inside, say=lines.append, check=check)
        return Answer(code, lines)

    def _run_build(
        self, wrapper: ContainerWrapper, name: str, argv: List[str], *, environ: Mapping[str, str], **options: Any
    ) -> int:
        """Run uv in a container of the image, where the packages will be used."""
        home = str(self._settings.home)
        cache = os.path.realpath(cache_folder(self._settings.home))
        inner = {key: value for key, value in environ.items() if key.startswith(_FOR_UV)}
        named = [*argv, *inner.get("UV_FIND_LINKS", "").split(","), *(inner.get(key, "") for key in _CERTIFICATES)]
        inside = Inside(
            name=name,
            argv=argv,
            variables={**inner, "UV_CACHE_DIR": os.path.join(cache, "uv"), "HOME": "/tmp"},
            work_folder="/",
            writable=[home] if cache.startswith(home + os.sep) else [home, cache],
            readable=sorted({path for path in named if os.path.exists(path) and not path.startswith(home + os.sep)}),
            has_input=True,
        )
        return run_in_container(wrapper, inside, **options)

    def _images_folder(self) -> Path:
        cache = cache_folder(self._settings.home)
        cache.mkdir(mode=0o700, exist_ok=True)
        return cache / "images"


def _checked(spec: EnvironmentSpec) -> ContainerSpec:
    container = spec.container
    if container is None or not (container.image or container.dockerfile):
        raise SubmitRejected(
            f"Environment `{spec.name}` asks for a container and names no image.",
            hint="Set env.docker.base_image or env.docker.base_dockerfile, or leave use_docker out.",
        )
    return container


def _has_other_python(spec: EnvironmentSpec, found: ImagePython) -> bool:
    """Whether the image's Python is not the one that was asked for; with an interpreter it is the user's own."""
    wanted = spec.python_version if spec.interpreter is None else None
    if wanted and is_range(wanted):
        return not fits(found.version, wanted)
    return bool(wanted) and not (found.version + ".").startswith(f"{wanted}.")


def _misses_gpus(runtime: ContainerRuntime) -> bool:
    return runtime.kind == PODMAN and os.path.exists(GPU_DEVICE) and not has_gpus(runtime)


def _variables(python: ImagePython) -> Dict[str, str]:
    home = {} if os.getuid() == 0 else {"HOME": "/tmp"}  # a user that the image does not know has no other
    return {"PATH": python.path, **home}
