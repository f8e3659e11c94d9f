"""`PromoteHeadersBehavior`: what the first lines of delimited files are."""

from __future__ import annotations

from enum import Enum
from typing import Any

from runyard.sdk.not_yet import refuse


class PromoteHeadersBehavior(Enum):
    """A value of `header=`, as are True and False. Files that have headers have one each."""

    NO_HEADERS = 0
    ONLY_FIRST_FILE_HAS_HEADERS = 1
    COMBINE_ALL_FILES_HEADERS = 2
    ALL_FILES_HAVE_SAME_HEADERS = 3


def has_header(header: Any) -> bool:
    """Whether each file begins with the names of its columns."""
    if header is PromoteHeadersBehavior.ONLY_FIRST_FILE_HAS_HEADERS:
        refuse("A header that only the first file has", hint="Give each file its header, or none: header=False.")
    return header is not False and header is not PromoteHeadersBehavior.NO_HEADERS
