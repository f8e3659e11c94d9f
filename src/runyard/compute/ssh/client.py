"""Calls to machines over SSH, by the OpenSSH client of the server's machine.

A call sends a program and its request on stdin and reads one line of JSON. `explain` turns ssh's errors into messages
for users. `Questions` asks all machines at once, one question at a time each, so that a silent machine holds up no
other. `report_of` is pure: it computes the state of a job from the answers of its machines.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runyard.compute.base import EndCause, JobHandle, JobReport, JobState
from runyard.compute.node_start import node_start_script
from runyard.compute.ssh import host_script
from runyard.core.compute_options import SSH, SSH_PORT, check_options
from runyard.core.config.paths import server_folder
from runyard.core.config.runtime_folder import runtime_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import InvalidArgument, MissingExtra, NotTrusted, RunyardError, SystemFailure, UserError
from runyard.core.machine.files import replace_private

if TYPE_CHECKING:
    from runyard.compute.ssh.host_script import NodeState

_CLIENT_FAILED = 255  # exit code of ssh itself, not of the program there
_NOT_FOUND = (126, 127)
CALL_S = 20.0  # for one call, connecting included
END_S = 28.0
_PERSIST_S = 60  # an idle connection is kept for this long
# Variables of the server's own environment that ssh gets: how to find its keys and the agent, nothing else.
_KEPT = ("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK")
_PATH = "/usr/local/bin:/usr/bin:/bin"
# Runs the program that comes first on stdin, its length on a line before it; the request is left there for it.
BOOTSTRAP = (
    'import sys,io;sys.version_info<(3,8) and sys.exit("it is Python "+sys.version.split()[0]);'
    "i=sys.stdin.buffer;p=i.read(int(i.readline()));sys.stdin=io.TextIOWrapper(i);"
    'exec(compile(p,"runyard","exec"),{"__name__":"__main__"})'
)
MOST_AT_ONCE = 32
_ORDER = (JobState.ALIVE, JobState.ORPHANED, JobState.WAITING, JobState.GONE)


class Reached(Protocol):
    """What `explain` needs to know about a client."""

    @property
    def username(self) -> str:
        """The account on the hosts, "" for the default."""
        ...

    @property
    def python(self) -> str:
        """The Python that is called on the hosts."""
        ...

    def forget_command(self, host: Any) -> str:
        """Return the command that removes a host's recorded key."""
        ...


def explain(host: Any, words: str, *, code: int, client: Reached) -> RunyardError:
    """Return the error that a call to `host` ended with; `words` is the output of ssh or of the program there."""
    said = _last_words(words)
    if code == _CLIENT_FAILED:
        return _of_connection(host, words, said, client)
    if code in _NOT_FOUND:
        return UserError(
            f"The machine {host} has no `{client.python}`.",
            why=f"Its shell says: {said}.",
            hint="Install Python 3.8 or newer there, or name the one it has: python='/usr/bin/python3.11'.",
        )
    return UserError(
        f"The machine {host} could not do what it was asked.",
        why=f"The program there ended with {code}: {said}.",
        hint="It needs Python 3.8 or newer and a private folder for runs (node_home). See docs/guides/ssh.md.",
    )


def _of_connection(host: Any, words: str, said: str, client: Reached) -> RunyardError:
    if "IDENTIFICATION HAS CHANGED" in words or "REVOKED HOST KEY" in words:
        return NotTrusted(
            f"The machine {host} shows another host key than the one that was recorded.",
            why="It was installed again, or another machine answers in its place. Nothing was sent to it.",
            hint=f"If the new key is right: `{client.forget_command(host)}`, then attach the target again.",
        )
    if "Host key verification failed" in words or "host key is known for" in words:
        return NotTrusted(
            f"The host key of {host} is not known.",
            why="Keys are recorded when a target is attached, or given with it (known_hosts=).",
            hint="Attach the target again to record it; `runyard compute show NAME` prints the fingerprints.",
        )
    if "Permission denied" in words or "Too many authentication failures" in words:
        user = f"`{client.username}`" if client.username else "the server's user"
        return UserError(
            f"The machine {host} does not let {user} in.",
            why=f"It says: {said}. Passwords are not used.",
            hint=f"Put the key's public half into ~/.ssh/authorized_keys there (`ssh-copy-id -i KEY {host}`), "
            "or load the key into the agent that the server was started with.",
        )
    if "UNPROTECTED PRIVATE KEY" in words or "error in libcrypto" in words or "invalid format" in words:
        return UserError(
            f"The private key for {host} cannot be used.",
            why=f"ssh says: {said}.",
            hint="Give an unencrypted private key, or load it into the agent (`ssh-add`) and give none.",
        )
    return SystemFailure(
        f"The machine {host} does not answer.",
        why=f"ssh says: {said}.",
        hint="Is it up, does sshd run there on that port, and do its login scripts end? Runs on it go on and are found "
        "again when it answers.",
    )


