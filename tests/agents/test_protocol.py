"""The Model Context Protocol, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import Agent


def test_a_session_begins_with_the_version_that_both_know(agent: Agent) -> None:
    info = {"name": "test", "version": "1"}
    for asked, given in (("2025-11-25", "2025-11-25"), ("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")):
        result = agent.ask("initialize", protocolVersion=asked, capabilities={}, clientInfo=info)["result"]
        assert result["protocolVersion"] == given
        assert result["serverInfo"]["name"] == "runyard" and result["capabilities"] == {"tools": {}, "resources": {}}
    agent.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')  # not answered
    assert agent.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("line", "key", "code"),
    [
        ("no JSON", None, -32700),
        ("[]", None, -32600),
        ('{"id": 1, "method": "ping"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": 7, "method": "no/such"}', 7, -32601),
        ('{"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "no_such"}}', "a", -32602),
        ('{"jsonrpc": "2.0", "id": 8, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}', 8, -32002),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, -32600),
    ],
)
def test_a_line_that_cannot_be_answered_is_an_error_and_the_session_goes_on(
    agent: Agent, line: str, key: Any, code: int
) -> None:
    agent.send(line)
    found = agent.read()

    assert (found["id"], found["error"]["code"]) == (key, code)
    assert agent.ask("ping")["result"] == {}


def test_an_agent_that_waits_is_answered_other_things_and_may_change_its_mind(agent: Agent) -> None:
    submitted = agent.tool("submit_script", command="sleep 300", name="long")
    waiting = agent.start("tools/call", name="wait_for_run", arguments={"run": submitted["id"], "timeout_s": 600})

    assert agent.ask("ping")["result"] == {}
    assert [run["name"] for run in agent.tool("list_runs", limit=1)["runs"]] == ["long"]
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}
    agent.send(json.dumps(cancelled))
    assert agent.tool("cancel_run", run="long")["note"].startswith("It was asked to stop")
    assert agent.tool("wait_for_run", run="long")["status"] == "Canceled"
    assert agent.tool("cancel_run", run="long")["note"] == "It had ended already."
    assert waiting not in agent.early


def test_the_session_ends_with_its_input_though_a_tool_waits(folder: Path) -> None:
    agent = Agent(folder)
    submitted = agent.tool("submit_script", command="sleep 300")
    agent.start("tools/call", name="wait_for_run", arguments={"run": submitted["id"], "timeout_s": 600})
    agent.start("tools/call", name="cancel_run", arguments={"run": submitted["id"]})

    assert agent.close() == 0
