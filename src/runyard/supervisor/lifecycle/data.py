"""The data of a run: brought to the node before the launch, delivered to its datastores after the end."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Tuple, cast

from runyard.client.calls.workspace import DatastoreFiles, SecretCalls
from runyard.core.errors import MissingContent, RunyardError, SystemFailure
from runyard.core.specs import DIRECT, JobSpec
from runyard.core.specs import KIND as DATASETS
from runyard.data.base import Count, Storage, count_nothing
from runyard.data.datasets import bring_dataset, deliver_output, open_output, registered_output
from runyard.data.datastores import KIND, get_document, list_documents, open_storage
from runyard.data.references import PREFIX, Node, bring, deliver
from runyard.supervisor.run_folder import RunFolder, shares_folder, work_folder
from runyard.supervisor.shipping.connection import Connection

if TYPE_CHECKING:
    from runyard.core.formats.documents import EnvironmentFacts, RunError
    from runyard.data.datastores import Document

logger = logging.getLogger(__name__)

FACTS = "data.json"


class RunData:
    """Brings and delivers the data references, datasets and outputs of a run. The supervisor's main thread calls it.

    All methods may be repeated, also by a restarted supervisor. They wait through outages of the server.
    """

    def __init__(
        self,
        folder: RunFolder,
        job: JobSpec,
        *,
        connection: Connection,
        warn: Callable[[str, str], None],
        counting: Callable[[int], Count],
    ) -> None:
        self._job = job
        self._connection = connection
        self._references = job.spec.data_references
        self._outputs = {
            name: replace(output, path=output.path.replace("{run-id}", job.run_id))
            for name, output in job.spec.outputs.items()
        }
        work = work_folder(folder, job, job.node_rank)
        self._node = Node(work, folder.at("data"), logger.info, lambda text: warn("data", text), counting)
        self._documents: Optional[Dict[str, Document]] = None
        self._folder = folder

    def bring(self) -> Dict[str, str]:
        """Put all data in place before the launch; return the variables with their paths."""
        spec = self._job.spec
        facts: Dict[str, object] = {}
        found = {
            name: bring(name, reference, self._open(reference.datastore), self._node)
            for name, reference in self._references.items()
        }
        for name, given in spec.datasets.items():
            if given.mode != DIRECT:
                view = bring_dataset(name, given, self._open, self._node)
                found[name], facts[name] = view.path, {**view.facts, "read": view.how}
        if facts:
            self._folder.write(FACTS, {"datasets": facts})
        for name, output in self._outputs.items():
            found[name] = open_output(name, output, self._open(output.datastore), self._node)
        return {PREFIX + name: path for name, path in found.items()}

    def recall(self) -> EnvironmentFacts:
        """Return the facts about the run's datasets: files, bytes, fingerprint. The thread `describe` calls it."""
        return cast("EnvironmentFacts", self._folder.read_object(FACTS) if self._job.spec.datasets else {})

    def deliver(self) -> Optional[RunError]:
        """Upload what the run wrote to its datastores; return the run's error when that fails.

        Called at every end, also of a run that failed or was canceled: the node may have the only copy.
        """
        if shares_folder(self._job) and self._job.node_rank > 0:
            return None  # node 0 delivers what all nodes wrote
        for name, work in self._deliveries():
            try:
                work()
            except (OSError, RunyardError) as error:
                logger.error("what the run wrote for %s could not be uploaded", name, exc_info=error)
                self._node.warn(f"What the run wrote for `{name}` was not uploaded: {error}")
                return _not_delivered(name, error)
        return None

    def register(self) -> None:
        """Register outputs as datasets, where the run asked for it. Called after a run that completed."""
        if shares_folder(self._job) and self._job.node_rank > 0:
            return
        for output in self._outputs.values():
            if output.register:
                document = registered_output(output, self._job.run_id)
                put = partial(self._connection.client.assets.put, self._job.workspace, DATASETS)
                key = f"{self._job.run_id}/{output.path}"  # a repetition makes no second version
                self._connection.insist(partial(put, output.register["name"], document, key=key))

    def _deliveries(self) -> Iterator[Tuple[str, Callable[[], None]]]:
        for name, reference in self._references.items():
            if reference.mode == "upload":
                yield name, partial(deliver, name, reference, self._open(reference.datastore), self._node)
        for name, output in self._outputs.items():
            yield name, partial(deliver_output, name, output, self._open(output.datastore), self._node)

    def _open(self, datastore: str) -> Storage:
        return open_storage(get_document(self._known(), datastore), lambda: self._remote(datastore), self._secret)

    def _secret(self, name: str) -> str:
        calls = SecretCalls(self._connection.client.transport)
        return self._connection.insist(lambda: calls.get(self._job.workspace, name))

    def _remote(self, datastore: str) -> _PatientFiles:
        return _PatientFiles(DatastoreFiles(self._connection.client, self._job.workspace, datastore), self._connection)

    def _known(self) -> Dict[str, Document]:
        if self._documents is None:
            workspace = self._job.workspace
            assets = self._connection.insist(lambda: self._connection.client.assets.list(workspace, KIND))
            home = Path(self._job.home) if self._job.server.get("kind") == "unix" else None  # a server on this machine
            self._documents = list_documents(assets, home=home, workspace=workspace)
        return self._documents


class _PatientFiles:
    """The files of a datastore on the server's machine; every call waits through outages."""

    def __init__(self, files: DatastoreFiles, connection: Connection) -> None:
        self._files = files
        self._connection = connection

    def list(self, path: str) -> List[Tuple[str, int]]:
        """Return (name, size) of the files below `path`."""
        return self._connection.insist(lambda: self._files.list(path))

    def put(self, source: str, name: str, count: Count = count_nothing) -> None:
        """Store a local file as `name`. May be repeated."""

        def put() -> None:
            try:
                self._files.put(source, name, count)
            except MissingContent as error:  # the server lacks chunks that were sent: send them again
                raise SystemFailure(error.what, why=error.why) from error

        self._connection.insist(put)

    def fetch(self, name: str, target: str, count: Count = count_nothing) -> None:
        """Download the file `name` to `target`."""
        self._connection.insist(lambda: self._files.fetch(name, target, count))


def _not_delivered(name: str, error: Exception) -> RunError:
    message = f"The script ended well, but what it wrote for `{name}` was not uploaded.\n{error}"
    return {"code": "DataNotUploaded", "message": message, "details": {"data_reference": name}}
