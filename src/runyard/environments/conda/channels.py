"""Which conda channels a specification means. Pure."""

from __future__ import annotations

import os
import re
from typing import List

from runyard.core.config.urls import HIDDEN, hide_passwords

DEFAULT_CHANNELS = ["conda-forge"]  # where the specification names none
_DEFAULTS = ["main", "r"]  # what conda calls `defaults`, by the names of its parts


def plan_channels(channels: List[str]) -> List[str]:
    """Return names, URLs and folders in the order in which they are asked; `nodefaults` only keeps others away."""
    found: List[str] = []
    for channel in channels:
        for one in _DEFAULTS if channel == "defaults" else [channel]:
            if one != "nodefaults" and _full(one) not in found:
                found.append(_full(one))
    return found or list(DEFAULT_CHANNELS)


def _full(channel: str) -> str:
    """Return a folder with its full path: a relative one says nothing in another process."""
    if channel.startswith(("./", "../", "~", "/")):
        return "file://" + os.path.abspath(os.path.expanduser(channel))
    return channel


def hide_secrets(text: str) -> str:
    """Return the text without passwords and tokens in the URLs that it names."""
    return re.sub(r"(/t/)[^/\s]+", rf"\1{HIDDEN}", hide_passwords(text, keep_user=True))
