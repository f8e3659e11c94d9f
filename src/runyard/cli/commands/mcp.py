"""`runyard mcp`: a server of the Model Context Protocol for agents and editors."""

from __future__ import annotations

import sys

from runyard import cli


@cli.command(
    short_help="Serve AI agents: the Model Context Protocol on stdin and stdout.",
    plain="it speaks a protocol of its own",
)
@cli.option("--read-only", is_flag=True, help="Offer no tool that submits or cancels runs.")
def mcp(read_only: bool) -> None:
    """Serve AI agents and editors: the Model Context Protocol on stdin and stdout.

    The program that you configure starts this command itself. Its tools list, show, compare, submit and cancel runs,
    and read metrics, logs and files of the workspace. It ends when stdin ends.
    """
    from runyard.agents.protocol import AgentSession  # the rest of the commands never need it
    from runyard.agents.tools import tools

    AgentSession(tools(read_only=read_only), sys.stdout).run(sys.stdin)
