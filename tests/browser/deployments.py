"""Web services of scripts that a test writes, on a studio's server."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from runyard.core.specs import EnvironmentSpec
from runyard.core.webservices import NewService, RevisionSpec, ServiceChange, ServiceSettings, Webservice
from runyard.sdk.runs.source import store_source
from tests.browser.studio import Studio
from tests.waiting import wait_for


@dataclass(frozen=True)
class Deployments:
    """Deploys services and waits until they have started, or have failed to."""

    studio: Studio

    def deploy(self, name: str, revision: RevisionSpec, **settings: object) -> Webservice:
        new = NewService(ServiceSettings(compute_type="Local", **settings), revision)  # type: ignore[arg-type]  # fields
        self.studio.client.webservices.deploy("default", name, new)
        return self.settled(name)

    def update(self, name: str, revision: RevisionSpec) -> Webservice:
        self.studio.client.webservices.change("default", name, ServiceChange(revision=revision))
        return self.settled(name)

    def settled(self, name: str) -> Webservice:
        calls = self.studio.client.webservices
        wait_for(lambda: getattr(calls.get("default", name).operation, "state", "") != "Running", timeout_s=90)
        return calls.get("default", name)

    def revision(self, script: str, *models: str) -> RevisionSpec:
        folder = Path(tempfile.mkdtemp(dir=self.studio.project))
        (folder / "score.py").write_text(script)
        source = store_source(self.studio.workspace._client, str(folder))
        environment = EnvironmentSpec(interpreter=sys.executable)
        return RevisionSpec(
            entry="score.py",
            snapshot_id=source.snapshot_id,
            environment=environment,
            models=list(models),
            created_by="ada",
        )

    def end(self) -> None:
        """Delete all services, and wait until their replicas have ended: the server is stopped next."""
        client = self.studio.client
        found = client.webservices.list("default")
        for one in found:
            client.webservices.delete("default", one.name)
        replicas = [ref.run_id for one in found for revision in one.revisions for ref in revision.replicas]
        wait_for(lambda: all(client.runs.get(run_id).status.is_terminal for run_id in replicas), timeout_s=90)
