"""What `import azureml.core` costs a fresh process in CPU time over a bare start, and what it loads."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from figures import report

ROUNDS = 20
SOURCE = str(Path(__file__).parent.parent / "src")
FOREIGN = """
import sys, azureml.core
loaded = {name.partition(".")[0] for name in sys.modules}
print(*sorted(loaded - set(sys.stdlib_module_names) - {"runyard", "azureml", "__main__", "sitecustomize"}))
"""


def main() -> None:
    cpu_ms("import azureml.core")  # writes the bytecode
    # In turns, and the least of each: other work on the machine only ever adds.
    pairs = [(cpu_ms("pass"), cpu_ms("import azureml.core")) for _ in range(ROUNDS)]
    bare, loaded = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    foreign = run(FOREIGN).split()
    print("not of the standard library:", *foreign or ["nothing"])
    report("import.cpu", loaded - bare, "ms", target="<= 60", reference=f"bare python {bare:.1f} ms")
    report("import.foreign", len(foreign), "packages", target="== 0")


def cpu_ms(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e3


def run(code: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Without `site`: what other packages hook into every start is not ours to count.
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(
        command, env={**environ, "PYTHONPATH": SOURCE}, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()
