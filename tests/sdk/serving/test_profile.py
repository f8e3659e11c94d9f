"""`Model.profile`: a run replays a dataset against a service of its own and reports Azure's figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from azureml.core import Dataset, Environment
from azureml.core.model import InferenceConfig, Model, ModelProfile
from runyard.sdk.exceptions import UserErrorException, WebserviceException
from runyard.sdk.workspaces.workspace import Workspace
from runyard.serving.replay import Step, percentile, summary

SCRIPT = """
import json, os, time
def init():
    with open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "factor.txt")) as file:
        int(file.read())
def run(raw):
    value = json.loads(raw)["data"]
    if value == 7:
        raise ValueError("seven")
    return value
"""


@pytest.fixture
def config(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InferenceConfig:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "score.py").write_text(SCRIPT)
    (tmp_path / "factor.txt").write_text("3")
    (tmp_path / "bodies.csv").write_text("body\n" + "".join(f'"{{""data"": {at}}}"\n' for at in range(100)))
    (tmp_path / "two.csv").write_text("a,b\nx,y\n")
    (tmp_path / "numbers.csv").write_text("a\n1\n2\n")
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    return InferenceConfig("score.py", environment=environment)


def table(name: str) -> object:
    datastore = Workspace.from_config().get_default_datastore()
    datastore.upload_files([name], target_path="profile", overwrite=True, show_progress=False)
    return Dataset.Tabular.from_delimited_files((datastore, f"profile/{name}"))


@pytest.mark.long
def test_a_profile_replays_the_dataset_and_reports_what_it_took(config: InferenceConfig) -> None:
    workspace = Workspace.from_config()
    model = Model.register(workspace, "factor.txt", "factor")
    profile = Model.profile(workspace, "speed", [model], config, table("bodies.csv"), cpu=1.5, memory_in_gb=2)
    profile.wait_for_completion(show_output=True)

    found = profile.get_details()
    assert (found["name"], found["state"], found["requestedCpu"], found["requestedMemoryInGB"]) == (
        "speed",
        "Succeeded",
        1.5,
        2.0,
    )
    assert found["totalQueries"] >= 200 and found["totalQueries"] % 100 == 0
    assert found["successQueries"] == found["totalQueries"] * 99 // 100  # the body 7 fails each time
    assert found["successRate"] == 99.0
    ordered = [found[f"latencyPercentile{share}InMs"] for share in ("50", "90", "95", "99", "999")]
    assert ordered[0] > 0 and ordered == sorted(ordered)
    assert found["averageLatencyInMs"] > 0 and found["measuredQueriesPerSecond"] > 0
    assert found["maxUtilizedMemoryInGB"] > 0.005
    assert found["recommendedCpu"] >= found["maxUtilizedCpu"] and found["recommendedMemoryInGB"] >= 0.1
    assert ModelProfile(workspace, "speed").get_details() == found
    with pytest.raises(WebserviceException, match="no profile"):
        ModelProfile(workspace, "other")


@pytest.mark.long
def test_a_profile_of_a_script_that_does_not_start_says_why(config: InferenceConfig, tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def init():\n    import nosuchmodule\ndef run(d):\n    pass\n")
    profile = Model.profile(Workspace.from_config(), "bad", ["./factor.txt"], config, table("bodies.csv"))

    with pytest.raises(WebserviceException, match="nosuchmodule"):
        profile.wait_for_completion()
    assert profile.get_details()["state"] == "Failed"


@pytest.mark.long
def test_datasets_and_numbers_that_cannot_be_are_refused(config: InferenceConfig) -> None:
    workspace = Workspace.from_config()
    for dataset, said in [
        (table("two.csv"), "one column"),
        (table("numbers.csv"), "as text"),
        ("bodies", "TabularDataset"),
    ]:
        with pytest.raises(UserErrorException, match=said):
            Model.profile(workspace, "p", ["./factor.txt"], config, dataset)
    for numbers in ({"cpu": 4}, {"cpu": 0.05}, {"memory_in_gb": 16}, {"memory_in_gb": True}):
        with pytest.raises(UserErrorException, match="must be a number from"):
            Model.profile(workspace, "p", ["./factor.txt"], config, table("bodies.csv"), **numbers)


def test_latencies_are_those_of_the_step_with_most_answers() -> None:
    slow = Step(1, seconds=1.0, cpu_s=0.5, memory_bytes=1 << 30, latencies_ms=[10.0] * 50)
    fast = Step(
        2, seconds=1.0, cpu_s=0.9, memory_bytes=2 << 30, latencies_ms=[float(at) for at in range(1, 100)], failed=1
    )

    found = summary([slow, fast])

    assert (found["totalQueries"], found["successQueries"], found["measuredQueriesPerSecond"]) == (150, 149, 99.0)
    assert (found["latencyPercentile50InMs"], found["averageLatencyInMs"]) == (50.0, 50.0)
    assert (found["maxUtilizedCpu"], found["maxUtilizedMemoryInGB"], found["recommendedMemoryInGB"]) == (0.9, 2.0, 2.5)
    assert percentile([], 0.5) == 0.0
    assert json.loads(json.dumps(found))["steps"][1]["clients"] == 2
