"""Models: what a workspace keeps of one version. The version's number, name and times are the asset's."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar, Dict, List, Optional

from runyard.core.lazy_dataclass import dataclass
from runyard.core.records import RunFile

KIND = "model"


@dataclass(frozen=True)
class ModelSpec:
    """`path` is what the model's files lie below: the base name of the file or folder that was registered."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    path: str = ""
    is_folder: bool = False
    files: List[RunFile] = field(default_factory=list)  # named as they are downloaded: `model.pkl`, `model/a/b`
    description: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    framework: str = "Custom"
    framework_version: str = ""
    run_id: Optional[str] = None
    experiment: str = ""
    datasets: List[List[str]] = field(default_factory=list)  # [what it was for, the dataset's id]
    resources: Dict[str, Any] = field(default_factory=dict)
    created_by: str = ""


@dataclass(frozen=True)
class ModelVersion:
    """A model as the API shows it: without the places of its content."""

    workspace: str
    name: str
    version: int
    created_at: datetime
    updated_at: datetime
    spec: ModelSpec
