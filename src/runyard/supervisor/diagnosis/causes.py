"""Finds why one process ended, from its exit record, its exception and its log, with the lines that show it.

Also knows which package holds a missing module, and how the end of one rank shows in other ranks: such a failure is a
consequence. Pure functions, called by the supervisor's main thread at the end of a run.
"""

from __future__ import annotations

import re
import signal
from dataclasses import field
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from runyard.core.formats.error_lines import ABORT, GPU_MEMORY
from runyard.core.lazy_dataclass import dataclass
from runyard.supervisor.diagnosis.log_tail import Line, LogTail, find_crash, find_traceback

if TYPE_CHECKING:
    from runyard.core.formats.documents import EvidenceLine, UncaughtException
    from runyard.core.formats.run_files import RankExit

# Modules whose package has another name.
PACKAGES = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "Crypto": "pycryptodome",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "google.protobuf": "protobuf",
    "jwt": "pyjwt",
    "MySQLdb": "mysqlclient",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "psycopg2": "psycopg2-binary",
    "pytorch_lightning": "pytorch-lightning",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "yaml": "pyyaml",
}
# Type names without their module. EOFError is not among them: only one without a message means a closed connection.
_TYPES = frozenset(
    {
        "BrokenPipeError",
        "ConnectionAbortedError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "HorovodInternalError",
        "DistNetworkError",
    }
)
_TENSORFLOW_TYPES = frozenset({"UnavailableError", "AbortedError", "CancelledError"})
_TEXTS = re.compile(
    r"""
      connection\ (was\ )?(likely\ )?(reset|closed|refused|aborted|lost|broken)
    | (reset|closed|refused)\ by\ (remote\ )?peer
    | broken\ pipe | socket\ closed | failed\ to\ connect\ to\ all\ addresses
    | remote\ (peer|process|rank)\ (has\ |was\ )?(exited|died|closed|lost|failed|gone)
    | peer\ process\ has\ unexpectedly\ disconnected
    | ncclRemoteError | NCCL\ communicator\ was\ aborted | remote\ process\ has\ terminated
    | (send|recv)(Value|Bytes|Vector|String)?\ failed
    | MPI_ERR_PROC_FAILED | MPI_ERR_REVOKED | MPI_ERR_(OTHER|UNKNOWN).*(abort|known\ error)
    | Horovod\ has\ been\ shut\ down | Collective\ ops\ is\ aborted
    | task\ .{0,80}(unhealthy|stopped\ sending\ heartbeats|unavailable)
    | (detected|reported)\ .{0,60}(peer|another\ task|remote\ task)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_TIMEOUTS = re.compile(
    r"""
      timed\ out\ (after\ )?[\d.]*\s*\w*\s*waiting\ (for\ clients|[\d.]*\s*m?s\ for\ (send|recv))
    | timed\ out\ waiting\ \d+ms\ for\ (send|recv)
    | watchdog\ caught\ collective\ operation\ timeout
    | application\ timeout\ caused\ pair\ closure
    | (socket\ has|wait)\ time(d\ )?out\ after
    | barrier.{0,60}timed?\ ?out
    """,
    re.VERBOSE | re.IGNORECASE,
)
TEXT_LIMIT = 4000
EXCEPTION, IMPORT, PORT, MEMORY, CRASH = "exception", "import error", "port in use", "out of memory", "crash"
SIGNAL, EXIT_CODE, AT_EXIT, NO_START, UNKNOWN = "signal", "exit code", "abort at exit", "no start", "unknown"
HANG = "hang"
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
_AFTER_EXCEPTION = (signal.SIGABRT, signal.SIGTERM, signal.SIGKILL)
_AFTER_SHELL = 128  # a shell reports signal N as exit code 128 + N
_PORT = re.compile(r"address already in use|EADDRINUSE|errno:? ?98\b|could not start grpc server", re.IGNORECASE)
_PORT_NUMBER = re.compile(r"(?:port[:= ]+|:)(\d{2,5})\b")
_MEMORY = re.compile(r"can't allocate memory|Cannot allocate memory|std::bad_alloc|killed by signal: Killed")


def explain_missing(module: str) -> str:
    """Return which package holds a module that could not be imported, and how to add it."""
    top = module.split(".")[0]
    package = PACKAGES.get(module) or PACKAGES.get(top) or top.replace("_", "-")
    return (
        f"The module `{module}` is not installed in the run's environment. Add the package `{package}`: "
        f"`pip install {package}` into that interpreter, or "
        f"`environment.python.conda_dependencies.add_pip_package('{package}')`."
    )


def is_peer_error(type_name: str, message: str) -> bool:
    """Return whether an exception shows that another process is gone or never came."""
    short = type_name.rpartition(".")[2]
    if short == "EOFError":
        return not message.strip()
    if short in _TENSORFLOW_TYPES and type_name.startswith("tensorflow."):
        return True
    return short in _TYPES or tells_of_peers(message)


def tells_of_peers(text: str) -> bool:
    """Return whether a text shows that another process is gone or never came."""
    return bool(_TEXTS.search(text)) or is_timeout(text)


def is_timeout(text: str) -> bool:
    """Return whether a text shows that a rank waited in vain for another."""
    return bool(_TIMEOUTS.search(text))


@dataclass(frozen=True)
class FailureCause:
    """Why a process ended: the kind, a sentence, advice, and the lines of the log that show it."""

    kind: str
    sentence: str
    advice: str = ""
    evidence: List[EvidenceLine] = field(default_factory=list)
    tells_of_peers: bool = False  # the failure shows that another process was gone
    is_timeout: bool = False  # … or was waited for in vain


def find_cause(
    record: RankExit,
    *,
    exception: Optional[UncaughtException],
    tail: LogTail,
    had_finished: bool,
) -> FailureCause:
    """Return why the process of an exit record ended.

    Args:
        had_finished: the program recorded that it had come to its end without an error.
    """
    for look in _LOOKS:
        cause = look(_Facts(record, exception or {}, tail, had_finished))
        if cause is not None:
            return cause
    return _plain_exit(record, tail)


def signal_name(number: Optional[int]) -> Optional[str]:
    """Return a signal's name, SIG<number> for an unknown one, None for no signal."""
    if not number:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


@dataclass(frozen=True)
class _Facts:
    """What is known about the end of one process."""

    record: RankExit
    exception: UncaughtException
    tail: LogTail
    had_finished: bool

    @property
    def message(self) -> str:
        """The exception's message, "" without an exception."""
        return str(self.exception.get("message") or "")

    @property
    def failure(self) -> str:
        """The exception in one line; without an exception, the last lines of the log."""
        if self.exception:
            return f"{self.exception['type']}: {self.message}"
        return "\n".join(self.tail.last())

    @property
    def died_of_exception(self) -> bool:
        """Whether the signal followed an exception: libraries then abort, or wait until they are killed."""
        return bool(self.exception) and self.record.get("signal") in _AFTER_EXCEPTION

    def sentence(self) -> str:
        """Return one sentence about the end: signal, exception or exit code."""
        number = self.record.get("signal")
        if number and not self.died_of_exception:
            return f"User program was killed by signal {number} ({signal_name(number)})."
        if self.exception:
            return f"User program failed with {self.exception['type']}: {self.message[:TEXT_LIMIT]}"
        return f"User program ended with exit code {self.record.get('code')}."

    def evidence(self, found: List[Line]) -> List[EvidenceLine]:
        """Return the traceback's lines, else the lines `found`, else the last three of the log."""
        traceback = find_traceback(self.tail, self.message) if self.exception else []
        return self.tail.show(traceback or found or self.tail.lines[-3:])


def _unknown(facts: _Facts) -> Optional[FailureCause]:
    if not facts.record.get("unknown"):
        return None
    text = "The exit code is unknown: the process that watched the program was killed before the program ended."
    return FailureCause(UNKNOWN, text, evidence=facts.evidence([]))


def _no_start(facts: _Facts) -> Optional[FailureCause]:
    if not facts.record.get("error"):
        return None
    return FailureCause(NO_START, f"User program could not be started: {facts.record['error']}")


def _memory(facts: _Facts) -> Optional[FailureCause]:
    advice = "Make batches or what is kept smaller, use fewer processes on a node, or a machine with more memory."
    if facts.record.get("oom"):
        text = f"User program was killed because memory ran out{_peak(facts.record)}."
        return FailureCause(MEMORY, text, advice, facts.evidence([]))
    found = facts.tail.matching(GPU_MEMORY)
    if facts.exception and (GPU_MEMORY.search(facts.failure) or "OutOfMemoryError" in facts.failure):
        advice = "The GPU's memory ran out: make the batch smaller, or use more GPUs."
        return FailureCause(MEMORY, facts.sentence(), advice, facts.evidence(found))
    if facts.exception.get("type") == "MemoryError" or (facts.record.get("code") and _MEMORY.search(facts.failure)):
        return FailureCause(
            MEMORY, facts.sentence(), f"Memory ran out. {advice}", facts.evidence(facts.tail.matching(_MEMORY))
        )
    return None


def _after_the_end(facts: _Facts) -> Optional[FailureCause]:
    if facts.record.get("signal") not in _CRASHES or not facts.had_finished or facts.exception:
        return None
    advice = (
        "The program itself had come to its end without an error; a library's background threads aborted while Python "
        "was shutting down. With torch: `del model, optimizer; gc.collect()` before `destroy_process_group()`."
    )
    return FailureCause(AT_EXIT, facts.sentence(), advice, facts.evidence(facts.tail.matching(ABORT)[-3:]))


def _crash(facts: _Facts) -> Optional[FailureCause]:
    if facts.record.get("signal") not in _CRASHES or facts.died_of_exception:
        return None
    lines = find_crash(facts.tail) or facts.tail.matching(ABORT)[-3:]
    return FailureCause(
        CRASH, facts.sentence(), "", facts.tail.show(lines or facts.tail.lines[-3:]), *_about_peers(facts)
    )


def _killed(facts: _Facts) -> Optional[FailureCause]:
    if not facts.record.get("signal") or facts.died_of_exception:
        return None
    return FailureCause(SIGNAL, facts.sentence(), "", facts.evidence([]))


def _missing_module(facts: _Facts) -> Optional[FailureCause]:
    if not facts.exception or not _is_import_error(facts.exception):
        return None
    module = facts.exception.get("missing_module")
    advice = explain_missing(str(module)) if module else "A module of the run's environment could not be imported."
    return FailureCause(IMPORT, facts.sentence(), advice, facts.evidence([]))


def _port_in_use(facts: _Facts) -> Optional[FailureCause]:
    lines = facts.tail.matching(_PORT)
    if not (_PORT.search(facts.message) if facts.exception else lines):
        return None
    text = facts.message if _PORT.search(facts.message) else "\n".join(line.text for line in lines)
    number = _PORT_NUMBER.search(text)
    advice = f"{f'Port {number.group(1)}' if number else 'A port'} is used by another program on that node. End it "
    advice += "(`ss -ltnp` names it), or let the script take the port that the run gives it (MASTER_PORT, TF_CONFIG)."
    return FailureCause(PORT, facts.sentence(), advice, facts.evidence(lines[-3:]))


def _breakpoint(facts: _Facts) -> Optional[FailureCause]:
    if str(facts.exception.get("type", "")).rpartition(".")[2] != "BdbQuit":
        return None
    advice = (
        "The script stopped at a breakpoint, and a run has no keyboard. Remove breakpoint(), or attach a debugger: "
        "`runyard submit --debug 5678 …`."
    )
    return FailureCause(EXCEPTION, facts.sentence(), advice, facts.evidence([]))


def _raised(facts: _Facts) -> Optional[FailureCause]:
    if not facts.exception:
        return None
    is_about = is_peer_error(str(facts.exception["type"]), facts.message)
    return FailureCause(EXCEPTION, facts.sentence(), "", facts.evidence([]), is_about, is_timeout(facts.message))


_LOOKS: Tuple[Callable[[_Facts], Optional[FailureCause]], ...] = (
    _unknown,
    _no_start,
    _missing_module,
    _memory,
    _after_the_end,
    _crash,
    _killed,
    _port_in_use,
    _breakpoint,
    _raised,
)


def _plain_exit(record: RankExit, tail: LogTail) -> FailureCause:
    facts = _Facts(record, {}, tail, False)
    code = int(record.get("code") or 0)
    name = signal_name(code - _AFTER_SHELL) if _AFTER_SHELL < code < _AFTER_SHELL + 65 else None
    advice = f"That is how a shell tells of signal {code - _AFTER_SHELL} ({name})." if name else ""
    return FailureCause(EXIT_CODE, facts.sentence(), advice, facts.evidence([]), *_about_peers(facts))


def _about_peers(facts: _Facts) -> Tuple[bool, bool]:
    return tells_of_peers(facts.failure), is_timeout(facts.failure)


def _is_import_error(exception: UncaughtException) -> bool:
    return bool(exception.get("missing_module")) or exception["type"] in ("ImportError", "ModuleNotFoundError")


def _peak(record: RankExit) -> str:
    limit = record.get("memory_limit_bytes")
    peak_kb = record["rusage"].get("max_rss_kb") if record.get("rusage") else None
    words = [f"limit {_size(limit)}"] if limit else []
    words += [f"peak {_size(peak_kb * 1024)}"] if peak_kb else []
    return f" ({', '.join(words)})" if words else ""


def _size(count: float) -> str:
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 29 else f"{count / (1 << 20):.0f} MB"
