"""What MLflow says that a run read and made, as properties of the run: datasets with their facts, models by their ids.

A dataset is the property `mlflow.input.<name>.<digest>`, a JSON object. Models are `mlflow.input.model.<id>`, which is
empty, and `mlflow.output.model.<id>`, the step at which it was made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

INPUT, INPUT_MODEL, OUTPUT_MODEL = "mlflow.input.", "mlflow.input.model.", "mlflow.output.model."
OLD_DATASETS = "mlflow.datasets"  # property with a list of datasets: those that have no name, and earlier imports
CONTEXT = "mlflow.data.context"  # the tag that says what a dataset was used for


@dataclass(frozen=True)
class DatasetInput:
    """A dataset that a run read."""

    name: str
    digest: str
    source_type: str = ""
    source: str = ""
    schema: Optional[str] = None
    profile: Optional[str] = None
    tags: Dict[str, str] = field(default_factory=dict)

    @property
    def context(self) -> Optional[str]:
        """What it was used for, such as `training`."""
        return self.tags.get(CONTEXT)


def dataset_property(dataset: DatasetInput) -> Tuple[str, str]:
    """Return the name and the text of the property that keeps a dataset."""
    return f"{INPUT}{dataset.name}.{dataset.digest}", json.dumps(vars(dataset), sort_keys=True)


def datasets_of(properties: Mapping[str, str]) -> List[DatasetInput]:
    """Return the datasets of a run's properties; what is no such property is passed over."""
    found = (_dataset(text) for key, text in properties.items() if key.startswith(INPUT) and text[:1] == "{")
    return [dataset for dataset in found if dataset is not None]


def input_models(properties: Mapping[str, str]) -> List[str]:
    """Return the ids of the models that a run read."""
    return [key[len(INPUT_MODEL) :] for key, text in properties.items() if key.startswith(INPUT_MODEL) and not text]


def output_models(properties: Mapping[str, str]) -> List[Tuple[str, int]]:
    """Return the ids of the models that a run made, with their steps. A model may be there with several."""
    found = []
    for key, text in properties.items():
        if key.startswith(OUTPUT_MODEL) and text.lstrip("-").isdigit():
            found.append((key[len(OUTPUT_MODEL) :].split(".")[0], int(text)))
    return found


def _dataset(text: str) -> Optional[DatasetInput]:
    try:
        return read_dataset(json.loads(text))
    except (ValueError, RecursionError):
        return None


def read_dataset(facts: Any) -> Optional[DatasetInput]:
    """Return the dataset of its facts; None where they are no such facts."""
    try:
        tags = {str(key): str(value) for key, value in (facts.get("tags") or {}).items()}
        texts = {key: None if facts.get(key) is None else str(facts[key]) for key in ("schema", "profile")}
        names = (str(facts["name"]), str(facts["digest"]))
    except (TypeError, KeyError, AttributeError):
        return None
    source = (str(facts.get("source_type") or ""), str(facts.get("source") or ""))
    return DatasetInput(*names, *source, texts["schema"], texts["profile"], tags)
