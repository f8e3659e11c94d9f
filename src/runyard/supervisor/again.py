"""How to start this package again, whatever the starter's Python set-up is."""

from __future__ import annotations

import os
import sys
from typing import List


def command() -> List[str]:
    return [sys.executable, "-I", os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")]
