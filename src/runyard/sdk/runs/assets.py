"""The datasets of a run: paths in its own script, datasets elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict

from runyard.core.datasets import DIRECT, TABULAR, DatasetInputSpec, DatasetOutputSpec, DatasetSpec, DataSource
from runyard.data.references import PREFIX
from runyard.sdk.data.kinds import FileDataset
from runyard.sdk.data.tabular_dataset import TabularDataset

if TYPE_CHECKING:
    from runyard.sdk.runs.run import Run


def input_datasets(run: Run) -> Dict[str, Any]:
    return {name: _input(run, name, given) for name, given in _spec(run).datasets.items()}


def output_datasets(run: Run) -> Dict[str, Any]:
    return {name: _output(run, name, output) for name, output in _spec(run).outputs.items()}


def _input(run: Run, name: str, given: DatasetInputSpec) -> Any:
    path = os.environ.get(PREFIX + name) if run._own and given.mode != DIRECT else None
    if path is not None:
        return path
    cls = TabularDataset if given.dataset.kind == TABULAR else FileDataset
    return cls._made(run.experiment.workspace, given.dataset, None)


def _output(run: Run, name: str, output: DatasetOutputSpec) -> Any:
    path = os.environ.get(PREFIX + name) if run._own else None
    if path is not None:
        return path
    source = DataSource(output.datastore, output.path.replace("{run-id}", run.id))
    return FileDataset._made(run.experiment.workspace, DatasetSpec(f"{run.id}/{name}", sources=[source]), None)


def _spec(run: Run) -> Any:
    return run._facts.spec
