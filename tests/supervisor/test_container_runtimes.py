"""Runs in real containers, by podman and docker: work folder, variables, ends, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.specs import ContainerSpec, EnvironmentSpec
from runyard.supervisor.proc import list_processes
from tests import debian
from tests.environments.rootfs import write_rootfs
from tests.environments.wheels import make_wheel
from tests.supervisor.supervised import Job, Site, command_line
from tests.supervisor.test_stopping import ask
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]

IMAGE = "localhost/runyard-test:1"
# Where the tests run in a container themselves: no events daemon, no systemd, no right to raise limits.
ENGINE_WORDS = "--runtime runc --cgroup-manager=cgroupfs --events-backend=none"
RUN_WORDS = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024"
NO_NETWORK = ["--bridge=none", "--iptables=false", "--ip6tables=false"]


class Engine:
    """An engine with a storage of its own, which holds one image."""

    def __init__(self, words: str, variables: dict[str, str], rootfs: Path) -> None:
        self._words = words.split()
        own = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root"), **variables}
        self.variables = {**own, "RUNYARD_CONTAINER_ENGINE": self._words[0]}
        self.run("import", str(rootfs), IMAGE)

    def run(self, *words: str) -> str:
        argv = [*self._words, *words]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=self.variables).stdout

    def containers(self) -> list[str]:
        return self.run("ps", "--all", "--format", "{{.Names}}").split()


def start_podman(folder: Path, rootfs: Path) -> Iterator[Engine]:
    install(["podman", "runc"])
    words = f"--root {folder}/root --runroot {folder}/run {ENGINE_WORDS}"
    arguments = {"RUNYARD_CONTAINER_ARGUMENTS": f"{words} -- {RUN_WORDS}", "BUILDAH_ISOLATION": "chroot"}
    yield Engine(f"podman {words}", arguments, rootfs)


def start_docker(folder: Path, rootfs: Path) -> Iterator[Engine]:
    install(["dockerd", "docker"], packages=["docker.io"])
    host = f"unix://{folder}/docker.sock"
    words = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(["dockerd", *NO_NETWORK, *words, "--host", host], stdout=log, stderr=log)
    try:
        wait_for((folder / "docker.sock").exists, timeout_s=60.0)
        yield Engine("docker", {"DOCKER_HOST": host}, rootfs)
    finally:
        daemon.terminate()
        daemon.wait(60.0)
        subprocess.run(["umount", f"{folder}/exec/netns/default"], check=False, stderr=subprocess.DEVNULL)


def install(programs: list[str], packages: list[str] | None = None) -> None:
    if not all(shutil.which(program) for program in programs):
        debian.install(*(packages or programs))


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rootfs(tmp_path_factory.mktemp("rootfs") / "rootfs.tar")


@pytest.fixture(scope="module", params=[start_podman, start_docker], ids=["podman", "docker"])
def engine(request: pytest.FixtureRequest, session_folder: Path, rootfs: Path) -> Iterator[Engine]:
    folder = Path(tempfile.mkdtemp(prefix="e", dir=session_folder))
    yield from request.param(folder, rootfs)


def start(site: Site, engine: Engine, script: str, *, container: dict[str, Any] | None = None, **options: Any) -> Job:
    fields = {"image": IMAGE, "shm_size": "64m", **(container or {})}
    environment = EnvironmentSpec(
        name="boxed", kind="container", container=ContainerSpec(**fields), **options.pop("packages", {})
    )
    return site.start(script, environment=environment, submitter=engine.variables, grace_s=1.0, **options)


def test_a_run_has_its_folder_and_variables_and_its_own_file_system(site: Site, engine: Engine) -> None:
    script = (
        "import os\nfrom azureml.core import Run\n"
        "run = Run.get_context()\nrun.log('x', 3)\nrun.flush()\n"
        "print(os.getcwd(), os.environ['SECRET_WORD'], os.path.exists('/usr/bin/podman'))\n"
        "open('outputs/a.txt', 'w').write('written inside')\n"
    )
    job = start(site, engine, script, variables={"SECRET_WORD": "hush-hush"})
    run = job.wait()
    work = str(job.folder / "work")

    assert run.status == "Completed", run.error
    assert job.log().decode().splitlines() == [f"{work} hush-hush False"]
    assert (job.folder / "work" / "outputs" / "a.txt").stat().st_uid == os.getuid()
    assert run.environment["image"]["name"] == IMAGE
    assert engine.containers() == []


def test_variables_are_not_in_anybodys_arguments(site: Site, engine: Engine) -> None:
    script = "open('on', 'w').write('1')\nimport time\ntime.sleep(1000)\n"
    job = start(site, engine, script, variables={"SECRET_WORD": "hush-hush"})
    job.wait_for_text("on")
    seen = b" ".join(command_line(entry.pid) for entry in list_processes())
    ask(job)
    job.wait()

    assert f"runyard-{job.id}-1-0".encode() in seen
    assert b"hush-hush" not in seen


@pytest.mark.parametrize(
    ("script", "arguments", "words"),
    [
        ("raise SystemExit(7)", [], "exit code 7"),
        ("raise ValueError('no')", [], "ValueError: no"),
        ("import os; os.kill(os.getpid(), 11)", [], "SIGSEGV"),
        ("x = []\nwhile True: x.append(bytearray(b'1') * 10**7)", ["--memory", "100m"], "memory ran out"),
    ],
    ids=["exit code", "exception", "signal", "out of memory"],
)
def test_the_end_of_the_program_is_the_end_of_the_run(
    site: Site, engine: Engine, script: str, arguments: list[str], words: str
) -> None:
    run = start(site, engine, script, container={"arguments": arguments}).wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert words in run.error["message"]
    assert engine.containers() == []


STUBBORN = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(['/bin/sleep', '1000'], start_new_session=True)
open('on', 'w').write('1')
time.sleep(1000)
"""


