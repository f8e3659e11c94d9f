"""Code that a Python imports from folders outside of its own: editable installs of pip, uv, hatch, poetry, setuptools.

They leave a path in a `.pth` file, a module that maps packages to folders, or a symbolic link. Everything is read from
files: nothing of the environment is run.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import ast

_IMPORTED = re.compile(r"(?:^|[;\s])import\s+([A-Za-z_]\w*)")
_FIELD = re.compile(r"^Name: *(.+?) *$", re.M)
_VERSIONED = re.compile(r"(?:__editable__\.|_editable_impl_|_)?(.+?)(?:-\d[\w.+!]*)?")
_MOST_BYTES = 1 << 20
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_FIRST = "meta_path.insert(0"  # a finder that is asked before sys.path is


class LiveCode(NamedTuple):
    """A folder on the import path, or a package that is mapped to a folder or file."""

    package: str  # as it was installed
    path: str  # real path
    module: str = ""  # of a mapping; "": `path` is a folder of modules
    comes_first: bool = False  # nothing on the import path can take its place


def find_live_code(interpreter: str, variables: Mapping[str, str]) -> List[LiveCode]:
    """Return what a Python imports from elsewhere, without repetition."""
    found: Dict[LiveCode, None] = {}
    for folder in site_folders(interpreter, variables):
        entries = _entries(folder)
        outside = [one for entry in entries for one in _of_entry(folder, entry) if not _is_below(one.path, folder)]
        editable = _editable_roots(folder, entries) if outside else {}
        for one in outside:
            package = next((editable[root] for root in editable if _is_below(one.path, root)), one.package)
            found[one._replace(package=package)] = None
    return list(found)


def site_folders(interpreter: str, variables: Mapping[str, str]) -> List[str]:
    """Return the folders whose `.pth` files the Python reads, as they lie below its prefix."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))
    prefixes = [prefix]
    settings = _read_text(os.path.join(prefix, "pyvenv.cfg"))
    is_apart = bool(settings) and not re.search(r"^include-system-site-packages\s*=\s*true", settings, re.M | re.I)
    if not is_apart:
        real = os.path.dirname(os.path.dirname(os.path.realpath(interpreter)))
        prefixes += [real, os.path.join(real, "local")]
        prefixes.append(variables.get("PYTHONUSERBASE") or os.path.join(variables.get("HOME") or "/", ".local"))
    libraries = [os.path.join(base, lib) for base in prefixes for lib in ("lib", "lib64")]
    pythons = [entry.path for lib in libraries for entry in _entries(lib) if entry.name.startswith("python3")]
    found = [os.path.join(folder, name) for folder in pythons for name in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(os.path.realpath(folder) for folder in found if os.path.isdir(folder)))


def is_project(folder: str) -> bool:
    """Whether the folder, or the one above it, is a project that could have been installed."""
    above = (folder, os.path.dirname(folder))
    return any(os.path.exists(os.path.join(place, name)) for place in above for name in _PROJECT)


def _of_entry(folder: str, entry: os.DirEntry[str]) -> Iterator[LiveCode]:
    name = entry.name
    if name.endswith(".pth"):
        yield from _of_pth_file(folder, entry.path, _package_of(name[: -len(".pth")]))
    elif entry.is_symlink() and name.partition(".")[0].isidentifier():
        yield LiveCode(name, os.path.realpath(entry.path), name.partition(".")[0])


def _of_pth_file(folder: str, path: str, package: str) -> Iterator[LiveCode]:
    for line in _read_text(path).splitlines():
        if line.startswith(("import ", "import\t")):
            for module in dict.fromkeys(_IMPORTED.findall(line)):
                text = _read_text(os.path.join(folder, f"{module}.py"))
                for name, target in _mapped(text) if text else ():
                    yield LiveCode(package, os.path.realpath(target), name, _FIRST in text)
        elif line.strip() and not line.startswith("#"):
            target = os.path.realpath(os.path.join(folder, line.strip()))
            if os.path.isdir(target):
                yield LiveCode(package, target)


def _mapped(text: str) -> List[Tuple[str, str]]:
    """Return (module, folder or file) of every pair in an import hook: entries of dictionaries, arguments of calls."""
    import ast  # few environments have import hooks

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: Dict[Tuple[str, str], None] = {}
    for node in ast.walk(tree):
        pairs: List[Tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Dict):
            pairs = [(key, value) for key, value in zip(node.keys, node.values) if key is not None]
        elif isinstance(node, ast.Call) and len(node.args) >= 2:
            pairs = [(node.args[0], node.args[1])]
        for key, value in pairs:
            for name, target in ((_text(key), _text(item)) for item in _items(value)):
                if name and all(part.isidentifier() for part in name.split(".")) and os.path.isabs(target):
                    found[name, _module_path(target)] = None
    return list(found)


def _items(value: ast.AST) -> List[ast.AST]:
    """Return the value, or the values of a list: a namespace may have several folders."""
    return list(getattr(value, "elts", [value]))


def _text(node: ast.AST) -> str:
    value = getattr(node, "value", None)
    return value if isinstance(value, str) else ""


def _module_path(target: str) -> str:
    if os.path.basename(target) == "__init__.py":
        return os.path.dirname(target)
    return f"{target}.py" if not os.path.exists(target) and os.path.exists(f"{target}.py") else target


def _editable_roots(folder: str, entries: Sequence[os.DirEntry[str]]) -> Dict[str, str]:
    """Return {project's folder: package} of what direct_url.json calls editable."""
    found: Dict[str, str] = {}
    for name in [entry.name for entry in entries]:
        text = _read_text(os.path.join(folder, name, "direct_url.json")) if name.endswith(".dist-info") else ""
        try:
            facts = json.loads(text) if text else {}
            url = urlsplit(str(facts.get("url", "")))
            if url.scheme == "file" and (facts.get("dir_info") or {}).get("editable"):
                named = _FIELD.search(_read_text(os.path.join(folder, name, "METADATA")))
                found[os.path.realpath(unquote(url.path))] = named.group(1) if named else name.partition("-")[0]
        except (ValueError, AttributeError):
            continue
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))  # the innermost first


def _package_of(stem: str) -> str:
    match = _VERSIONED.fullmatch(stem)
    return (match.group(1) if match else stem).replace("_", "-")


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _entries(folder: str) -> List[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""
