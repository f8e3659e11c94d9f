"""`.ci/run` gives a failed test a second chance, and nothing else, and names the slowest: on a small project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.long  # each test is a whole CI of four pytest sessions

MAKEFILE = """
PYTEST = false
test:
	$(PYTEST) -q {options} test_quick.py
check:
	{check}
test-external:
	$(PYTEST) -q -m external test_slow.py
"""
GOOD = "def test_good():\n    pass\n"
FLAKY = """
import pathlib
def test_flaky():
    mark = pathlib.Path("mark")
    seen = mark.exists()
    mark.touch()
    assert seen
"""
BAD_TEARDOWN = """
import pytest
@pytest.fixture
def thing():
    yield
    raise OSError("left over")
def test_teardown(thing):
    pass
"""
BAD = "def test_bad():\n    assert False\n"
EXTERNAL = "import pytest\npytestmark = pytest.mark.external\n"


def run_ci(
    folder: Path, quick: str, *, slow: str = GOOD, check: str = "true", options: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / ".ci").mkdir()
    (folder / "scripts").mkdir()
    (folder / ".venv/bin").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", folder / ".ci")
    shutil.copy(ROOT / "scripts/ci_tests.py", folder / "scripts")
    (folder / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / ".venv/bin/python").chmod(0o755)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p xdist -m 'not external'\nmarkers = external\n")
    (folder / "Makefile").write_text(MAKEFILE.format(check=check, options=options))
    (folder / "test_quick.py").write_text(quick)
    (folder / "test_slow.py").write_text(EXTERNAL + slow)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MAKE"))}
    environ.update(PYTEST_PROCESS_COOKIE=os.environ["PYTEST_PROCESS_COOKIE"], PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    words = [str(folder / ".ci/run")]
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=100, check=False)


def test_a_test_that_passes_the_second_time_does_not_fail_the_run(tmp_path: Path) -> None:
    done = run_ci(tmp_path, GOOD + FLAKY, slow=FLAKY.replace("mark", "other"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "first: failed, second: passed  test_quick.py::test_flaky" in done.stdout
    assert "first: failed, second: passed  test_slow.py::test_flaky" in done.stdout


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    done = run_ci(tmp_path, FLAKY + BAD + BAD_TEARDOWN)

    assert done.returncode == 1
    outcomes = [line for line in done.stdout.splitlines() if line.startswith("first: ")]
    assert outcomes == [
        "first: failed, second: passed  test_quick.py::test_flaky",
        "first: failed, second: failed  test_quick.py::test_bad",
        "first: failed, second: failed  test_quick.py::test_teardown",
    ]


@pytest.mark.parametrize(
    ("quick", "fault"),
    [
        (FLAKY + "def test_dies():\n    import os\n    os._exit(0)\n", "pytest died before its end"),
        (FLAKY + "import nothing_like_it\n", "not collected: test_quick.py"),
        (FLAKY + "def test_stops():\n    raise KeyboardInterrupt\n", "pytest ended with exit code 2"),
    ],
    ids=["death", "collection", "interrupt"],
)
def test_a_session_that_ends_badly_fails_the_run(tmp_path: Path, quick: str, fault: str) -> None:
    done = run_ci(tmp_path, quick)

    assert done.returncode == 1
    assert fault in done.stdout


def test_many_failures_are_no_accident(tmp_path: Path) -> None:
    done = run_ci(
        tmp_path, "import pytest\n@pytest.mark.parametrize('n', range(21))\ndef test_bad(n):\n    assert False\n"
    )

    assert done.returncode == 1
    assert "failed, not run again: 21 tests" in done.stdout and "second" not in done.stdout.replace("second time", "")


def test_a_test_that_kills_its_worker_is_run_again(tmp_path: Path) -> None:
    dies = FLAKY.replace("    assert seen", "    if not seen: __import__('os')._exit(1)")
    done = run_ci(tmp_path, dies, options="-n1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "first: failed, second: passed  test_quick.py::test_flaky" in done.stdout


def test_what_is_not_a_test_has_no_second_chance(tmp_path: Path) -> None:
    done = run_ci(tmp_path, FLAKY, check="false")

    assert done.returncode == 1
    assert "first: failed, second: passed  test_quick.py::test_flaky" in done.stdout
    assert "failed, not run again: make check" in done.stdout


def test_the_slowest_tests_of_all_sessions_are_named_last(tmp_path: Path) -> None:
    takes = "import pytest\n@pytest.fixture\ndef late():\n    __import__('time').sleep(0.5)\n"
    many = "@pytest.mark.parametrize('n', range(30))\ndef test_quick(n):\n    pass\n"
    slow = takes.replace("0.5", "0.2") + "def test_second(late):\n    pass\n"
    done = run_ci(tmp_path, takes + many + "def test_first(late):\n    pass\n", slow=slow)

    assert done.returncode == 0, done.stdout + done.stderr
    end = done.stdout.partition("== The slowest of 32 tests, which took ")[2].splitlines()
    tests = [line.split()[-1] for line in end[1:21]]
    assert tests[:2] == ["test_quick.py::test_first", "test_slow.py::test_second"]
    assert len({test for test in tests if test.startswith("test_quick.py::test_quick[")}) == 18
    assert end[21] == "" and end[22].startswith("Total time: 0 min ") and ", make check " in end[22]
    assert end[23:] == ["All passed."]
