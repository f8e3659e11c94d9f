"""Runs that this process itself is: `experiment.start_logging()` and their end."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from runyard.core.errors import NotYetSupported
from runyard.core.names import check_run_id, make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from runyard.runtime.current import get_writer
from runyard.sdk.attached import this_process
from runyard.sdk.edge import azure_error
from runyard.sdk.exceptions import AzureMLException
from runyard.sdk.notices import warn
from runyard.sdk.pace import Pace
from runyard.sdk.run import Run
from runyard.sdk.run_control import RunControl
from runyard.sdk.source import store_source
from runyard.sdk.who import user_name

if TYPE_CHECKING:
    from runyard.sdk.experiment import Experiment

END_S = 60.0


def start_logging(
    experiment: Experiment,
    *,
    run_id: Optional[str],
    outputs: Any,
    snapshot_directory: Optional[str],
    display_name: str,
    description: str,
) -> Run:
    """Create a run that is Running at once; a watcher closes it should this process die."""
    chosen = check_run_id(run_id) if run_id else make_uuid()
    folder = None if outputs is False else (outputs if isinstance(outputs, str) else "outputs")
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    source = store_source(experiment._client, snapshot_directory) if snapshot_directory is not None else None
    new = NewRun(
        key=make_uuid(),
        id=chosen,
        workspace=experiment.workspace.name,
        experiment=experiment.name,
        spec=RunSpec(output_folders=[]),
        type=None,
        display_name=display_name,
        description=description,
        snapshot_id=source.snapshot_id if source else None,
        snapshot_root=source.root if source else None,
        properties=source.properties if source else {},
        submitted_by=user_name(),
    )
    created = experiment._client.runs.create(new, launch=False, interactive=this_process())
    if created.folder is None:
        raise NotYetSupported(
            "The server gave the run no journal folder.", hint="Upgrade the server: runyard server stop."
        )
    run = InteractiveRun._known(experiment, created.run)
    run._interactive = True
    run._outputs = os.path.abspath(folder) if folder is not None else None
    run._writer = get_writer(created.folder, chosen, attempt=created.run.attempt, translate=azure_error)
    run.log = run._writer.log  # type: ignore[method-assign]  # as in context.py
    return run


class InteractiveRun(Run):
    _outputs: Optional[str] = None


def end_run(run: RunControl, status: str, error: Optional[Dict[str, Any]] = None) -> None:
    """Upload the outputs folder, record the end and wait until the server has everything."""
    assert isinstance(run, InteractiveRun) and run._writer is not None
    _upload_outputs(run)
    run._writer.end(status, error)
    run._writer.flush(END_S)
    _become_plain_handle(run)
    _wait_for_end(run)


def _upload_outputs(run: InteractiveRun) -> None:
    """Keep what lies in the outputs folder; what cannot be uploaded must not keep the run from ending."""
    if run._outputs is None or not os.path.isdir(run._outputs):
        return
    try:
        run.upload_folder(os.path.basename(run._outputs), run._outputs)
    except (AzureMLException, OSError) as error:
        warn(f"Not all of {run._outputs} could be stored with run {run.id}: {error}")


def _wait_for_end(run: Run) -> None:
    """The watcher reports the end when the server has everything; a server that is away gets it later."""
    pace, deadline = Pace(), time.monotonic() + END_S
    while not run._refresh().status.is_terminal and time.monotonic() < deadline:
        time.sleep(pace.next())


def _become_plain_handle(run: Run) -> None:
    """Let go of the journal, for which the watcher waits; what is logged from now on is logged on a finished run."""
    assert run._writer is not None
    run._writer.close()
    run._writer.wake()
    run._writer, run._interactive = None, False
    del run.log
