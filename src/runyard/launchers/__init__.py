"""The seam `Launcher`: names and lookup."""

from __future__ import annotations

from runyard.core.plugins import load_plugin
from runyard.launchers.base import Launcher

LAUNCHERS = {
    "single": "runyard.launchers.single:SingleLauncher",
    "mpi": "runyard.launchers.mpi:MpiLauncher",
    "pytorch": "runyard.launchers.pytorch:PyTorchLauncher",
    "tensorflow": "runyard.launchers.tensorflow:TensorflowLauncher",
}


def get_launcher(name: str) -> Launcher:
    """Return the launcher of a `DistributionSpec.kind`.

    Raises:
        NotFound: there is none of that name.
    """
    launcher: Launcher = load_plugin("launchers", name, LAUNCHERS)()
    return launcher
