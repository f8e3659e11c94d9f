"""`python -m runyard.supervisor`: the process that a backend starts, once per node and run."""

from __future__ import annotations

import os
import sys

if not __package__:  # started by path with `python -I`, so that the starter's Python set-up has no effect
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from runyard.supervisor.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