def test_a_cancel_reaches_the_program_which_may_end_by_itself(site: Site, engine: Engine) -> None:
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('asked'), sys.exit(0)))\n"
        "open('on', 'w').write('1')\ntime.sleep(1000)\n"
    )
    job = start(site, engine, script)
    job.wait_for_text("on")
    ask(job)
    run = job.wait()

    assert run.status == "Canceled"
    assert job.log().decode().split() == ["asked"]
    assert engine.containers() == []


@pytest.mark.parametrize("how", ["cancel", "time limit"])
def test_a_stubborn_program_and_its_container_are_gone_at_the_end(site: Site, engine: Engine, how: str) -> None:
    limit = {"time_limit_s": 10.0} if how == "time limit" else {}  # the engine's start counts too
    job = start(site, engine, STUBBORN, **limit)
    job.wait_for_text("on")
    if how == "cancel":
        ask(job)
    run = job.wait()

    assert run.status == "Canceled"
    assert ((run.error or {}).get("code") == "RunTimeLimitExceeded") == (how == "time limit")
    wait_for(lambda: not job.living() and engine.containers() == [])


@pytest.mark.parametrize("killed", ["supervisor", "reaper"])
def test_a_run_outlives_the_death_of_who_watches_it(site: Site, engine: Engine, killed: str) -> None:
    script = (
        "import os, time\nopen('on', 'w').write('1')\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('end')\n"
    )
    job = start(site, engine, script)
    job.wait_for_text("on")
    victim = job.supervisor_pid() if killed == "supervisor" else job.reaper_pid()
    os.kill(victim, signal.SIGKILL)
    (job.folder / "work" / "go").touch()
    run = job.wait()

    assert job.log().decode().split() == ["end"]
    assert run.is_over
    wait_for(lambda: not job.living() and engine.containers() == [])


