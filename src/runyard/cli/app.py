"""The root command, and the one place where exceptions become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from runyard import __version__
from runyard.cli.exit_codes import COMPLETED, FAILED, INTERRUPTED, USAGE
from runyard.cli.failures import print_error, print_message
from runyard.cli.lazy import LazyGroup

COMMANDS = {
    "submit": ("runyard.cli.commands.submit:submit", "Run a script and stream its output."),
    "runs": ("runyard.cli.commands.runs:runs", "List, show, follow, tag and cancel runs; read what they left."),
    "sweeps": (
        "runyard.cli.commands.sweeps:sweeps",
        "List sweeps; show their children, the best first, and why some stopped.",
    ),
    "studio": ("runyard.cli.commands.studio:studio", "Open the web page of the server, or of a run, signed in."),
    "experiments": (
        "runyard.cli.commands.experiments:experiments",
        "List, archive, reactivate and delete experiments.",
    ),
    "compute": (
        "runyard.cli.commands.compute:compute",
        "Make, change and look at compute targets: nodes, runs, queues.",
    ),
    "snapshots": ("runyard.cli.commands.snapshots:snapshots", "Show and compare the source folders of runs."),
    "environments": ("runyard.cli.commands.environments:environments", "List, show, build and prune environments."),
    "models": ("runyard.cli.commands.assets:models", "List, show, download and delete models of the workspace."),
    "datasets": ("runyard.cli.commands.datasets:datasets", "List and show datasets of the workspace."),
    "workspaces": ("runyard.cli.commands.workspaces:workspaces", "List and delete workspaces."),
    "server": ("runyard.cli.commands.server:server", "Start, stop and look at your private server."),
    "users": ("runyard.cli.commands.users_part:users", "Add, list and remove users of a team's server."),
    "tensorboard": ("runyard.cli.commands.tensorboard:tensorboard", "Show runs in TensorBoard, live ones followed."),
    "secrets": ("runyard.cli.commands.secrets:secrets", "Set, list and delete secrets of the workspace."),
    "login": ("runyard.cli.commands.users:login", "Use a team's server from now on."),
    "logout": ("runyard.cli.commands.users:logout", "Forget a team's server and the token for it."),
    "doctor": ("runyard.cli.commands.doctor:doctor", "Say what is installed and running, and what is wrong."),
    "completion": ("runyard.cli.commands.completion:completion", "Print the completion script of a shell."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="runyard", message="%(prog)s %(version)s")
def root() -> None:
    """Submit training runs and look at them.

    \b
      runyard submit train.py -- --alpha 0.5
      runyard runs list
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of one command line."""
    _make_streams_safe()
    try:
        # click hands back what ctx.exit was given, and a command's own answer otherwise.
        answer = root.main(args=arguments, prog_name="runyard", standalone_mode=False)
        sys.stdout.flush()
        return answer if isinstance(answer, int) else COMPLETED
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "runyard"
        print_message(error.format_message(), hint=f"`{path} --help` shows how it is used.")
        return USAGE
    except click.ClickException as error:
        print_message(error.format_message())
        return FAILED
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # `runyard runs list | head`: whoever read has enough. Python would complain at exit about the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        print_error(error)
        return FAILED


def _make_streams_safe() -> None:
    """Neither a closed stdout nor a terminal that cannot show a name may end a command."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for the rest of this process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
