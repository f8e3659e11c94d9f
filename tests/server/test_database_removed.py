"""H5 with a real server: its database is removed under it, and what was acknowledged comes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.client.private_server import connect
from runyard.core.errors import StoreUnavailable
from tests.server.private import log_of, settings_of, start, stop
from tests.waiting import wait_for


@pytest.mark.long
def test_a_removed_database_is_told_everywhere_and_comes_back_with_all_that_was_acknowledged(home: Path) -> None:
    client = start(home)
    client.workspaces.put("acknowledged")
    folder = home / "server"
    for path in folder.glob("runyard.db*"):
        path.unlink()

    with pytest.raises(StoreUnavailable, match=r"runyard\.db"):
        client.workspaces.put("lost")
    wait_for(lambda: "cannot be used any more" in log_of(home))
    with pytest.raises(StoreUnavailable):
        client.workspaces.list()
    saved = next(iter(folder.glob("runyard.db.rescued-*")))
    assert str(saved) in client.server.info().health["database"]
    assert not (folder / "runyard.db").exists()
    client.transport.close()  # the errors above hold on to it
    stop(home)

    (home / "artifacts/packs").mkdir()
    (home / "artifacts/packs/of-a-run").write_bytes(b"content")
    with pytest.raises(StoreUnavailable, match="is missing") as caught:
        start(home)
    assert f"mv {saved} {folder / 'runyard.db'}" in caught.value.hint
    assert not (folder / "runyard.db").exists()
    os.rename(saved, folder / "runyard.db")
    assert sorted(one.name for one in connect(settings_of(home)).workspaces.list()) == ["acknowledged", "default"]
    assert (home / "artifacts/packs/of-a-run").read_bytes() == b"content"
