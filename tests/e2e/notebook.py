"""A notebook on a real kernel: cells are run one by one, while the test watches, interrupts, restarts or kills."""

from __future__ import annotations

import asyncio
import os
import textwrap
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

SET_UP = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
ws = Workspace.from_config()
"""


def make_notebook(*cells: str) -> NotebookNode:
    """Return a notebook whose first cell imports what all of them use."""
    sources = [textwrap.dedent(source).strip() for source in (SET_UP, *cells)]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def make_client(notebook: NotebookNode, folder: Path) -> NotebookClient:
    """Return what executes `notebook` in `folder`. Its sockets are files: no port can be taken."""
    socket = os.path.join(os.environ["JUPYTER_RUNTIME_DIR"], uuid.uuid4().hex[:8])
    return NotebookClient(
        notebook,
        config=Config({"KernelManager": {"transport": "ipc", "ip": socket}}),
        timeout=60,
        shutdown_kernel="immediate",  # a kernel that is asked to leave sometimes takes seconds
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--HistoryManager.enabled=False"],
    )


class Notebook:
    def __init__(self, client: NotebookClient) -> None:
        self._client = client
        self._cells = client.nb.cells

    async def run(self, source: str) -> NotebookNode:
        """Run a new cell; return it with its outputs. What the cell raises is raised as CellExecutionError."""
        return await self.begin(source)

    def begin(self, source: str) -> asyncio.Task[NotebookNode]:
        """Start a new cell; its outputs grow in `last_cell` meanwhile."""
        self._cells.append(nbformat.v4.new_code_cell(textwrap.dedent(source).strip()))
        return asyncio.create_task(self._client.async_execute_cell(self.last_cell, len(self._cells) - 1))

    @property
    def last_cell(self) -> NotebookNode:
        return self._cells[-1]

    async def see(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until `condition()` holds while a cell runs."""
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, f"not within 30 s: {what}; the cell shows {printed(self.last_cell)!r}"
            await asyncio.sleep(0.01)

    async def interrupt(self) -> None:
        """The stop button: the whole process group of the kernel is interrupted."""
        await self._client.km.interrupt_kernel()

    async def restart(self) -> None:
        await self._client.km.restart_kernel(now=True)
        await self._client.kc._async_wait_for_ready(timeout=60)

    async def kill(self) -> None:
        """End the whole process group of the kernel by SIGKILL."""
        await self._client.km.shutdown_kernel(now=True)


@asynccontextmanager
async def open_notebook(folder: Path) -> AsyncIterator[Notebook]:
    """A kernel in `folder` that has run the first cell."""
    client = make_client(nbformat.v4.new_notebook(), folder)
    async with client.async_setup_kernel():
        notebook = Notebook(client)
        await notebook.run(SET_UP)
        yield notebook


def printed(cell: NotebookNode, stream: str = "stdout") -> str:
    return "".join(output.text for output in cell.outputs if output.get("name") == stream)


def shown(cell: NotebookNode, kind: str) -> str:
    """Return what the cell shows, such as the value of its last line, in one of its forms ("text/html")."""
    (result,) = [output for output in cell.outputs if output.output_type in ("execute_result", "display_data")]
    return str(result.data[kind])
