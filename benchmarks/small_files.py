"""100,000 small outputs: how fast a run's end stores them, how fast they come back, and who has to wait meanwhile.

The reference is what a user would do without us: `cp -r` and `sha256sum` of the same folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from figures import report
from private_home import private_home

FILES = 100_000
SCRIPT = """\
import os, sys, time
for folder in range(100):
    os.makedirs(f"outputs/{folder}")
    for file in range(int(sys.argv[1]) // 100):
        with open(f"outputs/{folder}/{file}.txt", "w") as out:
            out.write(f"result {folder} {file} " * 5)
with open(sys.argv[2], "w") as out:
    out.write(repr(time.time()))
"""


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ry-small-") as scratch, private_home():
        measure(Path(scratch), count)


def measure(scratch: Path, count: int) -> None:
    from azureml.core import Experiment, ScriptRunConfig, Workspace

    (scratch / "src").mkdir()
    (scratch / "src/train.py").write_text(SCRIPT)
    workspace = Workspace.from_config()
    config = ScriptRunConfig(str(scratch / "src"), "train.py", arguments=[count, str(scratch / "ended")])
    run = Experiment(workspace, "small-files").submit(config)
    waits = Waits(run)
    waits.start()
    run.wait_for_completion(show_output=False)
    ended = time.time()
    slowest_s = waits.finish()
    stored_s = ended - float((scratch / "ended").read_text())
    names = [name for name in run.get_file_names() if name.startswith("outputs/")]
    assert len(names) == count, len(names)
    began = time.perf_counter()
    run.download_files(prefix="outputs/", output_directory=str(scratch / "back"))
    fetched_s = time.perf_counter() - began
    copied_s = copy(scratch / "back", scratch / "copy")
    assert sum(len(files) for _, _, files in os.walk(scratch / "back")) == count
    reference = f"cp -r and sha256sum {count / copied_s:.0f}/s"
    report("small_files.stored", count / stored_s, "files/s", target=">= 5000", reference=reference)
    report("small_files.fetched", count / fetched_s, "files/s", target=">= 2000", reference=reference)
    report("small_files.slowest_answer", slowest_s, "s", target="<= 2", reference="GET /runs/{id} meanwhile")


class Waits(threading.Thread):
    """Asks for the run all the time and remembers the longest wait."""

    def __init__(self, run: object) -> None:
        super().__init__(daemon=True)
        self._run = run
        self._is_over = threading.Event()
        self._slowest_s = 0.0

    def run(self) -> None:
        while not self._is_over.wait(0.05):
            began = time.perf_counter()
            self._run.get_status()  # type: ignore[attr-defined]  # azureml's Run
            self._slowest_s = max(self._slowest_s, time.perf_counter() - began)

    def finish(self) -> float:
        self._is_over.set()
        self.join()
        return self._slowest_s


def copy(source: Path, target: Path) -> float:
    began = time.perf_counter()
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    subprocess.run(f"find {target} -type f -print0 | xargs -0 sha256sum > /dev/null", shell=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FILES)
