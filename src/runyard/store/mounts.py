"""Which file system a path lies on, from Linux's mount table."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")

# statfs(2) cannot tell one FUSE file system from another; the mount table's names can.
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|afs|ceph|lustre|gpfs|beegfs|orangefs|pvfs2|glusterfs|panfs|wekafs|gfs2|ocfs2|coda|davfs"
    r"|fuse\.(sshfs|glusterfs|ceph|ceph-fuse|s3fs|goofys|gcsfuse|blobfuse2?|rclone|juicefs|davfs2?|mount-s3|nfs.*|smb.*|cifs.*)"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A line of the mount table."""

    mount_point: str
    type: str


def find_network_file_system(path: Path, *, mounts: Path = MOUNTS) -> Mount | None:
    """Return the mount that holds `path` when it is another machine's disk; None where there is no mount table."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    found = _mount_of(os.path.realpath(path), lines)
    return found if found is not None and _NETWORK.fullmatch(found.type) else None


def _mount_of(path: str, lines: list[str]) -> Mount | None:
    best = None
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one is seen.
        if inside and (best is None or len(point) >= len(best.mount_point)):
            best = Mount(point, right.split(" ")[0])
    return best
