"""The dry run of `experiment.submit(config)`: plan everything, and copy, store or start nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

from runyard.core.config.settings import read_settings
from runyard.core.formats.plain import to_plain
from runyard.core.names import check_experiment_name, make_run_id, make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from runyard.sdk.config.texts import tag_texts
from runyard.sdk.submit.submission import check_datastores, plan_submission, submitter_variables
from runyard.snapshots.take import survey

if TYPE_CHECKING:
    from runyard.core.formats.documents import SubmitPlan
    from runyard.sdk.workspaces.workspace import Workspace


def plan_run(
    workspace: Optional[Workspace], experiment: str, config: Any, *, tags: Optional[Mapping[str, Any]] = None
) -> SubmitPlan:
    """Return the server's plan, with what the sdk knows of it; without a workspace, what is known without a server.

    Raises:
        SubmitRejected, InvalidArgument: what `submit` would raise.
    """
    check_experiment_name(experiment)
    plan = plan_submission(config)
    texts = tag_texts(tags) if tags else {}
    found: SubmitPlan = {
        "experiment": experiment,
        "source_directory": plan.source_directory,
        "snapshot": to_plain(survey(plan.source_directory, home=read_settings().home)),
        "tags": texts,
    }
    if workspace is None:
        return {**found, **_offline(plan.spec)}
    check_datastores(workspace, plan.spec)
    new = NewRun(
        key=make_uuid(),
        id=make_run_id(experiment),
        workspace=workspace.name,
        experiment=experiment,
        spec=plan.spec,
        tags=texts,
    )
    answer = workspace._client.runs.plan(new, submitter=submitter_variables(workspace._client, plan.spec))
    return {**found, **answer}


def _offline(spec: RunSpec) -> SubmitPlan:
    """Return what a plan may show before secrets are hidden in it: no arguments, no variables."""
    environment = {"name": spec.environment.name}
    return {
        "target": spec.target,
        "node_count": spec.distribution.node_count,
        "spec": {"script": spec.script, "time_limit_s": spec.time_limit_s, "environment": environment},
    }
