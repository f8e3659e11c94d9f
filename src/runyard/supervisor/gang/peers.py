"""The other nodes of a job as a supervisor sees them; here for a job without other supervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from runyard.core.specs import JobSpec, NodeSpec
from runyard.launchers.base import nodes_of
from runyard.supervisor.lifecycle.layout import Meeting
from runyard.supervisor.lifecycle.outcome import Outcome
from runyard.supervisor.lifecycle.prepare import Barrier
from runyard.supervisor.lifecycle.stopping import Stop

if TYPE_CHECKING:
    from runyard.core.formats.run_files import FinalState

FindStop = Callable[[], Optional[Stop]]


class Peers(Barrier):
    """The other nodes of the job. This class is for a supervisor that runs all nodes of its job; `Gang` overrides it.

    `leads`: this supervisor reports the run's phases and end. `is_over`: the server says that the run has ended.
    """

    is_gang = False
    leads = True  # it reports the run's phases and its end
    is_over = False  # the server says that the run has ended

    def __init__(self, job: JobSpec) -> None:
        self._nodes = nodes_of(job)

    def start(self) -> None:
        """Start to talk to the other nodes. Called once, at the start of the supervisor."""
        ...

    def known_ports(self) -> Optional[List[List[int]]]:
        """Return None: no other node was told about ports."""
        return None

    def meet(self, ports: List[List[int]]) -> Meeting:
        """Return the nodes with their ports at once."""
        return Meeting(self._nodes, ports)

    def wait_for_first(self) -> None:
        """Return at once: node 0 runs here."""
        ...

    def nodes(self) -> List[NodeSpec]:
        """Return all nodes of the job, after they met."""
        return self._nodes

    def tell(self, **facts: Any) -> None:
        """Send facts to the other nodes. Never waits; may be repeated."""
        ...

    def have_failed(self) -> bool:
        """Return whether another node has failed or is lost."""
        return False

    def has_lost(self) -> bool:
        """Return whether another node is lost for good: then ranks need no time to notice it."""
        return False

    def are_done(self) -> bool:
        """Return whether all ranks that count have ended on the other nodes."""
        return True

    def stop(self) -> Optional[Stop]:
        """Return the stop that node 0 decided on for all nodes."""
        return None

    def daemons(self) -> Dict[int, str]:
        """Return the lines with which mpirun wants its daemons started, by rank."""
        return {}

    def daemon_exits(self) -> Dict[int, int]:
        """Return the exit codes of mpirun's daemons on other nodes, by rank."""
        return {}

    def conclude(self, outcome: Outcome, find_stop: FindStop) -> Outcome:
        """Return the run's end, which may depend on other nodes; `find_stop` is asked again while it waits."""
        return outcome

    def say_farewell(self, final: FinalState) -> None:
        """Send the end of a node that does not lead to the leading node, and wait for the run's end."""
