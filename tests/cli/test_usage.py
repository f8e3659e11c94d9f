"""Wrong command lines: exit code 2, an error that helps, and no server is started for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import runyard as package
from runyard.cli import main
from tests.cli.command_line import runyard


def test_version() -> None:
    result = runyard("--version")

    assert (result.returncode, result.stdout) == (0, f"runyard {package.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["sumbit", "x.py"], "Did you mean `runyard submit`?", id="misspelt command"),
        pytest.param(["zzz"], "There are: submit, sweep, runs, ", id="unknown command"),
        pytest.param(["runs", "lst"], "Did you mean `runyard runs list`?", id="misspelt subcommand"),
        pytest.param(["submit"], "SCRIPT", id="no script"),
        pytest.param(["submit", "--processes", "0", "x.py"], "x>=1", id="no process"),
        pytest.param(["submit", "--framework", "horovod", "x.py"], "pytorch, mpi, tensorflow", id="framework"),
        pytest.param(["submit", "--detatch", "x.py"], "--detach", id="misspelt option"),
        pytest.param(["submit", "--time-limit", "soon", "x.py"], "10m, 2h, 1d", id="no time"),
        pytest.param(["submit", "--time-limit", "0", "x.py"], "10m, 2h, 1d", id="no time at all"),
        pytest.param(["submit", "--max-attempts", "0", "x.py"], "1<=x<=100", id="no attempt"),
        pytest.param(["submit", "--env-var", "NAME", "x.py"], "NAME=VALUE", id="no value"),
        pytest.param(["submit", "--env-var", "=x", "x.py"], "NAME=VALUE", id="no name"),
        pytest.param(["runs", "list", "--status", "Done"], "Completed", id="unknown status"),
        pytest.param(["runs", "list", "--limit", "0"], "0", id="limit"),
        pytest.param(["runs", "show"], "RUN", id="no run"),
        pytest.param(["runs", "list", "--filter", "tags.a = 'x"], "at character 10. A text is", id="filter"),
        pytest.param(["runs", "list", "--filter", "metrics.loss < a"], "\n" + " " * 17 + "^", id="filter's place"),
        pytest.param(["runs", "list", "--sort", "loss"], "metrics.<name>", id="sort"),
        pytest.param(["runs", "list", "--columns", "loss"], "metrics.<name>", id="column"),
        pytest.param(["runs", "tag", "x"], "KEY=VALUE", id="no tag"),
        pytest.param(["completion", "tcsh"], "bash", id="unknown shell"),
    ],
)
def test_a_wrong_command_line_says_what_is_right(
    home: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    said = capfd.readouterr()
    assert (caught.value.code, said.out) == (2, "")
    assert said.err.startswith("error: ") and "hint: " in said.err
    assert message in said.err
    assert not (home / "server").exists()


def test_our_option_after_the_script_is_a_slip(tmp_path: Path, home: Path) -> None:
    (tmp_path / "x.py").write_text("")

    result = runyard("submit", "x.py", "--detach", cwd=tmp_path)
    its_help = runyard("submit", "--dry-run", "x.py", "--help", cwd=tmp_path)

    assert result.returncode == 2
    assert "`--detach` stands after the script" in result.stderr
    assert (its_help.returncode, its_help.stdout[:10]) == (0, "experiment"), its_help.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["submit", "trian.py"], "Scripts there: train.py.", id="misspelt script"),
        pytest.param(["submit", "."], "is a folder", id="a folder"),
    ],
)
def test_a_script_that_is_not_there_is_named(home: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "train.py").write_text("")

    result = runyard(*arguments, cwd=tmp_path)

    assert result.returncode == 1
    assert result.stderr.startswith("error: ") and message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_wrong_setting_is_an_error_without_traceback(home: Path) -> None:
    result = runyard("server", "status", environ={"RUNYARD_PORT": "many"})

    assert result.returncode == 1
    assert "RUNYARD_PORT" in result.stderr and "hint: export RUNYARD_PORT" in result.stderr
    assert "Traceback" not in result.stderr


def test_status_starts_nothing(home: Path) -> None:
    result = runyard("server", "status")

    assert result.returncode == 3
    assert "not running" in result.stdout
    assert not (home / "server" / "token").exists()


def test_stopping_no_server_is_fine(home: Path) -> None:
    result = runyard("server", "stop")

    assert (result.returncode, result.stderr) == (0, "No server is running.\n")


def test_a_closed_stdout_is_no_mistake_of_ours(home: Path) -> None:
    command = f"{sys.executable} -m runyard.cli server status >&-"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode == 3
    assert "mistake" not in result.stderr


def test_a_terminal_that_knows_only_ascii_shows_every_name(home: Path) -> None:
    result = runyard("submit", "modèle.py", environ={"PYTHONIOENCODING": "ascii"})

    assert result.returncode == 1
    assert "There is no script `mod\\xe8le.py`" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_asks_runyard(home: Path, shell: str) -> None:
    script = runyard("completion", shell)
    words = runyard(environ={"_RUNYARD_COMPLETE": "zsh_complete", "COMP_WORDS": "runyard runs d", "COMP_CWORD": "2"})

    assert script.returncode == 0 and "_RUNYARD_COMPLETE" in script.stdout
    assert words.stdout.split("\n")[1::3] == ["download", "delete"]
    assert not (home / "server").exists()


@pytest.mark.parametrize("command", ["runs show", "experiments archive", "workspaces delete", "submit --name"])
def test_completing_a_name_starts_no_server(home: Path, command: str) -> None:
    words = f"runyard {command} "
    environ = {"_RUNYARD_COMPLETE": "zsh_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
    result = runyard(environ=environ)

    assert (result.stdout.strip(), result.stderr) == ("", "")
    assert not (home / "server").exists()


def test_a_dry_run_lists_the_snapshot_and_starts_no_server(tmp_path: Path, home: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "big.bin").write_bytes(bytes(20_000))
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "skipped.txt").write_text("x")
    (tmp_path / ".amlignore").write_text("skipped.txt\n")
    command = ["submit", "--dry-run", "-t", "a=b", "train.py", "--", "--password", "hush"]

    result = runyard(*command, cwd=tmp_path)
    plan = json.loads(runyard(*command[:2], "--json", *command[2:], cwd=tmp_path).stdout)

    assert result.returncode == 0, result.stderr
    assert "snapshot  3 files, 20.0 kB\n   20.0 kB  data/big.bin\n" in result.stdout
    assert "looks like a secret: `.env`" in result.stdout and "hush" not in result.stdout + json.dumps(plan)
    assert "Nothing was stored or started." in result.stderr and "runyard server start" in result.stderr
    assert plan["snapshot"]["files"] == 3 and plan["snapshot"]["size_bytes"] == 20_000 + 4 + 12
    assert plan["snapshot"]["biggest"][0] == ["data/big.bin", 20_000]
    assert plan["tags"] == {"a": "b"} and "processes" not in plan
    assert not (home / "server").exists()


def test_the_doctor_starts_nothing_and_says_so(home: Path) -> None:
    result = runyard("doctor")

    assert result.returncode == 0
    assert "not running; the next `runyard submit` starts it" in result.stdout
    assert not (home / "server" / "token").exists()


def test_the_doctor_says_what_is_wrong_and_what_to_type(home: Path) -> None:
    setting = runyard("doctor", environ={"RUNYARD_GRACE": "soon"})
    server = runyard("doctor", environ={"RUNYARD_URL": "http://127.0.0.1:1", "RUNYARD_TOKEN": "x"})

    assert setting.returncode == 1 and "wrong  settings" in setting.stdout and "RUNYARD_GRACE=30" in setting.stdout
    assert server.returncode == 1 and "wrong  server" in server.stdout and "hint: " in server.stdout
