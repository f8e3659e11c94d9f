"""Who submits."""

from __future__ import annotations

import os


def user_name() -> str:
    """Return this user's name, or their number where the system knows no name."""
    import pwd  # only a submit asks

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
