"""The Model Context Protocol over stdio: one JSON-RPC message a line, as its revision of 2025-11-25 says.

A tool runs in a thread of its own, so that an agent which waits for a run is answered other things meanwhile. stdout
belongs to the protocol: what else prints there goes to stderr.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from typing import IO, Any, Dict, Iterable, Mapping, Optional, Sequence

from runyard import __version__
from runyard.agents.tools import (
    Tool,
    ToolCall,
    UnusableArguments,
    call_tool,
    describe,
    list_resources,
    read_resource,
    templates,
)
from runyard.core.errors import NotFound, RunyardError

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # the newest first
THREADS = 8
LONGEST_LINE = 4 << 20
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
NO_RESOURCE = -32002
INSTRUCTIONS = (
    "Runyard runs training scripts and keeps what they log. A run is named by its id, by `experiment#12`, by `last`, "
    "or by the name it was given. Start with `list_runs`; `show_run` explains a failure. Metrics come downsampled, and "
    "long answers say what they left out. `submit_script` returns at once: `wait_for_run` waits."
)
Message = Mapping[str, Any]


class _JsonRpcError(Exception):
    """An error answer of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class AgentSession:
    """One agent's connection. `answer` may be called by several threads."""

    def __init__(self, tools: Sequence[Tool], out: IO[str]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._out = out
        self._lock = threading.Lock()
        self._calls: Dict[Any, ToolCall] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="agent")

    def run(self, lines: Iterable[str]) -> None:
        """Answer each line until there are no more; then tell tools that wait to stop."""
        try:
            with redirect_stdout(sys.stderr):
                for line in lines:
                    if line.strip():
                        self._take(line)
        finally:
            for call in list(self._calls.values()):
                call.stop.set()
            self._pool.shutdown(wait=True)

    def _take(self, line: str) -> None:
        try:
            message = json.loads(line) if len(line) <= LONGEST_LINE else None
        except (ValueError, RecursionError):
            self._refuse(None, PARSE_ERROR, "The line is not JSON.")
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self._refuse(None, INVALID_REQUEST, "A line holds one JSON-RPC 2.0 message.")
            return
        method, key = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if "result" not in message and "error" not in message:
                self._refuse(key, INVALID_REQUEST, "The message has no method.")
        elif "id" not in message:
            self._hear(method, _params(message))
        elif not isinstance(key, (str, int)) or isinstance(key, bool):
            self._refuse(None, INVALID_REQUEST, "The id of a request is text or a whole number.")
        elif method == "tools/call" or method.startswith("resources/"):
            call = self._calls[key] = ToolCall(_params(message))
            self._pool.submit(self._answer, key, method, call)
        else:
            self._answer(key, method, ToolCall(_params(message)))

    def _hear(self, method: str, params: Message) -> None:
        call = self._calls.get(params.get("requestId")) if method == "notifications/cancelled" else None
        if call is not None:
            call.is_cancelled = True
            call.stop.set()

    def _answer(self, key: Any, method: str, call: ToolCall) -> None:
        try:
            result = self._result(method, call)
        except _JsonRpcError as error:
            self._refuse(key, error.code, str(error))
        except Exception as error:  # an agent that waits for an answer gets one
            self._refuse(key, INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        else:
            if not call.is_cancelled:
                self._send({"jsonrpc": "2.0", "id": key, "result": result})
        finally:
            self._calls.pop(key, None)

    def _result(self, method: str, call: ToolCall) -> Message:
        params = call.params
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "runyard", "title": "Runyard", "version": __version__},
                "instructions": INSTRUCTIONS,
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [describe(tool) for tool in self._tools.values()]}
        if method == "tools/call":
            return self._call(call)
        try:
            if method == "resources/list":
                return {"resources": list_resources()}
            if method == "resources/templates/list":
                return {"resourceTemplates": templates()}
            if method == "resources/read":
                return {"contents": [read_resource(str(params.get("uri")))]}
        except NotFound as error:
            raise _JsonRpcError(NO_RESOURCE, str(error)) from error
        except RunyardError as error:
            raise _JsonRpcError(INTERNAL_ERROR, str(error)) from error
        raise _JsonRpcError(NO_METHOD, f"There is no method `{method[:80]}`.")

    def _call(self, call: ToolCall) -> Message:
        name, arguments = call.params.get("name"), call.params.get("arguments") or {}
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise _JsonRpcError(
                INVALID_PARAMS, f"There is no tool `{str(name)[:80]}`. There are: {', '.join(self._tools)}."
            )
        try:
            found = call_tool(tool, arguments, call)
        except (RunyardError, UnusableArguments, TimeoutError) as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        text = json.dumps(found, indent=1, ensure_ascii=False, default=str)
        return {"content": [{"type": "text", "text": text}], "structuredContent": json.loads(text), "isError": False}

    def _refuse(self, key: Any, code: int, message: str) -> None:
        self._send({"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": message}})

    def _send(self, message: Message) -> None:
        # A newline in a text is written as \n, so a message is one line. ASCII passes through any stream.
        line = json.dumps(message, separators=(",", ":"), allow_nan=False)
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()


def _params(message: Message) -> Message:
    params: Optional[Any] = message.get("params")
    return params if isinstance(params, dict) else {}
