"""`runyard services`: list, show, call, read logs, keys, roll back and delete, with a real gateway and replicas."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Workspace
from runyard.core.specs import EnvironmentSpec
from runyard.core.webservices import NewService, RevisionSpec, ServiceChange, ServiceSettings, Webservice
from runyard.sdk.runs.source import store_source
from tests.cli.command_line import runyard
from tests.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("shared_home"), pytest.mark.long]
SCRIPT = """
import json
def init():
    print("factor {factor} is loaded")
def run(raw):
    return [{factor} * one for one in json.loads(raw)["data"]]
"""


def revision(folder: Path, script: str) -> RevisionSpec:
    folder.mkdir(exist_ok=True)
    (folder / "score.py").write_text(script)
    source = store_source(Workspace.from_config()._client, str(folder))
    environment = EnvironmentSpec(interpreter=sys.executable)
    return RevisionSpec(entry="score.py", snapshot_id=source.snapshot_id, environment=environment)


def settled(name: str) -> Webservice:
    """Return the service once nothing of it is being started."""
    calls = Workspace.from_config()._client.webservices
    wait_for(lambda: getattr(calls.get("default", name).operation, "state", "") != "Running", timeout_s=60)
    return calls.get("default", name)


def runs_of(service: Webservice) -> list[str]:
    """Return the ids of the service's run and of its replicas'."""
    return [service.run_id, *(one.run_id for revision in service.revisions for one in revision.replicas)]


def has_ended(run_id: str) -> bool:
    return Workspace.from_config()._client.runs.get(run_id).status.is_terminal


@pytest.fixture(scope="module")
def doubling(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with two revisions: the first doubles, the second one, which serves, triples."""
    folder = tmp_path_factory.mktemp("source")
    calls = Workspace.from_config()._client.webservices
    settings = ServiceSettings(compute_type="Local", tags={"team": "vision"}, auth=True)
    calls.deploy("default", "doubling", NewService(settings, revision(folder, SCRIPT.format(factor=2))))
    assert settled("doubling").state == "Healthy"
    calls.change("default", "doubling", ServiceChange(revision=revision(folder, SCRIPT.format(factor=3))))
    assert settled("doubling").state == "Healthy"
    yield "doubling"
    runs = runs_of(calls.get("default", "doubling"))
    calls.delete("default", "doubling")
    wait_for(lambda: all(has_ended(run) for run in runs))  # a server that is stopped now would come back


def test_a_service_is_listed_and_shown(doubling: str) -> None:
    address = settled(doubling).scoring_uri

    [_, row] = runyard("services", "list").stdout.splitlines()
    assert row.split()[:3] == ["doubling", "Healthy", "2"] and row.endswith(address)
    assert [
        one["name"] for one in json.loads(runyard("services", "list", "--tag", "team=vision", "--json").stdout)
    ] == [doubling]
    assert "There is none" in runyard("services", "list", "--tag", "team=other").stderr
    shown = json.loads(runyard("services", "show", doubling, "--json").stdout)
    assert (shown["state"], shown["current"], [one["state"] for one in shown["revisions"]]) == (
        "Healthy",
        {"": 2},
        ["Ready", "Ready"],
    )
    text = runyard("services", "show", doubling).stdout
    assert re.search(r"^2 \* +Ready +score.py +1 +0 of 1 busy", text, re.MULTILINE)
    assert re.search(r"^key needed +yes$", text, re.MULTILINE)


