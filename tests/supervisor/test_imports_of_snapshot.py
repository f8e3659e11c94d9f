"""A run imports the code of its snapshot, however that code was installed as editable."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runyard.environments.editable import find_live_code
from runyard.runtime.injection import injection_folder
from runyard.supervisor.lifecycle.imports import Imports, plan_imports
from tests.snapshots.folders import write

FINDER = """
import sys
from importlib.machinery import PathFinder
from importlib.util import spec_from_file_location
MAPPING = {mapping!r}
class Finder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        top, _, rest = fullname.partition(".")
        if top in MAPPING and not rest:
            return spec_from_file_location(fullname, MAPPING[top] + "/__init__.py")
def install():
    sys.meta_path.{how}Finder)
"""


class Checkout:
    """A project with a package, its Python with editable installs, and the work folder of a run of it."""

    def __init__(self, root: Path, shared: Path) -> None:
        self.root = root
        self.source, self.work = root / "project", root / "run" / "work"
        [self.site] = (shared / "env" / "lib").glob("python3*/site-packages")
        shutil.rmtree(self.site)  # what another test installed there
        self.site.mkdir()
        self.python = str(shared / "env" / "bin" / "python")
        self.injection = injection_folder(shared / "home")

    def fill(self, *packages: str) -> None:
        """Write packages whose VALUE tells which copy was imported."""
        for package in packages:
            write(self.source, {f"{package}/__init__.py": "VALUE = 'live'", f"{package}/part.py": "VALUE = 'live'"})
            write(self.work, {f"{package}/__init__.py": "VALUE = 'taken'", f"{package}/part.py": "VALUE = 'taken'"})

    def hook(self, *, first: bool = False, **mapping: Path) -> None:
        """Install an import hook as setuptools does."""
        paths = {name: str(path) for name, path in mapping.items()}
        text = FINDER.format(mapping=paths, how="insert(0, " if first else "append(")
        write(self.site, {"__editable___lib_1_0_finder.py": text})
        line = "import __editable___lib_1_0_finder; __editable___lib_1_0_finder.install()"
        write(self.site, {"__editable__.lib-1.0.pth": line + "\n"})

    def plan(self) -> Imports:
        links = str(self.work.parent / "imports")
        return plan_imports(self.python, {}, source=str(self.source), work=str(self.work), links_folder=links)

    def imported(self, code: str, *, script: str = "train.py") -> str:
        """Run a script of the work folder as a run does, and return what it prints."""
        write(self.work, {script: textwrap.dedent(code)})
        environ = {
            "PATH": os.defpath,
            "PYTHONPATH": str(self.injection),
            "RUNYARD_RUN_FOLDER": str(self.work.parent),
            "RUNYARD_IMPORT_PATH": os.pathsep.join(self.plan().path),
        }
        done = subprocess.run(
            [self.python, script], cwd=self.work, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment of its own, made once for all tests."""
    folder = tmp_path_factory.mktemp("shared")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    return folder


@pytest.fixture
def checkout(tmp_path: Path, shared: Path) -> Checkout:
    return Checkout(tmp_path, shared)


USE = "import lib, lib.part; print(lib.VALUE, lib.part.VALUE)"


def test_a_path_file_of_hatch_poetry_and_uv(checkout: Checkout) -> None:
    checkout.fill("src/lib")
    write(checkout.site, {"_lib.pth": f"{checkout.source / 'src'}\n"})

    assert checkout.imported(USE) == "taken taken"
    assert checkout.plan() == Imports([str(checkout.work / "src"), str(checkout.work)], [])


def test_a_finder_of_setuptools(checkout: Checkout) -> None:
    checkout.fill("code/lib")
    checkout.hook(lib=checkout.source / "code" / "lib")

    assert checkout.imported(USE) == "taken taken"


def test_a_package_whose_folder_has_another_name(checkout: Checkout) -> None:
    checkout.fill("code")
    checkout.hook(lib=checkout.source / "code")

    assert checkout.imported(USE) == "taken taken"


def test_a_redirector_of_hatch(checkout: Checkout) -> None:
    checkout.fill("pkg/lib")
    calls = f"F.map_module('lib', '{checkout.source}/pkg/lib/__init__.py')"
    write(checkout.site, {"_editable_impl_lib.py": f"class F:\n    map_module = print\n{calls}\n"})
    write(checkout.site, {"_editable_impl_lib.pth": "import _editable_impl_lib"})

    assert checkout.plan().path == [str(checkout.work / "pkg"), str(checkout.work)]


def test_a_link_of_flit(checkout: Checkout) -> None:
    checkout.fill("lib")
    (checkout.site / "lib").symlink_to(checkout.source / "lib")

    assert checkout.imported(USE) == "taken taken"


def test_a_source_folder_that_is_the_package_itself(checkout: Checkout) -> None:
    checkout.fill(".")
    write(checkout.root, {"pyproject.toml": ""})
    write(checkout.site, {"lib.pth": f"{checkout.root}\n"})

    assert checkout.imported("import project.part; print(project.part.VALUE)") == "taken"
    assert checkout.plan().warnings == []


def test_code_outside_of_the_source_folder_is_named_in_a_warning(checkout: Checkout) -> None:
    checkout.fill("lib")
    write(checkout.root, {"other/pyproject.toml": "", "other/src/common.py": ""})
    write(checkout.site, {"__editable__.my_common-1.0.pth": f"{checkout.root}/other/src\n"})
    write(checkout.site, {"my_common-1.0.dist-info/METADATA": "Name: my-common\nVersion: 1.0\n\n"})
    url = f'{{"url": "file://{checkout.root}/other", "dir_info": {{"editable": true}}}}'
    write(checkout.site, {"my_common-1.0.dist-info/direct_url.json": url})
    [warning] = checkout.plan().warnings

    assert "The package `my-common` is installed as editable" in warning and f"`{checkout.root}/other/src`" in warning
    assert "live code" in warning


def test_a_finder_that_is_asked_first_cannot_be_replaced_and_is_named(checkout: Checkout) -> None:
    checkout.fill("lib")
    checkout.hook(first=True, lib=checkout.source / "lib")

    assert [one.comes_first for one in find_live_code(checkout.python, {})] == [True]
    assert "The package `lib` is installed as editable" in checkout.plan().warnings[0]


def test_paths_that_are_no_editable_install_are_left_alone(checkout: Checkout) -> None:
    checkout.fill("lib")
    write(checkout.root, {"elsewhere/tool.py": ""})
    write(checkout.site, {"tools.pth": f"# a remark\n\n{checkout.root}/elsewhere\nnot/there\nimport os\n"})

    assert checkout.plan() == Imports([str(checkout.work)], [])


def test_a_script_in_a_subfolder_imports_from_the_root_but_never_instead_of_the_standard_library(
    checkout: Checkout,
) -> None:
    write(checkout.work, {"helpers.py": "VALUE = 7", "random.py": "raise SystemExit('hides the standard one')"})

    assert checkout.imported("import helpers, random; print(helpers.VALUE)", script="steps/a.py") == "7"
