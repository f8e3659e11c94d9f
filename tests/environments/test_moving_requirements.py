"""Requirements that name a folder or a branch: how they are read, and what they mean at this moment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.folder_requirements import folder_digest, folder_of, with_folder
from runyard.environments.git_requirements import GitReference, find_reference, with_commit
from runyard.supervisor.lifecycle.requirements import PinnedRequirements, bring_built_modules, pin_requirements
from tests.snapshots.folders import write

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("line", "folder", "moved"),
    [
        ("/p/lib", "/p/lib", "/c"),
        ("/p/lib[gpu, dev] ; python_version > '3.8'", "/p/lib", "/c[gpu, dev] ; python_version > '3.8'"),
        ("lib @ file:///p/my%20lib", "/p/my lib", "lib @ file:///c"),
        ("lib[gpu] @ /p/lib", "/p/lib", "lib[gpu] @ /c"),
        ("--editable /p/lib[dev]", "/p/lib", "--editable /c[dev]"),
        ("-e /p/lib/.", "/p/lib", "-e /c"),
        ("/p/lib-1.0-py3-none-any.whl", None, None),
        ("lib @ https://host/lib.zip", None, None),
        ("--find-links /p/wheels", None, None),
        ("numpy>=1.2", None, None),
    ],
)
def test_a_folder_in_a_requirement_is_found_and_replaced(line: str, folder: str | None, moved: str | None) -> None:
    assert folder_of(line) == folder
    assert moved is None or with_folder(line, "/c") == moved


@pytest.mark.parametrize(
    ("line", "url", "ref", "pinned"),
    [
        ("git+https://h/r.git@main", "https://h/r.git", "main", f"git+https://h/r.git@{COMMIT}"),
        ("lib @ git+https://h/r.git", "https://h/r.git", "HEAD", f"lib @ git+https://h/r.git@{COMMIT}"),
        (
            "lib[x] @ git+ssh://git@h/o/r.git@v1.0#subdirectory=a ; python_version>'3'",
            "ssh://git@h/o/r.git",
            "v1.0",
            f"lib[x] @ git+ssh://git@h/o/r.git@{COMMIT}#subdirectory=a ; python_version>'3'",
        ),
        (
            "git+https://me:token@h/r@feature/x#egg=lib",
            "https://me:token@h/r",
            "feature/x",
            f"git+https://me:token@h/r@{COMMIT}#egg=lib",
        ),
        ("git+file:///p/r@dev", "file:///p/r", "dev", f"git+file:///p/r@{COMMIT}"),
    ],
)
def test_a_branch_in_a_requirement_is_found_and_replaced(line: str, url: str, ref: str, pinned: str) -> None:
    assert find_reference(line) == GitReference(url, ref)
    assert with_commit(line, COMMIT) == pinned
    assert find_reference(pinned) is None


@pytest.mark.parametrize("line", ["numpy==1.0", f"lib @ git+https://h/r@{COMMIT}", "lib @ https://h/lib.whl"])
def test_what_cannot_move_is_left_alone(line: str) -> None:
    assert find_reference(line) is None


def test_only_what_decides_on_an_installation_counts_of_an_editable_folder(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": "1", "lib/a.py": "1", "lib/fast.pyx": "1", ".git/HEAD": "x", "build/lib/a": "x"})
    whole, editable = (folder_digest(str(tmp_path), editable=kind) for kind in (False, True))
    write(tmp_path, {".git/HEAD": "y", "build/lib/a": "y", "lib/__pycache__/a.pyc": "y", "lib.egg-info/x": "y"})
    write(tmp_path, {"env/pyvenv.cfg": "", "env/lib/x.py": ""})
    assert whole == folder_digest(str(tmp_path), editable=False)
    write(tmp_path, {"lib/a.py": "2"})
    assert whole != folder_digest(str(tmp_path), editable=False)
    assert editable == folder_digest(str(tmp_path), editable=True)
    for file in ("lib/fast.pyx", "pyproject.toml"):
        before = folder_digest(str(tmp_path), editable=True)
        write(tmp_path, {file: "2"})
        assert before != folder_digest(str(tmp_path), editable=True)


class Site:
    """A source folder, its work folder, and the cache of a node."""

    def __init__(self, root: Path) -> None:
        self.source, self.work, self.cache = root / "source", root / "run" / "work", root / "cache"
        self.said: list[str] = []

    def pin(self, *lines: str) -> PinnedRequirements:
        return pin_requirements(
            EnvironmentSpec(
                kind="uv",
                pip_packages=[line for line in lines if not line.startswith("-")],
                pip_options=[line for line in lines if line.startswith("-")],
            ),
            source=str(self.source),
            work=str(self.work),
            cache=str(self.cache),
            variables=dict(os.environ),
            say=self.said.append,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_folder_of_the_source_becomes_a_copy_of_the_snapshots(site: Site, tmp_path: Path) -> None:
    """The source folder itself may be on another machine: only the snapshot counts."""
    write(site.work, {"pkg/pyproject.toml": '[project]\nname = "my-lib"\n[tool.setuptools_scm]\n', "pkg/a.py": "1"})
    write(tmp_path, {"elsewhere/pyproject.toml": ""})
    pinned = site.pin(f"{site.source}/pkg[x]", f"--editable {site.source}/pkg", f"{tmp_path}/elsewhere", "numpy")
    [plain, elsewhere, numpy], [editable] = pinned.spec.pip_packages, pinned.spec.pip_options
    copy = folder_of(plain)

    assert plain == f"{copy}[x]" and (elsewhere, numpy) == (f"{tmp_path}/elsewhere", "numpy")
    assert copy is not None and Path(copy, "a.py").read_text() == "1" and copy.startswith(str(site.cache))
    assert pinned.mirrors == {folder_of(editable): f"{site.work}/pkg"} and folder_of(editable) != copy
    assert pinned.variables == {"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_LIB": "0.0.0"}
    write(Path(copy), {"_version.py": "left by a build"})
    assert site.pin(f"{site.source}/pkg[x]").spec.pip_packages == [plain]
    assert site.said[0] == f"`{site.source}/pkg[x]` is installed from the run's snapshot, out of the copy {copy}."


def test_what_an_editable_installation_compiled_is_brought_to_the_snapshot(site: Site) -> None:
    write(site.work, {"pyproject.toml": "", "lib/__init__.py": ""})
    mirrors = site.pin(f"--editable {site.source}").mirrors
    [copy] = mirrors
    write(Path(copy), {"lib/_fast.cpython-311.so": "built"})
    bring_built_modules(mirrors)

    assert (site.work / "lib" / "_fast.cpython-311.so").read_text() == "built"


def test_a_folder_that_the_snapshot_lacks_is_said(site: Site) -> None:
    write(site.source, {"vendor/pyproject.toml": ""})
    write(site.work, {"train.py": ""})

    with pytest.raises(SubmitRejected, match="not in the run's snapshot"):
        site.pin(f"{site.source}/vendor")


def test_a_tag_is_its_commit_and_the_last_known_one_serves_while_nobody_answers(site: Site, tmp_path: Path) -> None:
    repository = tmp_path / "r"
    write(repository, {"x": ""})

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
        return subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "trunk")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("tag", "-a", "v1", "-m", "annotated")
    commit = git("rev-parse", "HEAD")
    lines = [f"lib @ git+file://{repository}@v1", f"lib @ git+file://{repository}"]
    pinned = site.pin(*lines)
    assert pinned.commits == dict.fromkeys(lines, commit) and pinned.warnings == []
    assert pinned.spec.pip_packages == [f"lib @ git+file://{repository}@{commit}"] * 2
    shutil.rmtree(repository)
    again = site.pin(*lines, f"git+file://{repository}@other")

    assert again.commits == pinned.commits and again.spec.pip_packages[2] == f"git+file://{repository}@other"
    assert len(again.warnings) == 2 and "could not be asked for the commit of `v1`" in again.warnings[0]
