"""Give a test that failed in CI a second chance when the machine is quiet, and name the slowest tests. For `.ci/run`:

    python scripts/ci_tests.py record FOLDER [PYTEST ARGUMENTS]   run pytest, write down in FOLDER how each test ended
    python scripts/ci_tests.py again FOLDER TARGET…               run what failed once more, one test after another
    python scripts/ci_tests.py slowest FOLDER                     print the tests that took longest

FOLDER has a folder for each make target, and in it a file for each pytest session, written line by line: a session
that dies leaves what it knew. `again` gets the targets that failed, and succeeds when all failures were of single
tests that now pass. A crash, a collection error or a session that never ended has no second chance.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MOST_SECOND_RUNS = 20  # more failures than that are no accident, and their second run would take too long
SECOND = "second-run"
SLOWEST = 20


class Recorder:
    """A pytest plugin of the controlling process: a line for each phase of a test and one for the session."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, **event: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Setup, call and teardown; xdist reports a test whose worker died in the same way, as a fourth phase.
        self.write(test=report.nodeid, phase=report.when, outcome=report.outcome, seconds=report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write(broken=report.nodeid)


@dataclass
class Session:
    """What is known of one pytest session."""

    name: str
    failed: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)
    status: int | None = None

    def fault(self) -> str:
        """Say why the session cannot be mended by running single tests again; empty when it can."""
        if self.status is None:
            return "pytest died before its end"
        if self.broken:
            return f"not collected: {', '.join(self.broken)}"
        if self.status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return f"pytest ended with exit code {self.status}"
        return "pytest failed without a failed test" if self.status and not self.failed else ""


def record(folder: Path, arguments: list[str]) -> int:
    """Run pytest in this process, and leave a record of it in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(folder / f"{os.getpid()}.jsonl")
    recorder.path.touch()
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    status = int(pytest.main(arguments, plugins=[recorder]))
    recorder.write(status=status)
    return status


def read_session(path: Path) -> Session:
    session = Session(f"{path.parent.name}/{path.stem}")
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if "test" in event:
            _add_phase(session, **event)
        session.broken += [event["broken"]] if "broken" in event else []
        session.status = event.get("status", session.status)
    return session


def _add_phase(session: Session, test: str, phase: str, outcome: str, seconds: float) -> None:
    session.seconds[test] += seconds
    if outcome == "failed" and test not in session.failed:
        session.failed.append(test)
    if outcome == "passed" and phase == "call":
        session.passed.add(test)


def again(folder: Path, targets: list[str]) -> int:
    """Run the tests that failed in `folder` once more; print both outcomes; return 0 when the second was good."""
    of_target = {path.name: [read_session(file) for file in sorted(path.glob("*.jsonl"))] for path in folder.iterdir()}
    sessions = [session for found in of_target.values() for session in found]
    faults = [f"{session.name}: {session.fault()}" for session in sessions if session.fault()]
    faults += [f"make {target}" for target in targets if not any(one.status for one in of_target.get(target, []))]
    failed = list(dict.fromkeys(test for session in sessions for test in session.failed))
    if len(failed) > MOST_SECOND_RUNS:
        faults.append(f"{len(failed)} tests; up to {MOST_SECOND_RUNS} are run a second time")
        return _say(faults)
    if failed:
        print(f"\n== {len(failed)} failed: once more, one after another ==", flush=True)
    passed = run_alone(folder, failed)
    for test in failed:
        print(f"first: failed, second: {'passed' if test in passed else 'failed'}  {test}")
    return _say(faults) or int(not passed.issuperset(failed))


def _say(faults: list[str]) -> int:
    for fault in faults:
        print(f"failed, not run again: {fault}")
    return int(bool(faults))


def run_alone(folder: Path, tests: list[str]) -> set[str]:
    """Run `tests` in a process of their own, whatever their marks, and return those that passed in all phases."""
    if not tests:
        return set()
    record_of_it = folder / SECOND
    words = [sys.executable, __file__, "record", str(record_of_it), "-n0", "-m", "", *tests]
    os.spawnv(os.P_WAIT, sys.executable, words)
    [session] = [read_session(path) for path in record_of_it.glob("*.jsonl")]
    return session.passed - set(session.failed)


def slowest(folder: Path, _: list[str]) -> int:
    """Print the tests that took longest, set-up and teardown included, and their share of the time of all tests."""
    tests = [item for file in folder.glob("*/*.jsonl") for item in read_session(file).seconds.items()]
    total = sum(seconds for _, seconds in tests)
    print(f"\n== The slowest of {len(tests)} tests, which took {total:.0f} s one by one ==")
    for test, seconds in sorted(tests, key=lambda item: item[1], reverse=True)[:SLOWEST]:
        print(f"{seconds:7.1f} s {seconds / (total or 1):6.1%}  {test}")
    return 0


COMMANDS = {"record": record, "again": again, "slowest": slowest}

if __name__ == "__main__":
    command, place, *rest = sys.argv[1:]
    sys.exit(COMMANDS[command](Path(place), rest))
