"""A container image made of this machine's own Python, shell and the libraries they need: no registry is asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from runyard.environments.uv_program import find_uv
from tests.environments.channel import LEFT_OUT

_LIBRARY = re.compile(r"(/\S+) \(0x")
_TOOLS = ("/bin/sh", "/usr/bin/env", "/bin/sleep", "/bin/cat")


def write_rootfs(path: Path) -> Path:
    """Write a tar file that `podman import` takes. `python3` is the interpreter of the tests, at its own path."""
    python = os.path.realpath(sys.executable)
    standard = list(_standard_library())
    programs = [*_TOOLS, python]
    libraries = _libraries([*programs, find_uv(os.environ), *(file for file in standard if file.endswith(".so"))])
    with tarfile.open(path, "w") as archive:
        for file in sorted({*programs, *standard, *libraries}):
            _add(archive, os.path.realpath(file), file)
        for name in ("python3", "python"):
            _link(archive, f"usr/local/bin/{name}", python)
        for name in ("tmp", "proc", "sys", "dev", "etc", "root"):
            _folder(archive, name, 0o1777 if name == "tmp" else 0o755)
    return path


def _standard_library() -> Iterator[str]:
    folder = sysconfig.get_path("stdlib")
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith("config-")]
        yield from (os.path.join(root, name) for name in files)
    yield sysconfig.get_config_h_filename()


def _libraries(programs: Iterable[str]) -> set[str]:
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    return set(_LIBRARY.findall(done.stdout))


def _add(archive: tarfile.TarFile, source: str, name: str) -> None:
    member = archive.gettarinfo(source, name.lstrip("/"))
    if member.isreg():
        with open(source, "rb") as file:
            archive.addfile(member, file)


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    archive.addfile(member)


def _folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    archive.addfile(member)
