"""`runyard.run`: submit a script, a module, a notebook or a command, as `runyard submit` does."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Union

from runyard.core.errors import InvalidArgument
from runyard.core.names import check_experiment_name
from runyard.native.arguments import argument_words, text_of
from runyard.native.border import plain_errors, say, say_once
from runyard.native.handle import RunHandle
from runyard.native.places import current_run, find_workspace
from runyard.native.script_options import ScriptOptions, module_file, read_options
from runyard.sdk.run_config.resources import as_resources
from runyard.sdk.submit.entry import find_entry, shell_line
from runyard.sdk.submit.job import JobSettings, plan_job
from runyard.sdk.submit.submission import submit
from runyard.sdk.workspaces.experiment import Experiment

if TYPE_CHECKING:
    from runyard.sdk.environments.environment import Environment
    from runyard.sdk.run_config.resources import Resources

Path = Union[str, "os.PathLike[str]"]
Settings = Dict[str, Any]
_TIME = re.compile(r"([1-9][0-9]*)\s*([smhd]?)")
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# What other tools, Azure's SDK among them, call a setting.
_OTHER_NAMES = {
    "cluster": "target",
    "cmd": "command",
    "compute": "target",
    "compute_target": "target",
    "env": "environment",
    "env_vars": "variables",
    "environment_variables": "variables",
    "experiment_name": "experiment",
    "instance_count": "nodes",
    "max_run_duration_seconds": "time_limit",
    "n_gpus": "gpus",
    "node_count": "nodes",
    "num_gpus": "gpus",
    "num_nodes": "nodes",
    "process_count": "processes",
    "process_count_per_node": "processes",
    "run_name": "name",
    "source_directory": "source",
    "timeout": "time_limit",
}
_NO_SLIP = ("images", "mode", "model", "models", "modes", "names", "notes", "script_args", "tokens")


class _Program(NamedTuple):
    """What is run: the settings that say so, and the options of its script."""

    settings: Mapping[str, Any]
    options: ScriptOptions


@plain_errors
def run(
    script: Union[Path, Sequence[Any], None] = None,
    *,
    module: Optional[str] = None,
    command: Union[str, Sequence[Any], None] = None,
    arguments: Sequence[Any] = (),
    parameters: Optional[Mapping[str, Any]] = None,
    experiment: Optional[str] = None,
    name: Optional[str] = None,
    display_name: Optional[str] = None,
    tags: Union[Mapping[str, Any], Iterable[str], None] = None,
    target: Optional[str] = None,
    environment: Union[Path, Sequence[str], Mapping[str, Any], Environment, None] = None,
    python: Optional[Path] = None,
    image: Optional[str] = None,
    gpus: Optional[int] = None,
    nodes: Optional[int] = None,
    processes: Optional[int] = None,
    framework: Optional[str] = None,
    parameter_servers: Optional[int] = None,
    resources: Union[Mapping[str, Any], Resources, None] = None,
    variables: Optional[Mapping[str, Any]] = None,
    env_file: Union[Path, Sequence[Path]] = (),
    source: Optional[Path] = None,
    keep: Union[Path, Sequence[Path]] = (),
    time_limit: Union[int, float, str, timedelta, None] = None,
    max_attempts: Optional[int] = None,
    sweep: Optional[Mapping[str, Any]] = None,
    **script_parameters: Any,
) -> RunHandle:
    """Submit a run and return a handle on it at once.

    `runyard.run("train.py", lr=0.1)` runs `train.py --lr 0.1`. Keywords that are not listed here are arguments of the
    script: True is a flag, None is left out, a list is several values. The folder of the script is stored with the run,
    and a copy of it is the run's working folder.

    Args:
        script: a Python script, a notebook, a shell script or a program; a list is a command.
        module: run a module, as `python -m` does.
        command: a command: its words, or a line for the shell.
        arguments: further arguments, word by word, before those of keywords.
        parameters: arguments by name, for names that are settings here: `parameters={"name": "x"}` is `--name x`.
        experiment: the series that the run belongs to. By default the script's name.
        name: a name for this run; `display_name` is the same.
        tags: {key: value}, or words.
        target: the compute target; `local` by default.
        environment: packages (`["torch", "numpy"]`), a file (requirements.txt, uv.lock, conda file, Dockerfile …), the
            name of a registered environment, or an `Environment`. By default the Python that runs this.
        python: the path of a Python to use instead.
        image: run in a container of this image.
        gpus: GPUs on each node.
        nodes: how many machines.
        processes: processes on each node.
        framework: how processes find each other: `pytorch`, `mpi` or `tensorflow`, whose `workers` is a setting too.
        resources: what each node should have on a cluster: `{"cpus": 8, "memory": "32GB"}`.
        variables: environment variables.
        env_file: `.env` files with more of them.
        source: the folder to store and to run in.
        keep: files, folders or globs to store, besides `outputs` and `logs`.
        time_limit: cancel the run after this long: seconds, `"10m"`, `"2h"`, `"1d"`, or a timedelta.
        max_attempts: how often the run may be started when its machine is lost or it is preempted.
        sweep: try many values: `{"parameters": {"lr": "uniform(0.01, 0.1)"}, "metric": "loss", "goal": "minimize"}`.

    Raises:
        SubmitRejected, InvalidArgument: the run cannot work as it is described; nothing was stored.
    """
    if script is not None and not isinstance(script, (str, os.PathLike)):
        if callable(script):
            raise InvalidArgument(
                f"run() takes the path of a script, not the function `{getattr(script, '__name__', script)}`.",
                hint="Put the function's code into a file, and name the file.",
            )
        command, script = script if command is None else _two("script", "command"), None
    workers: Any = script_parameters.pop("workers", None) if framework == "tensorflow" else None
    program = _program(script, module, command, [*arguments], None if source is None else os.fspath(source))
    _check_slips(script_parameters, program.options)
    _note_clashes(locals(), program.options)
    words = argument_words(_merged(script_parameters, parameters), program.options, say)
    job = JobSettings(
        **_with_words(program.settings, words),
        python=None if python is None else os.fspath(python),
        environment=_environment(environment),
        image=image,
        target=target,
        nodes=nodes,
        processes=processes,
        framework=framework,
        workers=workers,
        parameter_servers=parameter_servers,
        gpus=gpus,
        resources={} if resources is None else as_resources(resources),
        variables=_texts(variables, "variables"),
        env_file=_paths(env_file),
        keep=_paths(keep),
        experiment=experiment,
        display_name=_one_name(name, display_name),
        tags=tag_texts_of(tags),
        max_attempts=max_attempts,
        time_limit=_seconds(time_limit),
        sweep=sweep,
    )
    plan = plan_job(job)
    for note in plan.notes:
        say_once(note)
    parent = current_run()
    if parent is not None:
        parent._flush_own()
    place = Experiment._known(find_workspace(), check_experiment_name(plan.experiment))
    parent_id = None if parent is None else parent.id
    made = submit(place, plan.config, tags=plan.tags, display_name=plan.display_name, parent_id=parent_id)
    return RunHandle(made)


def _program(
    script: Optional[Path], module: Optional[str], command: Any, arguments: List[Any], source: Optional[str]
) -> _Program:
    """Return what is run. A script that is not there, or two things at once, are found here."""
    words = [text_of("arguments", one) for one in arguments]
    line = None if command is None else _command_words(command, words)
    path = None if script is None else os.fspath(script)
    settings: Settings = {"script": path, "module": module, "command": line, "arguments": words, "source": source}
    if line is not None:
        settings["arguments"] = ()
        named = next((word for word in line if word.endswith(".py")), None)
        return _Program(settings, read_options(named and os.path.join(source or ".", named)))
    if path is not None and not os.path.exists(os.path.join(source or "", path)) and len(path.split()) > 1:
        raise InvalidArgument(
            f"There is no script `{path}`.",
            hint=f"A command is a list, run({path.split()!r}), or a line for the shell, run(command={path!r}).",
        )
    entry = find_entry(path, module=module, arguments=words, source=source)
    file = module_file(entry.source, module) if module else entry.file
    return _Program(settings, read_options(file))


def _command_words(command: Any, arguments: List[str]) -> List[str]:
    if isinstance(command, (str, os.PathLike)):
        line = os.fspath(command)
        return [f"{line} {shell_line(arguments)}"] if arguments else [line]
    if not isinstance(command, (list, tuple)) or not command:
        raise InvalidArgument(f"A command is a list of words, found {command!r:.80}.", hint='["torchrun", "train.py"]')
    return [*(text_of("command", word) for word in command), *arguments]


def _with_words(settings: Mapping[str, Any], words: List[str]) -> Settings:
    """Return the settings with the arguments that keywords gave behind the others."""
    found = dict(settings)
    if not words:
        return found
    if found["command"] is None:
        found["arguments"] = [*found["arguments"], *words]
    elif len(found["command"]) == 1:  # a line for the shell
        found["command"] = [f"{found['command'][0]} {shell_line(words)}"]
    else:
        found["command"] = [*found["command"], *words]
    return found


def _merged(keywords: Mapping[str, Any], parameters: Optional[Mapping[str, Any]]) -> Settings:
    for key in parameters or {}:
        if not isinstance(key, str) or not key:
            raise InvalidArgument(f"The name of a parameter must be text, found {key!r:.80}.")
        if key in keywords:
            raise InvalidArgument(f"`{key}` is given twice: as a keyword and in `parameters`.", hint="Give it once.")
    return {**(parameters or {}), **keywords}


def _check_slips(keywords: Mapping[str, Any], options: ScriptOptions) -> None:
    """Raises InvalidArgument: a keyword looks like a misspelt setting, and the script has no option of that name."""
    for keyword in keywords:
        if keyword in options.known or keyword in _NO_SLIP:
            continue
        meant = _OTHER_NAMES.get(keyword) or next((name for name in SETTINGS if _is_near(keyword, name)), None)
        if meant is not None:
            raise InvalidArgument(
                f"run() has no setting `{keyword}`. Did you mean `{meant}`?",
                hint=f"For an argument `--{keyword}` of the script, write parameters={{{keyword!r}: …}}.",
            )


def _is_slip(given: str, name: str) -> bool:
    """Whether a word is one slip of the fingers away from another: a letter more, less, other, or two swapped."""
    if abs(len(given) - len(name)) > 1 or min(len(given), len(name)) < 3:
        return False
    start = next((at for at, (one, other) in enumerate(zip(given, name)) if one != other), min(len(given), len(name)))
    rest, other = given[start:], name[start:]
    return (
        rest[1:] == other[1:]
        or rest[1:] == other
        or rest == other[1:]
        or (rest[2:] == other[2:] and rest[:2] == other[1::-1])
    )


def _is_near(given: str, name: str) -> bool:
    """Whether a long word is close to a setting's name; short ones come near to too much."""
    from difflib import SequenceMatcher  # most calls have no keyword that needs it

    return _is_slip(given, name) or (
        min(len(given), len(name)) > 7 and SequenceMatcher(None, given, name).ratio() >= 0.8
    )


