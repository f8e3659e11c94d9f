"""A run from its job file to its end, against the stand-in server."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from runyard.core.errors import StoreUnavailable
from runyard.core.specs import EnvironmentSpec
from tests.supervisor.supervised import Site
from tests.waiting import wait_for


def test_a_run_goes_through_its_phases_and_everything_arrives(site: Site) -> None:
    script = "import os, sys\nprint('hello', sys.argv[1])\nopen('outputs/model', 'w').write('weights')\n"
    job = site.prepare(script, arguments=["--alpha"])

    def check(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if route == "ship" and "Finalizing" not in job.run.statuses:  # a run with little to send drops what is not told
            raise StoreUnavailable("Later.")

    site.server.check = check
    run = job.start().wait()

    assert run.statuses == ["Preparing", "Starting", "Running", "Finalizing", "Completed"]
    assert run.error is None
    assert job.log() == b"hello --alpha\n"
    assert site.server.file(job.id, "outputs/model") == b"weights"
    assert run.environment["interpreter"] == sys.executable
    assert (job.folder / "done").exists()


def test_the_run_folder_goes_when_the_server_has_everything(home, site: Site) -> None:
    del site.variables["RUNYARD_KEEP_RUN_FOLDERS"]
    job = site.start("import os\nos.makedirs('a/b')\nos.symlink('/etc', 'a/l')\nos.chmod('a/b', 0)\n")

    assert job.wait().status == "Completed"
    assert not job.folder.parent.exists()
    assert os.path.exists("/etc")


def test_variables_arguments_and_folders_of_the_script(site: Site) -> None:
    script = (
        "import json, os, signal, sys\n"
        "fds = [f'/dev/fd/{n}' for n in sorted(os.listdir('/dev/fd'), key=int)]  # that of the folder is closed again\n"
        "fds = [n if len(n) < 10 else os.readlink(n) for n in fds if os.path.exists(n)]\n"
        "facts = {'pid': os.getpid(), 'rank_pid': os.environ['RUNYARD_RANK_PID'], 'cwd': os.getcwd(),\n"
        "         'session': os.getsid(0), 'stdin': sys.stdin.read(), 'pipe': str(signal.getsignal(signal.SIGPIPE)),\n"
        "         'fds': fds,\n"
        "         'run': os.environ['AZUREML_RUN_ID'],\n"
        "         'mask': len(signal.pthread_sigmask(signal.SIG_BLOCK, [])), 'folders': sorted(os.listdir('.'))}\n"
        "print(json.dumps(facts))\n"
    )
    job = site.start(script)
    job.wait()
    facts = json.loads(job.log())

    assert facts["rank_pid"] == str(facts["pid"]) == str(facts["session"])
    assert facts["cwd"] == str(job.folder / "work")
    assert facts["stdin"] == ""
    assert facts["fds"] == ["/dev/fd/0", "/dev/fd/1", "/dev/fd/2", "/memfd:runyard-stacks (deleted)"]
    assert facts["mask"] == 0
    assert facts["run"] == job.id
    assert facts["folders"] == ["logs", "outputs", "train.py"]


def test_submitter_code_hooks_do_not_reach_the_supervisor(home, site: Site, tmp_path) -> None:
    marker = tmp_path / "hooked"
    hook = tmp_path / "hook.py"
    hook.write_text(f"open({str(marker)!r}, 'a').write('x')\n")
    site.variables.update(PYTHONSTARTUP=str(hook), PYTHONPATH=str(tmp_path), PYTHONINSPECT="")
    (tmp_path / "sitecustomize.py").write_text(hook.read_text())
    (tmp_path / "json.py").write_text(hook.read_text())

    assert site.start("print(1)").wait().status == "Completed"
    assert not marker.exists()


def test_a_missing_interpreter_fails_the_run_in_words(site: Site) -> None:
    job = site.start("", environment=EnvironmentSpec(interpreter="/nowhere/python"))

    run = job.wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "SubmitRejected"
    assert "making the environment `default-environment`" in run.error["message"]
    assert "/nowhere/python" in run.error["message"]


def test_a_command_that_cannot_be_executed_is_named(site: Site) -> None:
    job = site.start(command="./nowhere-to-be-found")

    run = job.wait()

    assert run.error is not None
    assert run.error["details"]["exit_code"] == 127
    assert "nowhere-to-be-found" in run.error["message"]


def test_binary_output_of_a_hundred_megabytes_is_byte_exact(site: Site) -> None:
    script = (
        "import hashlib, os, sys\n"
        "sums = hashlib.sha256()\n"
        "for n in range(100):\n"
        "    data = os.urandom(1 << 16) * 16\n"
        "    sums.update(data)\n"
        "    os.write(1, data) == len(data) or sys.exit(9)\n"
        "open('outputs/sum', 'w').write(sums.hexdigest())\n"
    )
    job = site.start(script)

    assert job.wait(timeout_s=60).status == "Completed"
    assert len(job.log()) == 100 << 20
    assert hashlib.sha256(job.log()).hexdigest().encode() == site.server.file(job.id, "outputs/sum")


def test_a_program_that_closes_stdout_still_ends_with_its_own_code(site: Site) -> None:
    job = site.start("import os\nprint('before', flush=True)\nos.close(1)\nos.close(2)\nos._exit(7)\n")

    run = job.wait()

    assert job.log() == b"before\n"
    assert run.error is not None
    assert run.error["details"]["exit_code"] == 7


def test_a_program_that_deletes_its_folder_and_lowers_its_limits_ends_normally(site: Site) -> None:
    script = (
        "import os, resource, shutil\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "os.system('rm -rf ../work')\n"
    )
    assert site.start(script).wait().status == "Completed"


def test_a_program_that_removes_the_whole_run_folder_ends_with_its_own_code(site: Site) -> None:
    script = (
        "import os, shutil\n"
        "folder = os.environ['RUNYARD_RUN_FOLDER']\n"
        "while os.path.exists(folder):\n"  # the supervisor may just be writing into it
        "    shutil.rmtree(folder, ignore_errors=True)\n"
        "os._exit(5)\n"
    )
    run = site.start(script).wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["details"]["exit_code"] == 5


def test_a_file_in_logs_is_there_while_the_run_goes_on(site: Site) -> None:
    script = (
        "import os, time\nopen('logs/events', 'w').write('one')\nwhile not os.path.exists('stop'): time.sleep(0.01)\n"
    )
    job = site.start(script)
    job.wait_for_text("logs/events")
    wait_for(lambda: job.run.files.get("logs/events"))
    with open(job.folder / "work/logs/events", "a") as file:
        file.write("two")
    wait_for(lambda: job.run.files["logs/events"]["size"] == 6)
    (job.folder / "work/stop").touch()
    job.wait()

    assert site.server.file(job.id, "logs/events") == b"onetwo"


def test_links_out_of_the_work_folder_are_not_followed(site: Site, tmp_path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_text("secret")
    script = (
        "import os\n"
        f"os.symlink({str(canary)!r}, 'outputs/link')\n"
        f"os.symlink({str(tmp_path / 'folder')!r}, 'outputs/folder')\n"
        "open('outputs/real', 'w').write('mine')\n"
        "os.symlink('real', 'outputs/alias')\n"
        "os.mkfifo('outputs/fifo')\n"
    )
    job = site.start(script)
    run = job.wait()

    assert run.status == "Completed"
    assert sorted(run.files) == ["outputs/alias", "outputs/real"]
    assert site.server.file(job.id, "outputs/alias") == b"mine"
    assert any("outputs/link" in warning["message"] for warning in run.warnings)
    assert not any(b"secret" in data for data in site.server.chunks.values())


def test_a_name_that_nobody_can_store_is_a_warning(site: Site) -> None:
    job = site.start(
        "import os\n"
        "deep = '/'.join(['d' * 200] * 6)\n"
        "os.makedirs('outputs/' + deep)\n"
        "for name in ('a', 'b'): open(f'outputs/{deep}/{name}', 'w').write('x')\n"
        "open('outputs/ok', 'w')\n"
    )
    run = job.wait()

    assert run.status == "Completed"
    assert list(run.files) == ["outputs/ok"]
    messages = [warning["message"] for warning in run.warnings]
    assert any("2 entries of the work folder (name that cannot be used; It is longer than" in one for one in messages)
    assert any("What could not be stored is kept in" in one for one in messages)


@pytest.mark.parametrize("what", ["outputs", "logs"])
def test_a_folder_replaced_by_a_link_is_not_followed(site: Site, tmp_path, what: str) -> None:
    (tmp_path / "secret").write_text("secret")
    job = site.start(f"import os\nos.rmdir('{what}')\nos.symlink({str(tmp_path)!r}, '{what}')\n")
    run = job.wait()

    assert run.status == "Completed"
    assert run.files == {}
    assert f"`{what}` is a link out of the work folder" in run.warnings[0]["message"]
