"""`Dataset`: what a workspace knows of its data, by name and version, and how to make more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Dict, Type, Union

from runyard.core.datasets import FILE, KIND, TABULAR
from runyard.core.errors import NotFound
from runyard.sdk.callable_dict import CallableDict
from runyard.sdk.data.dataset_factory import FileDatasetFactory, TabularDatasetFactory
from runyard.sdk.data.kinds import FileDataset
from runyard.sdk.data.tabular_dataset import TabularDataset
from runyard.sdk.errors import translates

if TYPE_CHECKING:
    from runyard.core.records import Asset
    from runyard.sdk.workspaces.workspace import Workspace

AnyDataset = Union[FileDataset, TabularDataset]


class Dataset:
    """`Dataset.File` and `Dataset.Tabular` make datasets; the rest finds those that were registered."""

    File: ClassVar[Type[FileDatasetFactory]] = FileDatasetFactory
    Tabular: ClassVar[Type[TabularDatasetFactory]] = TabularDatasetFactory

    @staticmethod
    @translates
    def get_by_name(workspace: Workspace, name: str, version: Any = "latest") -> AnyDataset:
        """Raises UserErrorException: there is none of that name and version."""
        wanted = None if version in (None, "latest") else int(version)
        try:
            asset = workspace._client.assets.get(workspace.name, KIND, name, version=wanted)
        except NotFound as error:
            known = [one.name for one in workspace._client.assets.list(workspace.name, KIND)]
            raise NotFound(
                f"There is no dataset `{name if wanted is None else f'{name}:{wanted}'}` in `{workspace.name}`.",
                why=f"Known here: {', '.join(known) or 'none yet'}.",
                hint="dataset.register(workspace, name) keeps one.",
            ) from error
        return of_asset(workspace, asset)

    @staticmethod
    @translates
    def get_by_id(workspace: Workspace, id: str, **_kwargs: Any) -> AnyDataset:
        """Raises UserErrorException: no registered dataset has that id."""
        for newest in workspace._client.assets.list(workspace.name, KIND):
            for asset in workspace._client.assets.list(workspace.name, KIND, name=newest.name):
                if asset.document.get("spec", {}).get("id") == id:
                    return of_asset(workspace, asset)
        raise NotFound(f"No dataset of workspace `{workspace.name}` has the id `{id}`.")

    @staticmethod
    @translates
    def get_all(workspace: Workspace) -> Dict[str, AnyDataset]:
        """Return the latest version of each, by name."""
        found = workspace._client.assets.list(workspace.name, KIND)
        return CallableDict((asset.name, of_asset(workspace, asset)) for asset in found)


def of_asset(workspace: Workspace, asset: Asset) -> AnyDataset:
    kind = asset.document.get("spec", {}).get("kind", FILE)
    return TabularDataset._of(workspace, asset) if kind == TABULAR else FileDataset._of(workspace, asset)
