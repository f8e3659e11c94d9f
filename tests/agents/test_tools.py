"""What each tool answers about three runs, two of which completed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.conftest import Agent


def test_every_tool_says_what_it_takes_and_whether_it_only_reads(agent: Agent) -> None:
    found = {tool["name"]: tool for tool in agent.ask("tools/list")["result"]["tools"]}
    changing = {name for name, tool in found.items() if not tool["annotations"]["readOnlyHint"]}

    assert changing == {"submit_script", "cancel_run"} and len(found) == 14
    for tool in found.values():
        schema = tool["inputSchema"]
        assert tool["title"] and len(tool["description"]) > 20 and schema["additionalProperties"] is False
        assert all(one["description"] for one in schema["properties"].values())
        assert set(schema["required"]) <= set(schema["properties"])


def test_read_only_offers_and_takes_no_tool_that_changes_something(folder: Path) -> None:
    agent = Agent(folder, "--read-only")

    assert not {"submit_script", "cancel_run"} & {tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]}
    for name in ("submit_script", "cancel_run"):
        assert agent.ask("tools/call", name=name, arguments={"run": "last"})["error"]["code"] == -32602
    assert agent.close() == 0


def test_runs_are_listed_and_what_is_left_out_is_said(agent: Agent) -> None:
    everything = agent.tool("list_runs", experiment="agents", limit=3)
    best = agent.tool("list_runs", filter="metrics.loss < 1", experiment="agents", sort="metrics.loss", limit=1)

    assert [(run["name"], run["status"]) for run in everything["runs"]] == [
        ("lr 2.0", "Failed"),
        ("lr 1.0", "Completed"),
        ("lr 0.5", "Completed"),
    ]
    assert "left_out" not in everything
    assert [run["name"] for run in best["runs"]] == ["lr 0.5"] and "more than 1" in best["left_out"]


def test_a_failed_run_shows_why_and_the_end_of_its_log_without_secrets(agent: Agent) -> None:
    shown = agent.tool("show_run", run="lr 2.0", log_lines=5)

    assert shown["status"] == "Failed" and "learning rate is too high" in shown["failure"]["message"]
    assert shown["log"]["last_lines"][-1] == "ValueError: the learning rate is too high"
    assert len(shown["log"]["last_lines"]) == 5 and shown["metrics"]["loss"] == 0.02
    text = json.dumps([shown, agent.tool("read_log", run="lr 2.0"), agent.tool("show_run", run="lr 2.0")])
    assert "abcdefgh12345678" not in text and "API_TOKEN=" in text


def test_metrics_come_downsampled_with_exact_extremes(agent: Agent) -> None:
    course = agent.tool("get_metrics", run="lr 1.0", names=["loss"], points=10)["metrics"]["loss"]

    assert (course["count"], course["last"], course["maximum"]) == (100, 0.01, 1.0)
    assert len(course["points"]) <= 10 and course["points"][-1]["step"] == 99
    assert course["points"][0]["maximum"] == 1.0 and course["points"][-1]["minimum"] == 0.01
    assert "Its metrics: loss." in agent.fault("get_metrics", run="lr 1.0", names=["los"])


def test_runs_are_compared_by_what_differs(agent: Agent) -> None:
    found = agent.tool("compare_runs", runs=["lr 0.5", "lr 1.0"])

    assert found["status"] == {"lr 0.5": "Completed", "lr 1.0": "Completed"}
    assert found["metrics"]["loss"] == {"lr 0.5": 0.005, "lr 1.0": 0.01}


def test_files_are_listed_and_text_is_read(agent: Agent) -> None:
    files = agent.tool("list_files", run="lr 1.0", folder="outputs")["files"]

    assert {file["name"]: file["size_bytes"] for file in files} == {"outputs/notes.txt": 12, "outputs/data.bin": 1000}
    assert agent.tool("read_file", run="lr 1.0", file="outputs/notes.txt")["text"] == "a few\nwords\n"
    assert agent.tool("read_file", run="lr 1.0", file="outputs/notes.txt", offset=-6)["text"] == "words\n"
    assert "is not text" in agent.fault("read_file", run="lr 1.0", file="outputs/data.bin")
    assert "has no file" in agent.fault("read_file", run="lr 1.0", file="outputs/none")
    assert agent.tool("read_log", run="lr 1.0", containing="learning", lines=1)["lines"] == ["learning with 1.0"]


def test_a_script_is_submitted_waited_for_and_found_again(agent: Agent) -> None:
    made = agent.tool("submit_script", script="train.py", arguments=["0.1"], name="by agent", tags={"by": "agent"})
    ended = agent.tool("wait_for_run", run=made["id"], timeout_s=120)

    assert ended["status"] == "Completed" and ended["tags"]["by"] == "agent" and ended["metrics"]["loss"] == 0.001
    assert "There is no script" in agent.fault("submit_script", script="no_such.py")
    assert agent.tool("wait_for_run", run="lr 2.0", timeout_s=0)["status"] == "Failed"


def test_the_workspace_is_listed(agent: Agent) -> None:
    assert "agents" in [one["name"] for one in agent.tool("list_experiments")["experiments"]]
    assert "local" in [one["name"] for one in agent.tool("list_targets")["targets"]]
    assert isinstance(agent.tool("list_models")["models"], list)
    assert isinstance(agent.tool("list_services")["services"], list)
    assert "There is no model `x`" in agent.fault("list_models", name="x")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("show_run", {}, "`show_run` needs `run`"),
        ("show_run", {"rum": "x"}, "has no argument `rum`. Did you mean `run`?"),
        ("show_run", {"run": 3}, "`run` is of type string, found 3"),
        ("show_run", {"run": "nowhere"}, "There is no run `nowhere`."),
        ("list_runs", {"limit": 0}, "`limit` is 0; it must be 1 to 100."),
        ("list_runs", {"limit": True}, "`limit` is of type integer"),
        ("list_runs", {"filter": "metrics.loss <"}, "filter"),
        ("compare_runs", {"runs": ["lr 0.5"]}, "`runs` is 1; it must be 2 to 20."),
        (
            "submit_script",
            {"script": "train.py", "packages": ["x"], "environment": "y"},
            "Both packages and environment",
        ),
    ],
)
def test_a_wrong_call_says_what_is_wrong(agent: Agent, name: str, arguments: dict[str, object], said: str) -> None:
    assert said in agent.fault(name, **arguments)


def test_runs_are_resources_too(agent: Agent) -> None:
    listed = agent.ask("resources/list")["result"]["resources"]
    patterns = agent.ask("resources/templates/list")["result"]["resourceTemplates"]
    [shown] = agent.ask("resources/read", uri=listed[0]["uri"])["result"]["contents"]
    [log] = agent.ask("resources/read", uri="runyard://runs/lr%201.0/log")["result"]["contents"]

    assert json.loads(shown["text"])["id"] in listed[0]["uri"]
    assert [one["uriTemplate"] for one in patterns] == ["runyard://runs/{run}", "runyard://runs/{run}/log"]
    assert log["mimeType"] == "text/plain" and "learning with 1.0" in log["text"]
