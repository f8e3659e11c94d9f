"""`Model.package`: models, script and environment in one folder that serves them, with Docker or without.

Dockerfile, requirements.txt (or environment.yml), serve.py, package.json
azureml-models/NAME/VERSION/…   <source folder>/…   .runyard/ (our code: the standard library alone)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Set, Tuple

from runyard.core.config.settings import read_settings
from runyard.core.provided_packages import package_name, split_provided
from runyard.core.secret_names import is_secret
from runyard.core.specs import EnvironmentSpec
from runyard.core.webservices import Definition
from runyard.runtime.injection import injection_folder
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import warn_once
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.plan import dependencies_of, names_image, plan_environment
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.files import MODELS, plain_form
from runyard.sdk.models.model import Model
from runyard.sdk.serving.deployment import served_environment
from runyard.sdk.serving.frameworks import pin_frameworks, run_facts
from runyard.sdk.serving.models import ServedModel, resolve_models
from runyard.sdk.serving.sources import ScriptSource, script_source
from runyard.sdk.submit.environment_build import EnvironmentBuild, start_build

if TYPE_CHECKING:
    from runyard.core.formats.documents import EnvironmentFacts
    from runyard.sdk.serving.inference_config import InferenceConfig
    from runyard.sdk.workspaces.workspace import Workspace

CODE = ".runyard"
LOCK = "system_logs/requirements.lock.txt"  # of the run that builds the environment
NAME = "local"
_RUNTIMES = ("podman", "docker")
_LIST_PACKAGES = (
    "import importlib.metadata as m\n"
    "for d in m.distributions():\n"
    "    if d.metadata['Name']: print(d.metadata['Name'] + '==' + d.version)"
)
_OURS = ("runyard", "runyard-injected", "pip", "setuptools", "wheel")
_SERVE = '''"""Answers requests with the models beside this file: `python serve.py --port 5001`, then POST to /score.

The packages of requirements.txt (or environment.yml) must be there. Other options: `python serve.py --help`.
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "package.json"), encoding="utf-8") as file:
    PACKAGE = json.load(file)
