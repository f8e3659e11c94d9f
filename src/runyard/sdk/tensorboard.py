"""TensorBoard for runs: show their event files, and export logged metrics as event files.

`export_to_tensorboard` needs no TensorFlow. `RunLogs` copies the event files of one run to this machine while they
grow. `Tensorboard` starts a real TensorBoard beside the script, on one run or many.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from runyard.core.errors import RunyardError
from runyard.core.formats.tfevents import Scalar, first_record, scalar_record
from runyard.core.names import EVENT_FILE_MARK, true_file_name
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.errors import raises_azure_errors, translates
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run
    from runyard.sdk.workspaces.experiment import Experiment


RunData = Union["Run", "Experiment", Iterable["Run"]]
LIVE = "logs/"
START_S = 60.0
STOP_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 90.0
_URL = re.compile(r"https?://\S+")


@translates
def export_to_tensorboard(run_data: RunData, logsdir: str, logger: Any = None, recursive: bool = True) -> None:
    """Write each run's metrics below `logsdir`, in a folder with the run's id.

    Args:
        run_data: a run, several runs, or an experiment.
        recursive: their children too.
    """
    for run in _runs(run_data, recursive=recursive):
        if logger is not None:
            logger.info("Exporting the metrics of run %s", run.id)
        _export(run, os.path.join(logsdir, run.id))


def _runs(run_data: Any, *, recursive: bool) -> Iterator[Run]:
    if hasattr(run_data, "get_runs"):
        chosen: List[Any] = list(run_data.get_runs())
    else:
        chosen = [run_data] if hasattr(run_data, "get_metrics") else list(run_data)
    for run in chosen:
        yield run
        if recursive:
            yield from run.get_children(recursive=True)


def _export(run: Run, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
    beside = os.path.join(folder, f".{name}.{os.getpid()}")
    with open(beside, "wb") as file:
        file.write(first_record(time.time()))
        for scalar in _scalars(run):
            file.write(scalar_record(scalar))
    _remove_older(folder)
    os.replace(beside, os.path.join(folder, name))


def _remove_older(folder: str) -> None:
    """TensorBoard shows all files of a folder: a second export takes the place of the first."""
    for entry in os.listdir(folder):
        if entry.startswith("events.out.tfevents."):
            os.unlink(os.path.join(folder, entry))


def _scalars(run: Run) -> Iterator[Scalar]:
    for metric in run._client.runs.metrics(run.id):
        if metric.kind == "artifact":
            continue
        for column in metric.columns:
            if metric.kind == "table" and not column:
                continue  # it counts the rows
            tag = f"{metric.name}/{column}" if column else metric.name
            points = run._client.runs.metric_series(run.id, metric.name, column=column, rank="lowest")
            for count, (moment, value) in enumerate(zip(points.times, points.values)):
                number = _number(value)
                if number is not None:
                    yield Scalar(tag, count, moment / 1e9, number)


def _number(value: Any) -> Optional[float]:
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


class RunLogs:
    """`copy` gets what changed since; a server that does not answer now is asked again with the next.

    Args:
        below: only files below this folder of the run; by default `logs/`, and event files wherever they are.
    """

    def __init__(self, run: Any, folder: str, below: Optional[str] = None) -> None:
        self._run = run
        self._folder = folder
        self._below = None if below is None else below.strip("/") + "/"
        self._copied: Dict[str, Tuple[int, Any]] = {}
        self.is_over = False

    def copy(self) -> bool:
        """Return whether anything was new."""
        try:
            ended = RunStatus(self._run.get_status()).is_terminal
            files = list(self._changed())
            for file, target in files:
                self._run._client.runs.download(self._run.id, file.name, target, expected=file)
                self._copied[file.name] = (file.size, file.sha256)
        except RunyardError:
            return False
        self.is_over = ended and not files
        return bool(files)

    def _changed(self) -> Iterator[Tuple[RunFile, str]]:
        for file in self._run._client.runs.files(self._run.id):
            name = true_file_name(file.name)
            folder = LIVE if self._below is None else self._below
            is_event_file = self._below is None and EVENT_FILE_MARK in os.path.basename(name)
            if file.kind != "blob" or not (name.startswith(folder) or is_event_file):
                continue
            if self._copied.get(file.name) != (file.size, file.sha256):
                below = name[len(folder) :] if name.startswith(folder) else name
                yield file, os.path.join(self._folder, below)


class RunWatcher:
    """Azure's private follower of a run's files, which libraries use beside a TensorBoard of their own.

    Args:
        remote_root: the run's folder to copy from.
        event: set to stop.
        executor, session: Azure's own; one thread and the run's connection are enough here.
    """

    def __init__(
        self,
        run: Any,
        local_root: str,
        remote_root: str,
        executor: Any = None,
        event: Optional[threading.Event] = None,
        session: Any = None,
    ) -> None:
        self._logs = RunLogs(run, local_root, below=remote_root)
        self._event = event or threading.Event()

    def refresh_requeue(self) -> None:
        """Copy what grows until the run has ended or `event` is set."""
        follow([self._logs], self._event)


def follow(logs: Sequence[RunLogs], stopping: threading.Event) -> None:
    """Copy what grows, less and less often while nothing does, until all runs have ended."""
    pause_s = 0.0
    while not stopping.wait(pause_s):
        has_news = sum(each.copy() for each in logs)
        pause_s = FIRST_PAUSE_S if has_news or not pause_s else min(pause_s * 1.5, LONGEST_PAUSE_S)
        if all(each.is_over for each in logs):
            return


@raises_azure_errors
class Tensorboard(AzureClass):
    """Shows `logs/` of each run, and its other event files, copied to `<local_root>/<run id>/` while they grow.

    Args:
        runs: a run or several; none: only what lies in `local_root`.
        local_root: default: a temporary folder.
    """

    def __init__(
        self,
        runs: Union[Run, Sequence[Run]],
        local_root: Optional[str] = None,
        port: int = 6006,
        use_display_name: bool = False,
    ) -> None:
        chosen: List[Any] = list(runs) if isinstance(runs, (list, tuple)) else [runs]
        # The private names are Azure's: libraries subclass this class and start TensorBoard in their own way.
        self._runs = chosen
        self._local_root = local_root or tempfile.mkdtemp(prefix="runyard-tensorboard-")
        self._port = int(port)
        self._logs = [RunLogs(run, self._folder(run, use_display_name)) for run in chosen]
        self._tb_proc: Optional[subprocess.Popen[str]] = None
        self._follower: Optional[threading.Thread] = None
        self._event = threading.Event()
        self._said: List[str] = []

    def start(self, start_browser: bool = False) -> Optional[str]:
        """Start TensorBoard, print and return its address; None when it is started already.

        Raises:
            UserErrorException: TensorBoard is not installed, or did not come up.
        """
        if self._tb_proc is not None:
            return None
        _require_tensorboard()
        os.makedirs(self._local_root, exist_ok=True)
        for logs in self._logs:
            logs.copy()
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", self._local_root, "--port", str(self._port)]
        self._tb_proc = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        url = self._wait_for_url()
        self._event.clear()
        self._follower = threading.Thread(target=self._follow, name="runyard-tensorboard", daemon=True)
        self._follower.start()
        print(url)
        if start_browser:
            import webbrowser  # rarely asked for

            webbrowser.open(url)
        return url

    def stop(self) -> None:
        """End TensorBoard; harmless when it was not started."""
        self._event.set()
        process, self._tb_proc = self._tb_proc, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._follower is not None:
            self._follower.join()
            self._follower = None

    def _folder(self, run: Any, use_display_name: bool) -> str:
        name = str(getattr(run, "display_name", "") or run.id) if use_display_name else str(run.id)
        return os.path.join(self._local_root, re.sub(r"[^\w.-]+", "_", name).lstrip(".") or str(run.id))

    def _wait_for_url(self) -> str:
        """Read what TensorBoard says until it names its address; a thread goes on reading, so that it never blocks."""
        assert self._tb_proc is not None
        found: List[str] = []
        ready = threading.Event()
        for stream in filter(None, (self._tb_proc.stdout, self._tb_proc.stderr)):
            threading.Thread(target=self._listen, args=(stream, found, ready), daemon=True).start()
        ready.wait(START_S)
        if found:
            return found[0]
        self.stop()
        said = "\n".join(self._said[-10:])
        raise UserErrorException(
            f"TensorBoard did not come up within {START_S:g} s on port {self._port}. It said:\n{said}\n"
            "If the port is taken, give another: Tensorboard(runs, port=6007)."
        )

    def _listen(self, stream: Any, found: List[str], ready: threading.Event) -> None:
        for line in stream:
            self._said.append(line.rstrip())
            address = _URL.search(line) if "TensorBoard" in line else None
            if address is not None:
                found.append(address.group(0))
                ready.set()
        if self._tb_proc is None or self._tb_proc.poll() is not None:
            ready.set()

    def _follow(self) -> None:
        follow(self._logs, self._event)


def _require_tensorboard() -> None:
    if importlib.util.find_spec("tensorboard") is None:
        raise UserErrorException(
            "TensorBoard is not installed in this Python, so it cannot be started. `pip install tensorboard` brings it."
        )


def follow_forever(board: Tensorboard) -> None:
    """Wait until the user has seen enough (Ctrl-C), then stop it."""
    try:
        while board._tb_proc is not None and board._tb_proc.poll() is None:
            time.sleep(0.5)
    except KeyboardInterrupt:
        pass
    finally:
        board.stop()