def test_a_dockerfile_is_built_and_its_log_is_the_runs(site: Site, engine: Engine) -> None:
    dockerfile = f"FROM {IMAGE}\nRUN echo built here > /made\n"
    script = "print(open('/made').read().strip())"
    job = start(site, engine, script, container={"image": "", "dockerfile": dockerfile})
    again = start(site, engine, script, container={"image": "", "dockerfile": dockerfile})

    assert job.wait(timeout_s=120).status == again.wait(timeout_s=120).status == "Completed"
    assert job.log() == again.log() == b"built here\n"
    logs = [one.log("azureml-logs/20_image_build_log.txt").decode() for one in (job, again)]
    assert sum("RUN echo built here" in log for log in logs) == 1


def test_packages_are_added_to_the_images_python(site: Site, engine: Engine, tmp_path: Path) -> None:
    make_wheel(tmp_path, "alpha", "1.5")
    packages = {"pip_packages": ["alpha"], "pip_options": ["--no-index", f"--find-links {tmp_path}"]}
    job = start(site, engine, "import sys, alpha; print(alpha.version, sys.prefix)", packages=packages)
    run = job.wait(timeout_s=120)

    assert run.status == "Completed", run.error
    version, prefix = job.log().decode().split()
    assert version == "1.5"
    assert prefix.startswith(str(site.home / "environments"))
    assert run.environment["packages"]["alpha"] == "1.5"
    assert engine.containers() == []


PROBE = """
import os, sys
from azureml.core import Run
Run.get_context().log("x", 3)
open("outputs/a.txt", "w").write("inside")
print(os.path.exists("/usr/bin/podman"), os.path.exists("/made"), *sys.argv[1:])
"""


class Shell:
    """Types `runyard` in a project folder, with variables that lead to the engine."""

    def __init__(self, home: Path, engine: Engine, project: Path) -> None:
        self._variables = {**os.environ, **engine.variables, "RUNYARD_HOME": str(home)}
        self.project = project
        (project / "train.py").write_text(PROBE)
        (project / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo by the Dockerfile > /made\n")
        (project / "job.yml").write_text(
            f"script: train.py\narguments: [by, the job]\nenvironment:\n  image: {IMAGE}\n"
        )

    def submit(self, *words: str) -> tuple[dict[str, Any], str]:
        """Return the run as JSON, and what it printed."""
        found = json.loads(self.type("submit", "--json", *words))
        return found, self.type("runs", "logs", found["run"]["id"])

    def type(self, *words: str) -> str:
        argv = [sys.executable, "-m", "runyard.cli", *words]
        done = subprocess.run(argv, cwd=self.project, env=self._variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def shell(home: Path, engine: Engine, tmp_path: Path) -> Shell:
    return Shell(home, engine, tmp_path)


def test_the_command_lines_image_holds_scripts_commands_jobs_and_ranks(shell: Shell, engine: Engine) -> None:
    found, printed = shell.submit("--image", IMAGE, "train.py", "--", "a", "b c")
    _, command = shell.submit("--image", IMAGE, "--", "sh", "-c", "test -e /usr/bin/podman || echo in the image")
    _, job = shell.submit("job.yml")
    ranks, _ = shell.submit("--image", IMAGE, "--processes", "2", "train.py", "--", "rank")

    assert printed == "False False a b c\n"
    assert [(metric["name"], metric["last"]) for metric in found["metrics"]] == [("x", 3)]
    assert "outputs/a.txt" in [file["name"] for file in found["files"]]
    assert command == "in the image\n"
    assert job == "False False by the job\n"
    assert len([file for file in ranks["files"] if file["name"].startswith("user_logs/")]) == 2
    assert engine.containers() == []


def test_the_command_line_builds_a_dockerfile_and_runs_in_its_image(shell: Shell, engine: Engine) -> None:
    def images() -> set[str]:
        return set(engine.run("images", "--quiet", "localhost/runyard").split())

    before, outputs, after = images(), [], []
    for _ in range(2):
        outputs.append(shell.submit("--environment", "Dockerfile", "train.py")[1])
        after.append(images())

    assert outputs == ["False True\n"] * 2
    assert len(after[0] - before) == 1
    assert after[1] == after[0]
    assert engine.containers() == []
