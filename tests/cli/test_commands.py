"""The commands against a real private server: one for all tests of this file."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.cli.command_line import runyard
from tests.interpreters import pythons
from tests.waiting import wait_for

SOURCE = str(Path(__file__).parent.parent.parent / "src")
RUN_ID = re.compile(r"^Run (\S+)$", re.MULTILINE)


pytestmark = pytest.mark.usefixtures("shared_home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "print('args', sys.argv[1:], os.environ.get('COLOUR'))\n"
        "print('to stderr', file=sys.stderr)\n"
        "os.makedirs('outputs', exist_ok=True)\n"
        "open('outputs/model.txt', 'w').write('weights')\n"
    )
    return tmp_path


def submit(project: Path, *arguments: str, **options: float) -> subprocess.CompletedProcess[str]:
    return runyard("submit", *arguments, cwd=project, timeout_s=options.get("timeout_s", 60))


def run_id_of(result: subprocess.CompletedProcess[str]) -> str:
    match = RUN_ID.search(result.stderr)
    assert match, result.stderr
    return match[1]


def show(run_id: str) -> dict[str, object]:
    result = runyard("runs", "show", run_id, "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert isinstance(answer, dict)
    return answer


def test_a_plain_script_runs_and_its_output_alone_is_on_stdout(project: Path) -> None:
    result = submit(project, "--env-var", "COLOUR=blue", "train.py", "--", "--alpha", "0.5")

    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["args ['--alpha', '0.5'] blue", "to stderr"]
    assert "Completed" in result.stderr and "files: outputs/model.txt" in result.stderr
    assert re.search(r"^Page http://127\.0\.0\.1:\d+/", result.stderr, re.MULTILINE)
    run = show(run_id_of(result))["run"]
    assert isinstance(run, dict) and run["warnings"] == []  # the default environment names nothing to install


def test_a_refused_submit_leaves_no_experiment(project: Path) -> None:
    (project / "out").symlink_to("/etc/passwd")
    result = submit(project, "--name", "refused", "train.py")
    listed = runyard("experiments", "list")

    assert result.returncode != 0 and "leads out of the source folder" in result.stderr
    assert listed.returncode == 0 and "refused" not in listed.stdout


def test_arguments_need_no_dashes_before_them(project: Path) -> None:
    result = submit(project, "train.py", "--alpha=1", "x", "--", "y")

    assert "args ['--alpha=1', 'x', '--', 'y'] None" in result.stdout


@pytest.mark.parametrize(("code", "expected"), [("sys.exit(0)", 0), ("sys.exit(7)", 1), ("1/0", 1)])
def test_the_exit_code_tells_how_the_run_ended(project: Path, code: str, expected: int) -> None:
    (project / "end.py").write_text(f"import sys\n{code}\n")

    assert submit(project, "end.py").returncode == expected


def test_a_failed_run_says_why_without_our_traceback(project: Path) -> None:
    (project / "bad.py").write_text("raise ValueError('no such colour')\n")

    result = submit(project, "bad.py")

    assert result.returncode == 1
    assert "no such colour" in result.stdout
    assert "error: " in result.stderr and "ValueError" in result.stderr
    assert "runyard/cli" not in result.stderr


def test_the_time_limit_cancels(project: Path) -> None:
    (project / "long.py").write_text("import time\ntime.sleep(60)\n")

    result = submit(project, "--time-limit", "1s", "long.py")

    assert result.returncode == 3
    assert "Canceled" in result.stderr


def test_detach_list_show_logs_and_cancel(project: Path) -> None:
    (project / "wait.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")

    submitted = submit(project, "--name", "waiting", "--tag", "team=a", "--max-attempts", "2", "--detach", "wait.py")
    run_id = submitted.stdout.strip()
    listed = runyard("runs", "list", "--experiment", "waiting", "--tag", "team=a")
    wait_for(lambda: runyard("runs", "logs", run_id).stdout == "ready\n")
    canceled = runyard("runs", "cancel", run_id, "--wait")
    again = runyard("runs", "cancel", run_id)

    assert submitted.returncode == 0 and run_id.startswith("waiting_")
    name, *_, last = listed.stdout.splitlines()[1].split()
    assert (name, last) == ("waiting#1", run_id)
    assert canceled.returncode == 0 and "Canceled" in canceled.stderr
    assert json.loads(runyard("runs", "show", run_id, "--json").stdout)["run"]["spec"]["max_attempts"] == 2
    assert again.returncode == 0 and "has ended already: Canceled" in again.stderr
    assert runyard("runs", "logs", "-f", run_id).returncode == 3
    run = show(run_id)["run"]
    assert isinstance(run, dict) and run["status"] == "Canceled" and run["tags"] == {"team": "a"}


def test_files_that_were_not_kept_are_named_at_the_end_with_what_to_type(project: Path) -> None:
    (project / "stray.py").write_text("open('model.pt', 'w').write('x')\nopen('other.bin', 'w').write('yz')\n")

    first = submit(project, "stray.py")
    second = submit(project, "--keep", "model.pt", "--keep", "*.bin", "stray.py", "--", "lr=0.5", "--width", "3")
    shown = runyard("runs", "show", RUN_ID.findall(second.stderr)[0]).stdout

    assert (
        first.returncode == 0
        and "warning: 2 files (3 bytes) outside ./outputs and ./logs were not kept" in first.stderr
    )
    assert "`runyard submit --keep other.bin --keep model.pt`" in first.stderr
    assert "files: model.pt, other.bin\n" in second.stderr and "warning" not in second.stderr
    assert "parameters\n  lr     0.5\n  width  3\n" in shown


def test_ctrl_c_ends_the_watching_and_not_the_run(project: Path) -> None:
    (project / "wait.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "runyard.cli", "submit", "wait.py"]
    watcher = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watcher.stdout is not None
    assert watcher.stdout.readline() == "ready\n"

    watcher.send_signal(signal.SIGINT)
    _, talk = watcher.communicate(timeout=30)

    match = RUN_ID.search(talk)
    assert match
    status = json.loads(runyard("runs", "show", match[1], "--json").stdout)["run"]["status"]
    assert watcher.returncode == 130 and "The run continues." in talk
    assert status == "Running"
    assert runyard("runs", "cancel", "--wait", match[1]).returncode == 0


def test_metrics_and_files_are_shown(project: Path) -> None:
    (project / "log.py").write_text(
        "from azureml.core import Run\n"
        "run = Run.get_context()\n"
        "for loss in (3.0, 1.0, 2.0):\n"
        "    run.log('loss', loss)\n"
        "run.log('bad', float('nan'))\n"
    )
    run_id = run_id_of(submit(project, "log.py"))

    shown = runyard("runs", "show", run_id)
    plain = show(run_id)

    assert re.search(r"loss +2  \(last of 3, from 1 to 3\)", shown.stdout)
    assert "user_logs/std_log.txt" in shown.stdout
    metrics = plain["metrics"]
    assert isinstance(metrics, list)
    assert [(metric["name"], metric["last"]) for metric in metrics] == [("loss", 2.0), ("bad", "nan")]


def test_logs_into_a_pipe_are_byte_for_byte(project: Path) -> None:
    (project / "binary.py").write_text("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 40)\n")
    run_id = run_id_of(submit(project, "binary.py"))
    command = [sys.executable, "-m", "runyard.cli", "runs", "logs", run_id]

    result = subprocess.run(command, capture_output=True, timeout=60, check=True)

    assert result.stdout == bytes(range(256)) * 40


def test_logs_on_a_terminal_cannot_act_on_it(project: Path) -> None:
    (project / "escape.py").write_text(r"print('\x1b]0;owned\x07\x1b[2Jdone')")
    run_id = run_id_of(submit(project, "escape.py"))

    shown = on_a_terminal("runs", "logs", run_id)

    assert shown == b"\\x1b]0;owned\\x07\\x1b[2Jdone\r\n"


def test_a_wrong_run_id_suggests_the_right_one(project: Path) -> None:
    run_id = run_id_of(submit(project, "train.py"))

    result = runyard("runs", "show", f"{run_id}x")
    other = runyard("runs", "logs", "../../etc/passwd")

    assert result.returncode == 1 and f"Did you mean `{run_id}`" in result.stderr
    assert other.returncode == 1 and other.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr + other.stderr


def test_an_unknown_target_is_refused(project: Path) -> None:
    result = submit(project, "--target", "gpu-cluster", "train.py")

    assert result.returncode == 1
    assert "gpu-cluster" in result.stderr and "local" in result.stderr


def test_a_python_that_is_not_there_is_refused(project: Path) -> None:
    result = submit(project, "--python", "/nowhere/python", "train.py")

    assert result.returncode == 1
    assert "/nowhere/python" in result.stderr


@pytest.mark.long
def test_the_server_is_stopped_and_comes_back_with_its_runs(project: Path) -> None:
    run_id = run_id_of(submit(project, "train.py"))
    before = json.loads(runyard("server", "status", "--json").stdout)

    stopped = runyard("server", "stop")
    between = runyard("server", "status")
    started = runyard("server", "start")
    after = json.loads(runyard("server", "status", "--json").stdout)

    assert stopped.returncode == 0 and str(before["pid"]) in stopped.stderr
    assert between.returncode == 3
    assert started.returncode == 0 and started.stdout.strip() == before["url"]
    assert after["pid"] != before["pid"] and after["id"] == before["id"]
    assert show(run_id)["run"]


@pytest.mark.long
def test_no_command_but_studio_prints_a_link_that_signs_in(project: Path) -> None:
    """They end up in the logs of builds and in reports of bugs."""
    runyard("server", "start")
    submitted = submit(project, "train.py")
    run_id = run_id_of(submitted)
    status, shown = runyard("server", "status").stdout, runyard("runs", "show", run_id).stdout

    assert re.search(r"^page +http://127\.0\.0\.1:\d+/$", status, re.MULTILINE), status
    assert re.search(rf"^page +http://127\.0\.0\.1:\d+/runs/{run_id}$", shown, re.MULTILINE), shown
    assert re.search(rf"^Page http://127\.0\.0\.1:\d+/runs/{run_id}$", submitted.stderr, re.MULTILINE)
    assert "/signin/" not in status + shown + submitted.stderr + submitted.stdout
    link = runyard("studio", run_id, "--no-browser").stdout.strip()
    with build_opener(HTTPCookieProcessor()).open(link, timeout=30) as answer:  # the control
        assert (answer.status, answer.headers.get_content_type()) == (200, "text/html")


def test_a_pipe_that_closes_early_is_no_error(project: Path) -> None:
    (project / "much.py").write_text("for i in range(200000):\n    print(i)\n")
    run_id = run_id_of(submit(project, "much.py"))
    command = f"{sys.executable} -m runyard.cli runs logs {run_id} | head -n 2"

    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=True)

    assert (result.stdout, result.stderr) == ("0\n1\n", "")


def test_the_oldest_python_without_packages_submits_and_reads(project: Path) -> None:
    oldest = min(pythons().items(), key=lambda item: int(item[0].partition(".")[2]))[1]

    def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [oldest, "-S", "-W", "error", "-m", "runyard.cli", *arguments],
            cwd=project,
            env={**os.environ, "PYTHONPATH": SOURCE},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    submitted = bare("submit", "-t", "of=old", "train.py", "--", "1")
    run_id = run_id_of(submitted)
    listed = bare("runs", "list", "--tag", "of=old", "--columns", "tags.of,metrics.loss")
    shown = bare("runs", "show", run_id)
    downloaded = bare("runs", "download", run_id, "outputs")

    assert (submitted.returncode, submitted.stdout) == (0, "args ['1'] None\nto stderr\n"), submitted.stderr
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["ID", run_id], listed.stderr
    assert listed.stdout.splitlines()[1].split()[-2] == "old"
    assert "outputs/model.txt" in shown.stdout, shown.stderr
    assert downloaded.stdout == "outputs/model.txt\n", downloaded.stderr


def test_a_client_that_cannot_start_a_server_stops_none(tmp_path: Path) -> None:
    assert runyard("server", "start").returncode == 0
    before = json.loads(runyard("server", "status", "--json").stdout)
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "UV_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-S", "-m", "runyard.cli", "server", "set", "server.names", "a"],
        env={**alone, "PYTHONPATH": SOURCE, "RUNYARD_HOME": os.environ["RUNYARD_HOME"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    after = json.loads(runyard("server", "status", "--json").stdout)

    assert result.returncode == 1 and "environment could not be made" in result.stderr
    assert (before["running"], before["pid"]) == (after["running"], after["pid"])
    assert json.loads(runyard("server", "settings", "--json").stdout)["server.names"] == []


def on_a_terminal(*arguments: str) -> bytes:
    """Return what a command shows when its stdout is a terminal."""
    outer, inner = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "runyard.cli", *arguments], stdout=inner, stdin=inner)
    os.close(inner)
    shown = b""
    while True:
        try:
            shown += os.read(outer, 65536)
        except OSError:  # EIO: the other end is closed
            break
    os.close(outer)
    assert process.wait(30) == 0
    return shown
