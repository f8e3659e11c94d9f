from __future__ import annotations

from pathlib import Path

import pytest

from runyard.core.errors import StoreUnavailable
from runyard.store import sqlite
from runyard.store.mounts import Mount, find_network_file_system

TABLE = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
31 30 254:1 / /home/local rw - ext4 /dev/vdb rw
32 22 0:41 / /mnt/with\\040space rw - fuse.sshfs me@host: rw
33 22 0:42 / /mnt/fuse rw - fuse.ntfs-3g /dev/sdc rw
34 22 0:43 / /mnt/twice rw - ext4 /dev/sdd rw
35 34 0:44 / /mnt/twice rw - cifs //server/share rw
odd line
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/x.db", None),
        ("/home/me/x.db", Mount("/home", "nfs4")),
        ("/home", Mount("/home", "nfs4")),
        ("/homes/x.db", None),
        ("/home/local/x.db", None),
        ("/mnt/with space/x.db", Mount("/mnt/with space", "fuse.sshfs")),
        ("/mnt/fuse/x.db", None),
        ("/mnt/twice/x.db", Mount("/mnt/twice", "cifs")),
    ],
)
def test_another_machines_disk_is_told_from_ours(tmp_path: Path, path: str, found: Mount | None) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)

    assert find_network_file_system(Path(path), mounts=table) == found


def test_without_a_mount_table_nothing_is_refused(tmp_path: Path) -> None:
    assert find_network_file_system(tmp_path, mounts=tmp_path / "none") is None


def test_the_refusal_names_the_mount_and_the_next_step(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:1 / {tmp_path} rw - nfs server:/x rw\n")

    with pytest.raises(StoreUnavailable) as caught:
        sqlite.refuse_network_file_system(tmp_path / "runyard.db", mounts=table)
    assert "runyard.db" in caught.value.what
    assert "nfs" in caught.value.why and str(tmp_path) in caught.value.why
    assert "RUNYARD_HOME" in caught.value.hint
