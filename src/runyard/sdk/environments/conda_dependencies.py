"""`CondaDependencies`: the packages an environment asks for. Kept as data; builders read `as_dict()`."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import Any, Dict, Iterable, List, Optional, Tuple

from runyard.core.provided_packages import package_name
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.files import write_text
from runyard.sdk.config.objects import checked_mapping, checked_value, report_unknown
from runyard.sdk.environments.requirements_file import expand_lines, split_option
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException

_DEFAULT_PIP = "azureml-defaults"
_HEADER = "# Conda environment specification: used for runs with userManagedDependencies=False.\n"
_KEYS = ("name", "dependencies", "channels", "prefix", "variables")
_LIMITED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._\-]*)\s*(\[[^\]]*\])?\s*(\(?\s*(?:[<>=!~][^;@]*)?)(?:;(.*))?")
_OPERATORS = "<>=!~"  # a range begins with one
_EXACT = re.compile(r"\s*={0,3}\s*([0-9]+(?:\.[0-9]+)*)(?:\.\*|=.*)?\s*")


@raises_azure_errors
class CondaDependencies(AzureClass):
    """Conda and pip packages, channels and the Python version of an environment.

    Args:
        conda_dependencies_file_path: a conda environment file to start from.

    Raises:
        UserErrorException: that file is missing, or is no conda environment file.
    """

    def __init__(self, conda_dependencies_file_path: Optional[str] = None, _underlying_structure: Any = None) -> None:
        self._python: str = "{}.{}".format(*sys.version_info[:2])
        self._python_given = False
        self._python_range = ""  # of a conda file; one that a lock file sets is `_python` itself, and is never bent
        self._conda: List[str] = []
        self._pip: List[str] = [_DEFAULT_PIP]
        self._channels: List[str] = ["anaconda", "conda-forge"]
        self._name = "project_environment"
        self._source: Optional[str] = None
        if conda_dependencies_file_path is not None:
            from runyard.sdk.config.files import read_yaml

            path = os.path.abspath(os.path.expanduser(os.fspath(conda_dependencies_file_path)))
            self._source = path
            self._take(read_yaml(path), path)
        elif _underlying_structure is not None:
            self._source = "condaDependencies"
            self._take(_underlying_structure, self._source)

    @staticmethod
    def create(
        pip_indexurl: Optional[str] = None,
        pip_packages: Optional[Iterable[str]] = None,
        conda_packages: Optional[Iterable[str]] = None,
        python_version: Optional[str] = None,
        pin_sdk_version: bool = True,
    ) -> CondaDependencies:
        """Return the dependencies made of these lists; a given `pip_packages` replaces azureml-defaults."""
        made = CondaDependencies()
        if pip_packages is not None:
            made.set_pip_requirements(_list_of(pip_packages, "pip_packages"))
        for package in _list_of(conda_packages or [], "conda_packages"):
            made.add_conda_package(package)
        if python_version is not None:
            made.set_python_version(python_version)
        if pip_indexurl is not None:
            made.set_pip_index_url(pip_indexurl)
        return made

    @property
    def conda_packages(self) -> List[str]:
        return [self._python_line, *self._conda]

    @property
    def pip_packages(self) -> List[str]:
        return [line for line in self._pip if not line.startswith("-")]

    @property
    def pip_options(self) -> List[str]:
        return [line for line in self._pip if line.startswith("-")]

    @property
    def conda_channels(self) -> List[str]:
        return list(self._channels)

    def add_pip_package(self, pip_package: str) -> None:
        """Add a package; another version of the same package is replaced."""
        package = _checked(pip_package)
        self.remove_pip_package(package)
        self._pip.append(package)

    def remove_pip_package(self, pip_package: str) -> None:
        name = requirement_name(pip_package)
        self._pip = [line for line in self._pip if line.startswith("-") or requirement_name(line) != name]

    def add_conda_package(self, conda_package: str) -> None:
        """Add a package; `python=3.10` sets the Python version."""
        package = _checked(conda_package)
        if conda_name(package) == "python":
            self._want_python(package.rpartition("::")[2][len("python") :])
        elif package not in self._conda:
            self._conda.append(package)

    def remove_conda_package(self, conda_package: str) -> None:
        """Remove that line; when there is none, every line of that package, whatever its version."""
        name = conda_name(conda_package)
        if name == "python":
            raise UserErrorException("The python package cannot be removed. Use set_python_version() to change it.")
        if conda_package in self._conda:
            self._conda = [package for package in self._conda if package != conda_package]
        else:
            self._conda = [package for package in self._conda if conda_name(package) != name]

    def add_channel(self, channel: str) -> None:
        if channel not in self._channels:
            self._channels.append(channel)

    def remove_channel(self, channel: str) -> None:
        self._channels = [known for known in self._channels if known != channel]

    def set_python_version(self, version: str) -> None:
        self._python, self._python_range = _checked(version), ""
        self._python_given = True

    def get_python_version(self) -> str:
        """Return the version; of a range the submitting Python's where it fits, else the nearest one."""
        return self._wanted_python or self._python

    def set_pip_requirements(self, pip_requirements: Iterable[str]) -> None:
        self._pip = [_checked(line) for line in pip_requirements]

    def set_pip_option(self, pip_option: str) -> None:
        """Add a line such as `--pre` or `--extra-index-url https://…`."""
        option = _checked(pip_option)
        if not option.startswith("-"):
            raise UserErrorException(f"A pip option begins with `-`, found {pip_option!r}. Use add_pip_package().")
        if option not in self._pip:
            self._pip.append(option)

    def remove_pip_option(self, pip_option: str) -> None:
        """Remove that line; given without a value, every line of that option."""
        name, value = split_option(pip_option)
        self._pip = [line for line in self._pip if not _is_option(line, name, value)]

    def set_pip_index_url(self, index_url: str) -> None:
        """Take packages from this index instead of the one that pip is configured with."""
        self.remove_pip_option("--index-url")
        self._pip.insert(0, f"--index-url {_checked(index_url)}")

    def add_tensorflow_pip_package(self, core_type: str = "cpu", version: Optional[str] = None) -> None:
        self.add_pip_package(_tensorflow(core_type) + (f"=={_version(version)}" if version else ""))

    def add_tensorflow_conda_package(self, core_type: str = "cpu", version: Optional[str] = None) -> None:
        self.add_conda_package(_tensorflow(core_type) + (f"={_version(version)}" if version else ""))

    def add_cntk_package(self, core_type: str = "cpu") -> None:
        self.add_pip_package("cntk-gpu" if _tensorflow(core_type).endswith("-gpu") else "cntk")

    @staticmethod
    def merge_requirements(requirements: Iterable[str]) -> List[str]:
        """Return one line per package, its version limits joined with commas: `a>1`, `A<3` become `a>1,<3`."""
        limits: Dict[Tuple[str, str, str], List[str]] = {}
        names: Dict[Tuple[str, str, str], str] = {}
        for line in _list_of(requirements, "requirements"):
            name, extras, limit, marker = _parts(_checked(line))
            key = (requirement_name(name), extras, marker)
            names.setdefault(key, name)
            known = limits.setdefault(key, [])
            known += [part for part in (limit,) if part and part not in known]
        return [names[key] + key[1] + ",".join(found) + key[2] for key, found in limits.items()]

    def as_dict(self) -> Dict[str, Any]:
        dependencies: List[Any] = [self._python_line]
        if self._pip:
            dependencies.append({"pip": list(self._pip)})
        return {
            "name": self._name,
            "dependencies": dependencies + self._conda,
            "channels": list(self._channels),
        }

    def serialize_to_string(self) -> str:
        """Return the conda environment file's text."""
        from runyard.core.yaml.writer import dump

        return _HEADER + dump(self.as_dict())

    def save_to_file(self, base_directory: str, conda_file_path: Optional[str] = None) -> str:
        """Write the file below `base_directory`; return its path relative to that."""
        name = conda_file_path or os.path.join(".azureml", "auto_conda_dependencies.yml")
        write_text(os.path.join(base_directory, name), self.serialize_to_string())
        return name

    def save(self, path: Optional[str] = None) -> str:
        """Write the file (into the folder, when `path` is one); return its path."""
        target = path or os.path.join(".azureml", "conda_dependencies.yml")
        if os.path.isdir(target):
            target = os.path.join(target, "conda_dependencies.yml")
        write_text(target, self.serialize_to_string())
        return target

    def _take(self, found: Any, place: str) -> None:
        """Take over a conda environment file's content. What it does not say is not asked for."""
        settings = checked_mapping(found, place)
        for key in settings:
            if key not in _KEYS:
                report_unknown(str(key), _KEYS, f"{place}: {key}")
        self._name = str(settings.get("name") or self._name)
        self._channels = [str(channel) for channel in checked_value([], settings.get("channels"), f"{place}: channels")]
        self._pip = []
        for item in checked_value([], settings.get("dependencies"), f"{place}: dependencies"):
            if isinstance(item, str):
                self.add_conda_package(item)
            elif isinstance(item, dict) and list(item) == ["pip"]:
                lines = [_checked(line) for line in checked_value([], item["pip"], f"{place}: pip")]
                self._pip += expand_lines(lines, os.path.dirname(place) or os.getcwd(), f"{place}: pip")
            else:
                raise UserErrorException(
                    f"{place}: a dependency is a package or `pip:` with a list, found {item!r:.100}."
                )

    def _want_python(self, limit: str) -> None:
        """Take `=3.10` as the version. Of a range (`>=3.8,<3.11`) the submitting Python is taken where it fits."""
        exact = _EXACT.fullmatch(limit)
        if exact:
            self.set_python_version(exact.group(1))
        elif limit.strip() not in ("", "*", "=*"):
            from runyard.core.formats.python_range import plain_range  # few files have a range

            with suppress(ValueError):  # an unknown form names no version
                self._python_range, self._python_given = plain_range(limit), False

    @property
    def _python_line(self) -> str:
        wanted = self._python_range or self._python
        return f"python{wanted}" if wanted[0] in _OPERATORS else f"python={wanted}"

    @property
    def _wanted_python(self) -> Optional[str]:
        """The Python version that the user named, None when it is only the default or a range that holds that."""
        if not self._python_range:
            return self._python if self._python_given else None
        from runyard.core.formats.python_range import nearest  # few files have a range

        found = nearest(self._python_range, "{}.{}.{}".format(*sys.version_info[:3]))
        return None if found == "{}.{}".format(*sys.version_info[:2]) else found

    @property
    def _is_default(self) -> bool:
        """Whether it is the default: made without arguments and never changed."""
        return self._source is None and self.as_dict() == CondaDependencies().as_dict()


