"""Metrics of a run: every `log_*` form, and `get_metrics`.

Series as the server sends them → the dict that `get_metrics()` returns. Pure; the rules are Azure's.

A metric with one value is that value, with several it is a list in logging order. A table (rows, tables) is a dict of
columns, each again one value or a list. A file (image, confusion matrix …) is its address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Union

from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import AzureMLException
from runyard.sdk.runs.files import RunSnapshots

if TYPE_CHECKING:
    from runyard.client.decoding import SeriesValues
    from runyard.core import records


def format_metrics(series: Iterable[SeriesValues], *, address: Callable[[str], Any]) -> Dict[str, Any]:
    """Return {metric: value} in the order of `series`; `address` turns a run file's name into what stands for it."""
    found: Dict[str, Any] = {}
    for one in series:
        if one.kind == "artifact":
            files = one.to_list() or ([one.file] if one.file else [])
            found[one.metric] = collapse([address(str(name)) for name in files])
            continue
        values = one.to_list()
        value = collapse(widen(values) if one.type == "json" else values)
        if one.kind == "table":
            found.setdefault(one.metric, {})[one.column] = value
        else:
            found[one.metric] = value
    return found


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


@raises_azure_errors
class RunMetrics(RunSnapshots):
    def log(self, name: str, value: Any, description: str = "", step: Optional[int] = None) -> None:
        """Add a value to the metric `name`: a number, text, bool or None; numpy scalars too.

        Raises:
            UserErrorException: a list, range or generator; use `log_list`.
        """
        self._journal().log(name, value, description, step)

    def log_list(self, name: str, value: Iterable[Any], description: str = "") -> None:
        """Add all items of an iterable to the metric `name`."""
        self._journal().log_list(name, value, description)

    def log_row(self, name: str, description: Optional[str] = None, **kwargs: Any) -> None:
        """Add one row, given as column=value, to the table `name`."""
        self._journal().log_row(name, description, **kwargs)

    def log_table(self, name: str, value: Mapping[str, Any], description: str = "") -> None:
        """Add rows, given as {column: list of values}, to the table `name`."""
        self._journal().log_table(name, value, description)

    def log_image(self, name: str, path: Optional[str] = None, plot: Any = None, description: str = "") -> None:
        """Store an image with the run: a file, or a plot that has `savefig` (matplotlib).

        Raises:
            AzureMLException: both or neither are given, or the file is no image.
        """
        if (path is None) == (plot is None):
            raise AzureMLException("log_image needs exactly one of path and plot.")
        from runyard.sdk.runs.images import image_name, plot_bytes, read_image  # most scripts log no image

        if path is not None:
            file, content = image_name(path), read_image(path)
        else:
            file, content = image_name(name, is_plot=True), plot_bytes(plot)
        self._log_artifact(name, "image", file, content)

    def log_confusion_matrix(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store a confusion matrix: a dict or its JSON text."""
        self._log_json(name, "confusion_matrix", value)

    def log_accuracy_table(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store an accuracy table: a dict or its JSON text."""
        self._log_json(name, "accuracy_table", value)

    def log_residuals(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store residuals: a dict or its JSON text."""
        self._log_json(name, "residuals", value)

    def log_predictions(self, name: str, value: Union[str, Mapping[str, Any]], description: str = "") -> None:
        """Store predictions: a dict or its JSON text."""
        self._log_json(name, "predictions", value)

    def get_metrics(
        self,
        name: Optional[str] = None,
        recursive: bool = False,
        run_type: Optional[str] = None,
        populate: bool = False,
    ) -> Dict[str, Any]:
        """Return {metric: value}: one value as it is, several as a list, a table as a dict of columns.

        Args:
            name: only this metric; the answer is still a dict.
            recursive: {run id: {metric: value}} of this run and all below it that have metrics.
            run_type: with `recursive`, only runs of this type.
            populate: what a metric holds as a file comes as its content (JSON decoded, else bytes).
        """
        self._flush_family()
        if not recursive:
            return self._metrics_of(self._run_id, name, populate)
        runs = [self._refresh(), *self._descendants()]
        chosen = [run for run in runs if run_type is None or run.type == run_type]
        found = {run.id: self._metrics_of(run.id, name, populate) for run in chosen}
        return {run_id: metrics for run_id, metrics in found.items() if metrics}

    def _metrics_of(self, run_id: str, name: Optional[str], populate: bool) -> Dict[str, Any]:
        def address(file: str) -> Any:
            return self._file_content(run_id, file) if populate else artifact_address(run_id, file)

        return format_metrics(self._client.runs.metric_values(run_id, name), address=address)

    def _descendants(self) -> Iterable[records.Run]:
        waiting = [self._run_id]
        while waiting:
            parent = waiting.pop()
            children = list(self._client.runs.iter(self._experiment.workspace.name, parent=parent, view="all"))
            waiting.extend(child.id for child in children)
            yield from children

    def _file_content(self, run_id: str, file: str) -> Any:
        import json  # only for populate=True

        data = self._client.runs.read_file(run_id, file).data
        try:
            return json.loads(data)
        except ValueError:
            return data

    def _log_json(self, name: str, kind: str, value: Union[str, Mapping[str, Any]]) -> None:
        from runyard.sdk.runs.images import artifact_name, json_bytes  # most scripts log none

        self._log_artifact(name, kind, artifact_name(name), json_bytes(name, value))

    def _log_artifact(self, name: str, kind: str, file: str, content: bytes) -> None:
        self._put_bytes(file, content, replace=True)
        self._journal().log_artifact(name, kind, file)
