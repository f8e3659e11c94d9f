"""The seam `EnvironmentBuilder`: spec in, ready interpreter out. Python 3.8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Callable, Dict, List

from runyard.core.specs import EnvironmentSpec


@dataclass(frozen=True)
class BuiltEnvironment:
    interpreter: str
    variables: Dict[str, str] = field(default_factory=dict)
    warnings: List[str] = field(default_factory=list)


class EnvironmentBuilder(ABC):
    """Makes the interpreter that a run's processes use; builds are cached by content and shared."""

    @abstractmethod
    def build(self, spec: EnvironmentSpec, *, say: Callable[[str], None]) -> BuiltEnvironment:
        """Return a ready interpreter; `say` writes a line of progress into the run's build log.

        Raises:
            SubmitRejected: the spec cannot be satisfied on this node.
        """

    @abstractmethod
    def describe(self, built: BuiltEnvironment) -> Dict[str, object]:
        """Return {"interpreter", "python", "platform", "packages": {name: version}}; may take a while."""
