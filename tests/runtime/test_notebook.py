"""Notebooks as scripts: their cells run in a kernel, or in the process itself, and the outputs are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.runtime.notebook import output_path, read_parameters, without_magics

SOURCE = str(Path(__file__).parent.parent.parent / "src")


def write(path: Path, *cells: str, tagged: int | None = None) -> None:
    made = [
        {
            "cell_type": "code",
            "metadata": {"tags": ["parameters"]} if at == tagged else {},
            "source": text.splitlines(True),
            "outputs": [],
            "execution_count": None,
        }
        for at, text in enumerate(cells)
    ]
    head = {"cell_type": "markdown", "metadata": {}, "source": ["# A title"]}
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [head, *made]}))


def execute(folder: Path, *arguments: str, with_kernel: bool) -> subprocess.CompletedProcess[str]:
    hide = "import sys; sys.modules['nbclient'] = None; " if not with_kernel else "import sys; "
    code = f"{hide}sys.argv[0] = 'notebook'; from runyard.runtime.notebook import main; main(sys.argv[1:])"
    environ = {**os.environ, "PYTHONPATH": SOURCE}
    environ.pop("RUNYARD_RANK", None)
    argv = [sys.executable, "-c", code, *arguments]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("with_kernel", [True, False])
def test_cells_run_in_order_and_their_outputs_are_kept(tmp_path: Path, with_kernel: bool) -> None:
    if with_kernel:
        pytest.importorskip("nbclient")
        pytest.importorskip("ipykernel")
    write(
        tmp_path / "nb.ipynb",
        "alpha = 0.1",
        "import sys\nprint('alpha', alpha)\nprint('to stderr', file=sys.stderr)\nalpha * 2",
        "!echo from-the-shell",
        "class Kept: pass\nimport pickle\ntype(pickle.loads(pickle.dumps(Kept()))).__name__",
        tagged=0,
    )
    ended = execute(tmp_path, "nb.ipynb", "--alpha", "0.7", with_kernel=with_kernel)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["alpha", "0.7", "1.4", "from-the-shell", "'Kept'"]
    assert "to stderr" in ended.stderr
    kept = json.loads((tmp_path / "outputs/nb.ipynb").read_text())
    assert "".join(kept["cells"][2]["source"]) == "# Parameters\nalpha = 0.7\n"
    outputs = kept["cells"][3]["outputs"]
    assert any(one.get("name") == "stdout" and "alpha 0.7" in "".join(one["text"]) for one in outputs)
    assert any("1.4" in "".join(one.get("data", {}).get("text/plain", "")) for one in outputs)
    assert "from-the-shell" in json.dumps(kept["cells"][4]["outputs"])
    assert json.loads((tmp_path / "nb.ipynb").read_text())["cells"][2]["outputs"] == []  # the source stays as it is


@pytest.mark.parametrize("with_kernel", [True, False])
def test_a_cell_that_fails_is_named_and_those_before_are_kept(tmp_path: Path, with_kernel: bool) -> None:
    if with_kernel:
        pytest.importorskip("nbclient")
        pytest.importorskip("ipykernel")
    write(tmp_path / "nb.ipynb", "print('before')", "def f():\n    return 1 / 0\nf()", "print('never')")
    ended = execute(tmp_path, "nb.ipynb", "beta=1", with_kernel=with_kernel)

    assert ended.returncode == 1
    assert ended.stdout == "before\n"
    assert ended.stderr.rstrip().endswith("CellFailed: Cell 3 of nb.ipynb raised ZeroDivisionError: division by zero")
    assert "return 1 / 0" in ended.stderr
    kept = json.loads((tmp_path / "outputs/nb.ipynb").read_text())
    assert [one["output_type"] for one in kept["cells"][3]["outputs"]] == ["error"]


def test_parameters_are_read_from_arguments() -> None:
    words = ["--alpha", "0.5", "--use-gpu", "--name=x y", "layers=[1, 2]", "--flag", "false", "--low", "-3"]
    assert read_parameters(words) == {
        "alpha": 0.5,
        "use_gpu": True,
        "name": "x y",
        "layers": [1, 2],
        "flag": False,
        "low": -3,
    }
    with pytest.raises(SystemExit, match="'alone' has no name"):
        read_parameters(["alone"])


def test_a_magic_that_only_ipython_knows_is_refused() -> None:
    assert without_magics("%matplotlib inline\nx = 1 % 2") == "pass  # %matplotlib inline\nx = 1 % 2"
    with pytest.raises(SyntaxError, match="needs IPython"):
        without_magics("%%timeit\nx")


def test_what_is_no_notebook_is_told(tmp_path: Path) -> None:
    (tmp_path / "nb.ipynb").write_text("print(1)")
    assert "cannot be read as a notebook" in execute(tmp_path, "nb.ipynb", with_kernel=False).stderr


def test_each_rank_has_a_notebook_of_its_own() -> None:
    assert output_path("a/nb.ipynb", {}) == "outputs/nb.ipynb"
    assert output_path("a/nb.ipynb", {"RUNYARD_RANK": "1"}) == "outputs/nb_rank1.ipynb"


def test_a_cell_that_takes_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("RUNYARD_NOTEBOOK_TIMEOUT", "1")
    monkeypatch.setenv("RUNYARD_NOTEBOOK_OUTPUT", "out/done.ipynb")
    write(tmp_path / "nb.ipynb", "x = 1", "import time\ntime.sleep(60)")
    ended = execute(tmp_path, "nb.ipynb", with_kernel=True)

    assert "Cell 3 of nb.ipynb raised TimeoutError: it took longer than 1 s" in ended.stderr
    assert (tmp_path / "out/done.ipynb").exists()
