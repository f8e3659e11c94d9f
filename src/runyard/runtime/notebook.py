"""The program that executes a notebook as a run's script: `python -m runyard.runtime.notebook NOTEBOOK [PARAMETERS]`.

With the environment's nbclient and ipykernel the cells run in a kernel, as in Jupyter. Without them they run in this
process: plain Python, `!command` and the magics that set up displays. What cells print goes to the log while they run.
The notebook with its outputs is written to `outputs/` after each cell. A cell that fails ends the run with its number.

Parameters (`--alpha 0.5`, `alpha=0.5`) are put into a cell behind the one that is tagged `parameters`, else before the
first one.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

KERNEL_PACKAGES = ("nbclient", "ipykernel")
OUTPUTS = "outputs"
# Variables that a NotebookRunConfig sets: the output's path, seconds for a cell, and the folder that cells run in.
OUTPUT, TIMEOUT, FOLDER = "RUNYARD_NOTEBOOK_OUTPUT", "RUNYARD_NOTEBOOK_TIMEOUT", "RUNYARD_NOTEBOOK_FOLDER"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_DISPLAY_MAGICS = ("matplotlib", "config", "load_ext", "autoreload", "reload_ext", "pylab")
_SHELL = "shell=True, stdout=-1, stderr=-2, encoding='utf-8', errors='replace', check=False"  # -1, -2: PIPE, STDOUT
_INJECTED = "injected-parameters"
_NAMED = re.compile(r"--?([A-Za-z_][\w-]*)(?:=(.*))?", re.DOTALL)
_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class CellFailed(Exception):
    """A cell raised; the message names the cell and the exception."""

    __module__ = "builtins"  # this module is `__main__`, which says nothing in a message


class NotebookUnreadable(Exception):
    """The file is no notebook."""


class Failure(NamedTuple):
    """How a cell failed: the exception's class, its text, and the traceback's lines."""

    name: str
    text: str
    traceback: List[str]


NotebookJson = Dict[str, Any]
Save = Callable[[], None]


def main(words: Sequence[str]) -> None:
    path, arguments = words[0], list(words[1:])
    target = os.path.abspath(output_path(path, os.environ))  # cells may change the folder
    notebook = read_notebook(path)
    parameters = read_parameters(arguments)
    if parameters:
        insert_parameters(notebook, parameters)

    def save() -> None:
        write_notebook(notebook, target)

    save()
    kernel = _kernel_packages()
    if kernel is None:
        print(f"{path} runs without a kernel: {' and '.join(KERNEL_PACKAGES)} are not in this Python.", file=sys.stderr)
        failure = execute_here(notebook, save)
    else:
        failure = execute_in_kernel(notebook, save, *kernel)
    save()
    if failure is not None:
        number, why = failure
        print("\n".join(_ANSI.sub("", line) for line in why.traceback), file=sys.stderr)
        sys.tracebacklimit = 0  # the cell's own was printed
        raise CellFailed(f"Cell {number} of {path} raised {why.name}: {why.text}") from None
    print(f"The notebook with its outputs is {os.path.relpath(target)}.", file=sys.stderr)


def output_path(path: str, environ: Mapping[str, str]) -> str:
    """Return where the notebook with its outputs goes; each rank but the first has one of its own."""
    given = environ.get(OUTPUT) or os.path.join(OUTPUTS, os.path.basename(path))
    rank = environ.get("RUNYARD_RANK", "0")
    stem, ending = os.path.splitext(given)
    return given if rank == "0" else f"{stem}_rank{rank}{ending}"


def read_notebook(path: str) -> NotebookJson:
    """Return the notebook, of format 4.

    Raises:
        NotebookUnreadable: it is none.
    """
    try:
        with open(path, encoding="utf-8") as file:
            notebook = json.load(file)
    except (OSError, ValueError) as error:
        raise NotebookUnreadable(f"{path} cannot be read as a notebook: {error}.") from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        old = isinstance(notebook, dict) and "worksheets" in notebook
        hint = " It is of an old format: `jupyter nbconvert --to notebook` renews it." if old else ""
        raise NotebookUnreadable(f"{path} is no notebook: it has no list of cells.{hint}")
    return notebook


def write_notebook(notebook: NotebookJson, path: str) -> None:
    """Write beside and rename: a run that is killed keeps the outputs of the cells before."""
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    beside = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.new")
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(notebook, file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(beside, path)


def read_parameters(arguments: Sequence[str]) -> NotebookJson:
    """Return the parameters that arguments name: `--alpha 0.5`, `--flag`, `alpha=0.5`; values as Python reads them.

    Raises:
        SystemExit: an argument has no name.
    """
    found: NotebookJson = {}
    left = list(arguments)
    while left:
        word = left.pop(0)
        pair, named = _PAIR.fullmatch(word), _NAMED.fullmatch(word)
        if pair is not None:
            found[pair.group(1)] = _literal(pair.group(2))
        elif named is not None:
            name, value = named.group(1).replace("-", "_"), named.group(2)
            has_value = value is not None or (bool(left) and not _is_name(left[0]))
            found[name] = _literal(value if value is not None else left.pop(0)) if has_value else True
        else:
            raise SystemExit(f"error: The notebook's argument {word!r} has no name. Write --name value, or name=value.")
    return found


def insert_parameters(notebook: NotebookJson, parameters: NotebookJson) -> None:
    """Put a cell that sets them behind the cell tagged `parameters`, else before all."""
    lines = [f"{name} = {value!r}\n" for name, value in parameters.items()]
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": [_INJECTED]},
        "outputs": [],
        "source": ["# Parameters\n", *lines],
    }
    if int(notebook.get("nbformat_minor", 0)) >= 5:
        cell["id"] = _INJECTED
    tagged = [at for at, one in enumerate(notebook["cells"]) if "parameters" in _tags(one)]
    notebook["cells"].insert(tagged[-1] + 1 if tagged else 0, cell)


def execute_in_kernel(
    notebook: NotebookJson, save: Save, nbclient: Any, nbformat: Any
) -> Optional[Tuple[int, Failure]]:
    """Execute in a kernel of this Python; return the cell that failed, counted from 1, and how."""
    node = nbformat.reads(json.dumps(notebook), as_version=4)

    class PrintingNotebookClient(nbclient.NotebookClient):  # type: ignore[misc]
        """A client with our kernel that also prints what cells print, while they do."""

        def create_kernel_manager(self) -> Any:
            self.km = _kernel_manager(folder)
            return self.km

        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] == "stream":
                stream = sys.stderr if msg["content"].get("name") == "stderr" else sys.stdout
                stream.write(msg["content"].get("text", ""))
                stream.flush()
            elif msg["msg_type"] in ("execute_result", "display_data"):
                text = msg["content"].get("data", {}).get("text/plain")
                print(text if isinstance(text, str) else "", flush=True)
            return super().process_message(msg, cell, cell_index)

    def keep(**_: Any) -> None:
        notebook.update(json.loads(nbformat.writes(node)))
        save()

    with tempfile.TemporaryDirectory(prefix="rk-") as folder:  # short: a socket's path has 107 characters
        where = {"metadata": {"path": os.environ.get(FOLDER) or os.getcwd()}}
        limit_s = int(os.environ[TIMEOUT]) if os.environ.get(TIMEOUT) else None
        client = PrintingNotebookClient(node, timeout=limit_s, resources=where, on_cell_executed=keep)
        try:
            client.execute()
        except nbclient.exceptions.CellExecutionError as error:
            keep()
            return _failed_cell(node, error)
        except nbclient.exceptions.CellTimeoutError:
            keep()
            return _late_cell(node, limit_s)
    keep()
    return None


def _kernel_manager(folder: str) -> Any:
    """Return the manager of a kernel that runs this very Python, whatever kernels are registered on the machine.

    They talk over sockets in `folder`, which nobody else may enter.
    """
    from jupyter_client.manager import AsyncKernelManager  # the environment's

    spec = os.path.join(folder, "kernels", "runyard")
    os.makedirs(spec)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    with open(os.path.join(spec, "kernel.json"), "w", encoding="utf-8") as file:
        json.dump({"argv": argv, "display_name": "Python", "language": "python"}, file)
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH", "")]))
    return AsyncKernelManager(
        kernel_name="runyard", transport="ipc", ip=os.path.join(folder, "k"), connection_file=os.path.join(folder, "c")
    )


def _failed_cell(node: Any, error: Any) -> Tuple[int, Failure]:
    for number, cell in _numbered(node["cells"]):
        for output in cell.get("outputs", []):
            if output.get("output_type") == "error":
                found = Failure(str(output["ename"]), str(output["evalue"]), list(output["traceback"]))
                return number, found
    return 0, Failure(type(error).__name__, str(error), [])


def _late_cell(node: Any, limit_s: Optional[int]) -> Tuple[int, Failure]:
    """Return the cell that ran too long: the last one that began."""
    begun = [number for number, cell in _numbered(node["cells"]) if cell.get("execution_count") is not None]
    return (begun or [0])[-1], Failure("TimeoutError", f"it took longer than {limit_s} s", [])


def execute_here(notebook: NotebookJson, save: Save) -> Optional[Tuple[int, Failure]]:
    """Execute in this process; return the cell that failed, counted from 1, and how."""
    from types import ModuleType  # only a notebook without a kernel needs it

    if os.environ.get(TIMEOUT):
        print(f"Without {KERNEL_PACKAGES[0]} no cell has a time limit.", file=sys.stderr)
    module = sys.modules["__main__"] = ModuleType("__main__")  # what cells define is found there, for pickle too
    space = vars(module)
    sys.path.insert(0, os.getcwd())
    if os.environ.get(FOLDER):
        os.chdir(os.environ[FOLDER])
    count = 0
    for number, cell in _numbered(notebook["cells"]):
        source = "".join(cell.get("source", ""))
        if cell.get("cell_type") != "code" or not source.strip():
            continue
        count += 1
        cell["execution_count"], cell["outputs"] = count, []
        failure = _execute_cell(source, number, space, cell["outputs"])
        save()
        if failure is not None:
            return number, failure
    return None


def _execute_cell(source: str, number: int, space: NotebookJson, outputs: List[Any]) -> Optional[Failure]:
    import ast
    import linecache
    import traceback

    name = f"<cell {number}>"
    kept = {stream: _Tee(getattr(sys, stream), stream, outputs) for stream in ("stdout", "stderr")}
    before = {stream: getattr(sys, stream) for stream in kept}
    try:
        for stream, tee in kept.items():
            setattr(sys, stream, tee)
        text = without_magics(source)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        tree = ast.parse(text, name)
        last = tree.body[-1] if tree.body else None
        is_shown = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
        tree.body = tree.body[:-1] if is_shown else tree.body
        exec(compile(tree, name, "exec"), space)
        if isinstance(last, ast.Expr) and is_shown:
            value = eval(compile(ast.Expression(last.value), name, "eval"), space)
            if value is not None:
                data = {"text/plain": repr(value)}
                outputs.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None})
                print(repr(value), file=before["stdout"], flush=True)
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            return Failure("SystemExit", str(leaving.code), [])
    except BaseException as error:
        shown = error.__traceback__.tb_next if error.__traceback__ is not None else None
        lines = traceback.format_exception(type(error), error, shown or error.__traceback__)
        found = Failure(type(error).__name__, str(error), [line.rstrip("\n") for line in lines])
        outputs.append(
            {"output_type": "error", "ename": found.name, "evalue": found.text, "traceback": found.traceback}
        )
        return found
    finally:
        for stream, value in before.items():
            setattr(sys, stream, value)
    return None


def without_magics(source: str) -> str:
    """Return the cell as Python: `!command` becomes a call, magics that set up displays go.

    Raises:
        SyntaxError: a magic that only IPython knows.
    """
    lines = []
    for line in source.split("\n"):
        text = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if text.startswith("!"):
            lines.append(f"{indent}print(__import__('subprocess').run({text[1:]!r}, {_SHELL}).stdout, end='')")
        elif re.match(r"%%?[A-Za-z]", text):
            if text.lstrip("%").split()[0] not in _DISPLAY_MAGICS:
                raise SyntaxError(f"`{text.split()[0]}` needs IPython: add nbclient and ipykernel to the environment.")
            lines.append(f"{indent}pass  # {text}")
        else:
            lines.append(line)
    return "\n".join(lines)


class _Tee:
    """A stream that also keeps what is written for the cell's outputs."""

    def __init__(self, stream: Any, name: str, outputs: List[Any]) -> None:
        self._stream, self._name, self._outputs = stream, name, outputs

    def write(self, text: str) -> int:
        last = self._outputs[-1] if self._outputs else {}
        if last.get("output_type") == "stream" and last.get("name") == self._name:
            last["text"] += text
        elif text:
            self._outputs.append({"output_type": "stream", "name": self._name, "text": text})
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _kernel_packages() -> Optional[Tuple[Any, Any]]:
    try:
        import ipykernel  # noqa: F401  # the environment's own
        import nbclient
        import nbformat
    except ImportError:
        return None
    return nbclient, nbformat


def _tags(cell: NotebookJson) -> List[str]:
    return list(cell.get("metadata", {}).get("tags", []))


def _numbered(cells: Sequence[Any]) -> Iterator[Tuple[int, Any]]:
    """Yield the cells with their numbers in the user's own notebook, from 1; that of the parameters has none: 0."""
    number = 0
    for cell in cells:
        is_ours = _INJECTED in _tags(cell)
        number += not is_ours
        yield 0 if is_ours else number, cell


def _is_name(word: str) -> bool:
    return bool(_NAMED.fullmatch(word)) and not re.fullmatch(r"-[0-9.].*", word)


def _literal(text: str) -> Any:
    import ast

    named = {"true": True, "false": False, "null": None}
    if text.lower() in named:
        return named[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    main(sys.argv[1:])
