"""File names as they come in addresses and bodies: decoded once, then the one canonical form."""

from __future__ import annotations

import re

from runyard.core.errors import InvalidArgument
from runyard.core.names import clean_file_name

# Dots, slashes, backslashes, NUL or percent signs that are still encoded: nobody decodes them a second time.
_ENCODED = re.compile(r"%(2e|2f|5c|00|25|u00|c0|e0%80)", re.IGNORECASE)


def file_name(value: str) -> str:
    """Return the canonical name.

    Raises:
        InvalidArgument: it leaves its root, is absolute, or holds characters that somebody downstream would decode.
    """
    if _ENCODED.search(value):
        raise InvalidArgument(
            f"The file name {value[:200]!r} cannot be used.",
            why="It holds a path separator or dot that is encoded twice.",
            hint="Use a relative name with `/` between folders, such as `outputs/model.pkl`.",
        )
    return clean_file_name(value)
