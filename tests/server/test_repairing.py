"""`runyard server repair` on a whole home: the database comes back, and damaged content is named by run."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from runyard.core.config.server_settings import ServerSettings, write_server_settings
from runyard.core.errors import Conflict, StoreUnavailable, UserError
from runyard.core.formats.chunks import chunk_id
from runyard.core.records import RunFile
from runyard.server.storage.repair import repair_home
from runyard.snapshots.take import take_snapshot
from tests.cli.command_line import runyard
from tests.server.conftest import Served, serve
from tests.server.private import start, stop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with two runs that have code and a file each, and no server."""
    place = tmp_path / "s"
    place.mkdir()
    with serve(place) as served:
        for name in ("a", "b"):
            keep(served, tmp_path / name, name)
    return place


def keep(served: Served, source: Path, run_id: str) -> None:
    (source / "lib").mkdir(parents=True)
    (source / "lib/code.py").write_text(f"print({run_id!r})")
    snapshot = take_snapshot(source, served.client.content, home=source.parent / "cache")
    served.submit(run_id, snapshot_id=snapshot.id)
    data = run_id.encode() * 1000
    served.client.content.put([(chunk_id(data), data)])
    served.client.runs.put_file(run_id, RunFile(name="outputs/m", size=len(data), chunks=[chunk_id(data)]))


def database(folder: Path) -> Path:
    return folder / "home/server/runyard.db"


def packs_of(folder: Path, text: bytes) -> list[Path]:
    """Return the packs that hold a piece of content with this text, uncompressed."""
    return [path for path in (folder / "home/artifacts/packs").iterdir() if text in path.read_bytes()]


def test_a_home_that_is_whole_is_said_to_be(folder: Path) -> None:
    report = repair_home(folder / "home")

    assert report.database.damaged_file is None
    assert (report.missing_packs, report.damaged_chunks, report.runs) == (0, 0, [])


def test_damaged_and_missing_content_is_named_by_run(folder: Path) -> None:
    (code,) = packs_of(folder, b"print('a')")
    code.write_bytes(code.read_bytes().replace(b"print('a')", b"print('x')"))
    connection = sqlite3.connect(database(folder))
    row = connection.execute(
        "SELECT p.name FROM packs p JOIN content_chunks c ON c.pack_id = p.id WHERE c.id = ?", (chunk_id(b"b" * 1000),)
    ).fetchone()
    connection.close()
    (folder / "home/artifacts" / row[0]).unlink()
    report = repair_home(folder / "home")

    assert [(run.run_id, run.files, run.snapshot) for run in sorted(report.runs, key=lambda run: run.run_id)] == [
        ("a", [], ["lib/code.py"]),
        ("b", ["outputs/m"], []),
    ]
    assert report.missing_packs == 1 and report.damaged_chunks == 2


def test_a_repaired_home_serves_again_and_keeps_its_content(folder: Path) -> None:
    connection = sqlite3.connect(database(folder))
    roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema").fetchall())
    connection.close()
    with database(folder).open("r+b") as file:
        for table in ("server_values", "experiments"):
            file.seek((roots[table] - 1) * 4096)
            file.write(os.urandom(4096))
    with pytest.raises(StoreUnavailable, match="runyard server repair"), serve(folder):
        pass
    report = repair_home(folder / "home")

    assert report.database.damaged_file is not None and report.database.damaged_file.exists()
    with serve(folder) as served:  # with the id that its content knows it by
        for name in ("a", "b"):
            assert served.client.runs.read_file(name, "outputs/m").data == name.encode() * 1000


@pytest.mark.long
def test_a_live_server_and_postgresql_are_refused(home: Path) -> None:
    start(home)
    with pytest.raises(Conflict, match="server is running"):
        repair_home(home)
    shown = runyard("server", "repair")
    assert shown.returncode == 1 and "runyard server stop" in shown.stderr
    stop(home)
    shown = runyard("server", "repair", "--json")
    assert json.loads(shown.stdout)["sound"] is True
    write_server_settings(home, ServerSettings(database="postgresql://db/x"))
    with pytest.raises(UserError, match="PostgreSQL") as caught:
        repair_home(home)
    assert "pg_amcheck" in caught.value.hint
