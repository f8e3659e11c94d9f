"""The door for AI agents: `runyard mcp` speaks the Model Context Protocol over stdin and stdout.

`protocol` reads and writes messages, `tools` names what an agent may call, `answers` writes the answers, which are
bounded. The calls are those of the native API. Loaded by that command alone.
"""
