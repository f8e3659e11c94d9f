"""Why a run failed, as the command line shows it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from runyard.cli.runs.run_report import failure_report
from runyard.core.records import Run
from runyard.core.statuses import RunStatus

TAIL = "\n\nLast lines of user_logs/std_log.txt:\n" + "\n".join(f"line {number}" for number in range(20))


def failed(message: str, **details: Any) -> Run:
    moment = datetime(2026, 11, 15, tzinfo=timezone.utc)
    error = {"code": "UserError", "message": message, "details": details}
    return Run("exp_1", 1, "default", "exp", "e", RunStatus.FAILED, moment, error=error)


def test_a_failure_among_many_ranks_is_told_in_few_lines_with_its_evidence() -> None:
    evidence = [{"file": "user_logs/std_log_process_03.txt", "line": 10 + n, "text": f"  text {n}"} for n in range(6)]
    message = "User program failed with ValueError: bad\nmore\nand\nmore\nof\nit\nRank 3 of 4 failed first on node-1."
    message += "\nAdvice.\nRanks 0, 1 and 2 ended because of it."
    run = failed(
        message + TAIL,
        kind="exception",
        evidence=evidence,
        consequences=[{"rank": 0}, {"rank": 1}],
        log="user_logs/std_log_process_03.txt",
    )

    lines = failure_report(run, with_log=True).splitlines()

    assert len(lines) <= 15
    assert lines[0] == "User program failed with ValueError: bad"
    assert lines[3:7] == [
        "…",
        "Rank 3 of 4 failed first on node-1.",
        "Advice.",
        "Ranks 0, 1 and 2 ended because of it.",
    ]
    assert lines[8:10] == ["evidence", "  user_logs/std_log_process_03.txt:10  text 0"]
    assert lines[-1] == "more: runyard runs logs exp_1 --file user_logs/std_log_process_03.txt"


def test_a_hang_points_to_the_stacks() -> None:
    run = failed("It hangs.", kind="hang", evidence=[], consequences=[], stacks="diagnosis-stacks.txt", log="x")

    assert failure_report(run, with_log=False).splitlines()[-1].endswith("--file diagnosis-stacks.txt")


def test_a_run_of_one_process_shows_the_end_of_its_log() -> None:
    run = failed("User program failed with ValueError: bad" + TAIL, kind="exception", evidence=[], consequences=[])

    assert failure_report(run, with_log=True).endswith("line 19")
    assert failure_report(run, with_log=False) == "User program failed with ValueError: bad"


def test_a_failure_that_nobody_explained_says_so() -> None:
    moment = datetime(2026, 11, 15, tzinfo=timezone.utc)
    run = Run("exp_1", 1, "default", "exp", "e", RunStatus.FAILED, moment, error={})

    assert failure_report(run, with_log=True) == "The run failed and left no message."


def test_control_characters_of_a_log_do_not_reach_the_terminal() -> None:
    evidence = [{"file": "a.txt", "line": 1, "text": "\x1b[2J bad"}]
    run = failed("x", kind="exception", evidence=evidence, consequences=[{"rank": 1}])

    assert "\x1b" not in failure_report(run, with_log=True)
