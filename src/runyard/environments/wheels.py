"""Exact versions that have no wheel for the Python of a build: another Python that has them, else the nearest versions.

Old files pin packages of their time, whose wheels end at Python 3.8 or before; compiling them takes long and mostly
fails. `WheelSearch` asks uv, which answers from its cache, and installs nothing.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runyard.core.errors import SubmitRejected
from runyard.core.provided_packages import package_name
from runyard.environments.base import Check
from runyard.environments.pip import PipInstall
from runyard.environments.pythons import Python
from runyard.environments.uv_program import find_uv

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*={2,3}\s*([^\s;,*]+(?:\.\*)?)\s*(;.*)?")
_NO_WHEEL = re.compile(r"no usable wheels|no\s+wheels\s+with\s+a\s+matching|does\s+not\s+satisfy\s+Python")
_ABSENT = re.compile(r"there (?:is|are) no versions? of|was not found")
# A version that has a wheel for none of these is compiled, as pip would: it never had wheels.
_ALL = tuple(f"3.{minor}" for minor in (8, 7, 6, 9, 10, 11, 12, 13, 14, 5))
# What packages and scripts of Python 3.7 and before rely on is gone from later ones: np.float, DataFrame.append,
# and protobuf's old generated code.
_OF_THEN = {"numpy": "numpy<1.24", "pandas": "pandas<2", "protobuf": "protobuf<3.21"}
_NEWEST_WITH_THEN = (3, 11)  # the last Python for which those have wheels
# The first versions that work with numpy 2. Earlier wheels were built for numpy 1, and many of them do not say so.
_KNOWS_NUMPY_2 = {
    "h5py": (3, 11),
    "matplotlib": (3, 8, 4),
    "onnxruntime": (1, 19),
    "opencv-python": (4, 10),
    "pandas": (2, 2, 2),
    "pyarrow": (16,),
    "scikit-learn": (1, 4, 2),
    "scipy": (1, 13),
    "statsmodels": (0, 14, 2),
    "tensorflow": (2, 18),
    "torch": (2, 3),
}


class WheelChoice(NamedTuple):
    """A Python and requirements that can be installed on it. `replaced` are the versions that were asked for."""

    python: Python
    requirements: List[str]
    constraints: List[str]
    replaced: Dict[str, str]
    sources: List[str]  # packages without a wheel for any Python: they are compiled


def exact_pins(pip: PipInstall) -> Dict[str, str]:
    """Return {package: version} of the requirements that name one version, and may come as wheels."""
    if pip.is_locked:  # then only the very files that were named will do
        return {}
    found = [match for match in map(_PIN.fullmatch, pip.requirements) if match is not None]
    sources = {package_name(name) for name in pip.settings.no_binary}
    pins = {package_name(match[1]): match[3] for match in found}
    return {} if ":all:" in pip.settings.no_binary else {name: pins[name] for name in pins if name not in sources}


def wheels_only(pip: PipInstall, names: Sequence[str]) -> PipInstall:
    """Return the same, with those packages never compiled."""
    return replace(pip, settings=replace(pip.settings, only_binary=[*pip.settings.only_binary, *sorted(names)]))


def lacks_wheels(error: SubmitRejected) -> bool:
    return bool(_NO_WHEEL.search(error.why))


def limits_of_then(pip: PipInstall, python: Python) -> List[str]:
    """Return version limits for what the environment does not pin itself and code of old Pythons relies on."""
    if tuple(int(part) for part in python.version.split(".")[:2]) > _NEWEST_WITH_THEN:
        return []
    lines = [line.partition(";")[0] for line in [*pip.requirements, *pip.constraints]]
    named = {package_name(line) for line in lines if re.search(r"[>=~@]", line)}  # `<2` goes with a lower limit
    return [limit for name, limit in _OF_THEN.items() if name not in named]


def limits_of_pins(pins: Mapping[str, str]) -> Dict[str, str]:
    """Return {version limit: the pin that needs it}: numpy 1 for packages that were built before numpy 2."""
    if "numpy" in pins:
        return {}
    old = [name for name, first in _KNOWS_NUMPY_2.items() if name in pins and _numbers(pins[name]) < first]
    return {"numpy<2": f"{old[0]} {pins[old[0]]}"} if old else {}


def _numbers(version: str) -> Tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


class WheelSearch:
    """Looks for what can be installed. `base` is a Python that is on the machine, for uv to start from."""

    def __init__(self, pip: PipInstall, base: Python, *, check: Check, keep: Sequence[int] = ()) -> None:
        self._pip = pip
        self._base = base
        self._check = check
        self._keep = keep
        self._pins = exact_pins(pip)

    def choose(self, pythons: Sequence[Python]) -> Optional[WheelChoice]:
        """Return the first of these Pythons that has wheels of all pins, else the one that has most, with the nearest
        versions of the others; None when no versions go together.
        """
        missing: Dict[Python, Dict[str, str]] = {}
        for python in pythons:
            missing[python] = self._without_wheel(python)
            if not missing[python]:
                break
        best = min(missing, key=lambda python: len(missing[python]))
        everywhere = set.intersection(*(set(names) for names in missing.values()))
        sources = [name for name in everywhere if not self._has_any_wheel(name)]
        nearest = {name: self._nearest(name, best) for name in missing[best] if name not in sources}
        replaced = {name: version for name, version in nearest.items() if version is not None}
        for requirements in self._ways(replaced):
            for limits in [limits_of_then(self._pip, best), []]:
                constraints = [*self._pip.constraints, *limits]
                if self._goes_together(requirements, constraints, best, sources):
                    asked = {name: self._pins[name] for name in replaced}
                    return WheelChoice(best, requirements, constraints, asked, sources)
        return None

    def _without_wheel(self, python: Python) -> Dict[str, str]:
        """Return the pins that have no wheel for that Python; one that does not exist at all is not among them."""
        left, missing = dict(self._pins), {}
        while left:
            code, text = self._resolve([f"{name}=={left[name]}" for name in left], python, list(left), ["--no-deps"])
            if code == 0:
                break
            named = [name for name in left if re.search(rf"(?<![\w.-]){re.escape(name)}==", text)]
            if not named:
                break  # another reason, which the installation will tell
            for name in named:
                version = left.pop(name)
                if not _ABSENT.search(text):
                    missing[name] = version
        return missing

    def _has_any_wheel(self, name: str) -> bool:
        line = [f"{name}=={self._pins[name]}"]
        pythons = (Python(version, version) for version in _ALL)
        return any(self._resolve(line, python, [name], ["--no-deps"])[0] == 0 for python in pythons)

    def _nearest(self, name: str, python: Python) -> Optional[str]:
        """Return the next version that has a wheel for that Python: a later one, else an earlier one."""
        for limit, resolution in ((">=", "lowest"), ("<", "highest")):
            line = f"{name}{limit}{self._pins[name].replace('.*', '')}"
            code, text = self._resolve([line], python, [name], ["--no-deps", "--resolution", resolution])
            found = re.search(rf"^{re.escape(name)}==(\S+)", text, re.MULTILINE)
            if code == 0 and found:
                return found[1]
        return None

    def _ways(self, replaced: Mapping[str, str]) -> List[List[str]]:
        """Return the requirements with nearest versions: these very ones, later ones too, any."""
        limits = ("=={}", ">={}", "")
        ways = [[_with_limit(line, replaced, limit) for line in self._pip.requirements] for limit in limits]
        return ways if replaced else ways[:1]

    def _goes_together(
        self, requirements: List[str], constraints: List[str], python: Python, sources: List[str]
    ) -> bool:
        names = [name for name in self._pins if name not in sources]
        return self._resolve(requirements, python, names, [], constraints)[0] == 0

    def _resolve(
        self,
        lines: Sequence[str],
        python: Python,
        only_wheels: Sequence[str],
        options: Sequence[str],
        constraints: Sequence[str] = (),
    ) -> Tuple[int, str]:
        pip = wheels_only(self._pip, only_wheels)
        argv = [find_uv(pip.variables), "pip", "compile", "--quiet", "--no-header", "--no-annotate", *options]
        argv += [*pip.settings.as_arguments(), "--python", self._base.path]
        argv += [] if python == self._base else ["--python-version", python.version]
        heard: List[str] = []
        with tempfile.NamedTemporaryFile("w", prefix="runyard-", suffix=".txt", encoding="utf-8") as limits:
            if constraints:
                limits.write("\n".join(constraints) + "\n")
                limits.flush()
                argv += ["-c", limits.name]
            feed = "\n".join(lines) + "\n"
            code = pip.run([*argv, "-"], environ=pip.environ(), say=heard.append, check=self._check, feed=feed,
                           keep=self._keep)  # fmt: skip
        return code, "\n".join(heard)


def _with_limit(line: str, replaced: Mapping[str, str], limit: str) -> str:
    match, name = _PIN.fullmatch(line), package_name(line)
    if match is None or name not in replaced:
        return line
    return f"{match[1]}{match[2] or ''}{limit.format(replaced[name])}{match[4] or ''}"


def notes_of(choice: WheelChoice, first: Python, pins: Dict[str, str], installed: Dict[str, str]) -> List[str]:
    """Return what the run's warnings say about the choice; `installed` are the versions by package."""
    notes = []
    if choice.python != first:
        kept = ", ".join(f"{name}=={pins[name]}" for name in pins if name not in choice.replaced)
        notes.append(
            f"{kept or 'The packages'} cannot be had as wheels for Python {first.version}: the environment is made "
            f"with Python {choice.python.version}. RUNYARD_PYTHON_FALLBACK=never forbids this."
        )
    for name, version in choice.replaced.items():
        used = installed.get(name, "another version")
        notes.append(
            f"{name} {version} has no wheel for Python {choice.python.version}: {name} {used} is installed instead. "
            "RUNYARD_PYTHON_FALLBACK=never forbids this."
        )
    return notes
