"""`export_to_tensorboard`: what runs logged, as event files that TensorBoard reads. TensorFlow is not needed."""

from __future__ import annotations

import math
import os
import socket
import time
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Optional, Union

from runyard.core.formats.tfevents import Scalar, first_record, scalar_record
from runyard.sdk.errors import translates

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run
    from runyard.sdk.workspaces.experiment import Experiment

RunData = Union["Run", "Experiment", Iterable["Run"]]


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
            points = run._client.runs.metric_series(run.id, metric.name, column=column)
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
