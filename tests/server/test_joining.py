"""What a node of a cluster gets when it takes its part of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.client.calls.nodes import Joined, NodeCalls, read_joined
from runyard.core.specs import RunSpec
from runyard.server.routes.supervisors import MOST_ALONG
from runyard.snapshots.fetch import Known
from runyard.snapshots.restore import restore
from runyard.snapshots.take import take_snapshot
from tests.server.conftest import Served, serve


@pytest.fixture
def cluster(session_folder: Path) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="j", dir=session_folder) as folder, serve(
        Path(folder), cluster="cluster"
    ) as served:
        yield served


def join(served: Served, folder: Path) -> Joined:
    """Submit the folder as a run and take its only node's part."""
    taken = take_snapshot(folder, served.client.content, home=folder.parent / "home")
    served.submit("one", spec=RunSpec(script="train.py", target="cluster"), snapshot_id=taken.id)
    served.job_of("one")
    nodes = NodeCalls(served.as_run("one").transport)
    return read_joined(nodes.join("one", 0, attempt=1, incarnation="a" * 32, host="n7", address="10.0.0.7"))


def test_a_small_snapshot_comes_along_whole(cluster: Served, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "train.py").write_text("print(1)\n")
    (source / "sub" / "data.bin").write_bytes(bytes(range(256)))
    (source / "empty").touch()
    joined = join(cluster, source)
    cluster.client.transport.close()

    nobody: Any = None  # asked for anything, it raises
    restore(str(joined.job.snapshot_root), Known(joined.snapshot, nobody), tmp_path / "restored")

    assert joined.job.run_id == "one" and joined.job.token == ""
    assert {
        str(path.relative_to(tmp_path / "restored")): path.read_bytes()
        for path in (tmp_path / "restored").rglob("*")
        if path.is_file()
    } == {"train.py": b"print(1)\n", "sub/data.bin": bytes(range(256)), "empty": b""}


def test_a_large_snapshot_is_left_for_the_node_to_fetch(cluster: Served, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.py").write_bytes(b"#" * MOST_ALONG)

    assert join(cluster, tmp_path / "source").snapshot == b""
