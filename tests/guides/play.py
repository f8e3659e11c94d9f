"""Runs the steps of a page as somebody who pastes them: `python play.py steps.json`. Prints a line before each step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, Dict

MARK = "\x1e"


def main() -> int:
    with open(sys.argv[1]) as file:
        steps = json.load(file)
    namespace: Dict[str, Any] = {"__name__": "__main__"}
    for number, step in enumerate(steps):
        print(f"{MARK}{number}", flush=True)
        try:
            play(step, namespace)
        except BaseException:
            traceback.print_exc()
            if not step["fails"]:
                return number + 1
        else:
            if step["fails"]:
                print("This was to fail and did not.")
                return number + 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
    print(MARK, flush=True)
    return 0


def play(step: Dict[str, Any], namespace: Dict[str, Any]) -> None:
    if step["kind"] == "file":
        path = Path(step["name"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step["text"])
    elif step["kind"] == "python":
        exec(compile(step["text"], f"line {step['line']} of the page", "exec"), namespace)
    else:
        play_shell(step["text"])


def play_shell(text: str) -> None:
    """Run the commands in bash; its folder and its exported variables stay for the next block."""
    state = os.environ["PAGE_STATE"]
    script = f"trap 'pwd >{state}.cwd; env -0 >{state}.env' EXIT\n{text}"
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], check=True, stdin=subprocess.DEVNULL)
    os.chdir(Path(f"{state}.cwd").read_text().rstrip("\n"))
    for item in Path(f"{state}.env").read_bytes().split(b"\0"):
        name, _, value = os.fsdecode(item).partition("=")
        if name and name not in ("_", "SHLVL"):
            os.environ[name] = value


if __name__ == "__main__":
    sys.exit(main())
