"""Registered and curated environments.

Curated environments come first: Azure's names lead to the versions that they name, by `curated_environments.json`. The
server keeps registered environments in versions; the same content is the same version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

from runyard.core.errors import InvalidArgument, NotFound, SubmitRejected
from runyard.core.names import check_asset_name
from runyard.sdk.config.files import FilePosition
from runyard.sdk.config.texts import warn, warn_once
from runyard.sdk.environments.conda_dependencies import CondaDependencies, requirement_name
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.files import read_environment
from runyard.sdk.environments.plan import dependencies_of, variable_texts
from runyard.sdk.environments.requirements_file import expand_lines
from runyard.sdk.environments.sources import context_dockerfile, dockerfile_text
from runyard.sdk.errors import azure_error
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core.records import Asset
    from runyard.sdk.workspaces.workspace import Workspace


FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "curated_environments.json")
PREFIXES = ("azureml-", "microsoft-")  # names that only curated environments have
_VERSION = "1"
# As version 2 of Azure's SDK writes them: azureml://registries/azureml/environments/sklearn-1.5/labels/latest
_ADDRESS = re.compile(r"^(?:azureml://registries/azureml/environments/|azureml:(?://)?)([^/:@]+).*$", re.IGNORECASE)
_FAMILY = re.compile(
    r"(?:azureml|microsoft)-(?P<family>acpt-pytorch|pytorch|tensorflow|scikit-learn|sklearn|lightgbm|xgboost|onnxruntime)"
    r"-?(?P<version>\d+(?:\.\d+)+)",
    re.IGNORECASE,
)
_PYTHON = re.compile(r"-py(\d)\.?(\d+)", re.IGNORECASE)
T = TypeVar("T")
KIND = "environment"
LATEST = "latest"
_NOT_CONTENT = ("name", "version", "assetId")


class Curated(NamedTuple):
    """What a curated name means. `python` is None where any will do."""

    name: str
    pip: List[str]
    python: Optional[str]
    has_horovod: bool


class CuratedEntry(TypedDict, total=False):
    pip: List[str]
    python: str  # the version that was on Azure


class CuratedFamily(TypedDict, total=False):
    """Names that hold a version of one package."""

    like: str  # another family that it is the same as
    package: str
    pip: List[str]  # the other packages
    old: str  # names of versions before this one had Python 3.6
    limits: Dict[str, List[str]]  # for names of versions before the key
    horovod: bool


class CuratedFile(TypedDict):
    """`curated_environments.json`."""

    environments: Dict[str, CuratedEntry]  # by name; `*` at the end stands for all that begin so
    families: Dict[str, CuratedFamily]
    refused: Dict[str, str]  # name → why it cannot be had


def find_curated(name: str, version: Optional[str] = None) -> Optional[Environment]:
    """Return the curated environment of that name, upper and lower case alike; every version has the same packages.

    Raises:
        UserErrorException: it is one that cannot be had here.
    """
    refused = _look_up(_read()["refused"], name)
    if refused is not None:
        raise azure_error(
            SubmitRejected(
                f"The curated environment {name!r} cannot be had here.",
                why=refused[1],
                hint="Make one with the packages that your script imports: Environment.from_pip_requirements().",
            ),
            UserErrorException,
        )
    found = _curated(name)
    if found is None:
        return None
    _say(found)
    return _environment(found, version or _VERSION)


def list_curated() -> Dict[str, Environment]:
    """Return those that have a line of their own, by name."""
    names = sorted(name for name in _read()["environments"] if not name.endswith("*"))
    return {found.name: _environment(found, _VERSION) for found in map(_curated, names) if found is not None}


def is_reserved(name: str) -> bool:
    return name.lower().startswith(PREFIXES)


def package_sets() -> Dict[Tuple[str, ...], List[str]]:
    """Return each package set, its Python first, with the names that lead to it."""
    sets: Dict[Tuple[str, ...], List[str]] = {}
    for found in map(_curated, _read()["environments"]):
        if found is not None:
            sets.setdefault((found.python or "", *found.pip), []).append(found.name)
    return sets


def has_horovod(name: str) -> bool:
    """Whether Azure's curated environment of that name has Horovod."""
    found = _curated(name) if is_reserved(name) else None
    return found is not None and found.has_horovod


