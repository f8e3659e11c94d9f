"""`python -m runyard.serving.worker`: one replica of a service, with the standard library alone, Python 3.8 or newer.

What is not an option comes from Azure's variables: AML_APP_ROOT, AZUREML_ENTRY_SCRIPT, AZUREML_SOURCE_DIRECTORY,
AZUREML_MODEL_DIR, WORKER_COUNT, WORKER_PRELOAD. RUNYARD_SERVING_TOKEN opens the gateway's door; scripts never see it.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import List, Mapping

from runyard.serving.worker.host import HostPlan, ReplicaHost
from runyard.serving.worker.link import GatewayAddress
from runyard.serving.worker.loading import SCORERS, ModelSource
from runyard.serving.worker.worker import Place

TOKEN = "RUNYARD_SERVING_TOKEN"


def main(arguments: List[str]) -> int:
    plan = read_plan(arguments, os.environ)
    os.environ.pop(TOKEN, None)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # TextIOWrapper: a log shows lines at once
    if sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]  # `-m` put it there; the script's folders come when it is loaded
    return ReplicaHost(plan).run()


def read_plan(arguments: List[str], variables: Mapping[str, str]) -> HostPlan:
    parser = argparse.ArgumentParser(prog="python -m runyard.serving.worker", description="One replica of a service.")
    parser.add_argument("--gateway", required=True, help="unix:PATH or tls:HOST:PORT#sha256=FINGERPRINT")
    parser.add_argument("--service", required=True)
    parser.add_argument("--revision", type=int, default=1)
    parser.add_argument("--replica", default="0", help="its name, in the gateway's state and log")
    parser.add_argument("--app-root", default=variables.get("AML_APP_ROOT") or os.getcwd())
    parser.add_argument("--entry", default=variables.get("AZUREML_ENTRY_SCRIPT", ""), help="below the app root")
    parser.add_argument("--source-directory", default=variables.get("AZUREML_SOURCE_DIRECTORY", ""))
    parser.add_argument("--no-code", default="", choices=["", *SCORERS], help="serve the model folder without a script")
    parser.add_argument("--workers", type=int, default=_number(variables.get("WORKER_COUNT"), 1))
    parser.add_argument("--threads", type=int, default=1, help="concurrent requests of one worker")
    parser.add_argument("--preload", action="store_true", default=_is_true(variables.get("WORKER_PRELOAD")))
    parser.add_argument("--batching", default="", choices=["", "auto"])
    parser.add_argument("--memory-limit-mb", type=int, default=0, help="replace a worker that uses more; 0: no limit")
    parser.add_argument("--grace-s", type=float, default=30.0, help="for requests under way when it is told to stop")
    found = parser.parse_args(arguments)
    place = Place(
        GatewayAddress.read(found.gateway),
        variables.get(TOKEN, ""),
        service=found.service,
        revision=found.revision,
        replica=found.replica,
        threads=max(1, found.threads),
    )
    source = ModelSource(
        os.path.abspath(found.app_root), found.entry, found.source_directory, found.no_code, found.batching == "auto"
    )
    return HostPlan(
        place,
        source,
        workers=max(1, found.workers),
        preload=found.preload,
        memory_limit_mb=found.memory_limit_mb,
        grace_s=found.grace_s,
    )


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.strip().isdigit() else default


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() in ("true", "1", "yes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