def _note_clashes(given: Mapping[str, Any], options: ScriptOptions) -> None:
    """Say which settings the script has an option for as well."""
    for name in SETTINGS:
        if name in options.known and given.get(name) not in (None, ()):
            spelling = options.known[name].spelling
            say(f"`{name}=` is a setting of the run. The script's `{spelling}` is set by parameters={{{name!r}: …}}.")


def _two(first: str, second: str) -> Any:
    raise InvalidArgument(f"Both {first} and {second} are given.", hint="A run runs one of them.")


def _one_name(name: Optional[str], display_name: Optional[str]) -> Optional[str]:
    if name is not None and display_name is not None and name != display_name:
        raise InvalidArgument("`name` and `display_name` are the same setting, and differ.", hint="Give one of them.")
    return name if name is not None else display_name


def _environment(given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return {"pip": [str(one) for one in given]}
    return os.fspath(given) if isinstance(given, os.PathLike) else given


def _paths(given: Union[Path, Sequence[Path]]) -> List[str]:
    several = [given] if isinstance(given, (str, os.PathLike)) else given
    return [os.fspath(one) for one in several]


def _texts(given: Optional[Mapping[str, Any]], what: str) -> Dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"`{what}` is a dict of names and values, found {given!r:.80}.")
    return {str(key): text_of(str(key), value) for key, value in given.items()}


def tag_texts_of(given: Any) -> Dict[str, str]:
    if isinstance(given, str):
        return {given: ""}
    if given is None or isinstance(given, Mapping):
        return _texts(given, "tags")
    return {str(word): "" for word in given}


def _seconds(given: Any) -> Optional[int]:
    """Return a time limit in whole seconds, rounded up."""
    if given is None:
        return None
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < float("inf"):
        return -int(-given // 1)
    match = _TIME.fullmatch(str(given))
    if match is None:
        raise InvalidArgument(f"`time_limit` is {given!r:.60}.", hint='Give seconds, "10m", "2h", "1d" or a timedelta.')
    return int(match.group(1)) * _UNITS_S[match.group(2)]


SETTINGS = tuple(run.__wrapped__.__kwdefaults__)  # type: ignore[attr-defined]  # `wraps` keeps the function
