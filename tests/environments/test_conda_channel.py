"""Real conda packages: py-rattler, and a channel of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.conda.builder import CondaBuilder
from runyard.environments.uv_program import find_uv
from runyard.sdk.environments.plan import plan_environment
from runyard.sdk.environments.projects import environment_of_file
from tests.environments.channel import PYTHON, SUBDIR, make_channel

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]
RATTLER = "py-rattler==0.28.*"  # the pin of the extra `conda`


@pytest.fixture(scope="module")
def rattler(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a Python that has the extra `conda`."""
    folder = tmp_path_factory.mktemp("rattler")
    uv = find_uv(os.environ)
    python = str(folder / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True, cwd="/")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, RATTLER], check=True, cwd="/")
    return python


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_channel(tmp_path_factory.mktemp("channel"))


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory, rattler: str) -> CondaBuilder:
    return CondaBuilder(settings=Settings(home=tmp_path_factory.mktemp("home")), python=rattler)


def a_spec(channel: str, *packages: str, pip: tuple[str, ...] = ()) -> EnvironmentSpec:
    return EnvironmentSpec(
        name="e",
        kind="conda",
        conda_packages=list(packages),
        conda_channels=[channel],
        pip_packages=list(pip),
        python_version=PYTHON,
    )


def ask(interpreter: str, script: str) -> str:
    done = subprocess.run([interpreter, "-I", "-c", script], check=True, capture_output=True, text=True, cwd="/")
    return done.stdout.strip()


def test_packages_are_installed_into_a_prefix_with_pip_packages_on_top(builder: CondaBuilder, channel: str) -> None:
    spec = a_spec(channel, "tinylib", pip=("six==1.17.0",))

    built = builder.build(spec, say=print)
    found = ask(built.interpreter, "import sys, six, tinylib; print(sys.prefix, six.__version__, tinylib.VERSION)")
    described = builder.describe(built)
    lock = builder.lock(spec, built)

    assert found.split() == [os.path.dirname(os.path.dirname(built.interpreter)), "1.17.0", "2.0"]
    conda = described["conda"]
    assert isinstance(conda, list)
    assert [(one["name"], one["version"], one["build"], len(one["sha256"])) for one in conda] == [
        ("python", "{}.{}.{}".format(*sys.version_info[:3]), "0", 64),
        ("tinylib", "2.0", "0", 64),
    ]
    assert "six==1.17.0 \\\n    --hash=sha256:" in lock
    assert "# conda: tinylib=2.0=0 sha256:" in lock


def test_files_are_hard_links_of_the_package_cache(builder: CondaBuilder, channel: str) -> None:
    built = builder.build(a_spec(channel, "tinylib"), say=print)
    module = Path(ask(built.interpreter, "import tinylib; print(tinylib.__file__)"))

    assert module.stat().st_nlink > 1


def test_a_dependency_decides_the_version(builder: CondaBuilder, channel: str) -> None:
    built = builder.build(a_spec(channel, "needsold"), say=print)

    assert ask(built.interpreter, "import tinylib; print(tinylib.VERSION)") == "1.0"


def test_a_virtual_package_of_this_machine_is_known(builder: CondaBuilder, channel: str) -> None:
    built = builder.build(a_spec(channel, "wantslinux"), say=print)
    with pytest.raises(SubmitRejected, match="__cuda >=99, for which no candidates were found"):
        builder.build(a_spec(channel, "wantscuda"), say=print)

    assert Path(built.interpreter).exists()


@pytest.mark.parametrize(
    ("packages", "tree"),
    [
        (("nosuch",), "No candidates were found for nosuch"),
        (("needsold", "tinylib=2"), "needsold 1.0 would require\n   └─ tinylib ==1.0"),
        (("tinylib >>1",), "unable to parse version spec"),
    ],
)
def test_the_solvers_tree_is_the_error(
    builder: CondaBuilder, channel: str, packages: tuple[str, ...], tree: str
) -> None:
    with pytest.raises(SubmitRejected) as failed:
        builder.build(a_spec(channel, *packages), say=print)

    assert tree in failed.value.why


def test_a_channel_that_is_not_there_is_named(builder: CondaBuilder, tmp_path: Path) -> None:
    with pytest.raises(SubmitRejected) as failed:
        builder.build(a_spec(str(tmp_path / "none"), "tinylib"), say=print)

    assert "could not find subdir" in failed.value.why
    assert str(tmp_path / "none") in failed.value.hint


def test_a_channel_that_does_not_answer_means_pypi(builder: CondaBuilder) -> None:
    built = builder.build(a_spec("http://127.0.0.1:9/c", "six=1.17.0"), say=print)

    assert "taken from PyPI (six==1.17.0.*): no conda channel answers (Connection refused" in built.warnings[0]
    assert ask(built.interpreter, "import six; print(six.__version__)") == "1.17.0"


def test_a_pixi_lock_is_installed_in_its_exact_builds(builder: CondaBuilder, channel: str, tmp_path: Path) -> None:
    python = "{}.{}.{}".format(*sys.version_info[:3])
    (tmp_path / "pixi.lock").write_text(
        f"version: 6\nenvironments:\n  default:\n    channels:\n    - url: {channel}\n    packages:\n      {SUBDIR}:\n"
        f"      - conda: {channel}/{SUBDIR}/python-{python}-0.tar.bz2\n"
        f"      - conda: {channel}/{SUBDIR}/tinylib-1.0-0.tar.bz2\n"
    )
    locked = environment_of_file(str(tmp_path / "pixi.lock"))
    assert locked is not None

    built = builder.build(plan_environment(locked), say=print)

    assert ask(built.interpreter, "import platform, tinylib; print(platform.python_version(), tinylib.VERSION)") == (
        f"{python} 1.0"
    )


def test_a_range_of_pythons_is_conda_s_own(builder: CondaBuilder, channel: str) -> None:
    spec = replace(a_spec(channel, "tinylib"), python_version=f">={PYTHON},<4")
    assert ask(builder.build(spec, say=print).interpreter, "import tinylib; print(tinylib.VERSION)") == "2.0"
