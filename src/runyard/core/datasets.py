"""Datasets: where data lies and what is taken of it. Nothing is read before somebody asks for it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Dict, List, Optional

from runyard.core.lazy_dataclass import dataclass

KIND = "dataset"  # of the assets that hold registered ones
FILE, TABULAR = "file", "tabular"
DIRECT, MOUNT, DOWNLOAD, UPLOAD = "direct", "mount", "download", "upload"


@dataclass(frozen=True)
class DataSource:
    """Files of a datastore: one, all below a folder, or those that a pattern (`*`, `**`, `?`) fits; or an address."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    datastore: str = ""
    path: str = ""
    url: str = ""


@dataclass(frozen=True)
class DatasetSpec:
    """`steps` are applied in order: `{"do": "take", "count": 10}`; `reader` says how tables are read."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    id: str
    kind: str = FILE
    sources: List[DataSource] = field(default_factory=list)
    steps: List[Dict[str, Any]] = field(default_factory=list)
    reader: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetInputSpec:
    """A dataset that a run gets: as a path (mount, download), or as the dataset itself (direct)."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    dataset: DatasetSpec
    mode: str = DIRECT
    path_on_compute: Optional[str] = None
    name: str = ""  # under which it is registered
    version: int = 0


@dataclass(frozen=True)
class DatasetOutputSpec:
    """A folder that a run writes to and that ends on a datastore; `register` names the dataset that it becomes."""

    __pydantic_config__: ClassVar[Dict[str, str]] = {"extra": "forbid"}

    datastore: str
    path: str = ""
    mode: str = MOUNT
    overwrite: bool = False
    source: Optional[str] = None  # where the run writes, below its work folder
    globs: List[str] = field(default_factory=list)
    register: Dict[str, Any] = field(default_factory=dict)  # {name, description, tags}
