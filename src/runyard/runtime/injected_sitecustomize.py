"""Becomes `sitecustomize.py` of the injection folder, first on the path of every process of a run.

It first runs the `sitecustomize` that it hides. It never raises, and outside of a run it does nothing else.
"""

import os
import sys

# importlib.util would cost a millisecond of every start, and so would importing our package rather than one file of it.
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder, spec_from_file_location

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_hidden() -> None:
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if os.path.abspath(entry) != _HERE])
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    ours = sys.modules["sitecustomize"]
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = ours
        raise


def _install_hook(run_folder: str) -> None:
    spec = spec_from_file_location("sitecustomize_hook", f"{_HERE}/runyard/runtime/sitecustomize_hook.py")
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        module.install(run_folder)


def _import_from_snapshot(folders: str) -> None:
    """Put the snapshot's folders behind the standard library, which they must not hide, and before what is installed.

    Editable installs come later: their folders follow the installed packages, their finders follow the path's.
    """
    installed = [at for at, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages"))]
    at = installed[0] if installed else len(sys.path)
    sys.path[at:at] = [folder for folder in folders.split(os.pathsep) if folder]


def _say(error: Exception) -> None:
    try:
        sys.stderr.write(f"Error in sitecustomize: {type(error).__name__}: {error}\n")
    except (AttributeError, OSError, ValueError):  # there is no stderr
        pass


try:
    _run_hidden()
except ImportError as error:
    if error.name != "sitecustomize":
        _say(error)
except Exception as error:  # as `site` itself does: said, not raised
    _say(error)

if os.environ.get("RUNYARD_RUN_FOLDER"):
    try:
        _import_from_snapshot(os.environ.get("RUNYARD_IMPORT_PATH", ""))
        _install_hook(os.environ["RUNYARD_RUN_FOLDER"])
    except Exception:  # a run without our hooks is better than no run
        pass
