"""The gateway process of this server: found again after a restart, started where there is none."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from runyard import __version__
from runyard.core.config.paths import server_folder
from runyard.core.config.runtime_folder import runtime_folder
from runyard.core.errors import RunyardError, ServerNotStarted
from runyard.server.net.gateway_listener import GatewayListener
from runyard.serving.control_client import ControlClient
from runyard.serving.protocol import Json

logger = logging.getLogger(__name__)

_SOCKETS = "g"  # below the runtime folder: a socket's path is short
_ANSWER_S = 5.0
_START_S = 30.0  # of a new process, on a busy machine
_RENEW_S = 60.0  # it finishes its requests first
_LEAVING_S = 40.0  # for one that finishes its requests, and has the folder
_REDIAL_S = 0.2
_TAIL = 2000


class GatewayHandle:
    """Used under the deployer's lock, but for `watch`."""

    def __init__(
        self,
        home: Path,
        address: GatewayListener,
        *,
        find_port: Callable[[], int],
        keep_port: Callable[[int], None],
    ) -> None:
        self._folder = server_folder(home) / "gateway"
        self._home = home
        self._address = address
        self._find_port = find_port
        self._keep_port = keep_port
        self._control: ControlClient | None = None
        self._watcher: ControlClient | None = None
        self._closing = threading.Event()

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def url(self) -> str:
        """The address of all services, once the gateway was started."""
        return f"{self._address.scheme}://{self._address.name}:{self._find_port() or self._address.port}"

    @property
    def listener(self) -> tuple[GatewayListener, int]:
        """Return where it listens, and at which port."""
        return self._address, self._find_port() or self._address.port

    def worker_address(self, *, is_local: bool) -> str:
        """Return where workers dial; "" when those of other machines cannot."""
        if is_local:
            return f"unix:{self._sockets / 'workers.sock'}"
        address = self._address
        if not address.workers_port:
            return ""
        return f"tls:{address.name}:{address.workers_port}#sha256={address.fingerprint}"

    def control(self) -> ControlClient:
        """Return a client of the running gateway, which is started when there is none.

        Raises:
            ServerNotStarted: it does not come up.
        """
        if self._control is None:
            client = ControlClient(self._sockets, timeout_s=_ANSWER_S)
            try:
                version = client.hello()["version"]
            except RunyardError:
                client.close()
                self._start()
                client = ControlClient(self._sockets, timeout_s=_START_S)
                version = client.hello()["version"]
            if version != __version__:
                client = self._renew(client, version)
            self._control = client
        return self._control

    def forget(self) -> None:
        """Look for the gateway anew: it did not answer."""
        if self._control is not None:
            self._control.close()
            self._control = None

    def _renew(self, client: ControlClient, version: str) -> ControlClient:
        """Have the gateway of another version go on with our code. Requests wait meanwhile; none is lost."""
        logger.info("The gateway is of version %s; it goes on as %s.", version, __version__)
        try:
            client.renew(sys.executable, _python_path())
        except RunyardError as error:  # of a version that could not do this
            logger.warning("The gateway of version %s is replaced: %s", version, error)
            client.stop()
            client.close()
            self._start()
        client.close()
        deadline = time.monotonic() + _RENEW_S
        while True:
            client = ControlClient(self._sockets, timeout_s=_START_S)
            try:
                if client.hello()["version"] == __version__ or time.monotonic() > deadline:
                    return client
            except RunyardError:
                if time.monotonic() > deadline:
                    raise
            client.close()
            time.sleep(0.1)

    def stop(self) -> None:
        """End the process, where there is one: no service is left."""
        try:
            client = ControlClient(self._sockets, timeout_s=_ANSWER_S)
            client.stop()
            client.close()
        except RunyardError as error:
            logger.debug("the gateway was gone already: %s", error)
        self.forget()

    def close(self) -> None:
        """Let go of it; it goes on."""
        self._closing.set()
        self.forget()
        if self._watcher is not None:
            self._watcher.close()

    def watch(self, on_event: Callable[[Json], None]) -> None:
        """Call `on_event` with each event until `close`, and with `{}` when they end; for a thread of its own."""
        while not self._closing.is_set():
            client = ControlClient(self._sockets, timeout_s=_ANSWER_S)
            self._watcher = client
            try:
                if self._closing.is_set():
                    return
                for event in client.watch():
                    on_event(event)
            except (RunyardError, OSError, ValueError) as error:
                logger.debug("the gateway's events ended: %s", error)
            else:
                on_event({})
            finally:
                client.close()
            self._closing.wait(_REDIAL_S)

    @property
    def _sockets(self) -> Path:
        return runtime_folder(self._home) / _SOCKETS

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = self._find_port()
        for port in dict.fromkeys((self._address.port or kept, self._address.port)):
            said = self._launch(port)
            if said:
                if said != kept:
                    self._keep_port(said)
                logger.info("The gateway of services listens on port %d.", said)
                return
        text = (self._folder / "gateway.log").read_text(errors="replace")[-_TAIL:]
        raise ServerNotStarted(
            "The gateway, which answers requests to services, does not start.",
            why=text.strip() or "It ended without a word.",
            hint=f"Its log is {self._folder / 'gateway.log'}.",
        )

    def _launch(self, port: int) -> int:
        """Start the process; return its port, 0 when it did not come up."""
        address = self._address
        reader, writer = os.pipe()
        command = [sys.executable, "-m", "runyard.serving.gateway", "--folder", str(self._folder)]
        command += ["--sockets", str(self._sockets), "--host", address.host, "--port", str(port)]
        command += [word for name in address.names for word in ("--name", name)]
        if address.certificate:
            command += ["--certificate", address.certificate, "--key", address.key]
            command += ["--workers-port", str(address.workers_port)]
        command += ["--patience-s", str(_LEAVING_S), "--ready-fd", str(writer)]
        environ = {**os.environ, "PYTHONPATH": _python_path()}
        with open(self._folder / "gateway.log", "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                env=environ,
                cwd=self._folder,
                start_new_session=True,
            )
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.readline().strip()
        # It outlives this server; while both live, somebody has to ask for its exit code.
        threading.Thread(target=process.wait, name="gateway-exit", daemon=True).start()
        return int(said) if said.isdigit() else 0


def _python_path() -> str:
    code = str(Path(__file__).resolve().parent.parent.parent.parent)
    return os.pathsep.join(filter(None, (code, os.environ.get("PYTHONPATH"))))
