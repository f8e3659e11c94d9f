"""`Keyvault` against a real private server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace


def test_a_script_reads_the_secrets_of_its_workspace(workspace: Workspace, submit: Callable[..., Run]) -> None:
    vault = workspace.get_default_keyvault()
    vault.set_secrets({"test-one": "canary-1", "test-two": "canary-2"})
    run = submit(
        """
        import json
        from azureml.core import Run
        run = Run.get_context()
        found = {"one": run.get_secret("test-one"), "many": run.get_secrets(["test-two", "test-none"])}
        run.tag("lengths", json.dumps([len(found["one"]), len(found["many"]["test-two"]), found["many"]["test-none"]]))
        """
    )
    run.wait_for_completion()

    assert run.get_tags()["lengths"] == "[8, 8, null]"
    assert vault.get_secret("test-one") == "canary-1"
    assert {"name": "test-two"} in vault.list_secrets()
    vault.share_secret("test-two", ["ada"])
    assert vault.get_secret("test-two") == "canary-2"
    assert "canary-1" not in str(run.get_details_with_logs())
    vault.delete_secrets(["test-one", "test-two", "test-never"])
    with pytest.raises(UserErrorException, match="no secret `test-one`"):
        vault.get_secret("test-one")
    with pytest.raises(UserErrorException, match="must be a text"):
        vault.set_secret("test-one", 5)  # type: ignore[arg-type]
