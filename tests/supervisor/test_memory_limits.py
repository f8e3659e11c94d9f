"""How much memory a run may have, as its cgroups say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.faults.injected import MEMORY_LIMIT, memory_group


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a cgroup with a memory limit")
def test_the_memory_limit_of_a_group_or_of_one_above_it_is_found() -> None:
    script = (
        "import os, sys\nfrom runyard.supervisor.processes.killing import memory_limit\n"
        "open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))\nprint(memory_limit())\n"
    )
    with memory_group() as folder:
        (folder / "below").mkdir()
        for place in (folder, folder / "below"):
            found = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, check=True)
            assert int(found.stdout) == MEMORY_LIMIT
        (folder / "below").rmdir()