def _last_words(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else "nothing"


@dataclass(frozen=True)
class Host:
    """One machine of a target."""

    address: str
    port: int = SSH_PORT

    def __str__(self) -> str:
        return self.address if self.port == SSH_PORT else f"{self.address}:{self.port}"

    @property
    def key_name(self) -> str:
        """The host's name in known_hosts files."""
        name = self.address.lower()
        return name if self.port == SSH_PORT else f"[{name}]:{self.port}"


class SshClient:
    """Reaches the hosts of one target. Thread-safe; connections are kept open and shared by the calls to a host."""

    def __init__(self, settings: Settings, options: Mapping[str, Any]) -> None:
        self._options = check_options(SSH, options)
        self._folder = server_folder(settings.home) / "ssh"
        self._home = settings.home
        text = hashlib.sha256(json.dumps(self._options, sort_keys=True).encode()).hexdigest()
        self._key = text[:12]
        self._is_own_list = "known_hosts" in self._options

    @property
    def known_hosts(self) -> Path:
        """The keys that hosts must show: those that were given with the target, else what was recorded at attach."""
        return self._folder / (f"known_hosts-{self._key}" if self._is_own_list else "known_hosts")

    def call(self, host: Host, request: Mapping[str, Any], *, timeout_s: float = CALL_S, record: bool = False) -> Any:
        """Run the host script there with `request` and return its answer. `record`: an unknown host's key is kept.

        Raises:
            UserError: the host cannot be used as it is: its key, our key, its Python.
            SystemFailure: it does not answer.
        """
        self._prepare()
        whole = {"host": str(host), "node_home": self._options.get("node_home", ""), **request}
        program = _program()
        sent = b"%d\n%s%s" % (len(program), program, json.dumps({**whole, "node_start": node_start_script()}).encode())
        with tempfile.TemporaryFile() as said:  # a pipe would stay open with the shared connection
            try:
                ended = subprocess.run(
                    self.command(host, record=record),
                    input=sent,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    timeout=timeout_s,
                    env=self._variables(),
                    cwd="/",
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                self._hang_up(host)
                raise explain(host, f"no answer within {timeout_s:.0f} s", code=255, client=self) from error
            said.seek(0)
            words = said.read()[-8000:].decode("utf-8", "replace")
        answer = find_answer(ended.stdout)
        if answer is None:
            raise explain(host, words, code=ended.returncode, client=self)
        return answer

    def command(self, host: Host, *, record: bool = False) -> list[str]:
        """Return the argv of a call. What a user chose stands in options of its own or after `--`."""
        python = str(self._options.get("python", "python3"))
        remote = f"exec {shlex.quote(python)} -I -c {shlex.quote(BOOTSTRAP)}"
        return [*self._start(host, record=record), "-T", "--", host.address, remote]

    def fingerprints(self, host: Host) -> list[str]:
        """Return the recorded keys of a host, `SHA256:…` each."""
        words = ["ssh-keygen", "-l", "-F", host.key_name, "-f", str(self.known_hosts)]
        found = subprocess.run(words, capture_output=True, text=True, env=self._variables(), check=False)
        return [word for line in found.stdout.splitlines() for word in line.split() if word.startswith("SHA256:")]

    @property
    def username(self) -> str:
        """The account on the hosts, "" for ssh's default."""
        return str(self._options.get("username", ""))

    @property
    def python(self) -> str:
        """The Python that is called on the hosts."""
        return str(self._options.get("python", "python3"))

    def forget_command(self, host: Host) -> str:
        """Return the command that removes a host's recorded key."""
        return shlex.join(["ssh-keygen", "-R", host.key_name, "-f", str(self.known_hosts)])

    def close(self, hosts: list[Host]) -> None:
        """Close the shared connections to these hosts."""
        for host in hosts:
            if self._control(host).exists():
                self._hang_up(host)

    def _start(self, host: Host, *, record: bool) -> list[str]:
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "accept-new" if record and not self._is_own_list else "yes",
            "UserKnownHostsFile": _path_value(self.known_hosts),
            "HashKnownHosts": "no",
            "UpdateHostKeys": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "ClearAllForwardings": "yes",
            "ForwardAgent": "no",
            "PermitLocalCommand": "no",
            "EscapeChar": "none",
            "LogLevel": "ERROR",
            "ConnectTimeout": "10",
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            "ControlMaster": "auto",
            "ControlPersist": str(_PERSIST_S),
            "ControlPath": _path_value(self._control(host)),
        }
        words = ["ssh", "-F", "none", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
        if "private_key" in self._options:
            key = _path_value(Path(self._options["private_key"]))
            words += ["-o", f"IdentityFile={key}", "-o", "IdentitiesOnly=yes"]
        if self.username:
            words += ["-l", self.username]
        return [*words, "-p", str(host.port)]

    def _control(self, host: Host) -> Path:
        name = hashlib.sha256(f"{self._key}\0{host}".encode()).hexdigest()[:12]
        return runtime_folder(self._home) / f"ssh-{name}"

    def _hang_up(self, host: Host) -> None:
        """Have the next call make a connection of its own."""
        words = [*self._start(host, record=False), "-O", "exit", "--", host.address]
        try:
            subprocess.run(words, env=self._variables(), capture_output=True, timeout=5, check=False)
        except (subprocess.TimeoutExpired, OSError):
            pass
        self._control(host).unlink(missing_ok=True)

    def _prepare(self) -> None:
        if shutil.which("ssh", path=_PATH) is None:
            raise MissingExtra(
                "The server's machine has no `ssh` program.",
                why="Targets on plain machines are reached by the OpenSSH client.",
                hint="Install it there: `apt-get install openssh-client`.",
            )
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._is_own_list and not self.known_hosts.exists():
            known = str(self._options["known_hosts"]).rstrip("\n") + "\n"
            replace_private(self.known_hosts, known.encode())

    def _variables(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {"PATH": _PATH, "LC_ALL": "C", **kept}


def find_answer(output: bytes) -> Any:
    """Return the answer; what the account's login scripts print around it is not ours."""
    for line in reversed(output.decode("utf-8", "replace").splitlines()):
        if line.startswith(host_script.MARK):
            try:
                return json.loads(line[len(host_script.MARK) :])
            except ValueError:
                return None
    return None


@lru_cache(maxsize=1)
def _program() -> bytes:
    return Path(host_script.__file__).read_bytes()


def _path_value(path: Path) -> str:
    """Return a path as a value of ssh's: quoted, and with nothing that it expands."""
    text = str(path)
    if "${" in text or any(ord(char) < 32 for char in text):
        raise InvalidArgument(
            f"The folder {str(path.parent)!r} cannot hold what ssh needs.",
            why="ssh reads `${` in a path as a variable.",
            hint="Set RUNYARD_HOME to a folder without it.",
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


Ask = Callable[[Host, Sequence[JobHandle]], Any]


@dataclass(frozen=True)
class HostAnswer:
    """What a host answered; `fault` when it did not. It covers no job that was submitted after `began`."""

    began: float
    jobs: dict[JobHandle, list[NodeState]]
    fault: str = ""


@dataclass(frozen=True)
class _Asked:
    """A request to a host that is under way."""

    began: float
    future: Future[HostAnswer]


class Questions:
    """Asks all hosts, with one request at a time to each. The poller's thread uses it.

    `ask(host, handles)` runs in a pool of threads, may take long and may raise.
    """

    def __init__(self, hosts: Sequence[Host], ask: Ask, *, patience_s: float = 5.0) -> None:
        self._hosts = hosts
        self._ask = ask
        self._patience_s = patience_s
        self._pool = ThreadPoolExecutor(min(MOST_AT_ONCE, len(hosts) or 1), thread_name_prefix="runyard-ssh-ask")
        self._asked: dict[Host, _Asked] = {}
        self._last: dict[Host, str] = {}

    def ask(self, handles: Sequence[JobHandle]) -> dict[Host, HostAnswer]:
        """Ask all hosts, and return the answers after `patience_s` at the latest; silent hosts get a fault."""
        for host in self._hosts:
            if host not in self._asked:
                began = time.monotonic()
                self._asked[host] = _Asked(began, self._pool.submit(self._call, host, list(handles), began))
        wait([asked.future for asked in self._asked.values()], timeout=self._patience_s)
        return {host: self._take(host) for host in self._hosts}

    def close(self) -> None:
        """Start no more requests."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, host: Host) -> HostAnswer:
        asked = self._asked[host]
        if not asked.future.done():
            waited = time.monotonic() - asked.began
            return HostAnswer(asked.began, {}, self._last.get(host) or f"it has said nothing for {waited:.0f} s")
        del self._asked[host]
        answer = asked.future.result()
        self._last[host] = answer.fault
        return answer

    def _call(self, host: Host, handles: list[JobHandle], began: float) -> HostAnswer:
        try:
            found = self._ask(host, handles)["jobs"]
            return HostAnswer(began, dict(zip(handles, found, strict=True)))
        except Exception as error:
            # Whatever it is, it concerns this host alone.
            return HostAnswer(began, {}, getattr(error, "why", "") or str(error) or type(error).__name__)


@dataclass(frozen=True)
class NodeStand:
    """The state of one node of a job, as its machine reports it."""

    host: str
    rank: int
    count: int  # of the whole job
    state: JobState
    why: str = ""
    cause: EndCause = EndCause.UNKNOWN


def report_of(nodes: Sequence[NodeStand], silent: Mapping[str, str]) -> JobReport:
    """Return the state of the job. `silent`: hosts that may have a part of it and do not answer, with the reason."""
    found = _by_rank(nodes)
    missing = silent if not nodes or len(found) < max(node.count for node in nodes) else {}
    states = {node.state for node in found}
    lost = [node for node in found if node.state is JobState.GONE and node.cause is EndCause.NODE_LOST]
    if lost:  # the others would wait for it for ever
        return JobReport(JobState.GONE, _say(lost, JobState.GONE, "is gone"), EndCause.NODE_LOST)
    if JobState.ORPHANED in states:
        return JobReport(JobState.ORPHANED, _say(found, JobState.ORPHANED, "has no supervisor"))
    if JobState.ALIVE in states:
        return JobReport(JobState.ALIVE, _silence(missing) or _say(found, JobState.GONE, "is gone"))
    if missing:
        return JobReport(JobState.UNKNOWN, _silence(missing))
    if JobState.WAITING in states:
        return JobReport(JobState.WAITING, _say(found, JobState.WAITING, "gets ready"))
    cause = EndCause.ENDED if any(node.cause is EndCause.ENDED for node in found) else EndCause.UNKNOWN
    return JobReport(JobState.GONE, _say(found, JobState.GONE, ""), cause)


def _by_rank(nodes: Sequence[NodeStand]) -> list[NodeStand]:
    """Return one entry for each rank: after a repeated start, two hosts may have a record of it."""
    best: dict[int, NodeStand] = {}
    for node in nodes:
        known = best.get(node.rank)
        if known is None or _rank(node) < _rank(known):
            best[node.rank] = node
    return [best[rank] for rank in sorted(best)]


def _rank(node: NodeStand) -> tuple[int, bool]:
    """Return its place in the order of what says most; one that came second and was sent away says least."""
    return _ORDER.index(node.state), node.cause is EndCause.NODE_LOST


def _say(nodes: Sequence[NodeStand], state: JobState, default: str) -> str:
    said = [(node.host, node.why or default) for node in nodes if node.state is state]
    return "; ".join(f"{host}: {why}" for host, why in said if why)


def _silence(silent: Mapping[str, str]) -> str:
    return "; ".join(f"{host} does not answer: {why}" for host, why in silent.items())