def _curated(name: str) -> Optional[Curated]:
    """Return what a name means: that of its line, else of its family and the version in it."""
    data = _read()
    name = _ADDRESS.sub(r"AzureML-\1", name)
    line = _look_up(data["environments"], name)
    if line is not None and "pip" in line[1]:
        known, entry = line
        return Curated(name if known.endswith("*") else known, list(entry["pip"]), entry.get("python"), False)
    match = _FAMILY.match(name)
    if match is None:
        return None
    family = data["families"][match["family"].lower()]
    family = data["families"][family["like"]] if "like" in family else family
    named = [
        family["package"] + (f"=={match['version']}" if match["version"].count(".") > 1 else f"=={match['version']}.*")
    ]
    limits: List[str] = next(
        (lines for before, lines in family["limits"].items() if _is_before(match["version"], before)), []
    )
    limited = {requirement_name(one) for one in limits}
    others = [package for package in family["pip"] if package not in limited]
    python = _PYTHON.search(name)
    old = "3.6" if "old" in family and _is_before(match["version"], family["old"]) else None
    return Curated(
        line[0] if line is not None and not line[0].endswith("*") else name,
        sorted([*named, *others, *limits], key=requirement_name),
        f"{python[1]}.{python[2]}" if python else old,
        bool(family.get("horovod")),
    )


def _is_before(version: str, other: str) -> bool:
    return [int(part) for part in version.split(".")] < [int(part) for part in other.split(".")]


def _look_up(entries: Dict[str, T], name: str) -> Optional[Tuple[str, T]]:
    spelt = {known.lower(): known for known in entries}
    wanted = name.lower()
    if wanted in spelt and not wanted.endswith("*"):
        return spelt[wanted], entries[spelt[wanted]]
    for known in sorted((known for known in spelt if known.endswith("*")), key=len, reverse=True):
        if fnmatchcase(wanted, known):
            return spelt[known], entries[spelt[known]]
    return None


def _environment(found: Curated, version: str) -> Environment:
    made = Environment(found.name)
    made.version = version
    made.environment_variables = {}
    made.python.conda_dependencies = CondaDependencies.create(
        pip_packages=["azureml-defaults", *found.pip], python_version=found.python
    )
    return made


def _say(found: Curated) -> None:
    packages = ", ".join(found.pip) or "nothing beyond what every run has"
    on = f" on Python {found.python}" if found.python else ""
    text = f"The curated environment {found.name} is this set of packages here{on}: {packages}."
    if found.pip:
        text += " Where the Python or a version cannot be had, the nearest one is taken, and the run says so."
    if "gpu" in found.name.lower() or "cuda" in found.name.lower():
        text += " Whether they use a GPU is decided by the wheels that your index has."
    if found.has_horovod:
        text += " Horovod is added for MPI jobs."
    warn_once(text)


def _read() -> CuratedFile:
    with open(FILE, encoding="utf-8") as file:
        data: CuratedFile = json.load(file)
    return data


def register(environment: Environment, workspace: Workspace) -> Environment:
    name = check_asset_name(environment.name)
    if is_reserved(name):
        raise InvalidArgument(
            f"An environment of yours cannot be named {name!r}.",
            why="Names that begin with AzureML- or Microsoft- are those of curated environments.",
            hint="Register a copy: env.clone('my-environment').register(ws).",
        )
    if environment.docker.base_image_registry.password is not None:
        warn("The password of docker.base_image_registry is not kept with the environment; set it again after get().")
    definition = _definition(environment)
    asset = workspace._client.assets.put(
        workspace.name, KIND, name, {"definition": definition, "labels": []}, key=_digest(definition)
    )
    made = deepcopy(environment)
    made.version = str(asset.version)
    return made


def get(
    workspace: Workspace, name: str, version: Union[str, int, None] = None, label: Optional[str] = None
) -> Environment:
    if version is not None and label is not None:
        raise UserErrorException("Both version and label are given. Environment.get() takes one of them.")
    if not isinstance(name, str):
        raise UserErrorException(f"An environment's name must be text, found {type(name).__name__}.")
    known = _registered_name(workspace, name)
    if known is not None:
        return _from_asset(_find_version(workspace, known, version, label))
    curated = find_curated(name, None if version is None else str(version))
    if curated is None:
        raise _unknown(workspace, name)
    if label is not None and label.lower() != LATEST:
        raise _without_labels(curated.name)
    return curated


def list_all(workspace: Workspace) -> Dict[str, Environment]:
    assets = workspace._client.assets.list(workspace.name, KIND)
    return {**{asset.name: _from_asset(asset) for asset in assets}, **list_curated()}


def registered(workspace: Workspace) -> Set[str]:
    """Return the names that are registered."""
    return {asset.name for asset in workspace._client.assets.list(workspace.name, KIND)}


def content_key(environment: Environment) -> str:
    """Return a digest of all that makes two environments the same, whatever their names and versions."""
    return _digest(_definition(environment))


def definition_of(environment: Environment) -> Tuple[Mapping[str, Any], str]:
    """Return what is kept of an environment, and the digest of its content."""
    definition = _definition(environment)
    return definition, _digest(definition)


def list_versions(workspace: Workspace, name: str) -> List[Asset]:
    """Return all versions of a registered environment, oldest first."""
    return workspace._client.assets.list(workspace.name, KIND, name=name)


def labels_of(asset: Asset) -> List[str]:
    return [str(label) for label in asset.document.get("labels") or []]


