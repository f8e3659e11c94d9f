"""A run whose machine went down is started again, and goes on from what it had stored."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from azureml.core import Run
from runyard.cli.app import run as runyard
from runyard.core.config.paths import run_folder
from runyard.core.config.settings import read_settings
from runyard.core.formats.tfevents import Scalar, scalar_record
from runyard.core.machine.facts import boot_id
from runyard.supervisor.proc import descendants, has_cookie, list_processes
from tests.e2e.conftest import Submit, finish, log_of
from tests.waiting import wait_for

SCRIPT = """
    import os, pathlib, sys, time
    checkpoint = pathlib.Path("outputs/sub/checkpoint.txt")
    print("attempt", os.environ["RUNYARD_ATTEMPT"], "finds", checkpoint.exists() and checkpoint.read_text(), flush=True)
    version = pathlib.Path(f"lightning_logs/version_{int(checkpoint.exists())}")
    version.mkdir(parents=True)
    (version / f"events.out.tfevents.{os.getpid()}").write_bytes(bytes.fromhex(sys.argv[1 + checkpoint.exists()]))
    if checkpoint.exists():
        assert pathlib.Path("last.ckpt").read_text() == "kept"
        sys.exit(0)
    pathlib.Path("last.ckpt").write_text("kept")
    checkpoint.parent.mkdir()
    checkpoint.write_text("step 7")
    time.sleep(600)
"""


def reboot(folder: Path) -> None:
    """Kill all processes of the run, and let its folder look as it does after a restart of the machine."""
    reaper = int(json.loads((folder / "claim").read_text())["pid"])
    cookie = json.loads((folder / "job.json").read_text())["cookie"]
    below = [entry.pid for entry in descendants(list_processes(), reaper)]
    marked = [entry.pid for entry in list_processes() if has_cookie(entry.pid, cookie)]
    for pid in [reaper, *below, *marked]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for name in ("claim", "ranks.json", "limits.json", "lease.json"):
        text = (folder / name).read_text()
        assert boot_id() in text
        (folder / name).write_text(text.replace(boot_id(), "an-earlier-boot"))


def stored(run: Run) -> bool:
    names = run.get_file_names()
    event_files = [name for name in names if name.startswith("lightning_logs/version_0/")]
    return {"outputs/sub/checkpoint.txt", "last.ckpt"} <= {*names} and bool(event_files) and "loss" in run.get_metrics()


@pytest.mark.long
def test_a_run_whose_machine_went_down_is_started_again_and_finds_its_outputs(
    submit: Submit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [
        b"".join(scalar_record(Scalar("loss", step, 1.0, 1 / step)) for step in steps) for steps in ((1, 2), (4,))
    ]
    run = submit(SCRIPT, *(data.hex() for data in events), max_attempts=2, keep=["*.ckpt"])
    wait_for(lambda: stored(run), what="the first attempt's checkpoint")
    reboot(run_folder(read_settings().home, run.id, 1))
    details = finish(run)

    assert details["status"] == "Completed"
    assert "attempt 2 finds step 7" in log_of(run)
    [first, second] = details["attempts"]
    assert (first["attempt"], first["status"]) == (1, "NodeLost") and "The machine was restarted" in first["why"]
    assert second == {"attempt": 2, "status": "Completed"}
    assert any("3 files are back in the work folder" in warning["message"] for warning in details["warnings"])
    assert run.get_metrics() == {"loss": [1.0, 0.5, 0.25]}, "each point once, and one series over both attempts"
    run.download_file("attempt_1/user_logs/std_log.txt", str(tmp_path / "first.txt"))
    assert (tmp_path / "first.txt").read_text() == "attempt 1 finds False\n"

    capsys.readouterr()
    assert runyard(["runs", "show", run.id]) == 0
    shown = capsys.readouterr().out
    assert "attempts\n  1  NodeLost: " in shown and "\n  2  Completed\n" in shown
