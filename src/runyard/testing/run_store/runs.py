"""What every `RunStore` does. Subclass RunStoreSuite with a fixture `store` that gives an empty store."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from runyard.core.errors import Conflict, InvalidTransition, NotFound
from runyard.core.records import RunChange, RunFile
from runyard.core.specs import EnvironmentSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess
from runyard.store.base import RunStore
from runyard.testing.run_store.assets import AssetSuite, EventSuite, UserSuite
from runyard.testing.run_store.deletes import DeleteSuite, HiddenSuite
from runyard.testing.run_store.metrics import ChartSuite, MetricSuite
from runyard.testing.run_store.pages import PageSuite
from runyard.testing.run_store.table import TableSuite
from runyard.testing.runs import a_new_run, a_run, a_workspace


class WorkspaceSuite:
    def test_a_value_is_kept_and_replaced(self, store: RunStore) -> None:
        assert store.find_value("port") is None
        store.set_value("port", "1")
        store.set_value("port", "2")

        assert store.find_value("port") == "2"

    def test_a_workspace_is_made_once(self, store: RunStore) -> None:
        first = store.put_workspace(a_workspace("team", tags={"a": "b"}))
        again = store.put_workspace(replace(a_workspace("team"), id="other"))

        assert first == again == store.get_workspace("team")
        assert [workspace.name for workspace in store.list_workspaces()] == ["team"]

    def test_an_unknown_workspace_is_not_found(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            store.get_workspace("nowhere")
        with pytest.raises(NotFound, match="nowhere"):
            store.put_experiment("nowhere", "e")

    def test_an_experiment_is_made_once(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        first = store.put_experiment("default", "mnist")

        assert store.put_experiment("default", "mnist") == first == store.get_experiment("default", "mnist")
        with pytest.raises(NotFound, match="cifar"):
            store.get_experiment("default", "cifar")

    def test_archived_experiments_leave_the_usual_list(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for name in ("b", "a"):
            store.put_experiment("default", name)
        archived = store.update_experiment("default", "a", archived=True)

        assert archived.archived_at is not None
        assert [item.name for item in store.list_experiments("default")] == ["b"]
        assert [item.name for item in store.list_experiments("default", view="ArchivedOnly")] == ["a"]
        assert [item.name for item in store.list_experiments("default", view="All")] == ["a", "b"]
        assert store.list_experiments("default", view="All", name="a") == [archived]
        assert store.update_experiment("default", "a", archived=False).archived_at is None

    def test_an_experiments_tags_are_set_and_removed(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        store.put_experiment("default", "e")
        store.update_experiment("default", "e", tags_set={"a": "1", "b": None})
        found = store.update_experiment("default", "e", tags_set={"c": "3"}, tags_remove=["a"])

        assert found.tags == {"b": None, "c": "3"} == store.get_experiment("default", "e").tags


class RunSuite:
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

        assert store.find_token("extra") == RunAccess("r1", 3, "default")

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


class FileSuite:
    def test_a_file_is_replaced_or_refused(self, store: RunStore) -> None:
        a_run(store, "r1")
        first = store.put_file("r1", RunFile("outputs/m", 3, sha256="a" * 64, chunks=["c1"]))
        same = store.put_file("r1", RunFile("outputs/m", 3, sha256="a" * 64, chunks=["c1"]), replace=False)

        assert first.updated_at is not None
        assert same.sha256 == first.sha256
        with pytest.raises(Conflict, match="outputs/m"):
            store.put_file("r1", RunFile("outputs/m", 4, sha256="b" * 64, chunks=["c2"]), replace=False)
        assert store.put_file("r1", RunFile("outputs/m", 4, sha256="b" * 64)).size == 4
        found = store.find_file("r1", "outputs/m")
        assert found is not None and (found.size, found.sha256) == (4, "b" * 64)

    def test_many_files_are_stored_at_once_and_a_refused_one_keeps_none_out(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.put_file("r1", RunFile("b", 3, sha256="a" * 64, chunks=["c1"]))
        files = [RunFile(name, 4, sha256="b" * 64, chunks=["c2"]) for name in ("a", "b", "é")]

        first, refused, last = store.put_files("r1", files, replace=False)

        assert isinstance(refused, Conflict) and "`b`" in refused.what
        assert isinstance(first, RunFile) and isinstance(last, RunFile) and first.updated_at is not None
        assert [(file.name, file.size) for file in store.list_files("r1")] == [("a", 4), ("b", 3), ("é", 4)]
        assert store.put_files("r1", files)[1] == store.find_file("r1", "b")
        assert {name: file.size for name, file in store.find_files("r1", ["b", "é", "none"]).items()} == {
            "b": 4,
            "é": 4,
        }
        assert store.put_files("r1", []) == []

    def test_the_last_of_two_files_of_one_name_counts(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.put_files("r1", [RunFile("a", 1), RunFile("a", 2)])
        _, second = store.put_files("r1", [RunFile("n", 1), RunFile("n", 2)], replace=False)

        assert [(file.name, file.size) for file in store.list_files("r1")] == [("a", 2), ("n", 1)]
        assert isinstance(second, Conflict)

    def test_files_of_an_unknown_run_are_refused(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.put_files("nobody", [RunFile("a", 1)])

    def test_files_are_listed_by_name(self, store: RunStore) -> None:
        a_run(store, "r1")
        for name in ("outputs/b", "logs/a", "outputs/é"):
            store.put_file("r1", RunFile(name, 1, kind="stream", complete=False))

        assert [file.name for file in store.list_files("r1")] == ["logs/a", "outputs/b", "outputs/é"]
        assert store.find_file("r1", "outputs/none") is None

    def test_files_are_listed_without_chunks_and_summed_up(self, store: RunStore) -> None:
        for run_id, user in (("r1", "ann"), ("r2", "ann"), ("r3", "bob")):
            a_run(store, run_id, submitted_by=user)
            store.put_file(run_id, RunFile("outputs/m", 10, chunks=["c1", "c1"]))
        store.put_file("r1", RunFile("log", 5, kind="stream", chunks=["s1"]))

        assert [file.chunks for file in store.list_files("r1")] == [["s1"], ["c1", "c1"]]
        assert [file.chunks for file in store.list_files("r1", with_chunks=False)] == [["s1"], []]
        assert (store.sum_file_sizes(run_id="r1"), store.sum_file_sizes(run_id="r2")) == (15, 10)
        assert [store.sum_file_sizes(submitted_by=user) for user in ("ann", "bob", "eve")] == [25, 10, 0]

    def test_a_snapshot_keeps_its_root(self, store: RunStore) -> None:
        store.put_snapshot("s1", "root1", files=2, size_bytes=10)
        store.put_snapshot("s1", "root1", files=2, size_bytes=10)

        assert store.find_snapshot("s1") == "root1"
        assert store.find_snapshot("s2") is None

    def test_content_is_found_where_it_was_packed_first(self, store: RunStore) -> None:
        ids = [f"{index:064x}" for index in range(2500)]
        store.add_chunks("pack-1", {id: (index, 10, 20, "zstd") for index, id in enumerate(ids)})
        store.add_chunks("pack-2", {ids[0]: (99, 1, 1, "raw"), "f" * 64: (7, 1, 2, "raw")})
        found = store.find_chunks([*ids, "f" * 64, "e" * 64])

        assert len(found) == 2501
        assert found[ids[0]] == ("pack-1", 0, 10, 20, "zstd")
        assert found[ids[2499]] == ("pack-1", 2499, 10, 20, "zstd")
        assert found["f" * 64] == ("pack-2", 7, 1, 2, "raw")
        assert list(store.iter_packs()) == ["pack-1", "pack-2"]
        assert store.find_chunks([]) == {}


class RunStoreSuite(
    WorkspaceSuite,
    RunSuite,
    FileSuite,
    PageSuite,
    TableSuite,
    MetricSuite,
    ChartSuite,
    DeleteSuite,
    HiddenSuite,
    AssetSuite,
    EventSuite,
    UserSuite,
):
    """All of it."""