def requirement_name(requirement: str) -> str:
    """Return the package's name in the one form of PEP 503; an address or a path has none and stands for itself."""
    text = requirement.strip()
    is_place = "://" in text.partition("@")[0] or text.startswith((".", "/", "~"))
    return text if is_place else package_name(text) or text


def conda_name(package: str) -> str:
    """Return the name of a conda package, which may say its channel: `conda-forge::numpy=2`."""
    return requirement_name(package.rpartition("::")[2])


def _parts(requirement: str) -> Tuple[str, str, str, str]:
    """Return name, extras, version limit and marker; what is no name with limits (an address, a path) is all name."""
    match = _LIMITED.fullmatch(requirement)
    if match is None:
        return requirement, "", "", ""
    name, extras, limit, marker = match.groups()
    return name, extras or "", limit.strip().strip("()").strip(), f"; {marker.strip()}" if marker else ""


def _is_option(line: str, name: str, value: str) -> bool:
    return line.startswith("-") and split_option(line)[0] == name and value in ("", split_option(line)[1])


def _tensorflow(core_type: str) -> str:
    if core_type not in ("cpu", "gpu"):
        raise UserErrorException(f"core_type must be 'cpu' or 'gpu', found {core_type!r}.")
    return "tensorflow" if core_type == "cpu" else "tensorflow-gpu"


def _version(value: Any) -> str:
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UserErrorException(f"A version is a text such as '2.15', found {value!r:.100}.")


def _list_of(value: Iterable[str], what: str) -> List[str]:
    if isinstance(value, str):
        raise UserErrorException(f"{what} must be a list of texts, found the text {value!r}. Write [{value!r}].")
    return list(value)


def _checked(line: str) -> str:
    if not isinstance(line, str) or not line.strip() or "\n" in line:
        raise UserErrorException(f"A package must be one line of text, found {line!r}.")
    return line.strip()
