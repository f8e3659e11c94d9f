"""The other nodes of a job as a supervisor sees them. Here: there are none that others run."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from runyard.core.specs import JobSpec, NodeSpec
from runyard.launchers.base import nodes_of
from runyard.supervisor.lifecycle.layout import Meeting
from runyard.supervisor.lifecycle.outcome import Outcome
from runyard.supervisor.lifecycle.prepare import Barrier
from runyard.supervisor.lifecycle.stopping import Stop

FindStop = Callable[[], Optional[Stop]]


class Peers(Barrier):
    """What a supervisor asks about the others. It runs all nodes of this job itself, so the answers are simple."""

    is_gang = False
    leads = True  # it reports the run's phases and its end
    is_over = False  # the server says that the run has ended

    def __init__(self, job: JobSpec) -> None:
        self._nodes = nodes_of(job)

    def start(self) -> None: ...

    def known_ports(self) -> Optional[List[List[int]]]:
        return None

    def meet(self, ports: List[List[int]]) -> Meeting:
        return Meeting(self._nodes, ports)

    def wait_for_first(self) -> None: ...

    def nodes(self) -> List[NodeSpec]:
        """Return all nodes of the job, once they met."""
        return self._nodes

    def tell(self, **facts: Any) -> None: ...

    def have_failed(self) -> bool:
        """Whether one of the others failed or is lost."""
        return False

    def has_lost(self) -> bool:
        """Whether one of the others is lost for good: nobody needs time to find that out."""
        return False

    def are_done(self) -> bool:
        """Whether all that counts on the others has ended."""
        return True

    def stop(self) -> Optional[Stop]:
        """Return the stop that node 0 decided on for all."""
        return None

    def daemons(self) -> Dict[int, str]:
        """Return the lines by which mpirun wants its daemons started, by their ranks."""
        return {}

    def daemon_exits(self) -> Dict[int, int]:
        """Return the exit codes of mpirun's daemons on other nodes, by their ranks."""
        return {}

    def conclude(self, outcome: Outcome, find_stop: FindStop) -> Outcome:
        """Return the run's end, which all nodes have a part in. A stop may come while it waits for them."""
        return outcome

    def say_farewell(self, final: Dict[str, Any]) -> None:
        """For a node that does not lead: give its end to who does, and wait for the run's."""
