"""Points lost or doubled when servers and supervisors are killed 200 times under 20 runs with a million points."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from figures import report

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.faults.test_kills import lose_nothing


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ry-kills-") as folder:
        found = lose_nothing(Path(folder), writers=20, points=50_000, kills=200, seconds=240, seed=2)
    logged = f"{found['points']:,} points of 20 runs"
    report("kills.server", found["server"], "kills")
    report("kills.supervisor", found["supervisor"], "kills")
    report("kills.lost", found["lost"], "points", target="== 0", reference=logged)
    report("kills.doubled", found["doubled"], "points", target="== 0", reference=logged)


if __name__ == "__main__":
    main()
