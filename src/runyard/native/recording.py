"""`runyard.log` and its like: metrics, images, tables and files of the run that this program is.

Outside of a run nothing is recorded: what would be logged is printed to stderr instead.
"""

from __future__ import annotations

import io
import json
import os
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union, overload

from runyard.core.errors import InvalidArgument
from runyard.native.arguments import text_of
from runyard.native.border import plain_errors, say, say_once
from runyard.runtime.context import find_context

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run

Path = Union[str, "os.PathLike[str]"]
_MISSING = object()
_PROGRAM = "RUNYARD_PROGRAM_RUN"  # the run that `init` began, for the processes that its program starts
_submitted: Optional[Run] = None  # found once: a process stays part of its submitted run
_joined: Dict[str, Run] = {}  # by what the variable says


def target() -> Optional[Run]:
    """Return the run that this program logs to: the submitted one, or the one that `init` began; None without one."""
    global _submitted
    if _submitted is not None:
        return _submitted
    from runyard.sdk.runs.context import get_context, open_runs

    if find_context() is None:
        from runyard.native import beginning  # it loads this module first

        return beginning.begun() or (next(iter(open_runs)) if len(open_runs) == 1 else joined_run())
    found: Any = get_context(allow_offline=False)
    _submitted = found
    return _submitted


def share(run: Run, run_folder: str) -> None:
    """Let processes that this program starts find its run."""
    os.environ[_PROGRAM] = json.dumps([os.getpid(), run.experiment.workspace.name, run.id, run_folder])


def unshare() -> None:
    os.environ.pop(_PROGRAM, None)


def joined_run() -> Optional[Run]:
    """Return the run that the program above this process began and that is still open; None without one."""
    text = os.environ.get(_PROGRAM, "")
    if not text or text in _joined:
        return _joined.get(text)
    try:
        process, workspace, run_id, folder = json.loads(text)
    except ValueError:
        return None
    from runyard.sdk.runs.attach import find_open_journal
    from runyard.sdk.runs.interactive import _reopen_beside  # few processes are started by such a program

    if process == os.getpid() or find_open_journal(folder, run_id) is None:
        return None
    _joined[text] = _reopen_beside(workspace, run_id, folder)
    return _joined[text]


@overload
def log(metrics: Mapping[str, Any], *, step: Optional[int] = None) -> None: ...


@overload
def log(metrics: str, value: Any, *, step: Optional[int] = None) -> None: ...


@plain_errors
def log(metrics: Union[str, Mapping[str, Any]], value: Any = _MISSING, *, step: Optional[int] = None) -> None:
    """Log metrics: `runyard.log({"loss": 0.3, "accuracy": 0.9}, step=epoch)`, or `runyard.log("loss", 0.3)`.

    Values are numbers, texts and bools, those of numpy and torch too. A list is several values; a dict is a group:
    `{"train": {"loss": 0.3}}` is `train/loss`; a matplotlib figure or a PIL image is an image.

    Args:
        step: where the values stand on the x axis: a whole number. Without it they are counted.
    """
    log_to(target(), metrics, value, step)


def log_to(
    run: Optional[Run],
    metrics: Union[str, Mapping[str, Any]],
    value: Any = _MISSING,
    step: Optional[int] = None,
) -> None:
    if isinstance(metrics, str):
        if value is _MISSING:
            raise InvalidArgument(
                f"log({metrics!r}) has no value.", hint=f"log({{{metrics!r}: 0.5}}), or log({metrics!r}, 0.5)."
            )
        metrics = {metrics: value}
    elif not isinstance(metrics, Mapping):
        raise InvalidArgument(f"log() takes a dict of metrics, found {metrics!r:.80}.", hint='log({"loss": 0.5})')
    elif value is not _MISSING:
        if step is not None:
            raise InvalidArgument("log({…}, value) takes no value beside a dict.", hint="log({…}, step=step)")
        step = value
    if run is None:
        _print(metrics, step)
    else:
        _log_group(run, metrics, step, "")


def _log_group(run: Run, group: Mapping[str, Any], step: Optional[int], prefix: str) -> None:
    for key, value in group.items():
        name = f"{prefix}{key}"
        if isinstance(value, (float, int, str)) or value is None:
            run.log(name, value, step=step)
        elif isinstance(value, Mapping):
            _log_group(run, value, step, f"{name}/")
        elif _is_image(value):
            image_to(run, name, value, step)
        elif isinstance(value, (list, tuple, range, GeneratorType)) or _is_array(value):
            _log_several(run, name, value.tolist() if hasattr(value, "tolist") else value, step)
        else:
            run.log(name, value, step=step)


def _log_several(run: Run, name: str, values: Any, step: Optional[int]) -> None:
    """Log all items; `log_list` knows no step."""
    if step is None:
        run.log_list(name, values)
        return
    for value in values:
        run.log(name, value, step=step)


