"""Serve one entry script on a port of this machine, without a server: a gateway and a replica as child processes.

`python -m runyard.serving.local --entry SCRIPT --port 8890` is what packaged models and local web services start.
The gateway needs `runyard[server]` under Python 3.10 or newer; the script runs in `--python`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Dict, List, Mapping, Optional, Sequence

from runyard.core.errors import RunyardError, ServerNotStarted
from runyard.serving.config import RevisionConfig, ServiceConfig
from runyard.serving.control_client import ControlClient
from runyard.serving.tokens import digest_of, make_key

_READY_S = 30.0
_TAIL = 8000


@dataclass(frozen=True)
class LocalPlan:
    """What is served, and by which interpreters."""

    entry: str
    app_root: str
    name: str = "local"
    port: int = 0
    host: str = "127.0.0.1"
    source_directory: str = ""
    model_folder: str = ""
    no_code: str = ""
    python: str = sys.executable
    gateway_python: str = sys.executable
    workers: int = 1
    threads: int = 1
    batching: str = ""
    scoring_timeout_ms: int = 60_000
    key: str = field(default="", repr=False)
    variables: Mapping[str, str] = field(default_factory=dict)


class LocalService:
    """A gateway and a replica; their log is `folder/replica.log`. Not shared between threads."""

    def __init__(self, plan: LocalPlan, folder: Path, *, code: Optional[str] = None) -> None:
        self.plan = plan
        self.folder = folder
        self.port = plan.port
        self._code = code or str(Path(__file__).resolve().parent.parent.parent)
        self._token = make_key()
        self._gateway: Optional[subprocess.Popen[bytes]] = None
        self._replica: Optional[subprocess.Popen[bytes]] = None
        self._log: Optional[IO[bytes]] = None

    @property
    def url(self) -> str:
        return f"http://{'localhost' if self.plan.host == '127.0.0.1' else self.plan.host}:{self.port}"

    @property
    def control(self) -> ControlClient:
        return ControlClient(self.folder)

    def start(self) -> None:
        """Start both processes.

        Raises:
            ServerNotStarted: the gateway does not come up, or the port is taken.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = (self.folder / "replica.log").open("ab")
        self._start_gateway()
        self._start_replica()

    def wait_ready(self, timeout_s: float = 300.0) -> None:
        """Wait until a worker answers.

        Raises:
            ServerNotStarted: the script does not load; the end of its log is in the message.
        """
        deadline = time.monotonic() + timeout_s
        control = self.control
        try:
            while time.monotonic() < deadline:
                (revision,) = control.state()[self.plan.name]["revisions"]
                if revision["workers"]:
                    return
                if revision["failure"] or (self._replica is not None and self._replica.poll() is not None):
                    break
                time.sleep(0.02)
        finally:
            control.close()
        raise ServerNotStarted(
            f"The entry script {self.plan.entry} does not start.",
            why=self.read_log()[-_TAIL:] or f"It was not ready within {timeout_s:.0f} s.",
            hint="Correct the script, or what it loads, and start it again.",
        )

    def read_log(self) -> str:
        """Return what the script wrote."""
        return (self.folder / "replica.log").read_text(errors="replace")

    def poll(self) -> Optional[int]:
        """Return the exit code of the first process that ended; None while both run."""
        for process in (self._replica, self._gateway):
            if process is not None and process.poll() is not None:
                return process.returncode
        return None

    def stop(self) -> None:
        """Finish the requests under way and end both processes; may be called twice."""
        for process in (self._replica, self._gateway):
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(40.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self._log is not None:
            self._log.close()

    def _start_gateway(self) -> None:
        plan = self.plan
        reader, writer = os.pipe()
        command = [plan.gateway_python, "-m", "runyard.serving.gateway", "--folder", str(self.folder)]
        command += ["--host", plan.host, "--port", str(plan.port), "--only", plan.name, "--ready-fd", str(writer)]
        with open(self.folder / "gateway.log", "ab") as log:
            self._gateway = subprocess.Popen(
                command, stdout=log, stderr=log, pass_fds=[writer], env=self._variables({}), start_new_session=True
            )
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.readline().strip()
        if not said.isdigit():
            self.stop()
            text = (self.folder / "gateway.log").read_text(errors="replace")[-_TAIL:]
            raise ServerNotStarted(f"The gateway does not start on port {plan.port}.", why=text)
        self.port = int(said)
        self._tell(
            ServiceConfig(
                name=plan.name,
                id=plan.name,
                auth=bool(plan.key),
                keys=(digest_of(plan.key),) if plan.key else (),
                revisions=(RevisionConfig(1, digest_of(self._token), scoring_timeout_ms=plan.scoring_timeout_ms),),
                failure_status=500,
                timeout_status=500,
            )
        )

    def _tell(self, service: ServiceConfig) -> None:
        deadline = time.monotonic() + _READY_S
        control = self.control
        while True:
            try:
                control.put(service)
                control.close()
                return
            except RunyardError:
                if time.monotonic() > deadline or self._gateway is None or self._gateway.poll() is not None:
                    raise
                time.sleep(0.02)

    def _start_replica(self) -> None:
        plan = self.plan
        command = [plan.python, "-m", "runyard.serving.worker", "--gateway", f"unix:{self.folder}/workers.sock"]
        command += ["--service", plan.name, "--app-root", plan.app_root, "--entry", plan.entry]
        command += ["--source-directory", plan.source_directory, "--workers", str(plan.workers)]
        command += ["--threads", str(plan.threads), "--batching", plan.batching, "--no-code", plan.no_code]
        variables = {"SERVICE_NAME": plan.name, "RUNYARD_SERVING_TOKEN": self._token, **plan.variables}
        if plan.model_folder:
            variables["AZUREML_MODEL_DIR"] = plan.model_folder
        assert self._log is not None
        self._replica = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=self._variables(variables), start_new_session=True
        )

    def _variables(self, more: Mapping[str, str]) -> Dict[str, str]:
        path = os.pathsep.join(filter(None, (self._code, os.environ.get("PYTHONPATH"))))
        return {**os.environ, "PYTHONPATH": path, **more}


