"""Requirements from git: a branch or tag becomes the commit that it names now, so that a moved branch is noticed."""

from __future__ import annotations

import re
import subprocess
from typing import Dict, Mapping, NamedTuple, Optional

_LINE = re.compile(
    r"(?P<head>.*?\bgit\+)(?P<url>[a-z+]+://(?:[^/@\s]*@)?[^@\s#]+)(?:@(?P<ref>[^#\s;]+))?(?P<tail>.*)", re.DOTALL
)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TIMEOUT_S = 30.0


class GitReference(NamedTuple):
    url: str
    ref: str  # "HEAD" when the requirement names none


def find_reference(line: str) -> Optional[GitReference]:
    """Return what a requirement takes from git by a name that may move; None for any other requirement."""
    match = _LINE.fullmatch(line.strip())
    if match is None or (match["ref"] and _COMMIT.fullmatch(match["ref"])):
        return None
    return GitReference(match["url"], match["ref"] or "HEAD")


def with_commit(line: str, commit: str) -> str:
    """Return the requirement with a commit in place of its branch or tag."""
    match = _LINE.fullmatch(line.strip())
    assert match is not None
    return f"{match['head']}{match['url']}@{commit}{match['tail']}"


def ask_commit(reference: GitReference, variables: Mapping[str, str]) -> Optional[str]:
    """Return the commit that the name means in its repository now; None when git, or the repository, does not say."""
    url, ref = reference
    names = (
        [ref, f"{ref}^{{}}"]
        if ref == "HEAD"
        else [f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}", ref]
    )
    environ = {**variables, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "ls-remote", "--", url, *names],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    rows = [row.split("\t", 1) for row in done.stdout.decode("utf-8", "replace").splitlines() if "\t" in row]
    found: Dict[str, str] = {name: commit for commit, name in rows if _COMMIT.fullmatch(commit)}
    # The commit of an annotated tag comes before the tag's own id; a branch before a tag of that name, as pip does.
    wanted = [f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref]
    return next((found[name] for name in wanted if name in found), None)
