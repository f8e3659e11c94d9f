"""The seam `EnvironmentBuilder`: spec in, ready interpreter out. Python 3.8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from typing import Callable, Dict, List, Mapping, Optional

from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import EnvironmentSpec

Say = Callable[[str], None]
Check = Callable[[], None]


def never() -> None:
    """The `check` of a build that is never stopped."""


@dataclass(frozen=True)
class Inside:
    """One process as it runs in its container. Folders are found there at the paths that they have here."""

    name: str  # of the container; unique
    argv: List[str]
    variables: Dict[str, str]
    work_folder: str
    writable: List[str] = field(default_factory=list)
    readable: List[str] = field(default_factory=list)
    has_peers: bool = False  # other processes of this run share memory with it
    has_input: bool = False  # its standard input is ours


@dataclass(frozen=True)
class Outside:
    """The process that the node starts for it, and the command that removes what that may leave."""

    argv: List[str]
    variables: Dict[str, str]
    remove: Optional[List[str]] = None


class Wrapper(ABC):
    """Puts each of a run's processes into a container. Only that process's end ends the container."""

    @abstractmethod
    def wrap(self, process: Inside) -> Outside:
        """Return what to start. It ends as the process does: its code, or 128 and the number of its signal."""


@dataclass(frozen=True)
class BuiltEnvironment:
    interpreter: str
    variables: Dict[str, str] = field(default_factory=dict)
    warnings: List[str] = field(default_factory=list)
    key: str = ""  # of one that was built; "": an interpreter that was there
    wrapper: Optional[Wrapper] = None  # what stands around each process: a container


class EnvironmentBuilder(ABC):
    """Makes the interpreter that a run's processes use; builds are cached by content and shared.

    Constructed with `cache=`, a folder for what it finds out, and `settings=`, whose home holds what it builds; either
    may be None. `variables` are those that the run's processes start from: names are looked up on their PATH and
    programs are run with them.
    """

    @abstractmethod
    def build(
        self,
        spec: EnvironmentSpec,
        *,
        say: Say,
        variables: Optional[Mapping[str, str]] = None,
        check: Check = never,
        user: Optional[str] = None,
    ) -> BuiltEnvironment:
        """Return a ready interpreter.

        Args:
            say: writes a line of progress into the run's build log.
            check: called several times a second while it takes long; what it raises ends the build at once.
            user: the run folder that will use it: the environment is not pruned before that is gone or `done`.

        Raises:
            SubmitRejected: the spec cannot be satisfied on this node.
        """

    @abstractmethod
    def describe(self, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None) -> Dict[str, object]:
        """Return {"interpreter", "python", "platform", "packages": {name: version}}; may take a while."""


class SupportsLock(ABC):
    """A builder that can tell exactly what it installed."""

    @abstractmethod
    def lock(
        self, spec: EnvironmentSpec, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None
    ) -> str:
        """Return a requirements file with exact versions and hashes, made from what is installed; takes a second."""
