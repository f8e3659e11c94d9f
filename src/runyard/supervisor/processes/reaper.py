"""The reaper: the parent of a run's ranks and of its supervisor. It has one thread and no network, and never blocks."""

from __future__ import annotations

import os
import select
import signal
import socket
import traceback
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from runyard.supervisor.own_processes import IGNORED, PreforkedSupervisor
from runyard.supervisor.proc import ProcessEntry, boot_ns, set_subreaper
from runyard.supervisor.processes.keeper import Channel, ChannelClosed
from runyard.supervisor.processes.killing import ProcessSweep, direct_children, find_below
from runyard.supervisor.processes.ranks import Ranks
from runyard.supervisor.run_folder import RunFolder, remove_tree

if TYPE_CHECKING:
    from runyard.supervisor.processes.keeper import ReaperNews, ReaperOrder

FIRST_RESTART_S = 0.1
LONGEST_RESTART_S = 2.0
STEADY_S = 10.0  # a supervisor that lived this long is restarted after the shortest delay
SWEEP_MS = 20
GATHER_S = 0.25  # after the launch: the move into the cgroup must not slow the program's start
RETRY_MS = 500

Supervise = Callable[[socket.socket], int]


class Reaper:
    """Owns the run's processes on this node, and restarts the supervisor when it dies.

    It holds the claim (`lock_fd`) for its whole life. `supervise` is what the forked supervisor runs with its end of
    the socketpair. `early` is a supervisor that was forked before the run was known; it becomes the first supervisor.
    `is_first`: no other reaper had this run before, so none of its processes can be outside of the tree below this one.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        cookie: str,
        supervise: Supervise,
        lock_fd: int,
        is_first: bool = True,
        early: Optional[PreforkedSupervisor] = None,
    ) -> None:
        self._folder = folder
        self._cookie = cookie
        self._supervise = supervise
        self._early = early
        self._looks_everywhere = not is_first
        self._lock_fd = lock_fd
        self._ranks = Ranks(folder)
        self._sweep: Optional[ProcessSweep] = None
        self._leave: Optional[ReaperOrder] = None
        self._child = 0
        self._channel: Optional[Channel] = None
        self._has_news = False
        self._restart_at: Optional[int] = None
        self._restart_s = FIRST_RESTART_S
        self._born = 0
        self._gather_at: Optional[int] = None

    def run(self) -> None:
        """Own the processes until the supervisor has left for good and the last kill is complete. Called once."""
        self._listen_to_signals()
        self._start_supervisor()
        # The supervisor takes its first steps meanwhile; its order to launch waits in the socket.
        os.fsync(self._lock_fd)
        self._folder.make_durable("job.json")
        while self._leave is None or self._child or self._sweep is not None:
            self._wait()
            self._collect()
            self._restart_supervisor()
            self._gather()
            self._go_on_sweeping()
            self._ranks.write_exits()
            self._tell_news()
        self._clear()

    def _listen_to_signals(self) -> None:
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)

    def _wait(self) -> None:
        """Wait for a signal, an order, or the next time something is due."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._channel is not None:
            poll.register(self._channel, select.POLLIN | (select.POLLOUT if self._channel.is_full else 0))
        for fd, _ in poll.poll(self._timeout_ms()):
            if fd == self._wake:
                os.read(self._wake, 4096)
            else:
                self._hear()

    def _timeout_ms(self) -> Optional[int]:
        if self._sweep is not None:
            return SWEEP_MS
        due = [at for at in (self._gather_at, self._restart_at if self._leave is None else None) if at is not None]
        if due:
            return max(0, (min(due) - boot_ns()) // 1_000_000 + 1)
        return RETRY_MS if self._ranks.is_unwritten else None

    def _start_supervisor(self) -> None:
        """Take the early supervisor if there is one, else fork one, and send it the state."""
        early, self._early = self._early, None
        pid, ours = (early and early.take(self._folder.path)) or self._fork()
        self._child, self._channel, self._born, self._restart_at = pid, Channel(ours), boot_ns(), None
        self._has_news = True
        self._tell_news()

    def _fork(self) -> Tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._be_supervisor(ours, theirs)
        theirs.close()
        return pid, ours

    def _be_supervisor(self, ours: socket.socket, theirs: socket.socket) -> None:
        """Be the supervisor, in the forked child. Never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ours.close()
            for fd in (self._wake, self._waker, self._lock_fd):
                os.close(fd)
            code = self._supervise(theirs)
        except BaseException:
            with open(self._folder.at("system_logs", "supervisor.log"), "a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
        finally:
            os._exit(code)

    def _supervisor_ended(self) -> None:
        """Carry out the supervisor's last orders, and plan its restart with a growing delay."""
        self._hear()  # its last orders may still be in the socket
        if self._channel is not None:
            self._channel.close()
        self._child, self._channel = 0, None
        set_subreaper(True)
        if self._leave is None and self._folder.is_gone():
            self._give_up()
        lived_s = (boot_ns() - self._born) / 1e9
        self._restart_s = FIRST_RESTART_S if lived_s > STEADY_S else min(self._restart_s * 2, LONGEST_RESTART_S)
        self._restart_at = boot_ns() + int(self._restart_s * 1e9)

    def _give_up(self) -> None:
        """End all processes: without the run folder no supervisor can work."""
        self._leave = {}
        self._sweep = ProcessSweep(self._find_left, children=self._find_children, group=self._ranks.group, grace_s=0.0)

    def _restart_supervisor(self) -> None:
        """Start the next supervisor when its time has come."""
        if self._restart_at is None or self._leave is not None or boot_ns() < self._restart_at:
            return
        try:
            self._start_supervisor()
        except OSError:  # no memory or process slot is free: try again
            self._restart_at = boot_ns() + int(LONGEST_RESTART_S * 1e9)

    def _hear(self) -> None:
        """Read and carry out the supervisor's orders. Never waits."""
        if self._channel is None:
            return
        try:
            self._channel.flush()
            orders = self._channel.receive()
        except ChannelClosed:
            self._channel.close()
            self._channel = None
            return
        for order in orders:
            self._obey(order)

    def _obey(self, order: ReaperOrder) -> None:
        """Carry out one order: launch, start, look, signal, kill, aside or leave."""
        what = order.get("do")
        if what == "launch":
            self._ranks.launch()
            self._gather_at = boot_ns() + int(GATHER_S * 1e9)
            self._has_news = True
        elif what == "start":
            self._ranks.start(int(order["rank"]), str(order["line"]))
            self._has_news = True
        elif what == "look":
            self._has_news = self._ranks.look() or self._has_news
        elif what == "signal":
            self._ranks.signal(int(order["signal"]), self._find_left())
        elif what == "kill":
            self._ranks.is_killing = True
            grace_s = float(order.get("grace_s", 0))
            self._sweep = ProcessSweep(
                self._find_left, children=self._find_children, group=self._ranks.group, grace_s=grace_s
            )
        elif what == "aside":
            set_subreaper(not order["aside"])
            self._looks_everywhere = True  # what is orphaned meanwhile goes to init
            self._tell({"is": "aside", "aside": order["aside"]})
        elif what == "leave":
            self._leave = order

    def _tell_news(self) -> None:
        """Send the newest state once the previous one was sent: a stopped supervisor must not block the reaper."""
        if self._has_news and self._channel is not None and not self._channel.is_full:
            self._has_news = False
            self._tell(self._ranks.state())

    def _tell(self, message: ReaperNews) -> None:
        try:
            if self._channel is not None:
                self._channel.send(message)
        except ChannelClosed:
            pass  # the supervisor has died: `_collect` notices

    def _collect(self) -> None:
        """Collect all ended children; ranks are recorded first."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            if self._ranks.collect(found.si_pid, found.si_code, found.si_status):
                self._has_news = True
                continue
            os.waitpid(found.si_pid, 0)
            if found.si_pid == self._child:
                self._supervisor_ended()

    def _find_left(self) -> List[ProcessEntry]:
        everywhere = self._looks_everywhere or self._ranks.has_strays
        return find_below(
            os.getpid(), keeper=self._child, cookie=self._cookie, group=self._ranks.group, everywhere=everywhere
        )

    def _find_children(self) -> List[int]:
        return direct_children(without=self._child)

    def _gather(self) -> None:
        """Move the run into its cgroup when the time after the launch has come."""
        if self._gather_at is not None and boot_ns() >= self._gather_at:
            self._gather_at = None
            self._ranks.gather(self._find_left)

    def _go_on_sweeping(self) -> None:
        """Advance a kill, and tell the supervisor when no process is left."""
        if self._sweep is not None and self._sweep.step():
            self._sweep = None
            self._collect()
            self._tell(self._ranks.state())
            self._tell({"is": "empty"})

    def _clear(self) -> None:
        if self._ranks.group is not None:
            self._ranks.group.remove()
        if self._leave and self._leave.get("remove"):
            remove_run_folder(self._folder)


def remove_run_folder(folder: RunFolder) -> None:
    """Remove a run folder with its folder in memory, and the folder above it when it is empty. May be repeated.

    Called at the end by the reaper, by a supervisor without a reaper, and for external runs.
    """
    folder.remove_overflow()
    remove_tree(folder.path)
    try:
        os.rmdir(os.path.dirname(folder.path))
    except OSError:
        pass
