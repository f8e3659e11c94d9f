"""Runs over HTTP: create, read, list, change, cancel; what supervisors report."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from runyard.core.errors import Conflict, InvalidArgument, MissingContent, NotAllowed, NotFound, SubmitRejected
from runyard.core.formats.chunks import chunk_id
from runyard.core.formats.tree import FileEntry, encode_tree, tree_id
from runyard.core.records import Mark, NewRun
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from tests.engine.bench import WRITER, header, journal_frame, log_frame, name, number
from tests.server.conftest import Served


def new_run(run_id: str = "exp_1", **more: Any) -> NewRun:
    spec = RunSpec(script="train.py", arguments=["--alpha", "0.5"])
    return NewRun(**{"key": run_id, "id": run_id, "workspace": "default", "experiment": "exp", "spec": spec, **more})


def test_a_created_run_is_read_back_whole(served: Served) -> None:
    new = new_run(display_name="Eins", description="für alle", tags={"a": "1", "b": None}, properties={"p": "q"})
    made = served.client.runs.create(new, submitter={"HOME": "/root", "ODD": "\udc80bytes"})
    run = served.client.runs.get("exp_1")

    assert made.run == run and made.token is None
    assert (run.status, run.attempt, run.number, run.experiment) == (RunStatus.QUEUED, 1, 1, "exp")
    assert (run.display_name, run.tags, run.properties) == ("Eins", {"a": "1", "b": None}, {"p": "q"})
    assert run.parameters == {"alpha": "0.5"} and run.spec == new.spec
    assert served.backend.jobs_of("exp_1")[0].submitter == {"HOME": "/root", "ODD": "\udc80bytes"}


def test_a_repeated_create_is_answered_200_with_the_same_run(served: Served) -> None:
    body = {"run": {"key": "k", "id": "exp_1", "workspace": "default", "experiment": "exp", "spec": {"script": "a.py"}}}
    answers = [served.client.transport.request("POST", "/runs", json=body) for _ in range(3)]

    assert [answer.status for answer in answers] == [201, 200, 200]
    assert len(served.backend.submitted) == 1


def test_fifty_submits_at_once_are_fifty_runs_in_order(served: Served) -> None:
    numbers: list[int] = []
    faults: list[Exception] = []

    def submit(at: int) -> None:
        try:
            for _ in range(2):
                made = served.client.runs.create(new_run(f"exp_{at}"))
            numbers.append(made.run.number)
        except Exception as error:
            faults.append(error)
        finally:
            served.client.transport.close()

    threads = [threading.Thread(target=submit, args=(at,)) for at in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not faults and sorted(numbers) == list(range(1, 51))
    assert len(served.backend.submitted) == 50


def test_errors_keep_their_class_and_words(served: Served) -> None:
    with pytest.raises(SubmitRejected, match="gpu") as caught:
        served.client.runs.create(new_run(spec=RunSpec(target="gpu", script="a.py")))
    assert (
        "Known here: amlcompute, containerinstance, local" in caught.value.why
        and "compute create gpu" in caught.value.hint
    )
    with pytest.raises(NotFound):
        served.client.runs.get("nobody")
    served.submit("exp_1")
    with pytest.raises(Conflict):
        served.client.runs.create(new_run("exp_1", key="another"))


def test_a_misspelt_field_is_named(served: Served) -> None:
    body = {"run": {"key": "k", "id": "i", "workspace": "default", "experiment": "e", "tgs": {}}}
    with pytest.raises(InvalidArgument, match=r"run\.tgs"):
        served.client.transport.request("POST", "/runs", json=body)
    with pytest.raises(InvalidArgument, match=r"run\.spec\.environment\.pip"):
        body["run"] = {**body["run"], "spec": {"environment": {"pip": []}}}
        del body["run"]["tgs"]
        served.client.transport.request("POST", "/runs", json=body)


def test_a_run_that_somebody_else_launched_runs_at_once_and_gets_a_token(served: Served) -> None:
    made = served.client.runs.create(
        new_run(type=None, spec=RunSpec()), launch=False, interactive={"pid": 5, "start_ticks": 6}
    )

    assert made.run.status is RunStatus.RUNNING and made.token is not None and made.token.startswith("ryr_")
    assert made.folder is not None and made.folder.endswith("/runs/exp_1/1")
    assert served.backend.jobs_of("exp_1")[0].interactive_pid == 5


def test_the_list_is_filtered_ordered_and_paged(served: Served) -> None:
    for at in range(5):
        served.submit(f"exp_{at}", tags={"even": str(at % 2 == 0)})
        served.as_run(f"exp_{at}").runs.ship(
            f"exp_{at}", [journal_frame(header() + name(1, "loss") + number(1, float(at * (-1) ** at)))]
        )
    served.submit("other_1", experiment="other")
    found = served.client.runs

    assert [run.id for run in found.list("default", experiment="exp").runs] == [f"exp_{at}" for at in (4, 3, 2, 1, 0)]
    assert [run.id for run in found.list("default", tag=["even=True"], descending="false").runs] == [
        "exp_0", "exp_2", "exp_4",
    ]  # fmt: skip
    assert [run.id for run in found.list("default", metric=["loss<0"], order="metrics.loss").runs] == ["exp_1", "exp_3"]
    assert {run.id for run in found.list("default", parameter=["alpha=0.5"]).runs} == {
        "other_1", *(f"exp_{at}" for at in range(5)),
    }  # fmt: skip
    assert [run.id for run in found.iter("default", limit=2, experiment="exp")] == [
        f"exp_{at}" for at in (4, 3, 2, 1, 0)
    ]
    assert found.list("default", status=["Running"]).runs == []


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"order": "id; DROP TABLE runs"}, "There is no field"),
        ({"metric": ["loss"]}, "loss<0.1"),
        ({"metric": ["loss<nan"]}, "loss<0.1"),
        ({"status": ["Dead"]}, "Known"),
        ({"experiment": "a\nb"}, "experiment name"),
        ({"colour": "red"}, "colour"),
        ({"descending": "maybe"}, "true or false"),
        ({"tag": ["a\0b"]}, "NUL"),
    ],
)
def test_a_query_that_cannot_be_read_says_why(shared: Served, query: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgument, match=word):
        shared.client.runs.list("default", **query)


def test_a_run_is_changed_and_a_property_is_not_changed_twice(served: Served) -> None:
    served.submit()
    run = served.client.runs.update(
        "exp_1", tags_set={"a": "1", "b": None}, properties_add={"p": "1"}, display_name="x", description="y"
    )
    assert (run.tags, run.properties, run.display_name, run.description) == (
        {"a": "1", "b": None},
        {"p": "1"},
        "x",
        "y",
    )

    assert served.client.runs.update("exp_1", tags_remove=["a"]).tags == {"b": None}
    with pytest.raises(Conflict, match="property"):
        served.client.runs.update("exp_1", properties_add={"p": "2"})


def test_a_life_over_http(served: Served) -> None:
    served.submit()
    own = served.as_run("exp_1").runs
    data = header() + name(1, "loss") + number(1, 0.5)
    for status in (RunStatus.PREPARING, RunStatus.RUNNING):
        assert own.state("exp_1", 1, status).status is status
    answer = own.ship("exp_1", [journal_frame(data), log_frame(b"hi\n")])
    assert answer.marks == [Mark(WRITER, 0, len(data))] and answer.logs == {"user_logs/std_log.txt": 3}

    with pytest.raises(MissingContent) as caught:
        own.state("exp_1", 1, RunStatus.COMPLETED, marks=[Mark(WRITER, 0, 4096)], logs={"user_logs/std_log.txt": 4})
    assert caught.value.details["logs"] == {"user_logs/std_log.txt": 3}
    wish = own.state("exp_1", 1, RunStatus.COMPLETED, marks=answer.marks, logs=answer.logs)

    assert wish.status is RunStatus.COMPLETED and served.client.runs.get("exp_1").status is RunStatus.COMPLETED


def test_cancel_reaches_the_supervisor_with_every_answer(served: Served) -> None:
    served.submit()
    own = served.as_run("exp_1").runs
    own.state("exp_1", 1, RunStatus.RUNNING)

    assert served.client.runs.cancel("exp_1").status is RunStatus.CANCEL_REQUESTED
    assert served.client.runs.cancel("exp_1").status is RunStatus.CANCEL_REQUESTED
    assert own.heartbeat("exp_1", 1).desired == "cancel"
    assert own.ship("exp_1", [log_frame(b"x")]).desired == "cancel"
    assert own.state("exp_1", 1, RunStatus.CANCELED).status is RunStatus.CANCELED


def test_fail_from_outside_carries_the_error(served: Served) -> None:
    served.submit()
    served.client.runs.fail("exp_1", code="UserError", message="enough")

    assert served.as_run("exp_1").runs.heartbeat("exp_1", 1).desired_error == {
        "code": "UserError", "message": "enough", "details": {},
    }  # fmt: skip


def test_a_runs_token_reaches_its_own_run_and_nothing_else(served: Served) -> None:
    served.submit("mine")
    served.submit("other")
    own = served.as_run("mine")

    assert own.runs.get("mine").id == "mine"
    errors = []
    for run_id in ("other", "nobody"):
        for call in (own.runs.get, own.runs.files, own.runs.metrics, own.runs.cancel):
            with pytest.raises((NotAllowed, NotFound)) as caught:
                call(run_id)
            errors.append((caught.type, caught.value.what.replace(run_id, "X")))
        with pytest.raises((NotAllowed, NotFound)):
            own.runs.state(run_id, 1, RunStatus.FAILED)
        with pytest.raises((NotAllowed, NotFound)):
            own.runs.ship(run_id, [log_frame(b"x")])
    assert errors[:4] == errors[4:], "an answer tells whether somebody else's run exists"
    with pytest.raises(NotAllowed):
        own.runs.list("default")
    assert served.client.runs.get("other").status is RunStatus.QUEUED


def test_a_run_lists_the_children_of_its_family_only(served: Served) -> None:
    for run_id in ("mine", "other"):
        served.submit(run_id)
    own = served.as_run("mine").runs
    own.create(new_run("child", parent_id="mine"))
    own.create(new_run("grandchild", parent_id="child"))
    served.client.runs.create(new_run("cousin", parent_id="other"))

    assert [run.id for run in own.list("default", parent="mine").runs] == ["child"]
    assert [run.id for run in own.list("default", parent="child").runs] == ["grandchild"]
    answers = set()
    for parent in ("other", "nobody"):
        with pytest.raises(NotAllowed) as caught:
            own.list("default", parent=parent)
        answers.add(caught.value.what.replace(parent, "X"))
    assert len(answers) == 1, "an answer tells whether somebody else's run exists"
    for query in ({}, {"include_children": "true"}, {"parent": ""}):
        with pytest.raises(NotAllowed):
            own.list("default", **query)


def test_a_runs_code_cannot_have_folders_of_the_machine_shipped(served: Served) -> None:
    served.submit("mine")
    process = {"pid": 5, "start_ticks": 6, "folders": {"etc": "/etc"}}

    with pytest.raises(NotAllowed, match="folders"):
        served.as_run("mine").runs.create(
            new_run("child", parent_id="mine", type=None, spec=RunSpec()), launch=False, interactive=process
        )
    for folders in ({"etc": "etc"}, {"../etc": "/etc"}, {"a/b": "/a/b"}):
        with pytest.raises(InvalidArgument):
            served.client.runs.create(
                new_run("odd", type=None, spec=RunSpec()), launch=False, interactive={**process, "folders": folders}
            )
    assert served.services.store.find_run("child") is None and served.services.store.find_run("odd") is None


def test_a_run_creates_children_of_its_own_only(served: Served) -> None:
    served.submit("mine")
    served.submit("other")
    own = served.as_run("mine").runs

    assert own.create(new_run("child", parent_id="mine")).run.root_id == "mine"
    for parent in (None, "other"):
        with pytest.raises((NotAllowed, NotFound)):
            own.create(new_run("cuckoo", parent_id=parent))
    assert served.services.store.find_run("cuckoo") is None


def test_a_process_that_logs_after_the_end_gets_a_folder_and_may_only_add(served: Served) -> None:
    served.submit()
    served.as_run("exp_1").runs.state("exp_1", 1, RunStatus.COMPLETED)
    body = {"pid": 11, "start_ticks": 12}
    first = served.client.transport.request("POST", "/runs/exp_1/writers", json=body).json()
    again = served.client.transport.request("POST", "/runs/exp_1/writers", json=body).json()
    assert first["folder"] == again["folder"] and first["external_writer"] == again["external_writer"]

    writer = served.as_run("exp_1").runs
    data = header() + name(1, "late") + number(1, 1.0)
    writer.ship("exp_1", [journal_frame(data)])
    assert first["attempt"] == first["external_writer"] >= 1 << 20  # by which clients up to 0.2 know a writer
    for attempt in (0, first["attempt"], 1):  # of this version; of 0.2; that of the run, whose status it may not move
        assert writer.heartbeat("exp_1", attempt).desired is None
        wish = writer.state("exp_1", attempt, RunStatus.FAILED, marks=[Mark(WRITER, 0, len(data))])
        assert wish.status is RunStatus.COMPLETED

    assert [info.name for info in served.client.runs.metrics("exp_1")] == ["late"]
    with pytest.raises(NotAllowed):
        writer.cancel("exp_1")


def test_a_process_that_logs_from_outside_never_ends_the_run_whatever_attempt_it_names(served: Served) -> None:
    served.submit()
    served.as_run("exp_1").runs.state("exp_1", 1, RunStatus.RUNNING)
    served.client.transport.request("POST", "/runs/exp_1/writers", json={"pid": 11, "start_ticks": 12})
    assert served.job_of("exp_1").interactive_pid == 11
    outside = served.as_run("exp_1").runs

    for attempt in (1, 0, 1 << 20):
        assert outside.state("exp_1", attempt, RunStatus.FAILED).status is RunStatus.RUNNING
    assert served.client.runs.get("exp_1").status is RunStatus.RUNNING


def test_a_hundred_runs_are_one_page(served: Served) -> None:
    for at in range(100):
        served.services.store.create_run(new_run(f"exp_{at}", tags={"a": "b"}, properties={"c": "d"}))

    page = served.client.runs.list("default", limit=100)

    assert {run.id for run in page.runs} == {f"exp_{at}" for at in range(100)}
    assert page.next is None


def test_the_openapi_document_names_every_route_and_body(served: Served) -> None:
    document = served.client.transport.request("GET", "/openapi.json").json()

    assert "/api/v1/runs/{run_id}/ship" in document["paths"]
    body = document["paths"]["/api/v1/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schemas = document["components"]["schemas"]
    assert body == {"$ref": "#/components/schemas/RunRequest"}
    assert schemas["RunRequest"]["properties"]["run"] == {"$ref": "#/components/schemas/NewRun"}
    assert "experiment" in schemas["NewRun"]["properties"]


def test_the_first_snapshot_that_a_run_is_given_stays(served: Served) -> None:
    served.client.runs.create(new_run())
    served.client.runs.create(new_run("exp_2", parent_id="exp_1"))
    roots = {}
    for text in (b"one", b"two"):
        data = encode_tree([FileEntry("a", 0o644, len(text), (chunk_id(text),))])
        served.client.content.put([(chunk_id(text), text)])
        served.client.content.put_trees([(tree_id(data), data)])
        roots[served.client.content.put_snapshot(tree_id(data), 1, len(text))] = tree_id(data)
    first, second = roots
    run = served.client.runs.update("exp_1", snapshot_id=first)

    assert (run.snapshot_id, run.snapshot_root, run.properties) == (first, roots[first], {"ContentSnapshotId": first})
    assert served.client.runs.update("exp_1", snapshot_id=first).snapshot_id == first
    with pytest.raises(Conflict, match="ContentSnapshotId"):
        served.client.runs.update("exp_1", snapshot_id=second)
    with pytest.raises(NotFound, match="no snapshot"):
        served.client.runs.update("exp_2", snapshot_id="00000000-0000-0000-0000-000000000000")
    assert served.client.runs.get("exp_1").snapshot_root == roots[first]


def test_a_runs_code_cannot_choose_the_snapshot_that_it_may_read(served: Served) -> None:
    served.client.runs.create(new_run())
    served.client.runs.create(new_run("exp_2", parent_id="exp_1"))
    data = encode_tree([])
    served.client.content.put_trees([(tree_id(data), data)])
    snapshot = served.client.content.put_snapshot(tree_id(data), 0, 0)
    own = served.as_run("exp_1")

    with pytest.raises(NotAllowed, match="may not choose its own snapshot"):
        own.runs.update("exp_1", snapshot_id=snapshot)
    assert own.runs.update("exp_2", snapshot_id=snapshot).snapshot_id == snapshot