def test_a_request_is_sent_with_the_key_and_answered(doubling: str, tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text('{"data": [5, 7]}')

    answer = runyard("services", "test", doubling, "--data", '{"data": [1]}')
    assert (answer.returncode, answer.stdout) == (0, "[3]\n") and answer.stderr.startswith("200 in ")
    assert runyard("services", "test", doubling, "--data", f"@{tmp_path}/body.json").stdout == "[15, 21]\n"
    found = json.loads(runyard("services", "test", doubling, "--data", '{"data": [1]}', "--json").stdout)
    assert (found["status"], found["text"], found["size_bytes"]) == (200, "[3]", 3)
    bad = runyard("services", "test", doubling, "--data", "no JSON")
    assert bad.returncode == 1 and "runyard services logs doubling" in bad.stderr
    assert "JSONDecodeError" in runyard("services", "logs", doubling).stdout
    assert (
        "is not a path of a service" in runyard("services", "test", doubling, "--data", "", "--path", "../other").stderr
    )
    assert "No such file" in runyard("services", "test", doubling, "--data", "@/no/such").stderr


def test_curl_gets_in_with_a_key_that_is_printed(doubling: str) -> None:
    address = settled(doubling).scoring_uri
    [key] = runyard("services", "keys", doubling, "primary").stdout.splitlines()

    assert status_of(address, "") == "401"
    assert status_of(address, key) == "200"
    [new] = runyard("services", "keys", doubling, "primary", "--regenerate").stdout.splitlines()
    assert new != key
    wait_for(lambda: status_of(address, key) == "401", timeout_s=10)
    assert status_of(address, new) == "200"
    both = json.loads(runyard("services", "keys", doubling, "--json").stdout)
    assert both["primary"] == new and len(both["secondary"]) >= 32


def status_of(address: str, key: str) -> str:
    words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Authorization: Bearer {key}"]
    return subprocess.run([*words, "-d", '{"data": [1]}', address], capture_output=True, text=True, check=True).stdout


def test_logs_are_of_a_revision_or_of_requests(doubling: str) -> None:
    runyard("services", "test", doubling, "--data", '{"data": [1]}')

    assert "factor 3 is loaded" in runyard("services", "logs", doubling).stdout
    assert "factor 2 is loaded" in runyard("services", "logs", doubling, "--revision", "1").stdout
    assert "has no revision 9" in runyard("services", "logs", doubling, "--revision", "9").stderr
    lines = runyard("services", "logs", doubling, "--requests").stdout.splitlines()
    assert any(re.search(r" POST /score 200 \S+ms 3 ", line) for line in lines)


def test_a_rollback_serves_the_revision_before(doubling: str) -> None:
    back = runyard("services", "rollback", doubling)

    assert (back.returncode, back.stdout.strip()) == (0, settled(doubling).scoring_uri)
    assert "is Healthy, revision 1" in back.stderr and "curl" in back.stderr
    assert runyard("services", "test", doubling, "--data", '{"data": [1]}').stdout == "[2]\n"
    assert "factor 2 is loaded" in runyard("services", "logs", doubling).stdout
    assert "no revision 7" in runyard("services", "rollback", doubling, "7").stderr
    assert runyard("services", "rollback", doubling, "2").returncode == 0
    assert runyard("services", "test", doubling, "--data", '{"data": [1]}').stdout == "[3]\n"


def test_names_that_are_not_there_are_answered_with_those_that_are(doubling: str) -> None:
    missing = runyard("services", "show", "nothing")

    assert missing.returncode == 1
    assert "There is no web service `nothing`" in missing.stderr and "There are: doubling." in missing.stderr
    assert "There is no web service `No Name!`" in runyard("services", "delete", "No Name!", "--yes").stderr


def test_deleting_ends_the_service(shared_home: Path, tmp_path: Path) -> None:
    calls = Workspace.from_config()._client.webservices
    new = NewService(ServiceSettings(compute_type="Local"), revision(tmp_path, SCRIPT.format(factor=2)))
    calls.deploy("default", "leaving", new)
    replica = settled("leaving").revisions[0].replicas[0].run_id

    assert "--yes" in runyard("services", "delete", "leaving").stderr
    assert runyard("services", "delete", "leaving", "--yes").stdout == "leaving\n"
    assert "leaving" not in runyard("services", "list").stdout
    runs = Workspace.from_config()._client.runs
    wait_for(lambda: runs.get(replica).status.is_terminal, timeout_s=30)
