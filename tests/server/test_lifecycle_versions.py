"""A newer client replaces an older server; never the reverse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runyard import __version__
from runyard.client.private_server import find
from runyard.core.config.runtime_folder import runtime_folder, socket_path
from tests.server.private import log_of, settings_of, start

SCRIPT = str(Path(__file__).parent / "other_version.py")


@contextmanager
def other_version(home: Path, version: str) -> Iterator[subprocess.Popen[str]]:
    (home / "server").mkdir(mode=0o700)
    token = home / "server/token"
    token.write_text("ryt_" + "1" * 64)
    token.chmod(0o600)
    command = [sys.executable, SCRIPT, str(home), socket_path(runtime_folder(home)), version]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.long
def test_an_older_server_is_asked_to_leave_and_replaced(home: Path) -> None:
    with other_version(home, "0.0.9") as old:
        info = start(home).server.info()

        assert old.wait(10) == 0
        assert info.version == __version__
        assert info.id != "old"
        assert log_of(home).count(" serves ") == 1


@pytest.mark.parametrize("version", [__version__, "99.0.0", f"{__version__}rc1"])
def test_a_server_that_is_not_older_stays(home: Path, version: str) -> None:
    with other_version(home, version) as other:
        info = start(home).server.info()

        assert (info.id, info.pid) == ("old", other.pid)
        assert other.poll() is None


def test_a_client_that_cannot_start_a_server_uses_the_older_one(home: Path) -> None:
    code = """
from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
print(connect(read_settings()).server.info().version)
"""
    source = str(Path(__file__).parent.parent.parent / "src")
    with other_version(home, "0.0.9"):
        # Neither packages nor an index to get them from.
        offline = ["PATH=/usr/bin:/bin", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=", "UV_OFFLINE=1", f"UV_CACHE_DIR={home}/uv"]
        command = ["env", f"PYTHONPATH={source}", *offline, sys.executable, "-S", "-c", code]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert result.stdout == "0.0.9\n", result.stderr


def test_looking_for_a_server_never_replaces_it(home: Path) -> None:
    with other_version(home, "0.0.9") as old:
        client = find(settings_of(home))

        assert client is not None
        assert client.server.info().version == "0.0.9"
        assert old.poll() is None
