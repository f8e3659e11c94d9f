"""The base of datasets of files and of tables: names, versions, tags, parts, and use as an input of a run."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar

from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.specs import FILE, KIND, DatasetSpec, DataSource
from runyard.data.datasets import DataFile, fingerprint, list_files, opened_once, place_of
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import warn_once
from runyard.sdk.data.inputs import DatasetConsumptionConfig
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core.records import Asset
    from runyard.data.base import Storage
    from runyard.sdk.workspaces.workspace import Workspace

D = TypeVar("D", bound="AbstractDataset")


@raises_azure_errors
class AbstractDataset(AzureClass):
    """Every change gives a new one."""

    _kind: ClassVar[str] = FILE
    _workspace: Optional[Workspace]
    _spec: DatasetSpec
    _asset: Optional[Asset]

    @classmethod
    def _new(
        cls: Type[D],
        workspace: Optional[Workspace],
        sources: Sequence[DataSource],
        reader: Optional[Mapping[str, Any]] = None,
    ) -> D:
        spec = DatasetSpec(str(uuid.uuid4()), cls._kind, list(sources), reader=dict(reader or {}))
        return cls._made(workspace, spec, None)

    @classmethod
    def _of(cls: Type[D], workspace: Workspace, asset: Asset) -> D:
        return cls._made(workspace, from_plain(DatasetSpec, asset.document["spec"]), asset)

    @classmethod
    def _made(cls: Type[D], workspace: Optional[Workspace], spec: DatasetSpec, asset: Optional[Asset]) -> D:
        made = cls.__new__(cls)
        made._workspace, made._spec, made._asset = workspace, spec, asset
        return made

    @property
    def id(self) -> str:
        return self._spec.id

    @property
    def name(self) -> Optional[str]:
        return self._asset.name if self._asset is not None else None

    @property
    def version(self) -> Optional[int]:
        return self._asset.version if self._asset is not None else None

    @property
    def description(self) -> Optional[str]:
        return self._about().get("description") or None

    @property
    def tags(self) -> Dict[str, str]:
        return dict(self._about().get("tags") or {})

    @property
    def partition_keys(self) -> List[str]:
        """The names that `partition_format` gave, or `partition_by`."""
        from runyard.data.partitions import partition_keys  # few datasets have them

        form = self._spec.reader.get("partition_format")
        return partition_keys(str(form)) if form else []

    def get_partition_key_values(self, partition_keys: Optional[Sequence[str]] = None) -> List[Dict[str, Any]]:
        """Return each combination of values that there is, of all partition keys or of some.

        Raises:
            UserErrorException: one is no partition key.
        """
        keys = self.partition_keys if partition_keys is None else list(partition_keys)
        unknown = [key for key in keys if key not in self.partition_keys]
        if unknown or not keys:
            raise UserErrorException(
                f"{unknown or partition_keys} are no partition keys. The dataset's are: {self.partition_keys}."
            )
        found: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
        for file in self._files() if self._kind == FILE else self._source_files():
            values = values_of(file, self._spec.reader)
            found.setdefault(tuple(values[key] for key in keys), {key: values[key] for key in keys})
        return list(found.values())

    @property
    def data_changed_time(self) -> Optional[datetime]:
        """When a file of it was changed last; None when its files are not on this machine."""
        opened = opened_once(self._open)
        paths = [None if file.url else opened(file.datastore).find_local(file.path) for file in self._source_files()]
        times = [os.path.getmtime(path) for path in paths if path is not None]
        return datetime.fromtimestamp(max(times), timezone.utc) if times and len(times) == len(paths) else None

    def as_named_input(self, name: str) -> DatasetConsumptionConfig:
        """Return it as an input of a run, called `name` in `run.input_datasets`."""
        return DatasetConsumptionConfig(name, self)

    def take(self: D, count: int) -> D:
        return self._with({"do": "take", "count": _count(count)})

    def skip(self: D, count: int) -> D:
        return self._with({"do": "skip", "count": _count(count)})

    def take_sample(self: D, probability: float, seed: Optional[int] = None) -> D:
        """Return about that part, always the same ones for a seed."""
        return self._with({"do": "sample", "fraction": part_of_one(probability), "seed": checked_seed(seed)})

    def random_split(self: D, percentage: float, seed: Optional[int] = None) -> Tuple[D, D]:
        """Return two datasets that share it out; `percentage` is about the first one's part."""
        step = {"do": "split", "fraction": part_of_one(percentage), "seed": checked_seed(seed)}
        return self._with(step), self._with({**step, "rest": True})

    def register(
        self: D,
        workspace: Workspace,
        name: str,
        description: Optional[str] = None,
        tags: Optional[Mapping[str, Any]] = None,
        create_new_version: bool = False,
        *,
        visible: bool = True,
        exist_ok: bool = False,
        update_if_exist: bool = False,
    ) -> D:
        """Keep it under `name`; the same data again is the version that is there.

        Args:
            exist_ok: where the name is taken, return what is there; with `update_if_exist`, add a version (early 2019).
            visible: without effect, because every dataset is listed.

        Raises:
            UserErrorException: the name is taken by other data, and `create_new_version` is not set.
        """
        if not visible:
            warn_once("visible=False has no effect: every registered dataset is listed.")
        assets = workspace._client.assets
        known = assets.list(workspace.name, KIND, name=name)
        key = content_key(self._spec)
        same = next((asset for asset in known if asset.key == key), None)
        if same is not None:
            return type(self)._of(workspace, same)
        if known and exist_ok and not (create_new_version or update_if_exist):
            return type(self)._of(workspace, known[-1])
        if known and not (create_new_version or update_if_exist):
            raise UserErrorException(
                f"There is already a dataset {name!r}. Choose another name, or pass create_new_version=True."
            )
        about = {"description": description or "", "tags": {str(k): str(v) for k, v in (tags or {}).items()}}
        document = {"spec": to_plain(self._spec), **about}
        return type(self)._of(workspace, assets.put(workspace.name, KIND, name, document, key=key))

    def add_tags(self: D, tags: Optional[Mapping[str, Any]] = None) -> D:
        return self._change(tags={**self.tags, **{str(key): str(value) for key, value in (tags or {}).items()}})

    def remove_tags(self: D, tags: Optional[Sequence[str]] = None) -> D:
        return self._change(tags={key: value for key, value in self.tags.items() if key not in (tags or ())})

    def update(self: D, description: Optional[str] = None, tags: Optional[Mapping[str, Any]] = None) -> D:
        changes: Dict[str, Any] = {} if description is None else {"description": description}
        if tags is not None:
            changes["tags"] = {str(key): str(value) for key, value in tags.items()}
        return self._change(**changes)

    def unregister_all_versions(self) -> None:
        workspace, asset = self._registered()
        workspace._client.assets.delete(workspace.name, KIND, asset.name)

    def __repr__(self) -> str:
        sources = [source.url or f"{source.datastore}/{source.path}" for source in self._spec.sources]
        named = f", name={self.name!r}, version={self.version}" if self._asset is not None else ""
        return f"{type(self).__name__}(id={self.id!r}{named}, source={sources})"

    def _about(self) -> Dict[str, Any]:
        return self._asset.document if self._asset is not None else {}

    def _change(self: D, **changes: Any) -> D:
        workspace, asset = self._registered()
        document = {**asset.document, **changes}
        changed = workspace._client.assets.update(
            workspace.name, KIND, asset.name, version=asset.version, document=document
        )
        self._asset = changed
        return self

    def _registered(self) -> Tuple[Workspace, Asset]:
        if self._workspace is None or self._asset is None:
            raise UserErrorException("This dataset is not registered: dataset.register(workspace, name) keeps it.")
        return self._workspace, self._asset

    def _with(self: D, step: Dict[str, Any]) -> D:
        spec = replace(self._spec, id=str(uuid.uuid4()), steps=[*self._spec.steps, step])
        return type(self)._made(self._workspace, spec, None)

    def _files(self) -> List[DataFile]:
        return list_files(self._spec, opened_once(self._open))

    def _source_files(self) -> List[DataFile]:
        """Return the files before any step: of tables, steps are about rows."""
        return list_files(replace(self._spec, steps=[]), opened_once(self._open))

    def _amount(self) -> Dict[str, Any]:
        """Return how much data there is now, as runs keep it."""
        files = self._source_files()
        total = sum(file.size for file in files)
        return {"files": len(files), "bytes": total, "fingerprint": fingerprint(files)}

    def _open(self, datastore: str) -> Storage:
        from runyard.sdk.data.datastore import Datastore  # which knows datasets too

        assert self._workspace is not None
        return Datastore(self._workspace, datastore)._storage()


def values_of(file: DataFile, reader: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what a file's path says by the dataset's partition format."""
    from runyard.data.partitions import partition_values  # few datasets have them

    form = str(reader["partition_format"])
    return partition_values(form, place_of(file), quoted=bool(reader.get("partition_quoted")))


def content_key(spec: DatasetSpec) -> str:
    """Return a digest that is equal for datasets of equal content."""
    plain = {name: value for name, value in to_plain(spec).items() if name != "id"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _count(count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UserErrorException(f"A count is a whole number, found {count!r}.")
    return count


def checked_seed(seed: Any) -> Any:
    if seed is None or (isinstance(seed, (int, str)) and not isinstance(seed, bool)) or hasattr(seed, "__index__"):
        return seed if seed is None or isinstance(seed, str) else int(seed)
    raise UserErrorException(f"A seed is a whole number, found {seed!r:.100}.")


def part_of_one(value: Any) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UserErrorException(f"A part is a number from 0 to 1, found {value!r}.")
    return float(value)


def invented_name() -> str:
    return f"input_{uuid.uuid4().hex[:8]}"
