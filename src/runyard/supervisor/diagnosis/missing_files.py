"""Explains a file that a program missed although its user has it: a line of an ignore file kept it out of the snapshot.

Called by the supervisor's main thread at the end of a failed run.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Iterator, Optional

from runyard.core.machine.progress import shown_size
from runyard.snapshots.left_out import LeftOutRule, from_text

if TYPE_CHECKING:
    from runyard.core.formats.documents import UncaughtException

_NOT_FOUND = re.compile(r"(?:^|\.)\w*NotFound\w*$")
_NO_SUCH_FILE = re.compile(r"no such file|not found|does not exist|unable to open|errno 2\b|errno = 2\b", re.IGNORECASE)
_QUOTED = re.compile(r"""'([^'\n]{1,400})'|"([^"\n]{1,400})"|`([^`\n]{1,400})`""")
_FIRST_WORD = re.compile(r"\s*([^\s;:'\"]{1,400})")


def explain_left_out(exception: Optional[UncaughtException], left_out: str, work_folder: str) -> str:
    """Return which line of an ignore file kept the missing file out of the snapshot; "" when none did.

    Args:
        left_out: what the run's property says about its snapshot.
    """
    rules = from_text(left_out) if exception and left_out else []
    for path in _missing_paths(exception or {}, work_folder) if rules else ():
        for rule in rules:
            part = rule.covers(path)
            if part is not None:
                return _explanation(path, part, rule)
    return ""


def _missing_paths(exception: UncaughtException, work_folder: str) -> Iterator[str]:
    """Yield the files that the exception may be about, relative to the work folder."""
    message = str(exception.get("message") or "")
    names = [str(exception["missing_file"])] if exception.get("missing_file") else []
    if _NOT_FOUND.search(str(exception.get("type") or "")) or _NO_SUCH_FILE.search(message):
        names += [next(filter(None, match.groups())) for match in _QUOTED.finditer(message)]
        names += _FIRST_WORD.findall(message)[:1]
    for name in names:
        path = os.path.normpath(os.path.join(work_folder, name.strip()))
        if path.startswith(f"{work_folder}/"):
            yield path[len(work_folder) + 1 :]


def _explanation(path: str, part: str, rule: LeftOutRule) -> str:
    amount = f"{'' if rule.is_all else 'more than '}{rule.files:,} file(s), {shown_size(rule.size_bytes)}"
    folder = part if part.endswith("/") else f"{os.path.dirname(part)}/" if "/" in part else ""
    instead = f"Datastore.register_folder(ws, NAME, '{folder.rstrip('/') or '.'}')"
    return (
        f"`{path}` is not in the run's snapshot: line {rule.line} of `{rule.file}` (`{rule.text}`) leaves `{part}` out "
        f"({amount} in all). To send it, add the line `!{part}` to `.amlignore`; large data is better read through a "
        f"datastore: `{instead}`."
    )
