"""`Experiment`: a named series of runs; `submit` starts one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from runyard.core.names import check_experiment_name
from runyard.sdk.azure_class import AzureClass
from runyard.sdk.config.texts import check_texts, tag_texts
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from datetime import datetime

    from runyard.core import records
    from runyard.sdk.runs.run import Run
    from runyard.sdk.workspaces.workspace import Workspace

VIEWS = ("ActiveOnly", "All", "ArchivedOnly")


@raises_azure_errors
class Experiment(AzureClass):
    """An experiment of `workspace`; it is made when there is none of that name.

    Raises:
        UserErrorException: the name is not letters, digits, `_` and `-` (a letter or digit first, at most 255).
    """

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        self._name = check_experiment_name(name)
        self._client = workspace._client
        self._record: Optional[records.Experiment] = self._client.experiments.put(workspace.name, name)
        self._name = self._record.name  # the text may be its title

    @classmethod
    def _known(cls, workspace: Workspace, name: str, record: Optional[records.Experiment] = None) -> Experiment:
        """An experiment that is known to exist; its facts are fetched when they are first read."""
        made = cls.__new__(cls)
        made._workspace, made._name, made._client, made._record = workspace, name, workspace._client, record
        return made

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    @property
    def name(self) -> str:
        return self._name

    @property
    def title(self) -> str:
        """Another text that it is shown and found by, which MLflow's clients may give it; else its name."""
        return self._facts.shown_name

    @property
    def id(self) -> str:
        return self._facts.id

    @property
    def archived_time(self) -> Optional[datetime]:
        return self._facts.archived_at

    @property
    def tags(self) -> Dict[str, Optional[str]]:
        return dict(self._facts.tags)

    def submit(self, config: Any, tags: Optional[Mapping[str, Any]] = None, **kwargs: Any) -> Run:
        """Check `config`, store its source folder, create the run and return it at once; the run goes on by itself.

        Raises:
            ExperimentExecutionException: found before anything was copied: script, source folder, target, interpreter.
            UserErrorException: an argument, limit or variable of a type that cannot be used.
        """
        from runyard.sdk.submit.submission import (
            submit,  # loads the client and the snapshot code, which most reads never need
        )

        return submit(self, config, tags=tags, options=kwargs)

    def start_logging(
        self,
        name: Optional[str] = None,
        run_id: Optional[str] = None,
        outputs: Any = None,
        snapshot_directory: Optional[str] = ".",
        display_name: Optional[str] = None,
        description: Optional[str] = None,
    ) -> Run:
        """Return a run that this process itself is: status Running at once; complete(), fail() or its exit end it."""
        from runyard.sdk.runs.interactive import start_logging  # as above

        return start_logging(
            self,
            run_id=run_id,
            outputs=outputs,
            snapshot_directory=snapshot_directory,
            display_name=display_name or name or "",
            description=description or "",
        )

    def get_runs(
        self,
        type: Optional[str] = None,
        tags: Union[str, Mapping[str, Any], None] = None,
        properties: Union[str, Mapping[str, Any], None] = None,
        include_children: bool = False,
        status: Union[str, Sequence[str], None] = None,
    ) -> Iterator[Run]:
        """Yield the runs, newest first. `tags` and `properties`: a text is "has this key", a dict is "all equal".

        Args:
            include_children: child runs too; otherwise only those that have no parent.
            status: one status or several, such as "Completed".
        """
        from runyard.sdk.runs.run import Run  # run.py is about experiments, so it cannot load first

        return Run.list(
            self, type=type, tags=tags, properties=properties, status=status, include_children=include_children
        )

    def archive(self) -> None:
        """Take the experiment out of lists; its runs stay."""
        self._update(archived=True)

    def reactivate(self, new_name: Optional[str] = None) -> None:
        """Bring an archived experiment back."""
        if new_name is not None:
            raise UserErrorException("An experiment keeps its name. Call reactivate() without new_name.")
        self._update(archived=False)

    def tag(self, key: str, value: Optional[str] = None) -> None:
        self._update(tags_set=tag_texts({key: value}))

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        self._update(tags_set=tag_texts(tags))

    def remove_tags(self, tags: Sequence[str]) -> None:
        self._update(tags_remove=[tags] if isinstance(tags, str) else [*tags])

    def refresh(self) -> None:
        self._record = self._client.experiments.get(self._workspace.name, self._name)

    @staticmethod
    def list(
        workspace: Workspace,
        experiment_name: Optional[str] = None,
        view_type: str = "ActiveOnly",
        tags: Union[str, Mapping[str, Any], None] = None,
    ) -> List[Experiment]:
        """Return the experiments of a workspace. `view_type`: ActiveOnly, All or ArchivedOnly."""
        if view_type not in VIEWS:
            raise UserErrorException(f"view_type must be one of {', '.join(VIEWS)}, found {view_type!r}.")
        check_texts(experiment_name=experiment_name)
        found = workspace._client.experiments.list(workspace.name, view=view_type, name=experiment_name)
        return [Experiment._known(workspace, one.name, one) for one in found if _has_tags(one.tags, tags)]

    @staticmethod
    def delete(workspace: Workspace, experiment_id: str) -> None:
        """Delete an experiment with all its runs, their metrics, files and logs.

        They can be brought back for a day (setting RUNYARD_UNDO): `runyard experiments restore NAME`.

        Raises:
            UserErrorException: the workspace has none with that id, or one of its runs has not ended.
        """
        known = workspace._client.experiments.list(workspace.name, view="All")
        name = next((one.name for one in known if one.id == experiment_id), None)
        if name is None:
            raise UserErrorException(
                f"The workspace {workspace.name!r} has no experiment with the id {experiment_id!r}.\n"
                "An experiment's id is experiment.id, not its name."
            )
        workspace._client.experiments.delete(workspace.name, name)

    def get_portal_url(self) -> str:
        """Return the address of the page with the experiment's runs; a private server's signs the browser in."""
        from runyard.sdk.runs.details import experiment_path, portal_url  # loads the client's types only when asked

        return portal_url(self._client, experiment_path(self._workspace.name, self._name))

    def __repr__(self) -> str:
        return f"Experiment(Name: {self._name},\nWorkspace: {self._workspace.name})"

    def _repr_html_(self) -> str:
        from runyard.sdk.runs.notebook import html_table  # notebooks only

        return html_table({"Name": self._name, "Workspace": self._workspace.name}, link=self.get_portal_url())

    @property
    def _facts(self) -> records.Experiment:
        if self._record is None:
            self.refresh()
        assert self._record is not None
        return self._record

    def _update(self, **changes: Any) -> None:
        self._record = self._client.experiments.update(self._workspace.name, self._name, **changes)


def _has_tags(found: Mapping[str, Optional[str]], wanted: Union[str, Mapping[str, Any], None]) -> bool:
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return wanted in found
    return all(found.get(key, ...) == value for key, value in tag_texts(wanted).items())
