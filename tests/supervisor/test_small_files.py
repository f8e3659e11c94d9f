"""Many small files travel together: few requests, each file once, and one that is refused keeps none out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, StoreUnavailable
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.file_ledger import NAME, FileLedger
from runyard.supervisor.shipping.uploads import Signature, UploadRequest, iter_batches
from tests.supervisor.journals import COUNTER
from tests.supervisor.supervised import Site

MANY = (
    "import os\n"
    "for at in range(1000):\n"
    "    os.makedirs(f'outputs/{at % 7}', exist_ok=True)\n"
    "    open(f'outputs/{at % 7}/{at}.txt', 'w').write(f'file {at}')\n"
)
FILE_ROUTES = ("files", "batch", "chunks", "missing")


def file_requests(site: Site) -> list[str]:
    return [route for route in site.server.requests if route in FILE_ROUTES]


def test_a_thousand_small_outputs_take_a_dozen_requests(site: Site) -> None:
    job = site.start(MANY + "open('outputs/large', 'wb').write(b'x' * 3_000_000)\nopen('outputs/empty', 'w')\n")
    run = job.wait()

    assert run.status == "Completed" and run.warnings == []
    assert len(run.files) == 1002
    assert site.server.file(job.id, "outputs/3/745.txt") == b"file 745"
    assert site.server.file(job.id, "outputs/large") == b"x" * 3_000_000
    assert run.files["outputs/empty"]["size"] == 0
    assert len(file_requests(site)) <= 12, file_requests(site)


@pytest.mark.long
def test_a_thousand_explicit_uploads_take_a_dozen_requests(site: Site) -> None:
    # All at once: how many requests there are must not depend on the machine's load.
    script = COUNTER + (
        "fd = open_segment(0)\n"
        "records = []\n"
        "for at in range(1000):\n"
        "    open(f'{folder}/uploads/{at}', 'w').write(f'file {at}')\n"
        "    records.append(journal.pack_long(journal.FILE, {'name': f'u/{at}', 'path': f'uploads/{at}', 'size': 9}))\n"
        "os.write(fd, b''.join(records))\n"
        "number(fd, 2.0)\n"
    )
    job = site.start(script)
    run = job.wait()

    assert run.status == "Completed" and run.warnings == []
    assert len(run.files) == 1000 and site.server.file(job.id, "u/999") == b"file 999"
    assert site.server.numbers(job.id)[0] == 2.0
    assert {path.suffix for path in (job.folder / "uploads").iterdir()} == {".done"}
    assert len(file_requests(site)) <= 40, file_requests(site)


def test_a_refused_file_of_a_batch_keeps_none_out_and_is_named_on_the_run(site: Site) -> None:
    def check(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if route == "files" and head["name"] == "outputs/3/10.txt":
            raise InvalidArgument("The name of this file is refused.")

    site.server.check = check
    job = site.start(MANY)
    run = job.wait()

    assert run.status == "Completed"
    assert len(run.files) == 999 and "outputs/3/10.txt" not in run.files
    messages = [warning["message"] for warning in run.warnings if warning["source"] == "files"]
    assert messages and all("outputs/3/10.txt" in message and "is refused" in message for message in messages)


@pytest.mark.long
def test_a_batch_that_the_server_cannot_take_now_is_sent_again_whole(site: Site) -> None:
    tries: list[str] = []

    def check(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if route == "files" and head["name"].endswith("/500.txt"):
            tries.append(route)
            if len(tries) < 4:
                raise StoreUnavailable("The disk is full.")

    site.server.check = check
    run = site.start(MANY).wait()

    assert run.status == "Completed" and run.warnings == [] and len(run.files) == 1000
    assert len(tries) == 4


def test_a_server_that_knows_no_batches_gets_the_files_one_by_one(site: Site) -> None:
    def check(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if route == "batch":
            raise InvalidArgument("This address does not take that method.")

    site.server.check = check
    script = "for at in range(5): open(f'outputs/{at}', 'w').write(str(at))\n"
    run = site.start(script).wait()

    assert run.status == "Completed" and run.warnings == [] and len(run.files) == 5


def test_batches_are_bounded_and_large_files_go_alone_at_the_end() -> None:
    mib = 1 << 20
    sizes = [10] * 1200 + [mib] * 20 + [5 * mib] + [10]
    files = [UploadRequest(str(at), "", "", size) for at, size in enumerate(sizes)]
    batches = list(iter_batches(files))

    assert sorted(index for batch in batches for index in batch) == list(range(len(files)))
    assert max(len(batch) for batch in batches) == 500
    assert max(sum(sizes[index] for index in batch) for batch in batches) <= 8 * mib
    assert batches[-1] == [1220]


def test_the_ledger_survives_a_torn_line_and_is_not_written_anew_for_every_file(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    ledger = FileLedger(folder)
    for at in range(50):
        ledger.add({f"outputs/{at}\udcff": Signature(at, 1, 2)})
    inode = (tmp_path / NAME).stat().st_ino
    with open(tmp_path / NAME, "ab") as file:
        file.write(b'["outputs/torn", 1')
    again = FileLedger(folder)

    assert again.load() == {f"outputs/{at}\udcff": Signature(at, 1, 2) for at in range(50)}
    again.add({"outputs/next": Signature(7, 8, 9)})
    assert FileLedger(folder).load()["outputs/next"] == Signature(7, 8, 9)
    assert (tmp_path / NAME).stat().st_ino == inode


def test_the_ledger_of_one_file_that_changes_for_ever_stays_small(tmp_path: Path) -> None:
    ledger = FileLedger(RunFolder(str(tmp_path)))
    for at in range(5000):
        ledger.add({"logs/events": Signature(at, at, 1)})

    assert FileLedger(RunFolder(str(tmp_path))).load() == {"logs/events": Signature(4999, 4999, 1)}
    assert len((tmp_path / NAME).read_bytes().splitlines()) < 1100


def test_a_run_that_an_older_supervisor_began_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "files.json").write_text(json.dumps({"outputs/a": [1, 2, 3]}))

    assert FileLedger(RunFolder(str(tmp_path))).load() == {"outputs/a": Signature(1, 2, 3)}
