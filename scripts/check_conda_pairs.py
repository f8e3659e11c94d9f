"""Ask the package index for every PyPI name in conda_pairs.txt: `python scripts/check_conda_pairs.py [uv options]`.

Options go to uv as they are (`--default-index …`). Ends with 1 and uv's word on the first name that is not there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from runyard.environments.conda.prefix import NOTHING, all_pairs


def main(options: list[str]) -> int:
    names = sorted({name.partition("[")[0] for name in all_pairs().values()} - {NOTHING})
    argv = ["uv", "pip", "compile", "--no-deps", "--no-header", "--no-annotate", "--quiet", *options, "-"]
    done = subprocess.run(argv, input="\n".join(names), text=True, stdout=subprocess.PIPE, check=False)
    found = len(done.stdout.splitlines())
    print(f"{found} of {len(names)} names are on the index.")
    return 0 if done.returncode == 0 and found == len(names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
