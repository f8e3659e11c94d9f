"""An agent's connection to `runyard mcp`, as lines of JSON-RPC, and a folder with runs to ask about."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import runyard

TRAIN = """
import os, sys
import runyard
lr = float(sys.argv[1])
for step in range(100):
    runyard.log({"loss": lr / (step + 1)}, step=step)
print("learning with", lr)
print("API_TOKEN=abcdefgh12345678")
os.makedirs("outputs", exist_ok=True)
open("outputs/notes.txt", "w").write("a few\\nwords\\n")
open("outputs/data.bin", "wb").write(bytes(1000))
if lr > 1:
    raise ValueError("the learning rate is too high")
"""


class Agent:
    """Writes requests to a server's stdin and reads the answers."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runyard.cli", "mcp", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        self._number = 0
        self.early: dict[Any, Any] = {}  # answers that came before those that were waited for

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def start(self, method: str, /, **params: Any) -> int:
        self._number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        return self._number

    def read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def answer(self, number: int) -> Any:
        while number not in self.early:
            found = self.read()
            self.early[found["id"]] = found
        return self.early.pop(number)

    def ask(self, method: str, /, **params: Any) -> Any:
        return self.answer(self.start(method, **params))

    def tool(self, name: str, /, **arguments: Any) -> Any:
        """Return what a tool answered."""
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert not result["isError"], result["content"][0]["text"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def fault(self, name: str, /, **arguments: Any) -> str:
        """Return what an agent reads when a tool could not do it."""
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        assert result["isError"] and "structuredContent" not in result
        return str(result["content"][0]["text"])

    def close(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


@pytest.fixture(scope="session")
def folder(session_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script, which was run twice with success and once without."""
    folder = tmp_path_factory.mktemp("agent")
    script = folder / "train.py"
    script.write_text(TRAIN)
    runs = [runyard.run(script, arguments=[lr], experiment="agents", name=f"lr {lr}") for lr in ("0.5", "1.0", "2.0")]
    runyard.wait(runs, check=False)
    return folder


@pytest.fixture
def agent(folder: Path) -> Iterator[Agent]:
    found = Agent(folder)
    yield found
    assert found.close() == 0
