"""SSH daemons of the tests' own: on the test machines, or on loopback ports of this one. Keys, no PAM, no passwords."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import debian
from tests.cluster.ground import Ground, variables
from tests.waiting import wait_for

PROGRAM = "/usr/sbin/sshd"
PLAIN_UID = 4242  # of the user `plain`

CONFIG = """\
ListenAddress {address}:{port}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {keys}
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
MaxSessions 100
PrintMotd no
LogLevel VERBOSE
"""


# The users of a daemon are in an /etc of its own. A mount over /etc/passwd alone would not last: whoever adds a user to
# this machine, as many packages do, renames a new file into its place, and that takes the mount away.
_OWN_ETC = 'mount --rbind /etc "$1/machine-etc" && mount --bind "$1/etc" /etc && shift && exec "$@"'
_ALONE = ["unshare", "--mount", "--propagation", "private", "--"]


def install() -> None:
    """Install Debian's package when the program is missing."""
    if not os.path.exists(PROGRAM) and shutil.which("apt-get"):
        debian.install("openssh-server", "openssh-client")
    assert os.path.exists(PROGRAM), "sshd is not installed: apt-get install openssh-server"
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def make_key(path: Path) -> Path:
    path.with_name(f"{path.name}.pub").unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)], check=True)
    return path


class Sshd:
    """One daemon, in `ground`'s node or, without one, on a port of this machine; `prefix` starts it elsewhere."""

    def __init__(
        self,
        folder: Path,
        key: Path,
        *,
        ground: Ground | None = None,
        node: str = "",
        env: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        install()
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        self.folder, self._ground, self._node = folder, ground, node
        self._env, self._prefix = dict(env or {}), list(prefix)
        self.address = ground.address(node) if ground is not None else address
        self.port = 22 if ground is not None else _free_port()
        make_key(folder / "host_key")
        # Users of the machine must be able to read it, and on a node they see its /var/tmp.
        disk, seen = (folder, folder) if ground is None else (ground.disk(node), Path("/var/tmp"))
        keys = disk / "authorized_keys"
        keys.write_text(key.with_name(f"{key.name}.pub").read_text())
        keys.chmod(0o644)
        config = CONFIG.format(address=self.address, port=self.port, folder=folder, keys=seen / keys.name)
        (folder / "config").write_text(config)
        _make_etc(disk / "etc", seen / "machine-etc")
        (disk / "machine-etc").mkdir()
        self._in_own_etc = ["sh", "-c", _OWN_ETC, "sh", str(seen)]
        if ground is not None:
            ground.run(node, [*self._in_own_etc, "true"])
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Sshd:
        words = [PROGRAM, "-D", "-e", "-f", str(self.folder / "config")]
        if self._ground is not None:
            self._process = self._ground.start(self._node, words, env=self._env)
        else:
            with (self.folder / "log").open("a") as log:
                self._process = subprocess.Popen(
                    [*self._prefix, *_ALONE, *self._in_own_etc, *words],
                    env=variables(self._env),
                    stdin=subprocess.DEVNULL,
                    stderr=log,
                    stdout=log,
                    text=True,
                )
        wait_for(lambda: "Server listening" in self.log())
        return self

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        assert self._process is not None
        return self._ground.log_of(self._process) if self._ground is not None else (self.folder / "log").read_text()

    def fingerprint(self) -> str:
        found = subprocess.run(
            ["ssh-keygen", "-l", "-f", str(self.folder / "host_key.pub")], check=True, capture_output=True, text=True
        )
        return found.stdout.split()[1]

    @contextmanager
    def another_host_key(self) -> Iterator[None]:
        """The daemon with another key, as after a new installation of the machine; then it is as it was."""
        self.kill()
        kept = (self.folder / "host_key").rename(self.folder / "kept")
        make_key(self.folder / "host_key")
        self.start()
        try:
            yield
        finally:
            self.kill()
            kept.rename(self.folder / "host_key")
            self.start()

    def kill(self) -> None:
        """Kill the daemon and its open connections, nothing else of the machine."""
        assert self._process is not None
        for pid in (self._process.pid, *_connections(self._process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait(10)


class Boxes:
    """Three machines with their daemons, and the key that opens them; for all tests of a session."""

    HOSTS = ("node2", "node3", "node4")

    def __init__(self, ground: Ground, folder: Path) -> None:
        folder.mkdir()
        self.key = make_key(folder / "key")
        self.daemons = {node: Sshd(folder / node, self.key, ground=ground, node=node) for node in self.HOSTS}

    def start(self) -> Boxes:
        """Start the daemons that do not run: a test may have killed all of a machine's processes."""
        for daemon in self.daemons.values():
            if not daemon.is_alive():
                daemon.start()
        return self

    def addresses(self, *nodes: str) -> str:
        return ",".join(self.daemons[node].address for node in nodes or self.HOSTS)


def _make_etc(folder: Path, machine: Path) -> None:
    """Make an /etc of links to the machine's, which will be at `machine`, with users of its own."""
    folder.mkdir()
    folder.chmod(0o755)
    for entry in Path("/etc").iterdir():
        (folder / entry.name).symlink_to(os.readlink(entry) if entry.is_symlink() else machine / entry.name)
    (folder / "passwd").unlink()
    (folder / "passwd").write_text(_users())
    (folder / "passwd").chmod(0o644)


def _users() -> str:
    """Return /etc/passwd with a plain user, and without what root's shell and home do at a login here."""
    lines = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith(("root:", "plain:"))]
    ours = ["root:x:0:0:root:/var/tmp:/bin/sh", f"plain:x:{PLAIN_UID}:{PLAIN_UID}::/nowhere:/bin/sh"]
    return "\n".join([*ours, *lines, ""])


def _connections(daemon: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split() if name.isdigit() else []
            if fields and int(fields[1]) == daemon:
                found += [int(name), *_connections(int(name))]
        except OSError:
            continue
    return found


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
