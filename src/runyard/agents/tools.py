"""The tools and resources of an agent: their names, what they take, and the functions that answer."""

from __future__ import annotations

import difflib
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple
from urllib.parse import quote, unquote

from runyard.agents import answers
from runyard.core.errors import NotFound

Arguments = Mapping[str, Any]
Document = Dict[str, object]
_KINDS: Mapping[str, Tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
RUN = "The run: its id or the beginning of it, `experiment#12`, `last`, or its name."


class UnusableArguments(Exception):
    """Raised for arguments that a tool cannot use; the agent reads what is wrong and asks again."""


class ToolCall:
    """One request under way."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params
        self.stop = threading.Event()  # the agent does not want the answer any more, or has left
        self.is_cancelled = False


@dataclass(frozen=True)
class ToolField:
    """An argument of a tool."""

    kind: str  # as JSON Schema calls it
    about: str
    required: bool = False
    of: str = ""  # of an array: the kind of its items
    least: int | None = None
    most: int | None = None

    def schema(self) -> Document:
        found: Document = {"type": self.kind, "description": self.about}
        if self.of:
            found["items"] = {"type": self.of}
        names = ("minItems", "maxItems") if self.kind == "array" else ("minimum", "maximum")
        found.update({name: value for name, value in zip(names, (self.least, self.most)) if value is not None})
        return found


@dataclass(frozen=True)
class Tool:
    name: str
    title: str
    about: str
    work: Callable[..., Document]
    fields: Mapping[str, ToolField] = field(default_factory=dict)
    is_reading: bool = True
    is_destructive: bool = False
    waits: bool = False  # gets the call too, and stops when that is cancelled


def describe(tool: Tool) -> Document:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.about,
        "inputSchema": {
            "type": "object",
            "properties": {name: one.schema() for name, one in tool.fields.items()},
            "required": [name for name, one in tool.fields.items() if one.required],
            "additionalProperties": False,
        },
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.is_reading,
            "destructiveHint": tool.is_destructive,
            "idempotentHint": tool.is_reading or tool.is_destructive,
            "openWorldHint": False,
        },
    }


def call_tool(tool: Tool, arguments: Any, call: ToolCall) -> Document:
    """Return the answer of a tool.

    Raises:
        UnusableArguments: the arguments are not those that it takes.
        RunyardError: what was asked for cannot be done.
    """
    checked = _checked(tool, arguments)
    found = tool.work(call, **checked) if tool.waits else tool.work(**checked)
    hidden: Document = answers.without_secrets(found)
    return hidden


def _checked(tool: Tool, arguments: Any) -> Arguments:
    if not isinstance(arguments, dict):
        raise UnusableArguments(f"The arguments of `{tool.name}` are an object, found {type(arguments).__name__}.")
    given = {name: value for name, value in arguments.items() if value is not None}
    for name in given:
        if name not in tool.fields:
            near = difflib.get_close_matches(name, tool.fields, n=1)
            known = f"Did you mean `{near[0]}`?" if near else f"It takes: {', '.join(tool.fields) or 'nothing'}."
            raise UnusableArguments(f"`{tool.name}` has no argument `{name[:80]}`. {known}")
    missing = [name for name, one in tool.fields.items() if one.required and name not in given]
    if missing:
        raise UnusableArguments(f"`{tool.name}` needs `{missing[0]}`: {tool.fields[missing[0]].about}")
    for name, value in given.items():
        _check(name, tool.fields[name], value)
    return given


def _check(name: str, one: ToolField, value: Any) -> None:
    if not isinstance(value, _KINDS[one.kind]) or (isinstance(value, bool) and one.kind != "boolean"):
        raise UnusableArguments(f"`{name}` is of type {one.kind}, found {value!r:.80}.")
    size: float = 0
    if isinstance(value, list):
        size = len(value)
        if one.of and not all(isinstance(item, _KINDS[one.of]) for item in value):
            raise UnusableArguments(f"`{name}` is a list of {one.of}s, found {value!r:.80}.")
    elif isinstance(value, (int, float)):
        size = value
    if (one.least is not None and size < one.least) or (one.most is not None and size > one.most):
        raise UnusableArguments(f"`{name}` is {size}; it must be {one.least} to {one.most}.")


def tools(*, read_only: bool) -> Sequence[Tool]:
    """Return the tools that an agent gets; `read_only`: those that change nothing."""
    return [tool for tool in TOOLS if tool.is_reading or not read_only]


TOOLS = (
    Tool(
        "list_runs",
        "List runs",
        "List runs, newest first: name, status, parameters, and the first line of an error. Filter them by text.",
        answers.list_runs,
        {
            "filter": ToolField(
                "string",
                "A condition such as `metrics.loss < 0.1 and params.lr = 0.01`, or a word of names, ids and tags.",
            ),
            "experiment": ToolField("string", "Only runs of this experiment."),
            "status": ToolField("string", "Only runs of this status: Completed, Failed, Canceled, Running, Queued …"),
            "sort": ToolField(
                "string", "A field such as `metrics.loss`, smallest first; `-metrics.loss` largest first."
            ),
            "limit": ToolField("integer", "At most so many runs; 20 by default.", least=1, most=100),
            "children": ToolField("boolean", "Also runs below others, such as the trials of a sweep."),
        },
    ),
    Tool(
        "show_run",
        "Show a run",
        "Show one run: status, why it waits or failed, parameters, tags, last values of metrics, and the last lines of "
        "its log. Use it first when a run failed.",
        answers.show_run,
        {
            "run": ToolField("string", RUN, required=True),
            "log_lines": ToolField("integer", "How many of the log's last lines; 30 by default.", least=0, most=500),
        },
    ),
    Tool(
        "get_metrics",
        "Read metrics",
        "Read the course of metrics of a run: a few points of each with the step, the last, least and greatest value "
        "of the steps that a point stands for.",
        answers.get_metrics,
        {
            "run": ToolField("string", RUN, required=True),
            "names": ToolField("array", "The metrics; by default the first 20.", of="string", least=1, most=20),
            "points": ToolField("integer", "At most so many points of each; 20 by default.", least=1, most=200),
        },
    ),
    Tool(
        "compare_runs",
        "Compare runs",
        "Compare runs: the parameters that differ, and the last values of all metrics side by side.",
        answers.compare_runs,
        {
            "runs": ToolField(
                "array", "The runs, each named as for `show_run`.", required=True, of="string", least=2, most=20
            )
        },
    ),
    Tool(
        "read_log",
        "Read a log",
        "Read lines of a run's log, the last ones by default. Passwords, tokens and keys are hidden.",
        answers.read_log,
        {
            "run": ToolField("string", RUN, required=True),
            "file": ToolField("string", "Another log than the first process's: a name from `list_files`."),
            "lines": ToolField("integer", "How many lines; 100 by default.", least=1, most=1000),
            "containing": ToolField("string", "Only lines that hold this text, the last ones first found."),
        },
    ),
    Tool(
        "list_files",
        "List files of a run",
        "List the files that a run left, with sizes: `outputs/…`, logs and what was uploaded.",
        answers.list_files,
        {
            "run": ToolField("string", RUN, required=True),
            "folder": ToolField("string", "Only files below this folder, such as `outputs`."),
        },
    ),
    Tool(
        "read_file",
        "Read a file of a run",
        "Read a text file of a run, at most 64 KiB at once. Passwords, tokens and keys are hidden.",
        answers.read_file,
        {
            "run": ToolField("string", RUN, required=True),
            "file": ToolField("string", "A name from `list_files`.", required=True),
            "offset": ToolField("integer", "The byte to begin at; negative: counted from the end.", least=-(1 << 62)),
        },
    ),
    Tool(
        "wait_for_run",
        "Wait for a run",
        "Wait until a run has ended, at most `timeout_s` seconds, and show it as `show_run` does. A run that has not "
        "ended by then goes on: call again.",
        answers.wait_for_run,
        {
            "run": ToolField("string", RUN, required=True),
            "timeout_s": ToolField("number", "60 by default.", least=0, most=600),
        },
        waits=True,
    ),
    Tool(
        "submit_script",
        "Submit a script",
        "Submit a Python script, notebook, module or command as a new run and return it at once. The script's folder "
        "is stored with the run. Nothing else on this machine is changed.",
        answers.submit_script,
        {
            "script": ToolField("string", "The path of a script, notebook or program on this machine."),
            "module": ToolField("string", "Instead of a script: a module, run as `python -m` does."),
            "command": ToolField("string", "Instead of a script: a line for the shell."),
            "arguments": ToolField("array", "The script's arguments, word by word.", of="string"),
            "source": ToolField("string", "The folder to store; by default the script's."),
            "experiment": ToolField("string", "The series that the run belongs to; by default the script's name."),
            "name": ToolField("string", "A name for the run."),
            "target": ToolField("string", "Where it runs, from `list_targets`; `local` by default."),
            "environment": ToolField("string", "A requirements.txt, conda file or a registered environment's name."),
            "packages": ToolField("array", "Instead of an environment: packages to install.", of="string"),
            "gpus": ToolField("integer", "GPUs on each node.", least=0),
            "nodes": ToolField("integer", "How many machines.", least=1),
            "processes": ToolField("integer", "Processes on each node.", least=1),
            "tags": ToolField("object", "Tags: names and values."),
            "time_limit": ToolField("string", "Stop it after this long: `10m`, `2h`."),
        },
        is_reading=False,
    ),
    Tool(
        "cancel_run",
        "Cancel a run",
        "Ask a run to stop. A run that has ended stays as it is.",
        answers.cancel_run,
        {"run": ToolField("string", RUN, required=True)},
        is_reading=False,
        is_destructive=True,
    ),
    Tool("list_experiments", "List experiments", "List the experiments of the workspace.", answers.list_experiments),
    Tool(
        "list_targets",
        "List compute targets",
        "List where runs can run: name, kind, nodes, how many runs are on it and wait for it.",
        answers.list_targets,
    ),
    Tool(
        "list_models",
        "List models",
        "List registered models: the newest version of each, or all versions of one.",
        answers.list_models,
        {"name": ToolField("string", "All versions of this model.")},
    ),
    Tool("list_services", "List web services", "List the web services that serve models.", answers.list_services),
)

SCHEME = "runyard://runs/"


def templates() -> List[Document]:
    return [
        {
            "uriTemplate": f"{SCHEME}{{run}}",
            "name": "run",
            "title": "A run",
            "description": "What `show_run` answers.",
            "mimeType": "application/json",
        },
        {
            "uriTemplate": f"{SCHEME}{{run}}/log",
            "name": "log",
            "title": "The log of a run",
            "description": "The last lines of the first process's log.",
            "mimeType": "text/plain",
        },
    ]


def list_resources() -> List[Document]:
    """Return the newest runs as resources."""
    found: Any = answers.list_runs()["runs"]
    return [
        {
            "uri": f"{SCHEME}{quote(run['id'], safe='')}",
            "name": run["name"],
            "title": f"{run['name']} ({run['status']})",
            "mimeType": "application/json",
        }
        for run in found
    ]


def read_resource(uri: str) -> Document:
    """Return the content of a resource.

    Raises:
        NotFound: there is none of that address.
    """
    name, slash, what = uri[len(SCHEME) :].partition("/")
    if not uri.startswith(SCHEME) or not name or (slash and what != "log"):
        raise NotFound(f"There is no resource `{uri[:200]}`.", hint=f"Runs are `{SCHEME}RUN` and `{SCHEME}RUN/log`.")
    if what == "log":
        lines = answers.without_secrets(answers.read_log(unquote(name))["lines"])
        return {"uri": uri, "mimeType": "text/plain", "text": "\n".join(lines)}
    shown = answers.without_secrets(answers.show_run(unquote(name)))
    return {"uri": uri, "mimeType": "application/json", "text": answers.as_text(shown)}
