"""The folder that goes first on a run's PYTHONPATH: copies of the modules that runs need, and our sitecustomize."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import runyard
from runyard.core.config.paths import cache_folder

# Packages that keep to the standard library and Python 3.8; those that are not there yet are left out.
INJECTED = (
    "core", "runtime", "client", "snapshots", "launchers", "environments", "supervisor", "sdk", "data",
    "mlflow", "serving", "imports", "native", "integrations",
)  # fmt: skip
_OF_SERVERS = "runyard/serving/gateway"  # it runs beside the server, with the server's packages
# MLflow looks for plug-ins in the metadata of distributions on the path. The same table is in pyproject.toml.
METADATA = f"runyard_injected-{runyard.__version__}.dist-info"
_METADATA_FILES = {
    "METADATA": f"Metadata-Version: 2.1\nName: runyard-injected\nVersion: {runyard.__version__}\n",
    "entry_points.txt": """[mlflow.tracking_store]
azureml = runyard.integrations.mlflow:tracking_store

[mlflow.model_registry_store]
azureml = runyard.integrations.mlflow:registry_store

[mlflow.artifact_repository]
azureml = runyard.integrations.mlflow:artifact_repository

[mlflow.project_backend]
azureml = runyard.integrations.mlflow:project_backend
""",
}
_SITECUSTOMIZE = "runyard/runtime/injected_sitecustomize.py"

_found: Dict[str, Path] = {}


def injection_folder(home: Path) -> Path:
    """Return the folder for the code that runs here, made when it is not there. Concurrent callers get the same one.

    Raises:
        OSError: it cannot be written.
    """
    parent = cache_folder(home) / "injection"
    known = _found.get(str(parent))
    if known is None or not (known / "sitecustomize.py").exists():
        known = _find_or_make(parent)
        _found[str(parent)] = known
    return known


def _find_or_make(parent: Path) -> Path:
    source = os.path.dirname(os.path.dirname(os.path.abspath(runyard.__file__)))
    if os.path.dirname(source) == str(parent):
        return Path(source)  # this process itself runs from it
    files = dict(_iter_files(source))
    target = parent / f"{runyard.__version__}-{_key(source, files)}"
    if not _is_whole(target, files):
        _publish(source, files, target)
    return target


def _iter_files(source: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Yield (relative path, stat) of each file to copy."""
    yield from _stat(source, ["runyard/__init__.py"])
    for package in INJECTED:
        yield from _walk(source, f"runyard/{package}")
    recorded = _recorded_facade(source)
    if recorded:
        yield from _stat(source, recorded)
    else:
        yield from _walk(source, "azureml")


def _walk(source: str, folder: str) -> Iterator[Tuple[str, os.stat_result]]:
    try:
        entries = sorted(os.scandir(f"{source}/{folder}"), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir():
            below = f"{folder}/{entry.name}"
            if entry.name != "__pycache__" and below != _OF_SERVERS:
                yield from _walk(source, below)
        elif not entry.name.endswith((".pyc", ".pyo")):
            yield f"{folder}/{entry.name}", entry.stat()


def _stat(source: str, names: List[str]) -> Iterator[Tuple[str, os.stat_result]]:
    for name in names:
        yield name, os.stat(f"{source}/{name}")


def _recorded_facade(source: str) -> List[str]:
    """Return our own files of `azureml` as our wheel's RECORD lists them: others install parts of that package too."""
    records = sorted(Path(source).glob("runyard-*.dist-info/RECORD"))
    if not records or not os.path.isdir(f"{source}/azureml"):
        return []
    paths = (line.split(",", 1)[0] for line in records[-1].read_text(encoding="utf-8").splitlines())
    return [path for path in paths if path.startswith("azureml/") and not path.endswith(".pyc")]


def _key(source: str, files: Dict[str, os.stat_result]) -> str:
    facts = [(name, found.st_size, found.st_mtime_ns) for name, found in files.items()]
    return hashlib.sha256(repr((source, facts)).encode("utf-8", "surrogateescape")).hexdigest()[:20]


def _is_whole(target: Path, files: Dict[str, os.stat_result]) -> bool:
    """Whether every file is there with its size: a cleaner of caches or a power loss may have taken some."""
    try:
        if os.stat(target / "sitecustomize.py").st_size != files[_SITECUSTOMIZE].st_size:
            return False
        if any(os.stat(target / METADATA / name).st_size != len(text) for name, text in _METADATA_FILES.items()):
            return False
        return all(os.stat(f"{target}/{name}").st_size == found.st_size for name, found in files.items())
    except OSError:
        return False


def _publish(source: str, files: Dict[str, os.stat_result], target: Path) -> None:
    os.makedirs(target.parent, mode=0o700, exist_ok=True)
    lock = os.open(target.parent / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        import fcntl  # nodes alone come here

        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_whole(target, files):  # else another process was faster
            _replace(source, files, target)
    finally:
        os.close(lock)


def _replace(source: str, files: Dict[str, os.stat_result], target: Path) -> None:
    import shutil  # it is nearly always there already

    beside = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    damaged = target.with_name(f".damaged.{os.urandom(4).hex()}")
    try:
        _copy(source, files, beside)
        if target.exists():
            os.rename(target, damaged)
        os.rename(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(damaged, ignore_errors=True)


def _copy(source: str, files: Dict[str, os.stat_result], folder: Path) -> None:
    import shutil

    os.makedirs(folder, mode=0o700)
    for name in files:
        copy = f"{folder}/{name}"
        os.makedirs(os.path.dirname(copy), mode=0o700, exist_ok=True)
        shutil.copyfile(f"{source}/{name}", copy)
    os.mkdir(folder / METADATA, 0o700)
    for name, text in _METADATA_FILES.items():
        (folder / METADATA / name).write_bytes(text.encode("ascii"))
    shutil.copyfile(f"{source}/{_SITECUSTOMIZE}", folder / "sitecustomize.py")
