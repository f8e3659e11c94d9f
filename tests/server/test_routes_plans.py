"""`POST /runs/plan`, and the filter of a list, over HTTP."""

from __future__ import annotations

import pytest

from runyard.core.errors import InvalidArgument, NotAllowed, SubmitRejected
from runyard.core.specs import EnvironmentSpec, RunSpec
from tests.server.conftest import Served
from tests.server.test_routes_runs import new_run


def test_a_plan_holds_the_request_and_the_processes_and_stores_nothing(served: Served) -> None:
    environment = EnvironmentSpec(interpreter="/usr/bin/python3")
    spec = RunSpec(script="train.py", arguments=["--n", "$N"], variables={"N": "3"}, environment=environment)

    plan = served.client.runs.plan(new_run(spec=spec), submitter={"HOME": "/home/me", "DB_PASSWORD": "hush"})

    assert (plan["run_id"], plan["target"], plan["node_count"]) == ("exp_1", "local", 1)
    process = plan["processes"][0]
    assert process["argv"] == ["/usr/bin/python3", "train.py", "--n", "3"]
    assert process["variables"]["HOME"] == "/home/me" and process["variables"]["AZUREML_RUN_ID"] == "exp_1"
    assert process["variables"]["DB_PASSWORD"] != "hush"
    assert served.backend.submitted == [] and served.client.runs.list("default").runs == []
    assert served.client.experiments.list("default") == []


def test_secrets_of_a_command_are_hidden_in_its_plan(served: Served) -> None:
    plan = served.client.runs.plan(new_run(spec=RunSpec(command="train --password hush --n 3")))

    assert "hush" not in str(plan) and plan["processes"][0]["argv"][:2] == ["/bin/sh", "-c"]
    assert plan["processes"][0]["argv"][2].endswith("--n 3")


@pytest.mark.parametrize("spec", [RunSpec(target="moon", script="a.py"), RunSpec(), RunSpec(script="../a.py")])
def test_what_cannot_be_submitted_cannot_be_planned(served: Served, spec: RunSpec) -> None:
    with pytest.raises(SubmitRejected):
        served.client.runs.plan(new_run(spec=spec))


def test_a_runs_code_cannot_ask_for_plans(served: Served) -> None:
    served.submit("exp_1")

    with pytest.raises(NotAllowed, match="plan run"):
        served.as_run("exp_1").runs.plan(new_run("exp_2"))


def test_a_filter_narrows_the_list_and_a_wrong_one_names_its_place(served: Served) -> None:
    for name, team in (("exp_1", "x"), ("exp_2", "y")):
        served.client.runs.create(new_run(name, tags={"team": team}))

    found = served.client.runs.list("default", filter='tags.team != "x" and params.alpha = 0.5')

    assert [run.id for run in found.runs] == ["exp_2"]
    with pytest.raises(InvalidArgument, match="at character 8"):
        served.client.runs.list("default", filter="tags.a ~ 1")
