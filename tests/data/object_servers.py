"""Real servers of the object protocols on loopback: moto's S3 and Azurite, installed once per machine."""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.frameworks import cache, interpreter_with

MOTO = ("moto[server]==5.2.5",)
AZURITE = "azurite@3.37.0"
ACCOUNT = "devstoreaccount1"  # Azurite's own, with the key that its documentation gives everybody
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def s3_server() -> Iterator[str]:
    port = _free_port()
    command = [interpreter_with(MOTO), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _serving(command, f"http://127.0.0.1:{port}") as url:
        yield url


@contextmanager
def azure_server() -> Iterator[str]:
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="azurite-") as folder:
        command = [str(_azurite()), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder]
        options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        with _serving([*command, *options], f"http://127.0.0.1:{port}") as url:
            yield f"{url}/{ACCOUNT}"


@contextmanager
def _serving(command: list[str], url: str) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not _answers(url):
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{command[0]} does not answer"
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _azurite() -> Path:
    folder = cache() / "azurite"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            assert shutil.which("npm"), "npm is needed to install Azurite: apt-get install nodejs npm"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), AZURITE]
            subprocess.run(command, check=True, cwd=folder)
            (folder / "ready").touch()
    return folder / "node_modules/.bin/azurite-blob"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
