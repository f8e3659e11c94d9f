"""The root command of `runyard`: command groups, error messages and exit codes.

The module of a command is imported when it is called. `run` is the one place where exceptions become messages: the
failure, its reason, and the command to type next.
"""

from __future__ import annotations

import os
import sys
from typing import Optional, Sequence

from runyard import __version__, cli
from runyard.cli.exit_codes import COMPLETED, FAILED, INTERRUPTED, USAGE
from runyard.cli.text import print_message

ASKED_BY_SHELL = "_RUNYARD_COMPLETE"
COMMANDS = {
    "submit": ("runyard.cli.runs.submit:submit", "Run a script, notebook, module or command; stream its output."),
    "sweep": ("runyard.cli.runs.submit:sweep", "Run a job file with many values of its parameters."),
    "runs": ("runyard.cli.runs.runs:runs", "List, show, follow, tag and cancel runs; read what they left."),
    "logs": ("runyard.cli.runs.runs:logs", "Print a run's output, as `runyard runs logs` does."),
    "sweeps": (
        "runyard.cli.runs.sweeps:sweeps",
        "List sweeps; show their children, the best first, and why some stopped.",
    ),
    "studio": ("runyard.cli.commands.studio:studio", "Open the web page of the server, or of a run, signed in."),
    "experiments": (
        "runyard.cli.commands.experiments:experiments",
        "List, show, archive, reactivate and delete experiments.",
    ),
    "compute": (
        "runyard.cli.commands.compute:compute",
        "Make, change and look at compute targets: nodes, runs, queues.",
    ),
    "snapshots": ("runyard.cli.runs.snapshots:snapshots", "Show and compare the source folders of runs."),
    "environments": ("runyard.cli.commands.environments:environments", "List, show, build and prune environments."),
    "models": ("runyard.cli.commands.assets:models", "List, show, register, download, delete models."),
    "deploy": ("runyard.cli.commands.deploy:deploy", "Serve a model over HTTP."),
    "services": (
        "runyard.cli.commands.services:services",
        "List, call, update, roll back and delete web services.",
    ),
    "datastores": ("runyard.cli.commands.datastores:datastores", "List datastores; copy files to and from them."),
    "datasets": ("runyard.cli.commands.assets:datasets", "List and show datasets of the workspace."),
    "import": ("runyard.cli.transfer.imports:imports", "Bring the history of another tracker in."),
    "export": ("runyard.cli.transfer.exports:exports", "Write runs as another tracker has them."),
    "workspaces": ("runyard.cli.commands.experiments:workspaces", "List and delete workspaces."),
    "server": ("runyard.cli.commands.server:server", "Start, stop and look at your private server."),
    "users": ("runyard.cli.commands.users:users", "Add, list and remove users of a team's server."),
    "tensorboard": ("runyard.cli.commands.studio:tensorboard", "Show runs in TensorBoard, live ones followed."),
    "mlflow": ("runyard.cli.commands.users:mlflow", "Print what leads MLflow's clients to this workspace."),
    "mcp": ("runyard.cli.commands.mcp:mcp", "Serve AI agents: the Model Context Protocol on stdin and stdout."),
    "secrets": ("runyard.cli.commands.assets:secrets", "Set, list and delete secrets of the workspace."),
    "login": ("runyard.cli.commands.users:login", "Use a team's server from now on."),
    "logout": ("runyard.cli.commands.users:logout", "Forget a team's server and the token for it."),
    "check": ("runyard.cli.commands.check:check", "Say what of code for Azure ML works, differs or is missing."),
    "doctor": ("runyard.cli.commands.doctor:doctor", "Say what is installed and running, and what is wrong."),
    "completion": ("runyard.cli.commands.studio:completion", "Print the completion script of a shell."),
    "help": ("runyard.cli.commands.help:show_help", "Explain a command, as `COMMAND --help` does."),
    "version": ("runyard.cli.commands.help:version", "Show the version, as `--version` does."),
}


@cli.group("runyard", lazy=COMMANDS)
@cli.version_option(f"runyard {__version__}")
def root() -> None:
    """Submit training runs and look at them.

    \b
      runyard submit train.py -- --alpha 0.5
      runyard runs list
    """


def run(arguments: Optional[Sequence[str]] = None) -> int:
    """Return the exit code of one command line."""
    _make_streams_safe()
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        if ASKED_BY_SHELL in os.environ:
            from runyard.cli.parsing.completion import answer_shell  # only completion needs it

            print(answer_shell(root, os.environ), end="")
        else:
            root.run(cli.Context(root, root.name), words)
        sys.stdout.flush()
        return COMPLETED
    except cli.ExitWith as leaving:
        return leaving.code
    except cli.UsageError as error:
        path = error.ctx.command_path if error.ctx else root.name
        print_message(error.format_message(), hint=f"`{path} --help` shows how it is used.")
        if as_json:
            from runyard.cli.failures import print_json_error  # few mistakes are made by programs

            print_json_error(error)
        return USAGE
    except (KeyboardInterrupt, cli.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # `runyard runs list | head`: the reader has enough. Python would complain at exit about the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        from runyard.cli.failures import print_error  # what loads for it, few commands need

        print_error(error, as_json=as_json)
        return FAILED


def _make_streams_safe() -> None:
    """Neither a closed stdout nor a terminal that cannot show a name may end a command."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for the rest of this process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
