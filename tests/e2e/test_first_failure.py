"""A distributed run fails: what its user gets to see, in the SDK, on the command line and as a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from azureml.core.runconfig import PyTorchConfiguration
from tests.cli.command_line import runyard
from tests.e2e.conftest import Submit, finish

SCRIPT = """
    import os, time
    from pathlib import Path
    rank = int(os.environ["RANK"])
    Path(f"here_{rank}").touch()
    while len(list(Path(".").glob("here_*"))) < 4:
        time.sleep(0.01)
    if rank == 2:
        raise ValueError("the loss is not a number")
    while not list(Path(os.environ["RUNYARD_RUN_FOLDER"]).glob("exits/2.json")):
        time.sleep(0.01)
    raise ConnectionResetError("Connection reset by peer")
"""


def test_the_first_failure_is_shown_wherever_a_user_looks(submit: Submit, tmp_path: Path) -> None:
    run = submit(SCRIPT, distributed_job_config=PyTorchConfiguration("Gloo", process_count=4, node_count=2))
    details = finish(run)

    error = details["error"]["error"]
    assert (error["code"], error["debug_type"]) == ("UserError", "ValueError")
    assert error["message"].splitlines()[:3] == [
        "User program failed with ValueError: the loss is not a number",
        "Rank 2 of 4 failed first on node-1 (127.0.1.2).",
        "Ranks 0, 1 and 3 ended because of it.",
    ]
    assert error["details_uri"].endswith("user_logs/std_log_process_02.txt")
    assert (error["data"]["rank"], error["data"]["node"], error["data"]["kind"]) == (2, "node-1", "exception")

    run.download_file("diagnosis.json", str(tmp_path / "diagnosis.json"))
    document = json.loads((tmp_path / "diagnosis.json").read_text())
    assert (document["rank"], document["address"]) == (2, "127.0.1.2")
    assert sorted(one["rank"] for one in document["consequences"]) == [0, 1, 3]

    shown = runyard("runs", "show", run.id).stdout
    report = shown[shown.index("error: ") :].splitlines()
    assert len(report) <= 15
    assert any("std_log_process_02.txt:" in line and "ValueError" in line for line in report)
    assert os.path.basename(report[-1]) == "std_log_process_02.txt"