def set_labels(workspace: Workspace, name: str, version: Union[str, int], labels: Iterable[str]) -> None:
    wanted = _checked_labels(labels)
    known = _registered_name(workspace, name)
    if known is None:
        raise _without_labels(name) if find_curated(name) is not None else _unknown(workspace, name)
    target = _find_version(workspace, known, version, None)
    for asset in list_versions(workspace, known):
        had = labels_of(asset)
        has = [label for label in had if label not in wanted]
        has = sorted({*has, *wanted}) if asset.version == target.version else has
        if has != had:
            document = {**asset.document, "labels": has}
            workspace._client.assets.update(workspace.name, KIND, known, version=asset.version, document=document)


def _checked_labels(labels: Iterable[str]) -> List[str]:
    wanted = [labels] if isinstance(labels, str) else list(labels)
    for label in wanted:
        if not isinstance(label, str) or not label.strip():
            raise UserErrorException(f"A label must be text, found {label!r}.")
        if label.lower() == LATEST:
            raise UserErrorException("The label 'latest' always is the newest version; choose another one.")
    return wanted


def _registered_name(workspace: Workspace, name: str) -> Optional[str]:
    """Return the name as it was registered; one that is spelt so comes before those in other case."""
    known = [asset.name for asset in workspace._client.assets.list(workspace.name, KIND)]
    if name in known:
        return name
    return next((found for found in known if found.lower() == name.lower()), None)


def _find_version(workspace: Workspace, name: str, version: Union[str, int, None], label: Optional[str]) -> Asset:
    versions = list_versions(workspace, name)
    if version is None and (label is None or label.lower() == LATEST):
        return versions[-1]
    for asset in versions:
        if str(asset.version) == str(version) or (label is not None and label in labels_of(asset)):
            return asset
    there = ", ".join(str(asset.version) for asset in versions)
    labelled = sorted(found for asset in versions for found in labels_of(asset))
    raise NotFound(
        f"The environment {name!r} has no {f'version {version!r}' if label is None else f'label {label!r}'}.",
        why=f"Its versions: {there}; its labels: {', '.join([*labelled, LATEST])}.",
        hint=f"Environment.get(ws, {name!r}) is the newest.",
    )


def _without_labels(name: str) -> NotFound:
    return NotFound(
        f"The curated environment {name!r} has no labels.",
        why="It is not registered here: its versions are all the same.",
        hint="Register a copy and label that: env.clone('my-environment').register(ws).",
    )


def _unknown(workspace: Workspace, name: str) -> NotFound:
    from difflib import get_close_matches  # only for the message

    known = list(list_all(workspace))
    spelt = {found.lower(): found for found in known}
    near = [spelt[found] for found in get_close_matches(name.lower(), list(spelt), n=5, cutoff=0.5)]
    hint = f"Did you mean {' or '.join(repr(found) for found in near)}?" if near else ""
    return NotFound(
        f"There is no environment {name!r} in workspace `{workspace.name}`.",
        why=f"{len(known)} are registered or curated.",
        hint=hint or "`runyard environments list` shows them; env.register(ws) adds one.",
    )


def _from_asset(asset: Asset) -> Environment:
    made = Environment(asset.name)
    kept = asset.document.get("definition")
    definition = kept if isinstance(kept, dict) else {}  # another program may have put it there
    read_environment(made, {**definition, "name": asset.name, "version": str(asset.version)}, FilePosition("", ""))
    return made


def _definition(environment: Environment) -> Dict[str, Any]:
    """Return all that it takes to build it elsewhere: files it names are read, a registry's password is not kept."""
    copy = deepcopy(environment)
    copy.environment_variables = variable_texts(copy.environment_variables, "Environment.environment_variables")
    if copy.docker.base_dockerfile:
        copy.docker.base_dockerfile = dockerfile_text(copy.docker.base_dockerfile)
    if copy.docker.build_context is not None:  # the folder is of this machine alone
        copy.docker.base_dockerfile = context_dockerfile(copy.docker.build_context)
        copy.docker.build_context = None
    copy.docker.base_image_registry.password = None
    definition = copy.to_plain()
    dependencies = dependencies_of(environment)
    packages = dependencies.as_dict() if dependencies is not None else None
    definition["python"].update(condaDependencies=packages and _with_files_read(packages), condaDependenciesFile=None)
    definition.update(version=None, assetId=None)
    try:
        json.dumps(definition, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserErrorException(f"The environment `{environment.name}` cannot be registered: {error}.") from None
    return definition


def _with_files_read(packages: Dict[str, Any]) -> Dict[str, Any]:
    place = "The environment's pip packages"
    dependencies = [
        {"pip": expand_lines(item["pip"], os.getcwd(), place)} if isinstance(item, dict) else item
        for item in packages["dependencies"]
    ]
    return {**packages, "dependencies": dependencies}


def _digest(definition: Dict[str, Any]) -> str:
    content = {key: value for key, value in definition.items() if key not in _NOT_CONTENT}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
