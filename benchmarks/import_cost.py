"""What `import azureml.core` costs in CPU time, and that it loads the standard library alone.

    python benchmarks/import_cost.py

Every figure is the least of several processes: other work on the machine only ever adds. Bytecode is written first, as
it is for any script that runs twice. The references are a bare start and `import json, logging`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import report

SOURCE = Path(__file__).resolve().parent.parent / "src"
PROCESSES = 20
TARGET_MS = 60

CORE = "import azureml.core"
NAMES = "from azureml.core import Workspace, Experiment, ScriptRunConfig, Environment, Run"
REFERENCE = "import json, logging"
LOADED = (
    f"{NAMES}\nimport json, sys\n"
    "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))))"
)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as cache:
        bare = cpu_ms("pass", cache)
        reference = f"bare start {bare:.1f} ms, {REFERENCE!r} {cpu_ms(REFERENCE, cache):.1f} ms"
        report("import.azureml_core", cpu_ms(CORE, cache), "ms", target=f"<= {TARGET_MS}", reference=reference)
        report("import.five_names", cpu_ms(NAMES, cache), "ms", target=f"<= {TARGET_MS}", reference=reference)
        foreign = foreign_packages(cache)
    report("import.foreign_packages", len(foreign), "packages", target="== 0")
    print("not of the standard library:", ", ".join(foreign) or "nothing")
    return 0


def cpu_ms(code: str, cache: str) -> float:
    """Return the least CPU time of a whole process that runs `code`."""
    run_once(code, cache)
    return min(run_once(code, cache) for _ in range(PROCESSES)) * 1000


def run_once(code: str, cache: str) -> float:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], variables(cache))
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{code!r} ended with status {status}")
    return usage.ru_utime + usage.ru_stime


def foreign_packages(cache: str) -> list[str]:
    # -S: what site-packages itself loads at every start is not ours.
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOADED], env=variables(cache), check=True, capture_output=True, text=True
    )
    return [name for name in json.loads(done.stdout) if name not in ("__main__", "azureml", "runyard")]


def variables(cache: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPATH": str(SOURCE), "PYTHONPYCACHEPREFIX": cache}


if __name__ == "__main__":
    raise SystemExit(main())
