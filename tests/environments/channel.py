"""A small conda channel that tests make: the machine's own Python as a package, and packages of a line of code."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

SUBDIR = "linux-64"
PYTHON = "{}.{}".format(*sys.version_info[:2])
LEFT_OUT = {
    "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages", "dist-packages",
    "__pycache__", "pydoc_data", "unittest",
}  # fmt: skip


def make_channel(folder: Path) -> str:
    """Return the channel's URL. It holds python, tinylib 1.0 and 2.0, and needsold, which wants tinylib 1.0."""
    for version in ("1.0", "2.0"):
        module = {f"lib/python{PYTHON}/site-packages/tinylib.py": f"VERSION = {version!r}\n".encode()}
        add_package(folder, "tinylib", version, module, depends=[f"python {PYTHON}.*"])
    add_package(folder, "needsold", "1.0", {}, depends=["tinylib ==1.0"])
    add_package(folder, "wantscuda", "1.0", {}, depends=["__cuda >=99"])
    add_package(folder, "wantslinux", "1.0", {}, depends=["__linux"])
    version = "{}.{}.{}".format(*sys.version_info[:3])
    add_package(folder, "python", version, dict(_python_files()), links={"bin/python": f"python{PYTHON}"})
    write_index(folder)
    return folder.as_uri()


def add_package(
    channel: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    depends: Iterable[str] = (),
    links: Mapping[str, str] | None = None,
) -> None:
    index = {
        "name": name, "version": version, "build": "0", "build_number": 0, "depends": list(depends), "subdir": SUBDIR,
        "arch": "x86_64", "platform": "linux",
    }  # fmt: skip
    paths = [_path_entry(path, data) for path, data in files.items()]
    paths += [{"_path": path, "path_type": "softlink"} for path in links or {}]
    content = {
        "info/index.json": json.dumps(index).encode(),
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
        **files,
    }
    (channel / SUBDIR).mkdir(parents=True, exist_ok=True)
    (channel / "noarch").mkdir(exist_ok=True)
    with tarfile.open(channel / SUBDIR / f"{name}-{version}-0.tar.bz2", "w:bz2", compresslevel=1) as archive:
        for path, data in content.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o755 if path.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(data))
        for path, target in (links or {}).items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)


def write_index(channel: Path) -> None:
    packages = {path.name: _index_entry(path) for path in sorted((channel / SUBDIR).glob("*.tar.bz2"))}
    for subdir, found in ((SUBDIR, packages), ("noarch", {})):
        document = {"info": {"subdir": subdir}, "packages": found, "packages.conda": {}, "repodata_version": 1}
        (channel / subdir / "repodata.json").write_text(json.dumps(document))


def _index_entry(path: Path) -> dict[str, object]:
    with tarfile.open(path) as archive:
        index = archive.extractfile("info/index.json")
        assert index is not None
        entry = json.load(index)
    data = path.read_bytes()
    return {**entry, "sha256": hashlib.sha256(data).hexdigest(), "md5": "0" * 32, "size": len(data)}


def _path_entry(path: str, data: bytes) -> dict[str, object]:
    return {
        "_path": path, "path_type": "hardlink", "sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data),
    }  # fmt: skip


def _python_files() -> Iterable[tuple[str, bytes]]:
    """Yield what the machine's Python needs to start: program, shared library, standard library."""
    base = sys.base_prefix
    yield f"bin/python{PYTHON}", Path(os.path.realpath(sys.executable)).read_bytes()
    for library in Path(base, "lib").glob(f"libpython{PYTHON}.so.*"):
        yield f"lib/{library.name}", library.read_bytes()
    standard = os.path.dirname(os.__file__)
    for folder, folders, files in os.walk(standard):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith("config-")]
        for name in files:
            path = os.path.join(folder, name)
            yield f"lib/python{PYTHON}/{os.path.relpath(path, standard)}", Path(path).read_bytes()
