"""What our sitecustomize does to a Python process, in a run and outside of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.runtime.injection import injection_folder
from tests.interpreters import pythons


@pytest.fixture(scope="module")
def injection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return injection_folder(tmp_path_factory.mktemp("home"))


class Script:
    """Runs a script as the reaper starts a rank: in a session of its own, with the injection folder first."""

    def __init__(self, injection: Path, run_folder: Path) -> None:
        self.injection, self.run_folder = injection, run_folder

    def run(
        self, code: str, *options: str, python: str = sys.executable, path: str = "", session: bool = True, **more: str
    ) -> subprocess.CompletedProcess[str]:
        script = self.run_folder / "train.py"
        script.write_text(code)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUNYARD_"))}
        environ.update({"RUNYARD_RUN_FOLDER": str(self.run_folder), "RUNYARD_RUN_ID": "run", **more})
        environ["PYTHONPATH"] = os.pathsep.join([str(self.injection), *([path] if path else [])])
        return subprocess.run(
            [python, *options, str(script)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            start_new_session=session,
        )

    def facts(self, folder: str) -> list[dict[str, Any]]:
        paths = sorted((self.run_folder / folder).glob("*")) if (self.run_folder / folder).exists() else []
        assert all(path.suffix == ".json" for path in paths)
        return [json.loads(path.read_text()) for path in paths]


@pytest.fixture
def script(injection: Path, run_folder: Path) -> Script:
    return Script(injection, run_folder)


@pytest.mark.parametrize("version", pythons())
def test_an_uncaught_exception_is_described_and_still_printed(script: Script, version: str) -> None:
    done = script.run("def f():\n    raise ValueError('no good')\nf()\n", python=pythons()[version])

    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert done.stderr.endswith("ValueError: no good\n")
    [told] = script.facts("exceptions")
    assert (told["type"], told["message"], told["missing_module"]) == ("ValueError", "no good", None)
    assert told["traceback"] == done.stderr
    assert script.facts("ends") == [{"pid": told["pid"], "ok": False, "code": 1}]


def test_a_missing_file_is_named_also_behind_another_exception(script: Script) -> None:
    script.run("try:\n    open('data/x.csv')\nexcept OSError:\n    raise ValueError('cannot load')\n")
    [told] = script.facts("exceptions")

    assert (told["type"], told["missing_file"]) == ("ValueError", os.path.abspath("data/x.csv"))


def test_a_missing_module_is_named(script: Script) -> None:
    script.run("import no_such_package.part\n")

    [told] = script.facts("exceptions")
    assert (told["type"], told["missing_module"]) == ("ModuleNotFoundError", "no_such_package")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit('words')", 1),
        ("from sys import exit; exit(4)", 4),
        ("exit(5)", 5),
        ("quit(6)", 6),
        ("import sys\ntry:\n    sys.exit(7)\nexcept SystemExit as error:\n    assert error.code == 7\nsys.exit(0)", 0),
        ("import sys, threading\nt = threading.Thread(target=sys.exit, args=(9,))\nt.start()\nt.join()", 0),
    ],
)
def test_the_exit_code_is_known_to_who_finds_no_reaper(script: Script, code: str, exit_code: int) -> None:
    done = script.run(code)

    assert done.returncode == exit_code
    [end] = script.facts("ends")
    assert (end["ok"], end["code"]) == (exit_code == 0, exit_code)
    assert script.facts("exceptions") == []


def test_keyboard_interrupt_is_an_exception_and_ends_by_the_signal(script: Script) -> None:
    done = script.run("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(10)\n")

    assert done.returncode == -signal.SIGINT
    assert [told["type"] for told in script.facts("exceptions")] == ["KeyboardInterrupt"]
    assert [end["ok"] for end in script.facts("ends")] == [False]


def test_a_program_with_its_own_excepthook_keeps_it_and_is_still_described(script: Script) -> None:
    done = script.run("import sys\nsys.excepthook = lambda *args: print('mine', args[0].__name__)\n1 / 0\n")

    assert done.stdout == "mine ZeroDivisionError\n"
    [told] = script.facts("exceptions")
    assert told["type"] == "ZeroDivisionError"


def test_exceptions_of_threads_are_none_of_ours(script: Script) -> None:
    code = "import threading, sys\nassert threading.excepthook.__module__ == '_thread'\n"
    done = script.run(code + "t = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\n")

    assert done.returncode == 0
    assert script.facts("exceptions") == []


def test_a_crash_prints_the_python_stack(script: Script) -> None:
    done = script.run("import os, signal\ndef inner():\n    os.kill(os.getpid(), signal.SIGSEGV)\ninner()\n")

    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "in inner" in done.stderr
    assert script.facts("ends") == []


def test_only_the_rank_process_itself_writes_its_end(script: Script) -> None:
    done = script.run(
        "import os, subprocess, sys\nprint(os.getpid())\nsubprocess.run([sys.executable, '-c', 'pass'])\n"
    )
    assert [end["pid"] for end in script.facts("ends")] == [int(done.stdout)]


def test_a_named_rank_process_needs_no_session(script: Script) -> None:
    script.run("", session=False)
    assert script.facts("ends") == []

    code = "import os, sys\nif len(sys.argv) < 2:\n    os.environ['RUNYARD_RANK_PID'] = str(os.getpid())\n"
    script.run(code + "    os.execv(sys.executable, [sys.executable, __file__, 'again'])\n", session=False)
    assert [end["code"] for end in script.facts("ends")] == [0]


def test_a_forked_child_writes_no_end_in_its_parents_name(script: Script) -> None:
    done = script.run("import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n    print(os.getpid())\n")
    assert [end["pid"] for end in script.facts("ends")] == [int(done.stdout)]


@pytest.mark.parametrize("version", pythons())
def test_the_hidden_sitecustomize_still_runs_first(script: Script, tmp_path: Path, version: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text(
        "import sys\nVALUE = 42\nsys.excepthook = lambda *args: print('their hook')\n"
    )
    done = script.run(
        "import sitecustomize\nprint(sitecustomize.VALUE, sitecustomize.__file__)\n1 / 0\n",
        path=str(theirs),
        python=pythons()[version],
    )

    assert done.stdout == f"42 {theirs / 'sitecustomize.py'}\ntheir hook\n"
    assert [told["type"] for told in script.facts("exceptions")] == ["ZeroDivisionError"]


@pytest.mark.parametrize("fault", ["raise RuntimeError('broken')", "import no_such_thing", "syntax error here"])
def test_a_broken_hidden_sitecustomize_is_said_and_survived(script: Script, tmp_path: Path, fault: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(fault)
    done = script.run("print('went on')\n1 / 0\n", path=str(tmp_path))

    assert done.stdout == "went on\n"
    assert done.stderr.startswith("Error in sitecustomize: ")
    assert [told["type"] for told in script.facts("exceptions")] == ["ZeroDivisionError"]


@pytest.mark.parametrize("options", [["-S"], ["-E"], ["-I"]], ids=" ".join)
def test_options_that_keep_us_out_are_respected(script: Script, options: list[str]) -> None:
    done = script.run("print('ran')\n1 / 0\n", *options)

    assert done.stdout == "ran\n"
    assert script.facts("exceptions") == []


@pytest.mark.parametrize("folder", ["", "/nonexistent/run"])
def test_outside_of_a_run_nothing_is_touched(script: Script, folder: str) -> None:
    code = "import sys\nprint('runyard.core' in sys.modules, sys.excepthook is sys.__excepthook__, sys.exit)\n"
    done = script.run(code, RUNYARD_RUN_FOLDER=folder)

    assert done.stdout.startswith("False True <built-in function exit>")
    assert script.facts("ends") == []


def test_a_run_folder_that_vanished_hurts_nobody(script: Script) -> None:
    code = "import os, shutil\nshutil.rmtree(os.environ['RUNYARD_RUN_FOLDER'])\nos.mkdir('/dev/null/x')\n"
    done = script.run(code)

    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("'/dev/null/x'")


def test_a_start_costs_little(script: Script) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUNYARD_"))}
    ours = {**environ, "PYTHONPATH": str(script.injection), "RUNYARD_RUN_FOLDER": str(script.run_folder)}

    def cpu_s(env: dict[str, str]) -> float:
        process = subprocess.Popen([sys.executable, "-c", "pass"], env=env, start_new_session=True)
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    cpu_s(ours)
    bare = injected = float("inf")
    for _ in range(20):
        bare, injected = min(bare, cpu_s(environ)), min(injected, cpu_s(ours))

    assert injected - bare < 0.003


@pytest.mark.parametrize("version", pythons())
def test_joblib_answers_the_old_imports_of_scikit_learn(script: Script, tmp_path: Path, version: str) -> None:
    files = {
        "joblib/__init__.py": "from joblib import numpy_pickle",
        "joblib/numpy_pickle.py": "class Wrapper: pass",
        "sklearn/__init__.py": "",
        "sklearn/externals/__init__.py": "",
    }
    for name, text in files.items():
        (tmp_path / "packages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "packages" / name).write_text(text)
    code = """
