"""Run MLflow's own tests against a server of ours: `make mlflow-conformance MLFLOW_SRC=FOLDER_OR_SDIST`.

The tests are read from a checkout or a source release of MLflow; the same release is installed into an environment
below `.venv`. Every test runs against MLflow's own server too; a test that this one fails is left out.
Nothing of MLflow comes into this repository but the counts, in `scripts/mlflow_conformance.tsv`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from tests.mlflow.servers import HOST, client_variables, make_environment, runyard_server

ROOT = Path(__file__).parent.parent.parent
COUNTS = ROOT / "scripts/mlflow_conformance.tsv"
# Beside MLflow itself: what its tests of these suites import. MLflow 2.22 cannot load with SQLAlchemy 2.1.
TEST_PACKAGES = (
    "pytest==9.2.0",
    "pytest-asyncio==1.5.0",
    "pytest-timeout==2.4.0",
    "scikit-learn==1.9.1",
    "pandas<3",
    "sqlalchemy<2.1",
)
COPIED = ("tests", "conftest.py", "pyproject.toml", "pytest.ini")  # not `mlflow/`, which would hide the installed one
_STORES = "tests/store/tracking/sqlalchemy_store/test_sqlalchemy_store"
SUITES: Mapping[str, tuple[str, ...]] = {
    "tracking REST API": ("tests/tracking/test_rest_tracking.py",),
    "model registry REST API": ("tests/tracking/test_model_registry.py",),
    "tracking store through the REST client": (
        f"{_STORES}_experiments.py",
        f"{_STORES}_runs.py",
        "tests/store/tracking/test_sqlalchemy_store.py",  # both of these in 2.x
    ),
}

Outcomes = dict[str, list[str]]  # test: outcome, reason


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a checkout or a source release (.tar.gz) of MLflow")
    parser.add_argument("--stock", action="store_true", help="only against MLflow's own server; writes no counts")
    parser.add_argument("--ours", action="store_true", help="only against our server; writes no counts")
    parser.add_argument(
        "--python", type=Path, help="an interpreter that has this release of MLflow and its tests' needs"
    )
    parser.add_argument("-k", dest="chosen", default="", help="only tests that fit, as of pytest; writes no counts")
    parser.add_argument("--suite", action="append", help="only suites with this word in their name; writes no counts")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlflow-") as folder:
        version = copy_tests(given.source, Path(folder) / "source")
        python = given.python or make_environment(
            ROOT / f".venv/mlflow-{version}-tests", f"mlflow=={version}", *TEST_PACKAGES
        )
        suites = {name: files for name, files in SUITES.items() if _is_chosen(name, given.suite)}
        run = functools.partial(run_suites, Path(folder), python.absolute(), suites, chosen=given.chosen)
        control = {} if given.ours else run(stock=True)
        outcomes = control if given.stock else without_faults_of(control, run(stock=False))
    print_outcomes(version, outcomes)
    if not (given.stock or given.ours or given.chosen or given.suite):
        write_counts(version, outcomes)
    return int(any(outcome[0] == "failed" for suite in outcomes.values() for outcome in suite.values()))


def copy_tests(source: Path, target: Path) -> str:
    """Copy MLflow's tests without its package; return the release that they belong to."""
    target.mkdir()
    if source.is_file():
        with tarfile.open(source) as archive:
            archive.extractall(target.parent / "sdist", filter="data")
        source = next((target.parent / "sdist").iterdir())
    text = (source / "mlflow/version.py").read_text()
    version = re.search(r"^VERSION = \"(.+)\"", text, re.MULTILINE)
    assert version, f"{source}/mlflow/version.py has no VERSION"
    if not (source / "tests/tracking").is_dir():
        sys.exit(f"{source} has no tests: MLflow's source releases leave them out. Take a checkout of its repository.")
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name)
        elif (source / name).exists():
            shutil.copy(source / name, target / name)
    return version[1]


