"""Tiny packages that tests make themselves, so that they need no package index."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Any

from runyard.core.config.settings import Settings
from runyard.core.specs import EnvironmentSpec
from runyard.environments import get_builder
from runyard.environments.uv import UvBuilder

_METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {}\n"

_ANY = "py3-none-any"

# Builds its wheel when the file `go` appears, and counts how often it began.
_SLOW_BACKEND = """
import os, sys, time
HERE = os.path.dirname(os.path.abspath(__file__)) + ".signals"

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.path.join(HERE, "began"), "a") as file:
        file.write(str(os.getpid()) + "\\n")
    deadline = time.monotonic() + 60
    while not os.path.exists(os.path.join(HERE, "go")):
        if time.monotonic() > deadline:
            raise SystemExit("nobody let it go")
        time.sleep(0.01)
    if os.path.exists(os.path.join(HERE, "fail")):
        raise SystemExit("it shall fail")
    import zipfile
    with zipfile.ZipFile(os.path.join(folder, "slow-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("slow.py", "version = '1.0'\\n")
        wheel.writestr("slow-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: slow\\nVersion: 1.0\\n")
        wheel.writestr("slow-1.0.dist-info/WHEEL", WHEEL)
        wheel.writestr("slow-1.0.dist-info/RECORD", "slow.py,,\\n")
    return "slow-1.0-py3-none-any.whl"
"""
_SLOW_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "slow"
version = "1.0"
"""


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    requires: tuple[str, ...] = (),
    scripts: dict[str, str] | None = None,
    tag: str = _ANY,
) -> Path:
    """Write a wheel whose module `name` has the attribute `version`; `tag` says for which Pythons it is."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": _METADATA.format(name, version) + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{info}/WHEEL": _WHEEL.format(tag),
    }
    if scripts:
        lines = "".join(f"{script} = {target}\n" for script, target in scripts.items())
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            wheel.writestr(zipfile.ZipInfo(inside), text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class SlowPackage:
    """The source of a package that takes as long to build as the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.signals = folder.with_name(f"{folder.name}.signals")  # the folder's content is part of the key
        self.signals.mkdir()
        (folder / "pyproject.toml").write_text(_SLOW_PROJECT)
        (folder / "backend.py").write_text(f"WHEEL = {_WHEEL.format(_ANY)!r}\n{_SLOW_BACKEND}")

    @property
    def requirement(self) -> str:
        return str(self.folder)

    def pids(self) -> list[int]:
        """Return the build processes that began so far."""
        path = self.signals / "began"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def let_go(self) -> None:
        (self.signals / "go").touch()

    def let_fail(self) -> None:
        (self.signals / "fail").touch()
        self.let_go()


def offline(wheels: Path, *packages: str, **fields: object) -> EnvironmentSpec:
    """Return a spec whose packages come from a folder of wheels alone."""
    options = ["--no-index", f"--find-links {wheels}"]
    return EnvironmentSpec(name="e", kind="uv", pip_packages=list(packages), pip_options=options, **fields)  # type: ignore[arg-type]


def uv_builder(home: Path, **settings: Any) -> UvBuilder:
    home.mkdir(parents=True, exist_ok=True)
    builder = get_builder("uv", cache=home / "cache", settings=Settings(home=home, **settings))
    assert isinstance(builder, UvBuilder)
    return builder
