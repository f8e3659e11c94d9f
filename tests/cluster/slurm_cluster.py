"""A real Slurm on the test machines: the controller on node1, slurmd on node2 to node4, from Debian's packages."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import debian
from tests.cluster.ground import Ground
from tests.waiting import wait_for

CONTROLLER = "node1"
NODES = ("node2", "node3", "node4")
PACKAGES = ("slurm-wlm", "munge")

# `low` gives way to `main`; `closed` takes no jobs. Slurm looks at its queue at once, and calls a node lost that was
# silent for 15 s.
CONF = """\
ClusterName=yard
SlurmctldHost=node1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=15
KillWait=2
JobRequeue=1
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=node[2-4] NodeAddr=10.77.0.[2-4] CPUs={cpus} RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=node[2-4] Default=YES PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
PartitionName=low Nodes=node[2-4] PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=closed Nodes=node[2-4] PriorityTier=10 State=DOWN
"""


class SlurmCluster:
    def __init__(self, ground: Ground, folder: Path, cpus: int = 4) -> None:
        self.folder = folder
        self._cpus = cpus
        self._ground = ground
        self._running: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        folder = self.folder
        (folder / "conf").mkdir(parents=True)
        (folder / "state").mkdir()
        (folder / "munge").mkdir(mode=0o700)
        folder.chmod(0o755)
        (folder / "conf" / "slurm.conf").write_text(CONF.format(folder=folder, proctrack=_proctrack(), cpus=self._cpus))
        (folder / "conf" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n")
        self._start_munge()
        for node in (CONTROLLER, *NODES):
            self._ground.run(node, ["mkdir", "-p", "/etc/slurm"])  # a node with an /etc of its own may not have it
            self._ground.bind(node, folder / "conf", "/etc/slurm")
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait_for(lambda: set(self.states().values()) == {"idle"}, timeout_s=90)
        self._write_commands()

    @property
    def commands(self) -> Path:
        """Return a folder with Slurm's commands as node1 has them, for a PATH of the tests' own process."""
        return self.folder / "bin"

    def start_controller(self) -> None:
        self._controller = self._ground.start(CONTROLLER, ["slurmctld", "-D"])
        self._running.append(self._controller)
        wait_for(self.can_ask, timeout_s=90)

    def stop_controller(self) -> None:
        """It writes its state: killed, it may forget what happened within the last five seconds."""
        self._controller.terminate()
        self._controller.wait(90)

    def kill_daemon(self, node: str) -> None:
        """Kill slurmd alone: what it had started lives on."""
        os.kill(int((self.folder / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)

    def start_node(self, node: str) -> None:
        self._running.append(self._ground.start(node, ["slurmd", "-D", "-b", "-N", node]))

    def tell(self, *words: str, check: bool = True) -> str:
        """Run one of Slurm's commands and return what it prints."""
        return self._ground.run(CONTROLLER, list(words), check=check).stdout

    def can_ask(self) -> bool:
        return "UP" in self.tell("scontrol", "ping", check=False)

    def states(self) -> dict[str, str]:
        lines = self.tell("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        return dict(line.split() for line in lines)

    def end_all_jobs(self) -> None:
        self.tell("scancel", "--user=root")
        wait_for(lambda: not self.tell("squeue", "-h").strip(), timeout_s=90)

    def stop(self) -> None:
        self.tell("scancel", "--user=root", check=False)
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _remove_cgroups()

    def _write_commands(self) -> None:
        self.commands.mkdir()
        for name in ("sbatch", "squeue", "sacct", "scancel", "sinfo"):
            words = shlex.join(self._ground.command(CONTROLLER, [f"/usr/bin/{name}"]))
            (self.commands / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (self.commands / name).chmod(0o755)

    def _start_munge(self) -> None:
        key = self.folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(64))
        places = [f"--{name}={self.folder}/munge/{name}" for name in ("pid-file", "log-file", "seed-file")]
        words = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket"]
        self._running.append(self._ground.start(CONTROLLER, [*words, *places]))
        wait_for((self.folder / "munge.socket").exists, timeout_s=60)


def install() -> None:
    if not (shutil.which("slurmctld", path="/usr/sbin") and shutil.which("munged", path="/usr/sbin")):
        debian.install(*PACKAGES)


def _proctrack() -> str:
    """By control groups where this machine has those that Slurm 22.05 knows."""
    return "cgroup" if Path("/sys/fs/cgroup/freezer").is_dir() else "linuxproc"


def _remove_cgroups() -> None:
    """Slurm leaves its nodes' groups behind."""
    for node in NODES:
        for folder, _, _ in os.walk(f"/sys/fs/cgroup/freezer/slurm_{node}", topdown=False):
            with suppress(OSError):
                os.rmdir(folder)


@contextmanager
def open_slurm(ground: Ground, folder: Path, *, cpus: int = 4) -> Iterator[SlurmCluster]:
    install()
    cluster = SlurmCluster(ground, folder, cpus)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
