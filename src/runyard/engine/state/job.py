"""One run in hand, as the board keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Stage(Enum):
    WAITING = "waiting"  # not handed to its target yet
    HANDING = "handing"
    HANDED = "handed"
    FENCED = "fenced"  # its attempt was given up and may still live


@dataclass(frozen=True)
class Job:
    run_id: str
    target: str
    launched: bool = True  # false: a run that we only watch; it takes no place on its target
    stage: Stage = Stage.WAITING
    attempt: int = 0
    heard: float = 0.0  # monotonic time of the last word from its supervisor
    spoke: bool = False  # its supervisor was heard by this server
    silent: bool = False  # shown as NotResponding
    gone: int = 0  # polls in a row that found nothing of it
    engine_gone: bool = False  # its supervisor says that the engine's own process beside it is
    told_end: bool = False  # node 0 of an attempt that was given up told its end; other nodes may not have yet
    doubted_at: float = 0.0  # since when its engine is asked why it was killed
    why: str = ""  # what it waits for in the queue of its engine, in that engine's words
    adopted_at: float = 0.0
    retry_at: float = 0.0
    is_first: bool = False  # its attempt was begun just now: no earlier hand-over can have got through
    lack: str = ""  # what it had too little of when that was last noted with the run
    faults: int = 0
    fault: str = ""  # why it could not be handed over, in words
    workspace: str = ""
    parent: str = ""  # the run that submitted it
    nodes: int = 1
    slots: tuple[int, ...] = ()  # which places of its target it has
    gpus: int = 0  # how many devices it is given when it starts
    shares_gpus: bool = False  # others may have them too
    devices: tuple[str, ...] = ()  # what it has; before the start what it named itself

    @property
    def owned_gpus(self) -> tuple[str, ...]:
        """The devices that nobody else gets meanwhile."""
        return self.devices if self.gpus and not self.shares_gpus else ()