def _is_array(value: Any) -> bool:
    """Whether this is an array or a series of numpy, torch or pandas; not a scalar, which has no dimension."""
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0 and hasattr(value, "tolist")


def _is_image(value: Any) -> bool:
    return callable(getattr(value, "savefig", None)) or _is_picture(value)


def _is_picture(value: Any) -> bool:
    """Whether this is an image of PIL."""
    return type(value).__module__.startswith("PIL.") and callable(getattr(value, "save", None))


@plain_errors
def log_image(name: str, image: Any, *, step: Optional[int] = None) -> None:
    """Log an image: a file's path, a matplotlib figure, or a PIL image.

    Args:
        step: the epoch or step that it belongs to; images of one name and several steps are all kept.
    """
    image_to(target(), name, image, step)


def image_to(run: Optional[Run], name: str, image: Any, step: Optional[int]) -> None:
    if run is None:
        return _print({name: image}, step)
    if step is None and not _is_picture(image):
        is_path = isinstance(image, (str, os.PathLike))
        run.log_image(name, path=os.fspath(image) if is_path else None, plot=None if is_path else image)
        return
    from runyard.sdk.runs.files import store_bytes
    from runyard.sdk.runs.images import artifact_name, image_name, plot_bytes, read_image  # most scripts log none

    content, ending = _picture_bytes(image) if _is_picture(image) else (b"", ".png")
    if isinstance(image, (str, os.PathLike)):
        content, ending = read_image(image), os.path.splitext(os.fspath(image))[1]
    file = image_name(name, is_plot=True) if step is None else artifact_name(f"{name}_{step}{ending}")
    store_bytes(run, file, content or plot_bytes(image))
    run._journal().log_artifact(name, "image", file)


def _picture_bytes(image: Any) -> Any:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue(), ".png"


@plain_errors
def log_table(name: str, table: Any) -> None:
    """Log rows: a dict of columns, a list of dicts, or a pandas DataFrame. Rows of one name are one table."""
    table_to(target(), name, table)


def table_to(run: Optional[Run], name: str, table: Any) -> None:
    columns = _columns(name, table)
    if run is None:
        return _print({name: columns}, None)
    run.log_table(name, columns)


def _columns(name: str, table: Any) -> Dict[str, object]:
    if callable(getattr(table, "to_dict", None)) and hasattr(table, "columns"):  # a DataFrame
        return {str(column): list(cells) for column, cells in table.to_dict(orient="list").items()}
    if isinstance(table, Mapping):
        return dict(table)
    rows: List[Any] = list(table) if isinstance(table, (list, tuple)) else [table]
    if not all(isinstance(row, Mapping) for row in rows):
        raise InvalidArgument(
            f"The table `{name}` is {table!r:.80}.", hint='Give {"x": [1, 2]}, [{"x": 1}, {"x": 2}] or a DataFrame.'
        )
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return {str(key): [row.get(key) for row in rows] for key in keys}


def config_to(run: Optional[Run], config: Mapping[str, Any]) -> None:
    """Record parameters. The first value of a name stays; groups are joined: `model.depth`."""
    leaves = dict(_leaves(config, ""))
    if run is None:
        if leaves:
            say_once(_OUTSIDE)
            say("parameters: " + ", ".join(f"{name}={value:.200}" for name, value in leaves.items()))
        return
    journal = run._journal()
    for key, value in leaves.items():
        journal.log_param(key, value)


def _leaves(config: Mapping[str, Any], prefix: str) -> Iterable[Tuple[str, str]]:
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, "None" if value is None else _text(name, value)


def _text(name: str, value: Any) -> str:
    try:
        return text_of(name, value)
    except InvalidArgument:
        return repr(value)  # a parameter is for reading


@plain_errors
def log_file(path: Path, name: Optional[str] = None) -> None:
    """Keep a file, or a folder with all below it, as it is now. What is in `./outputs` and `./logs` is kept anyway.

    Args:
        name: what it is called among the run's files; by default the path's last part.
    """
    file_to(target(), path, name)


def file_to(run: Optional[Run], path: Path, name: Optional[str]) -> None:
    text = os.fspath(path)
    stored = name or os.path.basename(os.path.normpath(text))
    if run is None:
        say_once(_OUTSIDE)
        return say(f"file {stored}: {text}")
    if os.path.isdir(text):
        run.upload_folder(stored, text)
    else:
        run.upload_file(stored, text)


_OUTSIDE = (
    "this program is not a run, so what it logs is printed and not kept. Submit it (`runyard submit train.py`), "
    "or call runyard.init() before."
)


def _print(metrics: Mapping[str, Any], step: Optional[int]) -> None:
    say_once(_OUTSIDE)
    at = "" if step is None else f"step {step}: "
    say(at + ", ".join(f"{name}={value!r:.200}" for name, value in metrics.items()))