from sklearn.externals import joblib
import sklearn.externals.joblib as again, joblib as real, importlib, pickle
print(joblib is real is again, joblib.__spec__.name)
print(pickle.loads(b"csklearn.externals.joblib.numpy_pickle\\nWrapper\\n.") is real.numpy_pickle.Wrapper)
importlib.reload(joblib)
"""

    done = script.run(code, python=pythons()[version], path=str(tmp_path / "packages"))

    assert done.stdout == "True joblib\nTrue\n", done.stderr
    assert done.stderr == "runyard: `sklearn.externals.joblib` is gone; `joblib` is used in its place.\n"


def test_an_old_import_without_its_successor_fails_as_ever(script: Script, tmp_path: Path) -> None:
    (tmp_path / "sklearn" / "externals").mkdir(parents=True)
    for folder in ("sklearn", "sklearn/externals"):
        (tmp_path / folder / "__init__.py").touch()

    done = script.run("import sklearn.externals.joblib\n", "-S", path=str(tmp_path))

    assert "ModuleNotFoundError" in done.stderr


def test_a_script_that_has_the_old_module_keeps_it(script: Script, tmp_path: Path) -> None:
    for folder in ("sklearn", "sklearn/externals", "joblib"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "sklearn/externals/joblib.py").write_text("OWN = True")

    done = script.run("from sklearn.externals import joblib\nprint(joblib.OWN)\n", path=str(tmp_path))

    assert (done.stdout, done.stderr) == ("True\n", "")