def run_suites(
    folder: Path, python: Path, suites: Mapping[str, tuple[str, ...]], *, stock: bool, chosen: str
) -> dict[str, Outcomes]:
    """Return the outcome of every test of these suites, against ours or the stock server."""
    if stock:
        return {name: _run_suite(folder, python, files, {}, chosen) for name, files in suites.items()}
    (folder / "home").mkdir(mode=0o700)
    with runyard_server(folder / "home") as server:
        # Tests send plain requests too: `requests` takes the password for a host from this file.
        netrc = folder / "netrc"
        netrc.write_text(f"machine {HOST} login conformance password {server.token}\n")
        netrc.chmod(0o600)
        variables = {"CONFORMANCE_URL": server.url, "NETRC": str(netrc)}
        return {name: _run_suite(folder, python, files, variables, chosen) for name, files in suites.items()}


def without_faults_of(control: Mapping[str, Outcomes], outcomes: dict[str, Outcomes]) -> dict[str, Outcomes]:
    """Leave out what fails here and against MLflow's own server too."""
    for suite, tests in control.items():
        for test, (outcome, _) in tests.items():
            if outcome == "failed" and outcomes[suite].get(test, [""])[0] == "failed":
                outcomes[suite][test] = ["left out", "fails against MLflow's own server too"]
    return outcomes


def print_outcomes(version: str, outcomes: Mapping[str, Outcomes]) -> None:
    for suite, tests in outcomes.items():
        for test, (outcome, reason) in tests.items():
            if outcome == "failed":
                print(f"FAILED {test}: {reason}")
        counted = Counter(outcome for outcome, _ in tests.values())
        print(f"MLflow {version}, {suite}: " + ", ".join(f"{number} {outcome}" for outcome, number in counted.items()))
    reasons = Counter(
        reason for tests in outcomes.values() for outcome, reason in tests.values() if outcome == "left out"
    )
    for reason, number in reasons.most_common():
        print(f"left out, {number}: {reason}")


def write_counts(version: str, outcomes: Mapping[str, Outcomes]) -> None:
    """Replace the rows of this release: release, day, suite, outcome, reason, number of tests."""
    today = date.today().isoformat()
    before = COUNTS.read_text().splitlines() if COUNTS.exists() else []
    rows = [line for line in before if not line.startswith(f"{version}\t")]
    for suite, tests in outcomes.items():
        counted = Counter((outcome, reason if outcome == "left out" else "") for outcome, reason in tests.values())
        rows += ["\t".join((version, today, suite, *key, str(number))) for key, number in sorted(counted.items())]
    COUNTS.write_text("\n".join(sorted(rows)) + "\n")


def _is_chosen(name: str, words: list[str] | None) -> bool:
    return not words or any(word in name for word in words)


def _run_suite(
    folder: Path, python: Path, files: tuple[str, ...], variables: Mapping[str, str], chosen: str
) -> Outcomes:
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    present = [name for name in files if (folder / "source" / name).exists()]
    command = [str(python), "-m", "pytest", "-p", "suite_plugin", "-p", "no:cacheprovider", "-q", "--color=no"]
    command += ["--tb=short", "--timeout=120", "--durations=5", "-W", "ignore", *(["-k", chosen] if chosen else [])]
    subprocess.run(
        [*command, *present],
        cwd=folder / "source",
        check=False,
        env=client_variables(
            CONFORMANCE_LEFT_OUT=str(Path(__file__).parent / "left_out.tsv"),
            CONFORMANCE_REPORT=str(report),
            MLFLOW_HTTP_REQUEST_MAX_RETRIES="1",
            PYTHONPATH=os.pathsep.join([str(_plugin_folder(folder)), str(folder / "source")]),
            **variables,
        ),
    )
    found: Outcomes = json.loads(report.read_text())
    return found


def _plugin_folder(folder: Path) -> Path:
    """Return a folder that has the plug-in alone: beside it lies what MLflow's tests must not import."""
    place = folder / "plugin"
    place.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).parent / "suite_plugin.py", place)
    return place


if __name__ == "__main__":
    sys.exit(main())
