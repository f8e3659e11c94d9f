"""The server's own token, in a file that only its owner reads."""

from __future__ import annotations

import os
from pathlib import Path

from runyard.server.access.private_file import make_private_file, read_private_file

TOKEN_PREFIX = "ryt_"


def ensure_token(path: Path) -> str:
    """Return the server's token, made on the first start: 256 random bits in a file that only its owner reads.

    Who calls holds the home's lock.

    Raises:
        ServerNotStarted: the file is not ours, others can read it, or it holds no token.
    """
    if not os.path.lexists(path):
        make_private_file(path, TOKEN_PREFIX + os.urandom(32).hex())
    return read_private_file(path, pattern=TOKEN_PREFIX + r"[0-9a-f]{64}", what="token")
