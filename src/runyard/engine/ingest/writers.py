"""A process that logs on a run which it is not, often after the run's end: it gets a journal folder and a watcher."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runyard.core.attempts import writer_attempt
from runyard.core.config.paths import run_folder
from runyard.core.specs import RunSpec
from runyard.engine.context import Yard
from runyard.engine.runs.dispatch import job_of
from runyard.engine.runs.submit import Watched
from runyard.engine.state.spool import Spooled
from runyard.engine.state.tokens import hash_token, mint_run_token


@dataclass(frozen=True)
class Writer:
    token: str
    folder: str
    attempt: int


def add_writer(yard: Yard, run_id: str, process: Watched) -> Writer:
    """Start a watcher that ships what `process` writes about the run. The same process again gets the same folder.
    One on another machine has a watcher there, and gets the token for it.

    Its token adds metrics and files; it never moves the run's status, because its attempt is never the present one.
    """
    run = yard.store.get_run(run_id)
    attempt = writer_attempt(process.pid, process.start_ticks, process.host)
    token = mint_run_token()
    yard.store.add_token(hash_token(token), run_id=run.id, attempt=attempt)
    if process.host:
        return Writer(token, "", attempt)
    here = replace(run, attempt=attempt, snapshot_root=None, spec=RunSpec())
    job = job_of(yard, here, token, Spooled(interactive_pid=process.pid, interactive_start_ticks=process.start_ticks))
    backend = yard.backend(job.workspace, job.spec.target)
    backend.submit(backend.plan(job))
    return Writer(token, str(run_folder(yard.settings.home, run.id, attempt)), attempt)
