"""Servers for MLflow's clients, each a process of its own on a loopback address: ours, and `mlflow server`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runyard.client.client import Client
from runyard.client.private_server import ensure
from runyard.client.transport import Transport
from runyard.core.config.server_settings import ServerSettings, write_server_settings
from runyard.core.config.settings import read_settings

HOST = "127.0.0.1"
STOCK_START_S = 90


@dataclass(frozen=True)
class TrackingServer:
    """`base` is what a client's tracking URI is, below which each test of ours names a workspace."""

    url: str
    token: str = ""

    def base(self, workspace: str) -> str:
        """Return the tracking URI: a stock server has one store, ours has a store per workspace."""
        return f"{self.url}/mlflow/{workspace}" if self.token else self.url


@contextmanager
def runyard_server(home: Path) -> Iterator[TrackingServer]:
    """Start a server of ours with this home, over plain HTTP, and stop it at the end."""
    port = free_port()
    write_server_settings(home, ServerSettings(host=HOST, port=port, names=[f"{HOST}:{port}"], behind_proxy=True))
    client = Client(Transport(ensure(read_settings({**os.environ, "RUNYARD_HOME": str(home)}))))
    try:
        yield TrackingServer(f"http://{HOST}:{port}", client.address.token)
    finally:
        client.server.stop()


@contextmanager
def stock_server(python: Path, folder: Path, **variables: str) -> Iterator[TrackingServer]:
    """Start `mlflow server` of that environment with a database and files in `folder`, and with these variables."""
    port = free_port()
    url = f"http://{HOST}:{port}"
    command = [str(python), "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=client_variables(**variables), start_new_session=True
        )
        try:
            _wait_until_healthy(url, process, folder / "server.log")
            yield TrackingServer(url)
        finally:
            _end_group(process)


def client_variables(**more: str) -> dict[str, str]:
    """Return the variables for a process with MLflow: nothing of the person who runs the tests reaches it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "DATABRICKS_"))}
    return {**kept, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "GIT_PYTHON_REFRESH": "quiet", **more}


def uv(*arguments: str) -> None:
    """Run uv, which `make` puts beside our interpreter."""
    beside = Path(sys.executable).parent / "uv"
    program = str(beside) if beside.exists() else shutil.which("uv")
    assert program, "uv is needed: pip install uv"
    subprocess.run([program, *arguments], check=True, timeout=500)


def make_environment(folder: Path, *packages: str) -> Path:
    """Return the interpreter of an environment with these packages, made once."""
    python = folder / "bin/python"
    ready = folder / "packages.txt"
    wanted = "\n".join(packages)
    if not ready.exists() or ready.read_text() != wanted:
        uv("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        uv("pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), *packages)
        ready.write_text(wanted)
    return python


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STOCK_START_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        assert process.poll() is None and time.monotonic() < deadline, f"no `mlflow server`:\n{log.read_text()}"
        time.sleep(0.1)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the server and its workers, which are the process group that it leads."""
    for signal_number in (15, 9):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(timeout=15)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
