"""Metrics of a run: images and charts that are logged as files, and the dict that `get_metrics()` returns.

The rules of that dict are Azure's. A metric with one value is that value, with several it is a list in logging order.
A table (rows, tables) is a dict of columns, each again one value or a list. A file (image, confusion matrix …) is its
address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Union

from runyard.sdk.exceptions import AzureMLException, UserErrorException
from runyard.sdk.runs.files import store_bytes

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.client.decoding import SeriesValues
    from runyard.core import records
    from runyard.sdk.runs.run import Run


def log_image(run: Run, name: str, path: Optional[str], plot: Any) -> None:
    """Store the image file `path`, or a plot that has `savefig` (matplotlib); exactly one of them is given."""
    if (path is None) == (plot is None):
        raise AzureMLException("log_image needs exactly one of path and plot.")
    from runyard.sdk.runs.images import image_name, plot_bytes, read_image  # most scripts log no image

    if path is not None:
        _log_artifact(run, name, "image", image_name(path), read_image(path))
    else:
        _log_artifact(run, name, "image", image_name(name, is_plot=True), plot_bytes(plot))


def log_json(run: Run, name: str, kind: str, value: Union[str, Mapping[str, Any]]) -> None:
    """Store a chart of Azure's (`confusion_matrix`, `residuals` …): a dict or its JSON text."""
    from runyard.sdk.runs.images import artifact_name, json_bytes  # most scripts log none

    _log_artifact(run, name, kind, artifact_name(name), json_bytes(name, value))


def _log_artifact(run: Run, name: str, kind: str, file: str, content: bytes) -> None:
    store_bytes(run, file, content)
    run._journal().log_artifact(name, kind, file)


def get_metrics(
    run: Run,
    name: Optional[str],
    *,
    recursive: bool,
    run_type: Optional[str],
    populate: bool,
    rank: Union[int, str, None],
) -> Dict[str, Any]:
    """Return {metric: value} of the run; with `recursive`, that of each run from it downwards by run id."""
    _check_rank(rank)
    run._flush_family()
    if not recursive:
        return _metrics_of(run._client, run.id, name, populate, rank)
    runs = [run._refresh(), *_descendants(run)]
    chosen = [record.id for record in runs if run_type is None or record.type == run_type]
    by_run = {run_id: _metrics_of(run._client, run_id, name, populate, rank) for run_id in chosen}
    return {run_id: metrics for run_id, metrics in by_run.items() if metrics}


def _check_rank(rank: object) -> None:
    is_number = isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0
    if rank is not None and rank != "lowest" and not is_number:
        raise UserErrorException(f'rank is a number of a process or "lowest", not {rank!r}.')


def _metrics_of(
    client: Client, run_id: str, name: Optional[str], populate: bool, rank: Union[int, str, None]
) -> Dict[str, Any]:
    def address(file: str) -> Any:
        return _file_content(client, run_id, file) if populate else artifact_address(run_id, file)

    return format_metrics(client.runs.metric_values(run_id, name, rank), address=address)


def _descendants(run: Run) -> Iterable[records.Run]:
    waiting = [run.id]
    while waiting:
        parent = waiting.pop()
        children = list(run._client.runs.iter(run.experiment.workspace.name, parent=parent, view="all"))
        waiting.extend(child.id for child in children)
        yield from children


def _file_content(client: Client, run_id: str, file: str) -> Any:
    import json  # only for populate=True

    data = client.runs.read_file(run_id, file).data
    try:
        return json.loads(data)
    except ValueError:
        return data


def format_metrics(series: Iterable[SeriesValues], *, address: Callable[[str], Any]) -> Dict[str, Any]:
    """Return {metric: value} in the order of `series`; `address` turns a run file's name into what stands for it."""
    metrics: Dict[str, Any] = {}
    for entry in series:
        if entry.kind == "artifact":
            files = entry.to_list() or ([entry.file] if entry.file else [])
            metrics[entry.metric] = collapse([address(str(name)) for name in files])
            continue
        values = entry.to_list()
        value = collapse(widen(values) if entry.type == "json" else values)
        if entry.kind == "table":
            metrics.setdefault(entry.metric, {})[entry.column] = value
        else:
            metrics[entry.metric] = value
    return metrics


def collapse(values: List[Any]) -> Any:
    """A list of one is its only value."""
    return values[0] if len(values) == 1 else values


def widen(values: List[Any]) -> List[Any]:
    """Once a float is among the values, ints come back as floats; bools, texts and None stay."""
    kinds = set(map(type, values))
    if float not in kinds or int not in kinds:
        return values
    return [_as_float(value) if type(value) is int else value for value in values]


def artifact_address(run_id: str, name: str) -> str:
    """Return Azure's name for a file of a run."""
    return f"aml://artifactId/ExperimentRun/dcid.{run_id}/{name}"


def _as_float(value: int) -> Any:
    try:
        return float(value)
    except OverflowError:
        return value
