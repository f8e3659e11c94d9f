"""What a program writes for TensorBoard is read while it runs and to the end, once."""

from __future__ import annotations

import os
import signal

import runyard
from runyard.core.formats import journal
from runyard.core.formats.tfevents import Scalar, first_record, scalar_record
from tests.supervisor.supervised import Site

SCRIPT = """
import os, sys
sys.path.insert(0, os.environ["TEST_SOURCE"])
from runyard.core.formats.tfevents import Scalar, first_record, scalar_record
os.makedirs("logs/train")
with open("logs/train/events.out.tfevents.1.host", "wb") as file:
    file.write(first_record(1.0))
    for step in range(100):
        file.write(scalar_record(Scalar("loss", step, 1700000000.0 + step, 100.0 - step)))
    file.write(scalar_record(Scalar("loss", 100, 1.0, 0.0))[:-3])
open("outputs/events.out.tfevents.2.host", "wb").write(scalar_record(Scalar("accuracy", 7, 1.0, 0.5)))
open("outputs/events.out.tfevents.broken", "wb").write(b"this is no event file at all")
open("outputs/notes.txt", "w").write("no events")
"""


def points_of(site: Site, run_id: str) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for data in site.server.journal_of(run_id):
        names: dict[int, str] = {}
        for part in journal.iter_parts(data):
            if isinstance(part, journal.Span):
                for _, _, _, name, step, _, value in journal.NUMBER.iter_unpack(data[part.offset : part.end]):
                    found.setdefault(names[name], []).append((step, value))
            elif part.kind == journal.NAME:
                names[part.payload["id"]] = part.payload["name"]
    return {name: points for name, points in found.items() if not name.startswith("_system/")}


def test_event_files_become_metrics_named_by_folder_and_tag(site: Site) -> None:
    source = str(runyard.__path__[0]).rpartition("/")[0]
    job = site.prepare(SCRIPT, variables={"TEST_SOURCE": source}).start()

    assert job.wait().status == "Completed", job.run.error
    assert points_of(site, job.id) == {
        "logs/train/loss": [(step, 100.0 - step) for step in range(100)],
        "outputs/accuracy": [(7, 0.5)],
    }


def test_a_restarted_supervisor_goes_on_where_the_last_one_was(site: Site) -> None:
    script = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.01)
with open("logs/events.out.tfevents.1", "ab") as file:
    file.write(bytes.fromhex(os.environ["MORE"]))
"""
    more = scalar_record(Scalar("loss", 1, 2.0, 0.25))
    job = site.prepare(script, variables={"MORE": more.hex()}).start()
    job.wait_for_file("ranks.json")
    (job.folder / "work/logs/events.out.tfevents.1").write_bytes(
        first_record(1.0) + scalar_record(Scalar("loss", 0, 1.0, 0.5))
    )
    job.wait_for_file("events.json")
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    (job.folder / "work/go").touch()

    assert job.wait().status == "Completed"
    assert points_of(site, job.id) == {"logs/loss": [(0, 0.5), (1, 0.25)]}
