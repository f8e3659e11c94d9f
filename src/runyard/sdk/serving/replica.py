"""`python -m runyard.sdk.serving.replica`: what the run of a replica starts. It lays out the app root, fetches the
models, and becomes the host of the workers.

    app/                       the app root: AML_APP_ROOT, and the working folder of scripts
    app/azureml-models/NAME/VERSION/…
    app/NAME -> the run's work folder, when the source folder has a name; else links to its files, and `main.py`
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import List, Sequence

from runyard.core.errors import RunyardError
from runyard.runtime.context import find_context
from runyard.sdk.models.files import DEPLOYED, MODELS, plain_form

_LOCAL_MODELS = ".runyard-models"  # in the stored source: models that are not registered
_MAIN = "main.py"


def main(arguments: Sequence[str]) -> int:
    cut = list(arguments).index("--")
    found, words = _parse(arguments[:cut]), list(arguments[cut + 1 :])
    context = find_context()
    if context is None:
        print("runyard: this starts a replica of a web service, inside its run only.", file=sys.stderr)
        return 2
    root = os.path.join(context.run_folder, "app")
    os.makedirs(root, exist_ok=True)
    _lay_out(root, os.getcwd(), found.source_name, _entry_of(words))
    try:
        folder = _fetch_models(root, found.model)
    except RunyardError:
        sys.tracebacklimit = 0  # the run's error is the exception, and our frames tell users nothing
        raise
    os.environ[DEPLOYED] = folder
    os.environ.setdefault("AML_APP_ROOT", root)
    command = [sys.executable, "-m", "runyard.serving.worker", "--app-root", root, *words]
    os.execv(sys.executable, command)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m runyard.sdk.serving.replica")
    parser.add_argument("--model", action="append", default=[], help="NAME:VERSION")
    parser.add_argument("--source-name", default="")
    return parser.parse_args(list(arguments))


def _entry_of(words: List[str]) -> str:
    return words[words.index("--entry") + 1] if "--entry" in words else ""


def _lay_out(root: str, work: str, source_name: str, entry: str) -> None:
    """Put the run's work folder, which holds the stored source, where scripts look for it."""
    if source_name:
        _link(work, os.path.join(root, source_name))
        return
    for name in os.listdir(work):
        if name not in ("outputs", "logs", MODELS, _LOCAL_MODELS):
            _link(os.path.join(work, name), os.path.join(root, name))
    if entry and entry != _MAIN and os.path.exists(os.path.join(work, entry)):
        _link(os.path.join(work, entry), os.path.join(root, _MAIN))


def _link(target: str, path: str) -> None:
    if not os.path.lexists(path):
        os.symlink(target, path)


def _fetch_models(root: str, models: List[str]) -> str:
    """Download the models, or link those that came with the source; return what AZUREML_MODEL_DIR is.

    That is one model's own folder, else the folder of all.
    """
    folders = []
    for model in models:
        name, _, version = model.rpartition(":")
        folder = os.path.join(root, MODELS, plain_form(name), version)
        folders.append(folder)
        stored = os.path.abspath(os.path.join(_LOCAL_MODELS, plain_form(name), version))
        if os.path.isdir(stored):
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            _link(stored, folder)
        elif not os.path.isdir(folder):
            _download(name, int(version), folder)
    os.makedirs(os.path.join(root, MODELS), exist_ok=True)
    return folders[0] if len(folders) == 1 else os.path.join(root, MODELS)


def _download(name: str, version: int, folder: str) -> None:
    # Services without a model need neither the SDK nor the server.
    from runyard.client.calls.workspace import ModelCalls
    from runyard.sdk.models.files import download
    from runyard.sdk.workspaces.connection import get_run_client

    context = find_context()
    assert context is not None
    job = context.read_job()
    calls = ModelCalls(get_run_client(job).transport)
    download(calls, calls.get(job["workspace"], name, version=version), folder, exist_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
