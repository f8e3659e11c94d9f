"""The gateway's first process: it opens the sockets and starts the serving process again whenever that is gone.

Connections that come meanwhile wait in the sockets' queues. It imports nothing that is not needed for that.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from runyard.core.errors import Conflict, ServerNotStarted
from runyard.serving.gateway.state import CODE, RENEW

WORKERS, CONTROL, LOCK, FACTS, LOG = "workers.sock", "control.sock", "lock", "gateway.json", "gateway.log"
_BACKLOG = 2048
_STEADY_S = 1.0  # a process that lived for so long is started again at once
_LONGEST_WAIT_S = 1.0
_GRACE_S = 35.0


class Keeper:
    """Runs in the foreground until SIGTERM, SIGINT, or until the serving process ends by itself in order."""

    def __init__(self, folder: Path, *, sockets_folder: Path | None = None) -> None:
        self._folder = folder
        self._sockets_folder = sockets_folder or folder
        self._child: subprocess.Popen[bytes] | None = None
        self._is_leaving = False
        self._bound: list[tuple[Path, tuple[int, int]]] = []  # the sockets in the file system, and what tells them

    def run(
        self,
        host: str,
        port: int,
        arguments: list[str],
        on_listening: Callable[[int], None] = lambda _: None,
        *,
        workers_port: int = 0,
        patience_s: float = 0.0,
    ) -> int:
        """Serve on `host` and `port` (0: any). Return the exit code.

        Args:
            workers_port: for workers on other machines; 0: there are none.
            patience_s: how long a gateway that is leaving may keep the folder.

        Raises:
            Conflict: another gateway has the folder.
            ServerNotStarted: a socket cannot be opened.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sockets_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = _take_lock(self._folder, patience_s)
        (self._folder / CODE).unlink(missing_ok=True)
        http = _listen_tcp(host, port)
        workers, control = self._listen_unix(WORKERS), self._listen_unix(CONTROL)
        outside = [_listen_tcp(host, workers_port)] if workers_port else []
        # The lock goes with the sockets: as long as either process lives, the folder is taken.
        fds = [lock, *(one.fileno() for one in (http, workers, control, *outside))]
        return self._run(host, http.getsockname()[1], fds, arguments, on_listening)

    def go_on(self, host: str, fds: list[int], arguments: list[str]) -> int:
        """Serve on the sockets of a keeper that died. Return the exit code."""
        with socket.socket(fileno=os.dup(fds[1])) as http:
            port = http.getsockname()[1]
        self._bound = [(path, _stamp(path)) for path in (self._sockets_folder / name for name in (WORKERS, CONTROL))]
        return self._run(host, port, fds, arguments, lambda _: None)

    def _run(
        self, host: str, port: int, fds: list[int], arguments: list[str], on_listening: Callable[[int], None]
    ) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._write_facts(host, port)
        on_listening(port)
        words = ["-m", "runyard.serving.gateway", "--folder", str(self._folder), "--host", host]
        words += ["--sockets", str(self._sockets_folder), "--fds", ",".join(map(str, fds)), *arguments]
        try:
            return self._keep(words, fds)
        finally:
            for path, stamp in self._bound:
                if _stamp(path) == stamp:  # not of a gateway that came after this one's home was removed
                    path.unlink(missing_ok=True)

    def _keep(self, words: list[str], fds: list[int]) -> int:
        wait_s = 0.0
        while not self._is_leaving:
            started = time.monotonic()
            python, environ = self._code()
            self._child = subprocess.Popen([python, *words], pass_fds=fds, env=environ)
            if self._is_leaving:  # the signal came while it started
                self._child.terminate()
            code = self._child.wait()
            if code == 0 or self._is_leaving:
                return 0
            if code == RENEW:
                continue
            wait_s = 0.0 if time.monotonic() - started > _STEADY_S else min(_LONGEST_WAIT_S, wait_s * 2 + 0.05)
            print(f"The serving process ended with {code}. It starts again in {wait_s:.2g} s.", file=sys.stderr)
            time.sleep(wait_s)
        return 0

    def _code(self) -> tuple[str, dict[str, str]]:
        """Return the interpreter and the variables of the serving process: ours, or those of a later version."""
        try:
            plain = json.loads((self._folder / CODE).read_text())
            if os.access(plain["python"], os.X_OK):
                return plain["python"], {**os.environ, "PYTHONPATH": plain["path"]}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError) as error:
            print(f"{CODE} cannot be used: {error}.", file=sys.stderr)
        return sys.executable, dict(os.environ)

    def _listen_unix(self, name: str) -> socket.socket:
        path = self._sockets_folder / name
        sock = _listen_unix(path)
        self._bound.append((path, _stamp(path)))
        return sock

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._is_leaving = True
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            signal.signal(signal.SIGALRM, lambda *_: self._child.kill() if self._child is not None else None)
            signal.alarm(int(_GRACE_S))

    def _write_facts(self, host: str, port: int) -> None:
        facts = {"pid": os.getpid(), "host": host, "port": port, "sockets": str(self._sockets_folder)}
        beside = self._folder / f"{FACTS}.{os.getpid()}"
        beside.write_text(json.dumps(facts) + "\n")
        beside.replace(self._folder / FACTS)


def _take_lock(folder: Path, patience_s: float) -> int:
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
        os.close(descriptor)
        raise Conflict(
            f"A gateway has {folder} already.",
            hint=f"Its process is in {folder / FACTS}; it answers on the socket {CONTROL}.",
        )


def has_lock(folder: Path, descriptor: int) -> bool:
    """Whether the folder still has the lock file that is open here; another gateway may have made the folder anew."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK))
    except OSError:
        return False


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_ctime_ns


def _listen_tcp(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, proto or socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ServerNotStarted(
            f"The gateway cannot listen on {host}, port {port}.",
            why=f"{error}.",
            hint="Give another port, or end who has this one: `ss -ltnp` names it.",
        ) from error
    return sock


def _listen_unix(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # of a gateway that was killed; ours is the lock
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        os.chmod(path, 0o600)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ServerNotStarted(
            f"The gateway cannot open the socket {path}.",
            why=f"{error}.",
            hint="A socket's path has at most 107 bytes: give a shorter folder with --sockets.",
        ) from error
    return sock
