"""The seam `EnvironmentBuilder`: spec in, ready interpreter out. Python 3.8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Mapping, Optional

from runyard.core.specs import EnvironmentSpec


@dataclass(frozen=True)
class BuiltEnvironment:
    interpreter: str
    variables: Dict[str, str] = field(default_factory=dict)
    warnings: List[str] = field(default_factory=list)


class EnvironmentBuilder(ABC):
    """Makes the interpreter that a run's processes use; builds are cached by content and shared.

    Constructed with `cache=`, a folder for what it keeps, or None. `variables` are those that the run's processes start
    from: names are looked up on their PATH and programs are run with them.
    """

    @abstractmethod
    def build(
        self, spec: EnvironmentSpec, *, say: Callable[[str], None], variables: Optional[Mapping[str, str]] = None
    ) -> BuiltEnvironment:
        """Return a ready interpreter; `say` writes a line of progress into the run's build log.

        Raises:
            SubmitRejected: the spec cannot be satisfied on this node.
        """

    @abstractmethod
    def describe(self, built: BuiltEnvironment, *, variables: Optional[Mapping[str, str]] = None) -> Dict[str, object]:
        """Return {"interpreter", "python", "platform", "packages": {name: version}}; may take a while."""
