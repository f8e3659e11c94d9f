"""`runyard.init`: the program itself becomes a run; inside a submitted run, that run."""

from __future__ import annotations

import atexit
import builtins
import os
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional, Type, Union, overload

from runyard.core.errors import RunyardError
from runyard.core.names import check_experiment_name
from runyard.native.border import plain_errors, say, say_once, with_plain_errors
from runyard.native.handle import RunHandle
from runyard.native.places import current_run, find_workspace
from runyard.native.recording import (
    _MISSING,
    config_to,
    file_to,
    image_to,
    joined_run,
    log_to,
    share,
    table_to,
    unshare,
)
from runyard.native.submitting import tag_texts_of
from runyard.sdk.exceptions import AzureMLException
from runyard.sdk.workspaces.experiment import Experiment

if TYPE_CHECKING:
    from types import TracebackType

    from runyard.sdk.runs.interactive import InteractiveRun
    from runyard.sdk.runs.run import Run

Path = Union[str, "os.PathLike[str]"]
_begun: Optional[CurrentRun] = None
_is_watching = False
_failure: Optional[str] = None  # what ends the program, as far as it was seen


@with_plain_errors
class CurrentRun(RunHandle):
    """The run that this program is: a handle that can log, and that ends with the program, a `with` block or `finish`.

    `config` is the configuration that was given to `init`.
    """

    def __init__(self, run: Run, config: Mapping[str, Any], *, is_begun_here: bool) -> None:
        super().__init__(run)
        self.config: Dict[str, Any] = dict(config)
        self._process = os.getpid() if is_begun_here else 0

    @overload
    def log(self, metrics: Mapping[str, Any], *, step: Optional[int] = None) -> None: ...

    @overload
    def log(self, metrics: str, value: Any, *, step: Optional[int] = None) -> None: ...

    def log(self, metrics: Union[str, Mapping[str, Any]], value: Any = _MISSING, *, step: Optional[int] = None) -> None:
        """Log metrics, as `runyard.log` does."""
        log_to(self._run, metrics, value, step)

    def log_image(self, name: str, image: Any, *, step: Optional[int] = None) -> None:
        """Log an image, as `runyard.log_image` does."""
        image_to(self._run, name, image, step)

    def log_table(self, name: str, table: Any) -> None:
        """Log rows, as `runyard.log_table` does."""
        table_to(self._run, name, table)

    def log_file(self, path: Path, name: Optional[str] = None) -> None:
        """Keep a file or a folder, as `runyard.log_file` does."""
        file_to(self._run, path, name)

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Record parameters of the run. The first value of a name stays; groups are joined: `model.depth`."""
        self.config.update(config)
        config_to(self._run, config)

    def finish(self, error: Optional[str] = None) -> None:
        """End the run as Completed, or with `error` as Failed, and wait until the server has everything.

        A submitted run ends with its processes: there this only waits until what was logged has arrived.
        """
        global _begun
        if not self._process:
            return self._run.fail(error) if error else self._run.flush()
        if _begun is self:
            _begun = None
            unshare()
        if self._run._interactive and self._process == os.getpid():
            self._run._end(
                "Failed", {"code": "UserError", "message": error, "details": {}}
            ) if error else self._run.complete()

    def __enter__(self) -> CurrentRun:
        return self

    def __exit__(
        self, cls: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        is_clean = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
        self.finish(None if is_clean else f"{type(error).__name__}: {error}")


@plain_errors
def init(
    experiment: Optional[str] = None,
    *,
    name: Optional[str] = None,
    config: Optional[Mapping[str, Any]] = None,
    tags: Union[Mapping[str, Any], Iterable[str], None] = None,
    description: str = "",
    source: Optional[Path] = None,
) -> CurrentRun:
    """Make this program (a script or a notebook) a run, and return it. Inside a submitted run, return that run.

    In a process that such a program has started, return the program's run.

    What is printed and what is written to `./outputs` and `./logs` is kept with the run. It ends with the program, at
    the end of a `with` block, or with `finish()`; a second `init` ends it, too.

    Args:
        experiment: the series that it belongs to; by default the name of the script, or of the notebook's folder.
        name: a name for this run.
        config: parameters, which are shown and compared: `{"lr": 0.1, "model": {"depth": 3}}`.
        tags: {key: value}, or words.
        source: a folder to store with the run, `"."` for the present one.
    """
    global _begun
    given = dict(config or {})
    inside = current_run() or (joined_run() if _begun is None else None)
    if inside is not None:
        run = CurrentRun(inside, {}, is_begun_here=False)
        _note_ignored(inside, experiment, source)
        _describe(inside, name, tags, description)
    else:
        if _begun is not None:
            say(f"{_begun.name} ends here: init() begins another run.")
            _begun.finish()
        run = _begun = _begin(experiment, name, description, source)
        if tags is not None:
            run._run.set_tags(tag_texts_of(tags))
        _watch_the_end()
    if given:
        run.log_config(given)
    return run


def begun() -> Optional[Run]:
    """Return the run that `init` began in this program and that is still open."""
    return _begun._run if _begun is not None and _begun._run._interactive else None


def _begin(experiment: Optional[str], name: Optional[str], description: str, source: Optional[Path]) -> CurrentRun:
    from runyard.sdk.runs.details import page_url
    from runyard.sdk.runs.interactive import start_logging  # a submitted run needs none of it

    place = Experiment(find_workspace(), check_experiment_name(experiment or _default_experiment()))
    made: Any = start_logging(
        place,
        run_id=None,
        outputs=None,
        snapshot_directory=None if source is None else os.fspath(source),
        display_name=name or "",
        description=description,
    )
    run: InteractiveRun = made
    begun = CurrentRun(run, {}, is_begun_here=True)
    # The plain address: one that signs in would stay in logs and in saved notebooks.
    say(f"run {begun.name}, {page_url(run._client, run._page)}")
    run.__enter__()  # copies what is printed
    share(run, run._journal().run_folder)
    return begun


def _note_ignored(run: Run, experiment: Optional[str], source: Optional[Path]) -> None:
    if source is not None:
        say_once("init(source=…) has no effect in a submitted run: its source was stored when it was submitted.")
    if experiment is not None and experiment != run.experiment.name:
        say_once(f"this is a run of the experiment {run.experiment.name}; init({experiment!r}) does not move it.")


def _describe(run: Run, name: Optional[str], tags: Any, description: str) -> None:
    """Set what the submit left open; of several processes every one says the same."""
    if tags is not None:
        run.set_tags(tag_texts_of(tags))
    if name and run._facts.display_name in ("", run.id):
        run.display_name = name
    elif name and run._facts.display_name != name:
        say_once(f"this run was submitted as {run._facts.display_name!r}; init(name={name!r}) does not rename it.")
    if description and not run._facts.description:
        run.description = description


def _default_experiment() -> str:
    """Return the script's name, or that of the notebook, as far as it is known, or of the folder."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    path = os.environ.get("JPY_SESSION_NAME") if "ipykernel" in sys.modules else main
    stem = os.path.splitext(os.path.basename(path or os.getcwd()))[0]
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", stem).strip("-_")[:255] or "default"


