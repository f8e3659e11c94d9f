"""One call to a machine over SSH, by the OpenSSH client of the server's machine: a program and its request on stdin,
one line of JSON back.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from runyard.compute.node_start import node_start_script
from runyard.compute.ssh import host_script
from runyard.compute.ssh.ssh_errors import explain
from runyard.core.compute_options import SSH, SSH_PORT, check_options
from runyard.core.config.paths import server_folder
from runyard.core.config.runtime_folder import runtime_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import InvalidArgument, MissingExtra
from runyard.core.machine.files import replace_private

CALL_S = 20.0  # for one call, connecting included
END_S = 28.0
_PERSIST_S = 60  # an idle connection is kept for this long
# What the client may know of who started the server: how to find its keys and the agent, nothing else.
_KEPT = ("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK")
_PATH = "/usr/local/bin:/usr/bin:/bin"
# Runs the program that comes first on stdin, its length on a line before it; the request is left there for it.
BOOTSTRAP = (
    'import sys,io;sys.version_info<(3,8) and sys.exit("it is Python "+sys.version.split()[0]);'
    "i=sys.stdin.buffer;p=i.read(int(i.readline()));sys.stdin=io.TextIOWrapper(i);"
    'exec(compile(p,"runyard","exec"),{"__name__":"__main__"})'
)


@dataclass(frozen=True)
class Host:
    address: str
    port: int = SSH_PORT

    def __str__(self) -> str:
        return self.address if self.port == SSH_PORT else f"{self.address}:{self.port}"

    @property
    def key_name(self) -> str:
        """As known_hosts files call it."""
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
        return str(self._options.get("username", ""))

    @property
    def python(self) -> str:
        return str(self._options.get("python", "python3"))

    def forget_command(self, host: Host) -> str:
        """Return what to type to have a host's recorded key forgotten."""
        return shlex.join(["ssh-keygen", "-R", host.key_name, "-f", str(self.known_hosts)])

    def close(self, hosts: list[Host]) -> None:
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