def main(arguments: Sequence[str]) -> int:
    plan, folder = _read_plan(list(arguments))
    service = LocalService(plan, folder)

    def on_signal(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, on_signal)
    try:
        service.start()
        service.wait_ready()
        print(f"{plan.name} answers at {service.url}/score. Its log is {folder / 'replica.log'}.", flush=True)
        while service.poll() is None:
            time.sleep(0.5)
        print(service.read_log()[-_TAIL:], file=sys.stderr)
        return service.poll() or 1
    except KeyboardInterrupt:
        return 0
    except RunyardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        service.stop()


def _read_plan(arguments: List[str]) -> tuple[LocalPlan, Path]:
    parser = argparse.ArgumentParser(prog="python -m runyard.serving.local", description="Serve one entry script.")
    parser.add_argument("--entry", default="", help="the script with init() and run()")
    parser.add_argument("--app-root", default=os.getcwd(), help="the folder of the script")
    parser.add_argument("--source-directory", default="")
    parser.add_argument("--model-folder", default=os.environ.get("AZUREML_MODEL_DIR", ""))
    parser.add_argument("--no-code", default="")
    parser.add_argument("--name", default="local")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8890)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the script")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batching", default="")
    parser.add_argument("--scoring-timeout-ms", type=int, default=60_000)
    parser.add_argument("--folder", help="of sockets and logs; a temporary one without")
    found = vars(parser.parse_args(arguments))
    folder = Path(found.pop("folder") or tempfile.mkdtemp(prefix="runyard-serving-"))
    found["app_root"] = os.path.abspath(found["app_root"])
    return LocalPlan(**found, key=os.environ.get("RUNYARD_SERVICE_KEY", "")), folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
