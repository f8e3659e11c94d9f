from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.compute import ComputeSpec
from runyard.core.errors import NotFound, ProtocolError, SystemFailure, error_from_plain
from runyard.core.formats.frames import iter_frames, join_frames
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.records import NewRun, Phase, Run
from runyard.core.specs import EnvironmentSpec, ResourceSpec, RunSpec
from runyard.core.statuses import RunStatus

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


def test_a_run_survives_the_trip_over_json() -> None:
    run = Run(
        id="r",
        number=3,
        workspace="w",
        experiment="e",
        experiment_id="i",
        status=RunStatus.RUNNING,
        created_at=NOW,
        spec=RunSpec(script="train.py", arguments=["--a", "1"], environment=EnvironmentSpec(interpreter="/py")),
        tags={"k": None},
        timeline=[Phase(RunStatus.QUEUED, NOW)],
    )

    plain = to_plain(run)

    assert plain["status"] == "Running"
    assert plain["created_at"] == "2026-01-02T03:04:05.678901+00:00"
    assert from_plain(Run, plain) == run


def test_a_renamed_field_keeps_its_name_in_stored_runs_and_for_older_versions() -> None:
    plain = to_plain(RunSpec(resources=ResourceSpec(cluster_options={"partition": "gpu"})))
    target = to_plain(ComputeSpec(cluster="slurm:gpu"))

    assert plain["resources"]["engine"] == {"partition": "gpu"} and target["engine"] == "slurm:gpu"
    assert from_plain(RunSpec, plain).resources.cluster_options == {"partition": "gpu"}
    assert from_plain(ComputeSpec, target) == ComputeSpec(cluster="slurm:gpu")


def test_a_field_of_a_newer_peer_is_dropped() -> None:
    plain = {"key": "k", "id": "i", "workspace": "w", "experiment": "e", "from_the_future": 1}

    assert from_plain(NewRun, plain) == NewRun(key="k", id="i", workspace="w", experiment="e")


def test_an_error_comes_back_as_its_class() -> None:
    error = error_from_plain(NotFound("No run `x`.", why="w", hint="h", details={"n": 1}).to_plain())

    assert type(error) is NotFound
    assert (error.what, error.why, error.hint, error.details) == ("No run `x`.", "w", "h", {"n": 1})
    assert str(error) == "No run `x`.\nw\nhint: h"


def test_an_unknown_code_is_a_system_failure() -> None:
    assert type(error_from_plain({"code": "Nova", "what": "x"})) is SystemFailure


@given(st.lists(st.tuples(st.dictionaries(st.text(), st.integers()), st.binary())))
def test_frames_come_out_as_they_went_in(frames: list) -> None:
    assert [(head, bytes(body)) for head, body in iter_frames(join_frames(frames))] == frames


@pytest.mark.parametrize("cut", [1, 5, 9, 12])
def test_a_cut_frame_is_refused(cut: int) -> None:
    data = join_frames([({"a": 1}, b"body")])

    with pytest.raises(ProtocolError):
        list(iter_frames(data[:-cut]))


def test_a_head_that_is_no_object_is_refused() -> None:
    with pytest.raises(ProtocolError, match="object"):
        list(iter_frames(b"\x02\0\0\0\0\0\0\0[]"))


@given(st.binary(max_size=200))
def test_random_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    try:
        list(iter_frames(data))
    except ProtocolError as error:
        assert error.what
