"""The data references of a run: brought before the launch, delivered after the end."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from runyard.core.errors import RunyardError
from runyard.core.specs import JobSpec
from runyard.data.base import Storage
from runyard.data.datastores import KIND, get_document, list_documents, open_storage
from runyard.data.references import PREFIX, Node, bring, deliver
from runyard.supervisor.connection import Connection
from runyard.supervisor.folder import RunFolder

logger = logging.getLogger(__name__)


class RunData:
    """May be repeated from the start: what is in place already stays."""

    def __init__(
        self, folder: RunFolder, job: JobSpec, *, connection: Connection, warn: Callable[[str, str], None]
    ) -> None:
        self._job = job
        self._connection = connection
        self._references = job.spec.data_references
        self._node = Node(folder.at("work"), folder.at("data"), logger.info, lambda text: warn("data", text))
        self._documents: Optional[Dict[str, Dict[str, Any]]] = None

    def bring(self) -> Dict[str, str]:
        """Put all data in place; return the variables that tell where."""
        return {
            PREFIX + name: bring(name, reference, self._open(reference.datastore), self._node)
            for name, reference in self._references.items()
        }

    def deliver(self) -> Optional[Dict[str, Any]]:
        """Copy what uploads are about to their datastores; return the error of a run whose data did not arrive.

        This is done at every end, also of a run that failed or was canceled: what it wrote may be all there is of it.
        """
        for name, reference in self._references.items():
            if reference.mode != "upload":
                continue
            try:
                deliver(name, reference, self._open(reference.datastore), self._node)
            except (OSError, RunyardError) as error:
                logger.error("data reference %s could not be uploaded", name, exc_info=error)
                self._node.warn(f"Data reference `{name}` was not uploaded: {error}")
                return _not_delivered(name, error)
        return None

    def _open(self, datastore: str) -> Storage:
        return open_storage(get_document(self._known(), datastore))

    def _known(self) -> Dict[str, Dict[str, Any]]:
        if self._documents is None:
            workspace = self._job.workspace
            assets = self._connection.insist(lambda: self._connection.client.assets.list(workspace, KIND))
            self._documents = list_documents(assets, home=Path(self._job.home), workspace=workspace)
        return self._documents


def _not_delivered(name: str, error: Exception) -> Dict[str, Any]:
    message = f"The script ended well, but what it wrote for the data reference `{name}` was not uploaded.\n{error}"
    return {"code": "DataNotUploaded", "message": message, "details": {"data_reference": name}}
