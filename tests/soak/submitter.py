"""A user's own process: submits a run for each line it reads, and says which one it is, or why there is none.

python submitter.py PROJECT TARGET
"""

from __future__ import annotations

import json
import sys

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace


def main(project: str, target: str) -> None:
    environment = Environment("of-this-machine")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = sys.executable
    for line in sys.stdin:
        try:
            config = ScriptRunConfig(
                source_directory=project,
                script="train.py",
                arguments=json.loads(line),
                compute_target=target,
                environment=environment,
            )
            answer = {"run": Experiment(Workspace.from_config(), "soak").submit(config).id}
        except Exception as error:  # an outage: the driver submits another one later
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
