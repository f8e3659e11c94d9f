"""What `experiment.submit(config)` would do. Nothing is copied, stored or started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from runyard.core.names import check_experiment_name, make_run_id, make_uuid
from runyard.core.records import NewRun
from runyard.sdk.submission import plan_submission, submitter_variables
from runyard.sdk.tags import tag_texts

if TYPE_CHECKING:
    from runyard.sdk.workspace import Workspace


def plan_run(
    workspace: Workspace, experiment: str, config: Any, *, tags: Optional[Mapping[str, Any]] = None
) -> Dict[str, Any]:
    """Return the server's plan as plain values (`engine.plan.RunPlan`), with `source_directory` and `experiment`.

    Raises:
        SubmitRejected, InvalidArgument: what `submit` would raise.
    """
    check_experiment_name(experiment)
    plan = plan_submission(config)
    new = NewRun(
        key=make_uuid(),
        id=make_run_id(experiment),
        workspace=workspace.name,
        experiment=experiment,
        spec=plan.spec,
        tags=tag_texts(tags) if tags else {},
    )
    submitter = submitter_variables() if plan.spec.target == "local" else None
    answer = workspace._client.runs.plan(new, submitter=submitter)
    return {"experiment": experiment, "source_directory": plan.source_directory, "tags": new.tags, **answer}
