"""Find the server to talk to: the one that RUNYARD_URL names, else the user's private one, started when needed."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple

from runyard import __version__
from runyard.client import processes
from runyard.client.address import Address, parse_url
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.core.config import runtime_folder as runtime
from runyard.core.config.paths import server_folder, token_file
from runyard.core.config.settings import Settings, read_settings
from runyard.core.errors import MissingExtra, NotAuthenticated, ServerNotStarted, ServerUnreachable

if TYPE_CHECKING:
    from runyard.client.server_python import ServerPython

API = 1
_LOCK_PATIENCE_S = 90.0
_LEAVE_PATIENCE_S = 20.0
_POLL_S = 0.005
_STRANGER_PATIENCE_S = 10.0
_STRANGER_POLL_S = 0.1
_START_AGAIN_S = 30.0
_TEAM_PAUSE_S = 0.25

# Servers that this process has spoken to: one handshake is enough.
_known: Dict[str, Client] = {}


def connect(settings: Settings) -> Client:
    """Return a client of the server that the settings name, or of the private one, which is started when needed.

    Raises:
        ServerNotStarted: it could not be started.
        NotAuthenticated: RUNYARD_URL is set and RUNYARD_TOKEN is not, or is wrong.
        ServerUnreachable: no server answers at RUNYARD_URL.
    """
    if settings.url:
        return _connect_to(settings.url, settings.token)
    key = os.path.realpath(str(settings.home))
    client = _known.get(key)
    if client is None:
        client = _known[key] = _client(ensure(settings))
    return client


def find(settings: Settings) -> Optional[Client]:
    """Return a client of the server if one is running; start nothing."""
    if settings.url:
        return _connect_to(settings.url, settings.token)
    found = _running(settings)
    return None if found is None else Client(Transport(found[0]))


def client_for(address: Address) -> Client:
    """Return a client for an address out of job.json. A private server that does not answer is started again, a
    team's is waited for.
    """
    return Client(Transport(address, revive=_revive if address.home else _Await()))


def runtime_folder(settings: Settings) -> Path:
    """Return the private folder of socket and start.lock."""
    return runtime.runtime_folder(settings.home)


def start_server(settings: Settings) -> None:
    """Have a private server running, whatever there was before."""
    ensure(settings)


def ensure(settings: Settings, *, may_make: bool = True) -> Address:
    """Return the address of a running private server that is not older than this client.

    Raises:
        MissingExtra: none runs, no Python here has the server's packages, and `may_make` is false.
        ServerNotStarted: it could not be started, or its environment could not be made.
    """
    found = _running(settings)
    if found is not None and not _is_older(found[1]):
        return found[0]
    from runyard.client.server_python import find_server_python  # few processes start a server

    try:
        python = find_server_python(settings, may_make=may_make)
    except (MissingExtra, ServerNotStarted):
        if found is not None:
            return found[0]  # an old server is better than none
        raise
    with _start_lock(settings):
        # Another process may have started it while we waited.
        found = _running(settings)
        if found is not None and _is_older(found[1]):
            found = _replace(settings, found[0])
        if found is None:
            found = _start(settings, python)
    if found is None:
        raise ServerNotStarted(
            "The private server started and left again.",
            why=f"The last lines of its log:\n{processes.last_lines(processes.log_file(settings.home))}",
            hint="Try again; `runyard server status` shows what it is doing.",
        )
    return found[0]


def _start(settings: Settings, python: ServerPython) -> Optional[Tuple[Address, str]]:
    """Start it. One that was killed while it started says nothing in its log and is started again."""
    give_up_at = time.monotonic() + _START_AGAIN_S
    while True:
        before = processes.log_size(settings.home)
        try:
            processes.start(settings, python)
        except ServerNotStarted:
            if processes.log_size(settings.home) > before or time.monotonic() > give_up_at:
                raise
            continue
        found = _running(settings)
        if found is not None or time.monotonic() > give_up_at:
            return found


def _running(settings: Settings) -> Optional[Tuple[Address, str]]:
    """Return (address, version) of the home's server when it answers.

    A server whose home was removed, moved or replaced leaves within moments, and is waited for: it does not know the
    token that is there now, or serves another path.
    """
    give_up_at = time.monotonic() + _STRANGER_PATIENCE_S
    while True:
        try:
            return _find_running(settings)
        except (NotAuthenticated, _Elsewhere) as error:
            if time.monotonic() > give_up_at:
                if isinstance(error, _Elsewhere):
                    return None
                raise
        time.sleep(_STRANGER_POLL_S)


class _Elsewhere(Exception):
    """The server that answers serves another path."""


def _find_running(settings: Settings) -> Optional[Tuple[Address, str]]:
    _check_system()
    _check_owner(settings.home)
    token = _read_token(settings.home)
    if token is None:
        return None
    tried = set()
    for path in (runtime.socket_path(runtime_folder(settings)), _recorded_socket(settings.home)):
        if path is None or path in tried:
            continue
        tried.add(path)
        found = _handshake(Address("unix", path=path, token=token, home=str(settings.home)))
        if found is not None:
            return found
    return None


def _handshake(address: Address) -> Optional[Tuple[Address, str]]:
    client = Client(Transport(address))
    try:
        info = client.server.info()
    except ServerUnreachable:
        return None
    except NotAuthenticated as error:
        raise NotAuthenticated(
            f"The private server of {address.home} does not know its own token.",
            why="The file `server/token` was changed after the server started.",
            hint=f"Stop the server's process and try again, or restore {token_file(Path(str(address.home)))}.",
        ) from error
    finally:
        client.transport.close()
    if info.home and os.path.realpath(info.home) != os.path.realpath(str(address.home)):
        raise _Elsewhere(info.home)
    if info.api != API:
        raise ServerNotStarted(
            f"The private server speaks version {info.api} of the API, this client version {API}.",
            why=f"The server is Runyard {info.version}, this is {__version__}.",
            hint="Upgrade the older one: `pip install --upgrade runyard`.",
        )
    return replace(address, web_url=info.url or None), info.version


def _replace(settings: Settings, address: Address) -> Optional[Tuple[Address, str]]:
    """Stop an older server so that ours can take over."""
    Client(Transport(address)).server.stop()
    deadline = time.monotonic() + _LEAVE_PATIENCE_S
    while True:
        found = _running(settings)
        if found is None or not _is_older(found[1]):
            return found
        if time.monotonic() > deadline:
            return found  # it does not leave; an old server is better than none
        time.sleep(_POLL_S)


def _client(address: Address) -> Client:
    return Client(Transport(address, revive=_revive))


def _revive(address: Address) -> Address:
    """Start the private server again, or wait until another process does; the caller keeps its own token."""
    settings = replace(read_settings(), home=Path(str(address.home)), url=None)
    is_own = address.token.startswith("ryt_")
    if not is_own and not os.path.isdir(str(settings.home)):
        raise ServerUnreachable(
            f"The private server of {settings.home} is gone.",
            why="Its whole home was removed, and with it this run.",
            hint="Submit the run again.",
        )
    try:
        found = ensure(settings, may_make=False)
    except MissingExtra:
        found = _wait_for_other(settings)
    own = _read_token(settings.home) if is_own else None
    return replace(found, token=own or address.token)


def _wait_for_other(settings: Settings) -> Address:
    """A run's own interpreter has no server packages; its supervisor has, and needs the server as well."""
    deadline = time.monotonic() + _LEAVE_PATIENCE_S
    while True:
        found = _running(settings)
        if found is not None:
            return found[0]
        if time.monotonic() > deadline:
            raise ServerUnreachable(
                f"The private server of {settings.home} does not answer, and this Python cannot start it.",
                why="Nobody else started it either.",
                hint="Type `runyard server start` where Runyard is installed.",
            )
        time.sleep(_POLL_S * 10)


