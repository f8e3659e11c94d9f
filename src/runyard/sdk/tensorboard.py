"""`Tensorboard`: a real TensorBoard beside your script, on the event files of one or many runs, live ones followed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Union

from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.tensorboard_files import RunLogs

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run

START_S = 60.0
STOP_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 90.0
_URL = re.compile(r"https?://\S+")


class Tensorboard:
    """Shows `logs/` of each run, and event files below `outputs/`, copied to `<local_root>/<run id>/` while they grow.

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
        self._root = os.path.abspath(local_root or tempfile.mkdtemp(prefix="runyard-tensorboard-"))
        self._port = int(port)
        self._logs = [RunLogs(run, self._folder(run, use_display_name)) for run in chosen]
        self._process: Optional[subprocess.Popen[str]] = None
        self._follower: Optional[threading.Thread] = None
        self._stopping = threading.Event()
        self._said: List[str] = []

    def start(self, start_browser: bool = False) -> Optional[str]:
        """Start TensorBoard, print and return its address; None when it is started already.

        Raises:
            UserErrorException: TensorBoard is not installed, or did not come up.
        """
        if self._process is not None:
            return None
        _require_tensorboard()
        os.makedirs(self._root, exist_ok=True)
        self._copy_all()
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", self._root, "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        url = self._wait_for_url()
        self._stopping.clear()
        self._follower = threading.Thread(target=self._follow, name="runyard-tensorboard", daemon=True)
        self._follower.start()
        print(url)
        if start_browser:
            import webbrowser  # rarely asked for

            webbrowser.open(url)
        return url

    def stop(self) -> None:
        """End TensorBoard; harmless when it was not started."""
        self._stopping.set()
        process, self._process = self._process, None
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
        return os.path.join(self._root, re.sub(r"[^\w.-]+", "_", name).lstrip(".") or str(run.id))

    def _wait_for_url(self) -> str:
        """Read what TensorBoard says until it names its address; a thread goes on reading, so that it never blocks."""
        assert self._process is not None and self._process.stdout is not None
        found: List[str] = []
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(self._process.stdout, found, ready), daemon=True).start()
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
        ready.set()

    def _follow(self) -> None:
        """Copy what grows, less and less often while nothing does, until all runs have ended."""
        pause_s = FIRST_PAUSE_S
        while not self._stopping.wait(pause_s):
            has_news = self._copy_all()
            pause_s = FIRST_PAUSE_S if has_news else min(pause_s * 1.5, LONGEST_PAUSE_S)
            if all(logs.is_over for logs in self._logs):
                return

    def _copy_all(self) -> bool:
        news = [logs.copy() for logs in self._logs]
        return any(news)


def _require_tensorboard() -> None:
    if importlib.util.find_spec("tensorboard") is None:
        raise UserErrorException(
            "TensorBoard is not installed in this Python, so it cannot be started. `pip install tensorboard` brings it."
        )


def follow_forever(board: Tensorboard) -> None:
    """Wait until the user has seen enough (Ctrl-C), then stop it."""
    try:
        while board._process is not None and board._process.poll() is None:
            time.sleep(0.5)
    except KeyboardInterrupt:
        pass
    finally:
        board.stop()