def _watch_the_end() -> None:
    """Have the run end with the program, as the program ends: an error that nobody catches fails it."""
    global _is_watching, _failure
    _failure = None
    if _is_watching:
        return
    _is_watching = True
    atexit.register(_end)
    usual_hook, usual_exit = sys.excepthook, sys.exit

    def hook(cls: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        global _failure
        _failure = f"{cls.__name__}: {error}"
        usual_hook(cls, error, trace)

    def note(status: Any) -> None:
        global _failure
        _failure = None if status in (None, 0) else f"SystemExit: {status}"

    def leave(status: Any = None, /) -> Any:
        note(status)
        return usual_exit(status)

    sys.excepthook = hook
    sys.exit = leave  # the code of a SystemExit is not told to anybody at the end
    _watch_raised_exits(note)
    for name in ("exit", "quit"):  # `site` makes them; IPython has its own
        if type(getattr(builtins, name, None)).__name__ == "Quitter":
            setattr(builtins, name, leave)


def _watch_raised_exits(note: Callable[[Any], None]) -> None:
    """Call `note` with the code of a `raise SystemExit(code)` that ends the program. Python tells it from 3.12 on."""
    monitoring: Any = getattr(sys, "monitoring", None)
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    free = [] if monitoring is None else [tool for tool in (4, 3) if monitoring.get_tool(tool) is None]
    if not free or frame is None:
        return
    while frame.f_back is not None:
        frame = frame.f_back
    program = frame.f_code  # what leaves it ends the program

    def unwound(code: object, _at: int, error: BaseException) -> None:
        if code is program and isinstance(error, SystemExit):
            note(error.code)

    monitoring.use_tool_id(free[0], "runyard")
    monitoring.register_callback(free[0], monitoring.events.PY_UNWIND, unwound)
    monitoring.set_events(free[0], monitoring.events.PY_UNWIND)  # costs nothing until an exception leaves a function


def _end() -> None:
    run = _begun
    if run is None or run._process != os.getpid():
        return
    try:
        run.finish(_failure)
    except (RunyardError, AzureMLException, OSError) as error:
        say(f"the end of run {run.id} could not be recorded: {error}")