def _connect_to(url: str, token: Optional[str]) -> Client:
    if not token:
        raise NotAuthenticated(
            f"RUNYARD_URL is {url}, but RUNYARD_TOKEN is not set.",
            why="A server answers only to who has its token.",
            hint=f"runyard login {url.partition('#')[0]}, or export RUNYARD_TOKEN=…",
        )
    client = _known.get(url + "\n" + token)
    if client is None:
        first = Client(Transport(parse_url(url, token)))
        first.server.info()
        first.transport.close()
        client = Client(Transport(first.address, revive=_Await()))
        _known[url + "\n" + token] = client
    return client


class _Await:
    """Rides over a restart of a team's server that answered before; the transport gives up after half a minute."""

    def __init__(self) -> None:
        self._asked_at = 0.0

    def __call__(self, address: Address) -> Address:
        now = time.monotonic()
        if now - self._asked_at > _LEAVE_PATIENCE_S:
            print(f"runyard: waiting for the server at {address} to answer again…", file=sys.stderr)
        self._asked_at = now
        time.sleep(_TEAM_PAUSE_S)
        return address


def _check_system() -> None:
    """Refuse a private server where it cannot run: it looks after processes through `/proc`."""
    if not os.path.isdir("/proc/self"):
        raise ServerNotStarted(
            "There is no private server on this system.",
            why=f"It needs Linux; this is {sys.platform}.",
            hint="Use a team's server: `runyard login URL`, or set RUNYARD_URL and RUNYARD_TOKEN.",
        )


def _check_owner(home: Path) -> None:
    """Refuse another user's home: its token and socket would be theirs, and they would get all that we send."""
    try:
        owner = os.stat(str(home)).st_uid
    except OSError:
        return
    if owner != os.getuid():
        raise ServerNotStarted(
            f"The home `{home}` cannot be used.",
            why=f"It belongs to user {owner}, not to you ({os.getuid()}).",
            hint="Set RUNYARD_HOME to a folder of your own.",
        )


def _read_token(home: Path) -> Optional[str]:
    try:
        return token_file(home).read_text("ascii").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ServerNotStarted(
            f"The token of the private server in `{home}` cannot be read.",
            why=str(error),
            hint="Set RUNYARD_HOME to a folder of your own.",
        ) from error


def _recorded_socket(home: Path) -> Optional[str]:
    """Return where the running server says its socket is: another login session may have another XDG_RUNTIME_DIR."""
    try:
        plain: Any = json.loads((server_folder(home) / "lock").read_bytes())
        return str(plain["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_older(version: str) -> bool:
    return _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> Tuple[int, ...]:
    """Return 1.2.0rc1 as (1, 2, 0): a pre-release of a version does not replace it, nor the reverse."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    return tuple(numbers)


@contextmanager
def _start_lock(settings: Settings) -> Iterator[None]:
    """Of ten processes that find no server, one starts it and nine wait."""
    path = os.path.join(str(runtime_folder(settings)), "start.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _lock(descriptor, path, settings)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: str, settings: Settings) -> None:
    import fcntl  # Windows has no such module, and no private server

    deadline = time.monotonic() + _LOCK_PATIENCE_S
    speak_at = time.monotonic() + processes.SPEAK_AFTER_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        if time.monotonic() > deadline:
            raise ServerNotStarted(
                "Another process has been starting the private server for too long.",
                why=f"It holds {path}.",
                hint=f"`fuser {path}` names it; end it and try again.",
            )
        if time.monotonic() > speak_at:
            processes.say_waiting(settings)
            speak_at = deadline
        time.sleep(_POLL_S)