CODE = os.path.join(HERE, ".runyard")
sys.path.insert(0, CODE)
os.environ["PYTHONPATH"] = os.pathsep.join([CODE, *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ.setdefault("AZUREML_MODEL_DIR", os.path.join(HERE, PACKAGE["model_folder"]))
for name, value in PACKAGE["variables"].items():
    os.environ.setdefault(name, value)

if __name__ == "__main__":
    from runyard.serving.standalone import main

    sys.exit(main(app_root=HERE, **PACKAGE["serve"]))
'''


@dataclass(frozen=True)
class PackagePlan:
    """What goes into a package."""

    workspace: Workspace
    models: List[ServedModel]
    source: Optional[ScriptSource]
    no_code: str
    environment: Environment
    spec: EnvironmentSpec
    steps: str = ""  # more lines of the Dockerfile


class Requirements(NamedTuple):
    """The exact packages; with `conda` the text is a conda environment file."""

    text: str
    is_conda: bool = False


def plan_package(workspace: Workspace, models: Any, inference_config: Optional[InferenceConfig]) -> PackagePlan:
    """Return what a package of the models holds.

    Raises:
        WebserviceException: a model is missing, or needs a script.
        SubmitRejected: the environment cannot be.
    """
    served = resolve_models(workspace, models, register=False)
    source, steps, given = None, "", None
    if inference_config is not None:
        inference_config.validate_configuration()
        source = script_source(inference_config.entry_script, inference_config.source_directory)
        given = inference_config.make_environment()
        if inference_config.extra_docker_file_steps:
            with open(inference_config.path_of(inference_config.extra_docker_file_steps), encoding="utf-8") as file:
                steps = file.read()
    no_code, environment = served_environment(workspace, served, source, given)
    folder = source.folder if source is not None else None
    spec = plan_environment(environment, folder=folder)
    pinned, notes = pin_frameworks(run_facts(workspace._client), spec, [one.record for one in served if one.record])
    if notes:
        environment = _with_packages(
            environment, [line for line in pinned.pip_constraints if line not in spec.pip_constraints]
        )
        spec = plan_environment(environment, folder=folder)
    for note in notes:
        warn_once(note)
    return PackagePlan(workspace, served, source, no_code, environment, spec, steps)


def _with_packages(environment: Environment, lines: List[str]) -> Environment:
    found = deepcopy(environment)
    dependencies = deepcopy(dependencies_of(found)) or CondaDependencies()
    for line in lines:
        dependencies.remove_conda_package(package_name(line))
        dependencies.remove_pip_package(package_name(line))
        dependencies.add_pip_package(line)
    found.python.conda_dependencies = dependencies
    return found


@raises_azure_errors
class ModelPackage(AzureClass):
    """A package of models: a folder with a Dockerfile (`save`), or an image (`pull`). `Model.package` makes one.

    Its environment is built by a run, whose lock file becomes the package's.
    """

    def __init__(self, workspace: Workspace, operation_id: Any = None, environment: Any = None) -> None:
        raise WebserviceException(
            f"Packages are not found again by an id ({operation_id!r}): Model.package(ws, models, …) makes one."
        )

    @classmethod
    def _of(cls, plan: PackagePlan, *, image: Optional[str], runtime: str = "") -> ModelPackage:
        made = cls.__new__(cls)
        made.workspace = plan.workspace
        made.environment = plan.environment
        made._plan = plan
        made._image = image
        made._runtime = runtime
        made._folder = None
        made._log = ""
        made._failed = False
        made._build = _start_build(plan)
        return made

    workspace: Workspace
    environment: Environment
    _plan: PackagePlan
    _image: Optional[str]
    _runtime: str
    _folder: Optional[str]
    _log: str
    _failed: bool
    _build: Optional[EnvironmentBuild]

    @property
    def state(self) -> str:
        """NotStarted, Running, Succeeded or Failed, as it is now."""
        built = self._build.status if self._build is not None else "Succeeded"
        if self._failed or built in ("Failed", "Canceled"):
            return "Failed"
        if built != "Succeeded":
            return "NotStarted" if built == "Queued" else "Running"
        return "Succeeded" if self._image is None or self._folder is not None else "Running"

    @property
    def location(self) -> Optional[str]:
        """The image's name, or the folder that was written last; None before."""
        return self._image if self._image is not None else self._folder

    def wait_for_creation(self, show_output: bool = False) -> None:
        """Wait until the environment is built, and the image where one was asked for.

        Raises:
            WebserviceException: it failed; `get_logs()` has more.
        """
        if self._build is not None:
            self._build.run.wait_for_completion(show_output=show_output, raise_on_error=False)
        if self.state != "Failed" and self._image is not None and self._folder is None:
            self._make_image(show_output)
        if self.state == "Failed":
            raise WebserviceException(f"The package could not be made.\n{self.get_logs()[-4000:]}")
        if show_output:
            print(f"Package creation {self.state}")

    def get_logs(self) -> str:
        """Return what was printed while the environment, and the image, were built."""
        return "".join([self._build.get_log() if self._build is not None else "", self._log])

    def save(self, output_directory: str) -> None:
        """Write the Dockerfile and all that it needs into a folder, which is made; waits for the creation.

        Raises:
            WebserviceException: the package is an image.
        """
        if self._image is not None:
            raise WebserviceException(
                f"This package is the image {self._image}, which pull() gets. For a folder with a Dockerfile: "
                "Model.package(..., generate_dockerfile=True)."
            )
        self.wait_for_creation()
        write_package(self._plan, output_directory, requirements_of(self._plan, self._build))
        self._folder = os.path.abspath(output_directory)
        print(f"The package is in {self._folder}. Try it: python {os.path.join(output_directory, 'serve.py')}")

    def pull(self) -> None:
        """Have the image on this machine.

        Raises:
            WebserviceException: the package is a folder.
        """
        if self._image is None:
            raise WebserviceException(
                "This package is a folder with a Dockerfile and no image: package.save('folder') writes it; "
                "`docker build folder`, or `python folder/serve.py` without Docker."
            )
        self.wait_for_creation()
        print(f"The image {self._image} is on this machine: {self._runtime} run -p 5001:5001 {self._image}")

    def get_container_registry(self) -> Any:
        """Return the image's registry: images stay on the machine that built them."""
        if self._image is None:
            raise WebserviceException("This package is a folder with a Dockerfile, which no registry has.")
        return self.environment.docker.base_image_registry

    def serialize(self) -> Definition:
        return {"state": self.state, "location": self.location, "models": [one.id for one in self._plan.models]}

    def _make_image(self, show_output: bool) -> None:
        folder = tempfile.mkdtemp(prefix="runyard-package-")
        try:
            write_package(self._plan, folder, requirements_of(self._plan, self._build))
            command = [self._runtime, "build", "-t", str(self._image), folder]
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
            self._log += done.stdout
            self._failed = done.returncode != 0
            self._folder = folder
            if show_output:
                print(done.stdout)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def make_package(
    workspace: Workspace,
    models: Any,
    inference_config: Optional[InferenceConfig],
    *,
    generate_dockerfile: bool,
    image_name: Optional[str],
    image_label: Optional[str],
) -> ModelPackage:
    """Start to make a package; see `Model.package`."""
    if generate_dockerfile:
        return ModelPackage._of(plan_package(workspace, models, inference_config), image=None)
    runtime = next((name for name in _RUNTIMES if shutil.which(name)), None)
    if runtime is None:
        raise WebserviceException(
            "An image is built by podman or docker, and neither is on this machine.\n"
            "Model.package(ws, models, inference_config, generate_dockerfile=True) makes a folder with a Dockerfile: "
            "save('folder') writes it, and `python folder/serve.py` answers without Docker."
        )
    image = f"{image_name or 'package'}:{image_label or time.strftime('%Y%m%d%H%M%S')}"
    return ModelPackage._of(plan_package(workspace, models, inference_config), image=image, runtime=runtime)


def requirements_of(plan: PackagePlan, build: Optional[EnvironmentBuild]) -> Requirements:
    """Return the exact packages of the environment that was built, or of the Python that is named."""
    if build is None:
        return Requirements(_installed(plan.spec.interpreter or sys.executable))
    used = build.run._refresh().environment
    if used.get("conda"):
        return Requirements(_conda_file(plan, used), is_conda=True)
    with tempfile.TemporaryDirectory(prefix="runyard-lock-") as folder:
        if LOCK in build.run.get_file_names():
            path = os.path.join(folder, "lock")
            build.run.download_file(LOCK, path)
            with open(path, encoding="utf-8") as file:
                return Requirements(file.read())
    found = dict(used.get("packages") or {})
    return Requirements("".join(f"{name}=={found[name]}\n" for name in sorted(found) if _is_theirs(name)))


def write_package(plan: PackagePlan, folder: str, requirements: Requirements) -> None:
    """Write the folder of a package; what is there already is replaced."""
    root = os.path.abspath(os.path.expanduser(folder))
    hidden = write_service(plan, root)
    code = os.path.join(root, CODE)
    shutil.rmtree(code, ignore_errors=True)
    shutil.copytree(injection_folder(read_settings().home), code, ignore=shutil.ignore_patterns("__pycache__"))
    texts = {
        "environment.yml" if requirements.is_conda else "requirements.txt": requirements.text,
        "Dockerfile": _dockerfile(plan, requirements, hidden),
    }
    _write_texts(root, texts)


def write_service(plan: PackagePlan, root: str) -> List[str]:
    """Write models, source and `serve.py`, for a Python that has our code; return the names of secrets left out."""
    os.makedirs(root, exist_ok=True)
    model_folders = [_write_model(plan, model, root) for model in plan.models]
    if plan.source is not None:
        _write_source(plan.source, root)
    variables, hidden = _variables(plan)
    description = {
        "models": [model.id for model in plan.models],
        "model_folder": model_folders[0] if len(model_folders) == 1 else MODELS,
        "variables": variables,
        "serve": {
            "name": NAME,
            "entry": _entry(plan.source),
            "source_directory": plan.source.folder_name if plan.source is not None else "",
            "no_code": plan.no_code,
        },
    }
    _write_texts(root, {"serve.py": _SERVE, "package.json": json.dumps(description, indent=2) + "\n"})
    return hidden


def _write_texts(root: str, texts: Dict[str, str]) -> None:
    for name, text in texts.items():
        with open(os.path.join(root, name), "w", encoding="utf-8") as file:
            file.write(text)


def _start_build(plan: PackagePlan) -> Optional[EnvironmentBuild]:
    """Have a run build the environment, for its lock; a Python that is used as it is needs none."""
    return None if plan.spec.kind == "system" else start_build(plan.environment, plan.workspace)


def _write_model(plan: PackagePlan, model: ServedModel, root: str) -> str:
    place = "/".join((MODELS, plain_form(model.name), str(model.version)))
    folder = os.path.join(root, place)
    shutil.rmtree(folder, ignore_errors=True)
    if model.record is not None:
        Model._of(plan.workspace, model.record).download(folder, exist_ok=True)
        return place
    os.makedirs(folder)
    target = os.path.join(folder, os.path.basename(model.path))
    if os.path.isdir(model.path):
        shutil.copytree(model.path, target)
    else:
        shutil.copyfile(model.path, target)
    return place


def _write_source(source: ScriptSource, root: str) -> None:
    if source.folder:
        target = os.path.join(root, source.folder_name)
        if os.path.abspath(source.folder) != root:
            shutil.rmtree(target, ignore_errors=True)
            ignored = shutil.ignore_patterns("__pycache__", ".git")
            shutil.copytree(
                source.folder, target, ignore=lambda at, names: _without(root, at, ignored(at, names), names)
            )
    for path, name in source.files.items():
        target = os.path.join(root, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(path, target)


def _without(root: str, folder: str, ignored: Any, names: List[str]) -> Set[str]:
    """Leave out the package itself, where it is written into its own source folder."""
    return {*ignored, *(name for name in names if os.path.join(os.path.abspath(folder), name) == root)}


def _entry(source: Optional[ScriptSource]) -> str:
    if source is None:
        return ""
    return f"{source.folder_name}/{source.entry}" if source.folder_name else source.entry


def _variables(plan: PackagePlan) -> Tuple[Dict[str, str], List[str]]:
    """Return the variables that are written, and the names of secrets, which are not."""
    every = plan.spec.variables
    hidden = sorted(name for name, value in every.items() if is_secret(name, value, is_variable=True))
    return {name: value for name, value in every.items() if name not in hidden}, hidden


def _dockerfile(plan: PackagePlan, requirements: Requirements, hidden: List[str]) -> str:
    python = ".".join((plan.spec.python_version or "{}.{}".format(*sys.version_info[:2])).split(".")[:2])
    named = plan.environment.docker.base_image if names_image(plan.environment) else None
    image = named or f"python:{python}-slim"
    lines = [f"FROM {image}", "WORKDIR /var/azureml-app"]
    run = "python"
    if requirements.is_conda:
        lines[0] = "FROM mambaorg/micromamba:latest"
        lines += ["COPY environment.yml .", "RUN micromamba install -y -n base -f environment.yml"]
        run = "micromamba run -n base python"
    else:
        lines += ["COPY requirements.txt .", "RUN python -m pip install --no-cache-dir -r requirements.txt"]
    lines += ["COPY . .", *([plan.steps.rstrip()] if plan.steps.strip() else []), "EXPOSE 5001"]
    if hidden:
        lines.append(f"# Secrets are not in here. Set them when it runs: -e {' -e '.join(hidden)}")
    words = [*run.split(), "serve.py", "--host", "0.0.0.0"]
    return "\n".join([*lines, f"CMD {json.dumps(words)}", ""])


def _installed(interpreter: str) -> str:
    done = subprocess.run([interpreter, "-c", _LIST_PACKAGES], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise WebserviceException(f"{interpreter} does not say what is installed:\n{done.stderr[-2000:]}")
    lines = sorted({line for line in done.stdout.splitlines() if _is_theirs(line)}, key=str.lower)
    return "\n".join([*lines, ""])


def _is_theirs(requirement: str) -> bool:
    kept, _ = split_provided([requirement])
    return bool(kept) and package_name(requirement) not in _OURS


def _conda_file(plan: PackagePlan, used: EnvironmentFacts) -> str:
    conda = {str(one["name"]): str(one["version"]) for one in used["conda"]}
    named = {package_name(name) for name in conda}
    pip = [f"{name}=={version}" for name, version in sorted((used.get("packages") or {}).items())]
    pip = [line for line in pip if package_name(line) not in named and _is_theirs(line)]
    lines = ["channels:", *(f"- {name}" for name in plan.spec.conda_channels or ["conda-forge"]), "dependencies:"]
    lines += [f"- {name}={version}" for name, version in sorted(conda.items())]
    if pip:
        lines += ["- pip:", *(f"  - {line}" for line in pip)]
    return "\n".join([*lines, ""])
