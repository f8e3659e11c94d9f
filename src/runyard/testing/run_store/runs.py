"""What every store does with the records of runs."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from runyard.core.errors import Conflict, InvalidTransition, NotFound
from runyard.core.records import RunChange
from runyard.core.specs import EnvironmentSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess
from runyard.store.base import RunStore
from runyard.testing.run_store.deletes import DeletedRunsSuite
from runyard.testing.runs import a_new_run, a_run, a_workspace


class RunRecordsSuite(DeletedRunsSuite):
    """The contract of `RunRecords`."""

    def test_only_a_run_of_mlflow_has_the_status_that_its_client_tells(self, store: RunStore) -> None:
        a_run(store, "r1", type="mlflow", status=RunStatus.RUNNING)
        a_run(store, "r2", status=RunStatus.RUNNING)
        ended = store.report_status("r1", RunStatus.COMPLETED)
        opened = store.report_status("r1", RunStatus.RUNNING)

        assert (ended.status, ended.ended_at is None) == (RunStatus.COMPLETED, False)
        assert (opened.status, opened.ended_at) == (RunStatus.RUNNING, None)
        with pytest.raises(InvalidTransition, match="MLflow"):
            store.report_status("r2", RunStatus.COMPLETED)

    def test_a_run_comes_back_as_it_was_made(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        new = replace(
            a_new_run("r1"),
            spec=RunSpec(script="train.py", arguments=["--lr", "0.1"], environment=EnvironmentSpec(version="3")),
            tags={"team": "vision", "draft": None},
            properties={"git": "abc"},
            parameters={"lr": "0.1"},
            snapshot_id="s",
            snapshot_root="t",
        )
        run, is_new = store.create_run(new)

        assert is_new
        assert store.get_run("r1") == run == store.find_run("r1")
        assert (run.spec, run.tags, run.properties, run.parameters) == (
            new.spec,
            new.tags,
            new.properties,
            new.parameters,
        )
        assert (run.number, run.attempt, run.root_id, run.parent_id) == (1, 0, "r1", None)
        assert [phase.status for phase in run.timeline] == [RunStatus.NOT_STARTED]
        assert abs(run.created_at - datetime.now(timezone.utc)) < timedelta(minutes=1)

    def test_the_same_key_is_the_same_run(self, store: RunStore) -> None:
        run = a_run(store, "r1")
        again, is_new = store.create_run(a_new_run("r1"))

        assert (again, is_new) == (run, False)

    def test_a_key_or_id_of_another_run_is_refused(self, store: RunStore) -> None:
        a_run(store, "r1")

        with pytest.raises(Conflict, match="key"):
            store.create_run(replace(a_new_run("r2"), key="key-r1"))
        with pytest.raises(Conflict, match="taken"):
            store.create_run(replace(a_new_run("r1"), key="another"))
        assert store.find_run("r2") is None

    def test_runs_are_numbered_within_their_experiment(self, store: RunStore) -> None:
        numbers = [a_run(store, f"{name}{index}", experiment=name).number for index in (1, 2) for name in ("a", "b")]

        assert numbers == [1, 1, 2, 2]

    def test_many_threads_create_one_run_per_key(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        made: list[tuple[str, int, bool]] = []

        def create(index: int) -> None:
            run, is_new = store.create_run(a_new_run(f"r{index % 10}"))
            made.append((run.id, run.number, is_new))

        threads = [threading.Thread(target=create, args=(index,)) for index in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sum(is_new for _, _, is_new in made) == 10
        assert sorted({number for _, number, _ in made}) == list(range(1, 11))
        assert len({(run_id, number) for run_id, number, _ in made}) == 10

    def test_an_unknown_run_is_not_found(self, store: RunStore) -> None:
        assert store.find_run("ghost") is None
        for call in (
            lambda: store.get_run("ghost"),
            lambda: store.set_status("ghost", RunStatus.QUEUED),
            lambda: store.update_run("ghost", RunChange(tags_set={"a": "b"})),
            lambda: store.list_files("ghost"),
            lambda: store.list_metrics("ghost"),
            lambda: store.list_marks("ghost", 1),
            lambda: store.ingest("ghost", 1, []),
            lambda: store.is_descendant("ghost", "ghost"),
        ):
            with pytest.raises(NotFound, match="ghost"):
                call()

    def test_a_run_moves_through_its_life_and_is_stamped(self, store: RunStore) -> None:
        a_run(store, "r1")
        for status in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.FINALIZING, RunStatus.FAILED):
            store.set_status("r1", status, error={"code": "X"} if status.is_terminal else None)
        run = store.get_run("r1")

        assert [phase.status.value for phase in run.timeline] == [
            "NotStarted",
            "Queued",
            "Running",
            "Finalizing",
            "Failed",
        ]
        assert run.error == {"code": "X"}
        assert run.started_at == run.timeline[2].at
        assert run.ended_at == run.timeline[4].at
        assert store.list_unfinished() == []

    def test_a_finished_run_does_not_start_again(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.set_status("r1", RunStatus.COMPLETED)

        with pytest.raises(InvalidTransition, match="Completed"):
            store.set_status("r1", RunStatus.RUNNING)
        with pytest.raises(InvalidTransition, match="Completed"):
            store.start_attempt("r1", token_hash="h")
        assert store.find_token("h") is None

    def test_the_same_status_again_changes_nothing(self, store: RunStore) -> None:
        a_run(store, "r1")
        first = store.set_status("r1", RunStatus.RUNNING)

        assert store.set_status("r1", RunStatus.RUNNING, expected=[RunStatus.QUEUED]) == first == store.get_run("r1")

    def test_why_a_run_waits_can_be_said_again(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.set_status("r1", RunStatus.QUEUED, waits_for="2 runs in front")
        store.set_status("r1", RunStatus.QUEUED, waits_for="1 run in front")

        assert store.get_run("r1").waits_for == "1 run in front"
        assert store.set_status("r1", RunStatus.RUNNING).waits_for == ""

    def test_a_phase_remembers_what_was_waited_for_within_bounds(self, store: RunStore) -> None:
        a_run(store, "r1")
        for at in range(30):
            store.set_status("r1", RunStatus.QUEUED, waits_for=f"reason {at}")
            store.set_status("r1", RunStatus.QUEUED, waits_for=f"reason {at}")
        store.start_attempt("r1", token_hash="one", waits_for="handed over")
        store.set_status("r1", RunStatus.PREPARING)
        store.set_status("r1", RunStatus.PREPARING, waits_for="x" * 5000)
        created, queued, preparing = store.get_run("r1").timeline

        assert created.waits == []
        texts = [wait.text for wait in queued.waits]
        assert texts == ["reason 0", *(f"reason {at}" for at in range(20, 30)), "handed over"]
        assert queued.at <= queued.waits[0].at <= queued.waits[-1].at <= preparing.at
        assert [wait.text for wait in preparing.waits] == ["x" * 1000]

    def test_how_far_an_activity_is_shows_on_the_run_and_not_in_its_timeline(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.set_status("r1", RunStatus.PREPARING)
        for done in range(3):
            store.set_status("r1", RunStatus.PREPARING, waits_for=f"restoring the snapshot · {done} of 3")
        run = store.get_run("r1")

        assert run.waits_for == "restoring the snapshot · 2 of 3"
        assert [wait.text for wait in run.timeline[-1].waits] == ["restoring the snapshot"]

    def test_an_unexpected_status_or_attempt_is_refused(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.start_attempt("r1", token_hash="one")

        with pytest.raises(InvalidTransition, match="Queued"):
            store.set_status("r1", RunStatus.FINALIZING, expected=[RunStatus.RUNNING])
        with pytest.raises(Conflict, match="attempt 1"):
            store.set_status("r1", RunStatus.RUNNING, attempt=2)
        assert store.set_status("r1", RunStatus.RUNNING, attempt=1).status is RunStatus.RUNNING

    def test_of_two_final_statuses_one_wins(self, store: RunStore) -> None:
        a_run(store, "r1")
        outcomes: list[str] = []

        def end(status: RunStatus) -> None:
            try:
                outcomes.append(store.set_status("r1", status).status.value)
            except InvalidTransition:
                outcomes.append("refused")

        threads = [threading.Thread(target=end, args=(status,)) for status in (RunStatus.COMPLETED, RunStatus.CANCELED)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(outcomes) == sorted(["refused", store.get_run("r1").status.value])

    def test_an_attempt_counts_up_and_records_its_token(self, store: RunStore) -> None:
        a_run(store, "r1")
        first = store.start_attempt("r1", token_hash="one", waits_for="a slot")
        store.set_status("r1", RunStatus.RUNNING)
        second = store.start_attempt("r1", token_hash="two")

        assert (first.attempt, first.status, first.waits_for) == (1, RunStatus.QUEUED, "a slot")
        assert (second.attempt, second.status) == (2, RunStatus.QUEUED)
        assert [store.find_token(token) for token in ("one", "two")] == [RunAccess("r1", n, "default") for n in (1, 2)]
        assert store.find_token("three") is None

    def test_an_attempt_that_is_given_up_is_remembered_with_its_reason_and_its_end(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.start_attempt("r1", token_hash="one")
        store.set_status("r1", RunStatus.RUNNING)
        fenced = store.fence_attempt("r1", 1, code="NodeLost", why="node n1 is down", host="n1")
        again = store.fence_attempt("r1", 1, code="Preempted", why="other words")

        assert (fenced.status, fenced.attempt, fenced.is_fenced, fenced.due_attempt) == (RunStatus.QUEUED, 1, True, 2)
        assert again.attempts == fenced.attempts and not again.is_between_attempts
        assert (again.attempts[0].code, again.attempts[0].why, again.attempts[0].host) == (
            "NodeLost",
            "node n1 is down",
            "n1",
        )
        with pytest.raises(Conflict, match="attempt 1"):
            store.fence_attempt("r1", 2)
        assert store.fence_attempt("r1", 1, is_over=True).is_between_attempts

        second = store.start_attempt("r1", token_hash="two")
        assert (second.attempt, second.is_fenced, second.due_attempt) == (2, False, 2)
        assert [phase.status for phase in second.timeline].count(RunStatus.QUEUED) == 2
        store.set_status("r1", RunStatus.COMPLETED)
        with pytest.raises(InvalidTransition):
            store.fence_attempt("r1", 2)
        assert [one.number for one in store.get_run("r1").attempts] == [1]

    def test_a_token_can_be_added_twice(self, store: RunStore) -> None:
        a_run(store, "r1")
        for _ in range(2):
            store.add_token("extra", run_id="r1", attempt=3)
            store.add_token("outside", run_id="r1", attempt=0, external_writer=7)

        assert store.find_token("extra") == RunAccess("r1", 3, "default")
        assert store.find_token("outside") == RunAccess("r1", 0, "default", external_writer=7)

    def test_the_first_wish_stays(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.set_desired("r1", "fail", {"code": "UserError"})
        run = store.set_desired("r1", "cancel")

        assert (run.desired, run.desired_error) == ("fail", {"code": "UserError"})
        assert run == store.get_run("r1")

    def test_a_finished_run_takes_no_wish(self, store: RunStore) -> None:
        a_run(store, "r1")
        done = store.set_status("r1", RunStatus.COMPLETED)

        assert store.set_desired("r1", "cancel") == done

    def test_what_may_change_changes(self, store: RunStore) -> None:
        a_run(store, "r1", tags={"a": "1", "b": "2"})
        run = store.update_run(
            "r1",
            RunChange(
                tags_set={"c": None},
                tags_remove=["a", "never"],
                properties_add={"p": "1"},
                display_name="shown",
                description="words",
                warnings_add=[{"source": "s", "message": "m"}],
                environment={"python": "3.11"},
                snapshot=("id", "root"),
            ),
        )

        assert run == store.get_run("r1")
        assert (run.tags, run.properties) == ({"b": "2", "c": None}, {"p": "1"})
        assert (run.display_name, run.description) == ("shown", "words")
        assert (run.warnings, run.environment) == ([{"source": "s", "message": "m"}], {"python": "3.11"})
        assert (run.snapshot_id, run.snapshot_root) == ("id", "root")

    def test_a_property_never_changes(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.update_run("r1", RunChange(properties_add={"p": "1"}))
        store.update_run("r1", RunChange(properties_add={"p": "1", "q": "2"}))

        with pytest.raises(Conflict, match="`p`"):
            store.update_run("r1", RunChange(properties_add={"p": "9", "r": "3"}, tags_set={"a": "b"}))
        assert store.get_run("r1").properties == {"p": "1", "q": "2"}
        assert store.get_run("r1").tags == {}

    def test_kinship_reaches_down_and_never_up_or_across(self, store: RunStore) -> None:
        a_run(store, "top")
        a_run(store, "other")
        child = a_run(store, "child", parent_id="top")
        grandchild = a_run(store, "grandchild", parent_id="child")

        assert (child.parent_id, child.root_id) == ("top", "top")
        assert (grandchild.parent_id, grandchild.root_id) == ("child", "top")
        assert store.is_descendant("grandchild", "top")
        assert store.is_descendant("top", "top")
        assert not store.is_descendant("top", "child")
        assert not store.is_descendant("other", "top")
        assert not store.is_descendant("grandchild", "other")

    def test_a_child_of_nobody_is_refused(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())

        with pytest.raises(NotFound, match="ghost"):
            store.create_run(replace(a_new_run("r1"), parent_id="ghost"))
        assert store.find_run("r1") is None

    def test_unfinished_runs_are_listed_oldest_first(self, store: RunStore) -> None:
        for name in ("a", "b", "c"):
            a_run(store, name)
        store.set_status("b", RunStatus.CANCELED)

        assert [run.id for run in store.list_unfinished()] == ["a", "c"]

    @pytest.mark.parametrize("text", ["a\0b", "lone \ud800 surrogate", "é\u2028ß", "x" * 5000], ids=ascii)
    def test_any_text_can_be_a_tag_or_property(self, store: RunStore, text: str) -> None:
        a_run(store, "r1", tags={text: text})
        store.update_run(
            "r1", RunChange(properties_add={text: text}, display_name=text, warnings_add=[{"message": text}])
        )
        run = store.get_run("r1")

        assert (run.tags, run.properties, run.display_name) == ({text: text}, {text: text}, text)
        assert store.update_run("r1", RunChange(tags_remove=[text])).tags == {}

    def test_events_come_back_in_order_from_any_place(self, store: RunStore) -> None:
        a_run(store, "sweep")
        assert store.append_events("sweep", [{"kind": "planned", "n": 1}, {"kind": "planned", "n": 2}], after=0) == 2
        assert store.append_events("sweep", [{"kind": "ended", "value": 0.1}], after=2) == 3

        assert store.list_events("sweep", after=1) == [{"kind": "planned", "n": 2}, {"kind": "ended", "value": 0.1}]
        assert len(store.list_events("sweep")) == 3

    def test_a_writer_that_missed_an_event_writes_nothing(self, store: RunStore) -> None:
        a_run(store, "sweep")
        store.append_events("sweep", [{"n": 1}], after=0)

        with pytest.raises(Conflict, match="has 1 events"):
            store.append_events("sweep", [{"n": 2}], after=0)
        assert store.list_events("sweep") == [{"n": 1}]

    def test_only_a_run_has_a_journal(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.append_events("nobody", [{}], after=0)
        with pytest.raises(NotFound, match="nobody"):
            store.list_events("nobody")
