"""Answers mpirun's launch agents on a unix socket in the run folder, and writes the programs that mpirun starts.

Each agent asks for one daemon on one node; the reaper of that node starts it.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING, Callable, Dict, List, Sequence

from runyard.core.specs import NodeSpec
from runyard.launchers.base import Placement
from runyard.launchers.mpi import AGENT, AGENT_FOLDER, RANK_PROGRAM, daemon_rank
from runyard.supervisor.mpi import agent
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.run_files import RankExit

logger = logging.getLogger(__name__)

LONGEST_REQUEST = 1 << 20
READ_S = 10.0

Start = Callable[[int, str], bool]


class AgentServer:
    """Serves the launch agents of one mpirun, in the supervisor of node 0.

    The thread `agent` takes requests and calls `start(rank, line)`, which has a daemon started or finds it started;
    False when that is too late. The main thread calls `tell` with the known exits. `_lock` guards waiting agents and
    exit codes.
    """

    def __init__(self, folder: RunFolder, start: Start) -> None:
        self._folder = folder
        self._ranks: Dict[str, int] = {}
        self._start = start
        self._lock = threading.Lock()
        self._waiting: Dict[int, List[socket.socket]] = {}
        self._codes: Dict[int, int] = {}

    def listen(self, nodes: Sequence[NodeSpec]) -> None:
        """Bind the socket and start the thread. Called once per supervisor; replaces an earlier supervisor's socket."""
        self._ranks = {node.address: daemon_rank(node.rank) for node in nodes}
        place = os.open(self._folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            path = f"/proc/self/fd/{place}/{agent.SOCKET}"  # a path of any length
            if os.path.lexists(path):
                os.unlink(path)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            listener.bind(path)
        finally:
            os.close(place)
        listener.listen(64)
        threading.Thread(target=self._serve, args=(listener,), name="agent", daemon=True).start()

    def tell(self, exits: Sequence[RankExit]) -> None:
        """Answer the agents whose daemon has ended. May be repeated with the same exits."""
        with self._lock:
            for record in exits:
                rank = int(record["rank"])
                if rank in self._ranks.values():
                    self._codes[rank] = exit_code(record)
            for rank in list(self._waiting):
                if rank in self._codes:
                    for link in self._waiting.pop(rank):
                        _answer(link, self._codes[rank])

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError as error:
                logger.warning("the launch agent's socket failed: %s", error)
                return
            try:
                self._hear(link)
            except Exception as error:  # a bad request must not stop the service
                logger.warning("a launch agent was not understood: %s", error)
                link.close()

    def _hear(self, link: socket.socket) -> None:
        link.settimeout(READ_S)
        request = json.loads(link.makefile("rb").readline(LONGEST_REQUEST))
        rank = self._ranks.get(str(request["host"]))
        if rank is None or not self._start(rank, str(request["line"])):
            logger.warning("mpirun asked for node %s, where nothing can be started", request["host"])
            _answer(link, 1)
            return
        with self._lock:
            self._waiting.setdefault(rank, []).append(link)
        self.tell(())


def write_agent(folder: RunFolder, interpreter: str) -> None:
    """Write the launch agent as a program on mpirun's PATH: its name has no spaces, whatever the folders are called."""
    os.makedirs(folder.at(AGENT_FOLDER), mode=0o700, exist_ok=True)
    _write_program(folder.at(AGENT_FOLDER, AGENT), [interpreter, "-I", "-S", os.path.abspath(agent.__file__)])


def write_rank_program(folder: RunFolder, placement: Placement) -> None:
    """Write the program that mpirun's daemons start for each rank: one word, the same on every node."""
    shim = os.path.join(placement.injection, "runyard", "runtime", "rank_shim.py")
    _write_program(
        folder.at(AGENT_FOLDER, RANK_PROGRAM), [placement.interpreter, "-I", "-S", shim, "--folder", folder.path]
    )


def _write_program(path: str, words: Sequence[str]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {" ".join(map(_quoted, words))} "$@"\n')


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def exit_code(record: RankExit) -> int:
    """Return an exit record as a shell's exit code: a signal N becomes 128 + N."""
    number = record.get("signal")
    return 128 + number if number else record.get("code") or 0


def _answer(link: socket.socket, code: int) -> None:
    try:
        link.sendall(json.dumps({"code": code}).encode() + b"\n")
    except OSError:
        pass  # the agent has ended
    finally:
        link.close()
