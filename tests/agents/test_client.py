"""The Model Context Protocol's own Python client: it starts `runyard mcp`, lists its tools and calls each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mlflow.servers import make_environment

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]
CLIENT = """
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS = [
    ("list_runs", {"experiment": "agents"}), ("show_run", {"run": "lr 2.0"}), ("get_metrics", {"run": "lr 1.0"}),
    ("compare_runs", {"runs": ["lr 0.5", "lr 1.0"]}), ("read_log", {"run": "lr 1.0"}),
    ("list_files", {"run": "lr 1.0"}),
    ("read_file", {"run": "lr 1.0", "file": "outputs/notes.txt"}), ("list_experiments", {}), ("list_targets", {}),
    ("list_models", {}), ("list_services", {}),
    ("submit_script", {"script": "train.py", "arguments": ["0.2"],
     "name": "mcp"}),
    ("wait_for_run", {"run": "mcp"}), ("cancel_run", {"run": "mcp"}), ("show_run", {"run": "nowhere"}),
    ("list_runs", {"limit": 0}),
]

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["-m", "runyard.cli", "mcp"], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        begun = await session.initialize()
        tools = await session.list_tools()
        answers = []
        for name, arguments in CALLS:
            result = await session.call_tool(name, arguments)
            is_error = bool(getattr(result, "isError", getattr(result, "is_error", False)))
            answers.append([name, is_error, result.content[0].text])
        resources = await session.list_resources()
        found = await session.read_resource(resources.resources[0].uri)
        names = [tool.name for tool in tools.tools]
        told = {"server": str(begun), "tools": names, "answers": answers, "resource": found.contents[0].text}
        print(json.dumps(told))

asyncio.run(main())
"""


def test_the_protocol_s_own_client_calls_every_tool(folder: Path, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "client", "mcp")
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    done = subprocess.run(  # noqa: PLW1510  # its output says what is wrong
        [str(python), str(script), sys.executable], cwd=folder, env=dict(os.environ), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    answers = {(name, is_error): text for name, is_error, text in found["answers"]}

    assert "runyard" in found["server"]
    assert {name for name, is_error in answers if not is_error} == set(found["tools"])
    assert "There is no run `nowhere`" in answers["show_run", True] and "`limit` is 0" in answers["list_runs", True]
    assert json.loads(answers["wait_for_run", False])["status"] == "Completed"
    assert json.loads(found["resource"])["name"] == "mcp"
