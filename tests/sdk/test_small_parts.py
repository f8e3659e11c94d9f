"""Images, tags, details, pace: the small pure parts."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import DamagedContent, InvalidArgument, ServerUnreachable, StoreUnavailable
from runyard.core.records import Run
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.sdk.config.texts import filters, property_texts, tag_texts
from runyard.sdk.exceptions import AzureMLException, UserErrorException
from runyard.sdk.runs.details import PollInterval, RetryRead, details_of, is_log, utc_text
from runyard.sdk.runs.images import artifact_name, image_name, json_bytes, plot_bytes, read_image
from runyard.sdk.runs.log_stream import next_log, pick_log

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
MOMENT = datetime(2026, 11, 15, 9, 30, 0, 42, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "content",
    [
        PNG,
        b"\xff\xd8\xff\xe0JFIF",
        b"GIF89a...",
        b"BM....",
        b"II*\0",
        b"MM\0*",
        b"RIFF\x01\x02\x03\x04WEBP",
        b"P6\n1 1",
        b'<?xml version="1.0"?>\n<svg xmlns="x">',
    ],
    ids=["png", "jpeg", "gif", "bmp", "tiff-le", "tiff-be", "webp", "ppm", "svg"],
)
def test_images_are_recognised_by_their_first_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)

    assert read_image(tmp_path / "file") == content


@pytest.mark.parametrize("content", [b"", b"plain text", b"%PDF-1.4"])
def test_what_is_no_image_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)

    with pytest.raises(AzureMLException, match="not recognised as an image"):
        read_image(tmp_path / "file")


def test_a_missing_image_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="No such file"):
        read_image(tmp_path / "none.png")


def test_a_plot_is_saved_as_png() -> None:
    class Plot:
        def savefig(self, file: Any, format: str) -> None:
            file.write(f"saved as {format}".encode())

    assert plot_bytes(Plot()) == b"saved as png"
    with pytest.raises(AzureMLException, match="savefig"):
        plot_bytes(3)


@pytest.mark.parametrize(
    ("given", "name"),
    [("x.png", "x.png"), ("./images/x.png", "images/x.png"), ("/tmp/x.png", "tmp/x.png"), ("../up/x.png", "up/x.png")],
)
def test_an_image_file_keeps_the_path_given(given: str, name: str) -> None:
    assert image_name(given) == name


def test_a_plot_is_named_by_metric_and_second() -> None:
    assert image_name("confusion", is_plot=True, now=1700000000.9) == "confusion_1700000000.png"


@pytest.mark.parametrize(
    ("metric", "file"), [("matrix", "matrix"), ("a b", "a b"), ("a:b\\c", "a_b_c"), ("x/y", "x/y"), (" . ", "_")]
)
def test_a_json_artifact_is_named_like_its_metric(metric: str, file: str) -> None:
    assert artifact_name(metric) == file


def test_an_artifact_name_never_leaves_its_root() -> None:
    assert artifact_name("../x") == "_/x"
    with pytest.raises(InvalidArgument):
        image_name("..")


def test_json_values_are_dicts_or_their_text() -> None:
    import numpy as np

    assert json.loads(json_bytes("m", {"a": [1, np.float64(0.5)], "b": np.arange(2)})) == {"a": [1, 0.5], "b": [0, 1]}
    assert json_bytes("m", '{"a": 1}') == b'{"a": 1}'


@pytest.mark.parametrize("value", ["{not json", "[1]", [1], 3, {"a": object()}])
def test_other_json_values_are_refused(value: Any) -> None:
    with pytest.raises(UserErrorException, match="`m`"):
        json_bytes("m", value)


def test_tag_values_become_text_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert tag_texts({"rank": 1, "name": "x", "alone": None}) == {"rank": "1", "name": "x", "alone": None}

    assert "'rank'" in caplog.text and "'name'" not in caplog.text
    assert property_texts({"n": 1, "t": "x"}) == {"n": "1", "t": "x"}


@pytest.mark.parametrize("tags", [["a"], "a", None, {1: "x"}, {"": "x"}])
def test_wrong_tags_are_refused(tags: Any) -> None:
    with pytest.raises(UserErrorException):
        tag_texts(tags)


def test_filters_are_keys_or_pairs() -> None:
    assert filters(None) is None
    assert filters("key") == ["key"]
    assert filters({"k": "v", "n": 1}) == ["k=v", "n=1"]


def test_times_are_printed_as_azure_prints_them() -> None:
    assert utc_text(MOMENT) == "2026-11-15T09:30:00.000042Z"
    assert utc_text(None) is None


def run_record(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "id": "e_1_a",
        "number": 1,
        "workspace": "default",
        "experiment": "e",
        "experiment_id": "x",
        "status": RunStatus.RUNNING,
        "created_at": MOMENT,
        "type": "azureml.scriptrun",
        "spec": RunSpec(definition={"arguments": ["--a", "1"]}),
        "properties": {"p": "q"},
        "started_at": MOMENT,
        "submitted_by": "somebody",
    }
    return Run(**{**fields, **changes})


def test_details_of_a_live_run_have_no_end_and_no_error() -> None:
    assert details_of(run_record(), {"user_logs/std_log.txt": "url"}) == {
        "runId": "e_1_a",
        "target": "local",
        "status": "Running",
        "startTimeUtc": "2026-11-15T09:30:00.000042Z",
        "services": {},
        "properties": {"p": "q"},
        "inputDatasets": [],
        "outputDatasets": [],
        "runDefinition": {"arguments": ["--a", "1"]},
        "logFiles": {"user_logs/std_log.txt": "url"},
        "submittedBy": "somebody",
    }


def test_details_of_a_failed_run_hold_the_error_in_azures_shape() -> None:
    error = {
        "code": "UserError",
        "message": "User program failed with ValueError: bad",
        "details": {
            "exception": {"type": "ValueError", "message": "bad", "traceback": "Traceback …"},
            "log": "user_logs/std_log.txt",
            "exit_code": 1,
            "last_lines": ["they are in the message"],
        },
    }
    record = run_record(status=RunStatus.FAILED, ended_at=MOMENT, error=error, warnings=[{"message": "w"}])
    details = details_of(record, {"user_logs/std_log.txt": "url"})

    assert details["endTimeUtc"] == "2026-11-15T09:30:00.000042Z"
    assert details["warnings"] == [{"message": "w"}]
    assert details["error"] == {
        "error": {
            "code": "UserError",
            "message": "User program failed with ValueError: bad",
            "debug_type": "ValueError",
            "debug_message": "bad",
            "debug_stack_trace": "Traceback …",
            "details_uri": "url",
            "data": {"log": "user_logs/std_log.txt", "exit_code": 1},
        },
        "time": "2026-11-15T09:30:00.000042Z",
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("user_logs/std_log.txt", True),
        ("system_logs/supervisor.log", True),
        ("logs/train.log", True),
        ("logs/events.out.tfevents.1", False),
        ("outputs/model.pkl", False),
    ],
)
def test_logs_are_told_from_other_files(name: str, expected: bool) -> None:
    assert is_log(name) is expected


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], None),
        (["outputs/x.txt", "system_logs/supervisor.log"], None),
        (["user_logs/std_log.txt"], "user_logs/std_log.txt"),
        (
            ["user_logs/std_log_process_00.txt", "user_logs/std_log_process_01.txt"],
            "user_logs/std_log_process_00.txt",
        ),
        (["user_logs/std_log_process_0.txt", "user_logs/std_log_process_1.txt"], "user_logs/std_log_process_0.txt"),
        (
            [
                "user_logs/std_log_node_00_ps.txt",
                "user_logs/std_log_node_00_worker.txt",
                "user_logs/std_log_node_00_worker_1.txt",
                "user_logs/std_log_node_01_worker.txt",
            ],
            "user_logs/std_log_node_00_worker.txt",
        ),
        (["azureml-logs/60_control_log.txt", "azureml-logs/70_driver_log.txt"], "azureml-logs/70_driver_log.txt"),
        (["azureml-logs/70_driver_log_rank_0.txt", "azureml-logs/75_x.txt"], "azureml-logs/70_driver_log_rank_0.txt"),
    ],
)
def test_the_first_processs_log_is_the_one_to_follow(names: list[str], chosen: str | None) -> None:
    assert pick_log(names) == chosen


@pytest.mark.parametrize(
    ("names", "shown", "then"),
    [
        ([], None, None),
        (["user_logs/std_log.txt"], None, "user_logs/std_log.txt"),
        (["user_logs/std_log.txt", "azureml-logs/20_image_build_log.txt"], None, "azureml-logs/20_image_build_log.txt"),
        (["azureml-logs/20_image_build_log.txt"], "azureml-logs/20_image_build_log.txt", None),
        (
            ["azureml-logs/20_image_build_log.txt", "system_logs/x.txt", "user_logs/std_log.txt"],
            "azureml-logs/20_image_build_log.txt",
            "user_logs/std_log.txt",
        ),
        (["azureml-logs/20_image_build_log.txt", "user_logs/std_log.txt"], "user_logs/std_log.txt", None),
    ],
)
def test_a_builds_log_is_shown_before_the_programs(names: list[str], shown: str | None, then: str | None) -> None:
    assert next_log(names, shown) == then


def test_the_pace_slows_down_with_time_between_its_limits() -> None:
    now = [0.0]
    pace = PollInterval(environ={}, clock=lambda: now[0])
    waits = []
    for at in (0.0, 1.0, 20.0, 1000.0):
        now[0] = at
        waits.append(pace.next())

    assert waits == [0.02, 0.05, 1.0, 2.0]


def test_azures_variables_move_the_limits_of_the_pace() -> None:
    variables = {"AZUREML_RUN_POLLING_INTERVAL_MIN": "3", "AZUREML_RUN_POLLING_INTERVAL_MAX": "bad"}

    assert PollInterval(environ=variables, clock=lambda: 0.0).next() == 3.0


def test_a_server_that_is_away_for_a_moment_is_waited_for() -> None:
    now = [0.0]
    answers: list[Any] = [ServerUnreachable("away"), StoreUnavailable("disk full"), "answer"]

    def read() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(seconds: float) -> None:
        now[0] += seconds

    assert RetryRead(clock=lambda: now[0], sleep=sleep).ask(read) == "answer"
    assert now[0] == 0.5


def test_content_that_is_damaged_is_not_waited_for() -> None:
    def read() -> None:
        raise DamagedContent("A chunk is damaged.")

    with pytest.raises(DamagedContent):
        RetryRead(sleep=lambda _: pytest.fail("it waited")).ask(read)


def test_a_server_that_stays_away_is_an_error_after_all() -> None:
    now = [0.0]

    def away() -> None:
        raise ServerUnreachable("away")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(ServerUnreachable):
        RetryRead(limit_s=10, clock=lambda: now[0], sleep=sleep).ask(away)
    assert now[0] == 10.0


def test_what_the_user_can_fix_is_not_waited_for() -> None:
    calls = []

    def refused() -> None:
        calls.append(1)
        raise InvalidArgument("wrong")

    with pytest.raises(InvalidArgument):
        RetryRead().ask(refused)
    assert calls == [1]
