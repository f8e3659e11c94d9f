"""The seam `Launcher`: names and lookup."""

from __future__ import annotations

from runyard.core.errors import NotYetSupported
from runyard.core.plugins import load_plugin
from runyard.launchers.base import Launcher

LAUNCHERS = {"single": "runyard.launchers.single:SingleLauncher"}
_LATER = ("mpi", "pytorch", "tensorflow")


def get_launcher(name: str) -> Launcher:
    """Return the launcher of a `DistributionSpec.kind`.

    Raises:
        NotFound: there is none of that name.
        NotYetSupported: it comes with a later release.
    """
    if name in _LATER:
        raise NotYetSupported(
            f"The distribution `{name}` cannot be launched yet.",
            why="It comes with distributed training, in a later release.",
            hint="Submit the script without a distributed configuration (one process), or start the processes yourself "
            "from a `command`.",
        )
    launcher: Launcher = load_plugin("launchers", name, LAUNCHERS)()
    return launcher
