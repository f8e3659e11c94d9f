"""Exact versions without a wheel for the Python of a build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import BuiltEnvironment
from runyard.environments.pip import plan_pip
from runyard.environments.wheels import exact_pins
from tests.environments.wheels import make_wheel, offline, uv_builder
from tests.interpreters import pythons

OWN = "{}.{}".format(*sys.version_info[:2])
OTHERS = [version for version in pythons() if version != OWN]


def ask(built: BuiltEnvironment, code: str) -> str:
    return subprocess.run([built.interpreter, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def tag(minor: str) -> str:
    return f"cp{minor.replace('.', '')}-none-any"


def test_only_lines_that_name_one_version_are_pins() -> None:
    lines = ["A_b==1.0", "c[x]==2; python_version>'3'", "d>=1", "e==3.*", "f @ file:///f.whl", "g===1.5", "h~=1"]
    spec = EnvironmentSpec(kind="uv", pip_packages=lines)

    assert exact_pins(plan_pip(spec, variables={"HOME": "/"})) == {"a-b": "1.0", "c": "2", "e": "3.*", "g": "1.5"}
    hashed = EnvironmentSpec(kind="uv", pip_packages=lines, pip_options=["--require-hashes"])
    assert exact_pins(plan_pip(hashed, variables={"HOME": "/"})) == {}


def test_a_version_without_a_wheel_becomes_the_next_one_and_the_run_says_so(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "alpha", "1.0", tag="cp35-none-any")
    for version in ("0.9", "2.0", "3.0"):
        make_wheel(wheels, "alpha", version)
    make_wheel(wheels, "beta", "2.0", tag="cp36-none-any")
    make_wheel(wheels, "beta", "1.0")
    spec = offline(wheels, "alpha==1.0", "beta==2.0")
    built = uv_builder(tmp_path / "home").build(spec, say=print)
    again = uv_builder(tmp_path / "home").build(spec, say=print)

    assert ask(built, "import alpha, beta; print(alpha.version, beta.version)") == "2.0 1.0"
    assert [text.split(". RUNYARD")[0] for text in built.warnings] == [
        f"alpha 1.0 has no wheel for Python {sys.version.split()[0]}: alpha 2.0 is installed instead",
        f"beta 2.0 has no wheel for Python {sys.version.split()[0]}: beta 1.0 is installed instead",
    ]
    assert again.warnings == built.warnings


@pytest.mark.long
def test_versions_that_do_not_go_together_are_loosened(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "alpha", "1.0", tag="cp35-none-any")
    make_wheel(wheels, "alpha", "2.0", requires=("beta>=9",))
    make_wheel(wheels, "alpha", "3.0", requires=("beta",))
    make_wheel(wheels, "beta", "1.0")
    built = uv_builder(tmp_path / "home").build(offline(wheels, "alpha==1.0", "beta==1.0"), say=print)

    assert ask(built, "import alpha, beta; print(alpha.version, beta.version)") == "3.0 1.0"


def test_a_version_that_exists_nowhere_fails_as_before(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "alpha", "1.0")

    with pytest.raises(SubmitRejected, match="could not be installed") as caught:
        uv_builder(tmp_path / "home").build(offline(wheels, "alpha==7.0"), say=print)
    assert "alpha==7.0" in caught.value.why


def test_other_versions_can_be_forbidden(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "alpha", "1.0", tag="cp35-none-any")
    make_wheel(wheels, "alpha", "2.0")
    builder = uv_builder(tmp_path / "home", python_fallback="never")

    with pytest.raises(SubmitRejected, match="could not be installed"):
        builder.build(offline(wheels, "alpha==1.0"), say=print)
    with pytest.raises(SubmitRejected, match=r"Python 3\.6 is too old"):
        builder.build(offline(wheels, "alpha==2.0", python_version="3.6"), say=print)


@pytest.mark.long
@pytest.mark.skipif(not OTHERS, reason="there is one Python here")
def test_a_python_that_has_wheels_of_all_versions_is_preferred(tmp_path: Path) -> None:
    minor = OTHERS[-1]
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "alpha", "1.0", tag=tag(minor))
    make_wheel(wheels, "alpha", "2.0")
    make_wheel(wheels, "beta", "1.0", tag=tag(minor))
    make_wheel(wheels, "beta", "1.0", tag=tag(OWN))
    builder = uv_builder(tmp_path / "home")
    built = builder.build(offline(wheels, "alpha==1.0", "beta==1.0", interpreter=sys.executable), say=print)

    assert ask(built, "import sys, alpha; print('%d.%d' % sys.version_info[:2], alpha.version)") == f"{minor} 1.0"
    assert len(built.warnings) == 1
    assert built.warnings[0].startswith("alpha==1.0, beta==1.0 cannot be had as wheels for Python ")
    assert f"the environment is made with Python {minor}." in built.warnings[0]
    assert str(builder.describe(built)["python"]).startswith(f"{minor}.")


@pytest.mark.skipif(not OTHERS, reason="there is one Python here")
def test_a_python_that_was_asked_for_and_is_there_stays(tmp_path: Path) -> None:
    minor = OTHERS[-1]
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "alpha", "1.0", tag=tag(OWN))
    make_wheel(wheels, "alpha", "2.0")
    spec = offline(wheels, "alpha==1.0", python_version=minor, interpreter=sys.executable)
    built = uv_builder(tmp_path / "home").build(spec, say=print)

    assert ask(built, "import sys, alpha; print('%d.%d' % sys.version_info[:2], alpha.version)") == f"{minor} 2.0"


def test_packages_that_were_built_before_numpy_2_get_numpy_1(tmp_path: Path) -> None:
    """Such wheels do not say it, and fail when they are imported: torch 1.11 beside `numpy>=1.23`."""
    wheels = tmp_path / "wheels"
    for version in ("1.26.4", "2.1.0"):
        make_wheel(wheels, "numpy", version)
    for version in ("1.11.0", "2.4.0"):
        make_wheel(wheels, "torch", version)
    said: list[str] = []
    builder = uv_builder(tmp_path / "home")
    old, new, asked = [
        builder.build(offline(wheels, *packages), say=said.append)
        for packages in (
            ("torch==1.11.0", "numpy>=1.23"),
            ("torch==2.4.0", "numpy>=1.23"),
            ("torch==1.11.0", "numpy==2.1.0"),
        )
    ]

    assert [ask(one, "import numpy; print(numpy.version)") for one in (old, new, asked)] == ["1.26.4", "2.1.0", "2.1.0"]
    assert said.count("Kept to numpy<2, which torch 1.11.0 was built for.") == 1


def test_an_old_python_keeps_packages_to_what_its_code_knows(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for version in ("1.23.5", "2.0.0"):
        make_wheel(wheels, "numpy", version)
        make_wheel(wheels, "alpha", version)
    said: list[str] = []
    spec = offline(wheels, "numpy", "alpha", python_version="3.6.2")
    built = uv_builder(tmp_path / "home").build(spec, say=said.append)

    assert ask(built, "import numpy, alpha; print(numpy.version, alpha.version)") == "1.23.5 2.0.0"
    assert built.warnings[0].startswith("Python 3.6.2 is too old (runs need 3.8 or newer); 3.")
    assert "Kept to versions that code of Python 3.6.2 knows: numpy<1.24, pandas<2, protobuf<3.21." in said
    below = offline(wheels, "numpy<3; python_version<'4'", python_version="3.6.2")
    assert ask(uv_builder(tmp_path / "home").build(below, say=print), "import numpy; print(numpy.version)") == "1.23.5"
    own = uv_builder(tmp_path / "home").build(offline(wheels, "numpy>=2", python_version="3.6.2"), say=print)
    assert ask(own, "import numpy; print(numpy.version)") == "2.0.0"


@pytest.mark.external
def test_pins_of_2019_find_their_python_on_the_index(tmp_path: Path) -> None:
    spec = EnvironmentSpec(name="e", kind="uv", pip_packages=["scikit-learn==0.22.1", "pillow==6.2.1"])
    built = uv_builder(tmp_path / "home").build(spec, say=print)

    assert ask(built, "import sklearn, PIL; print(sklearn.__version__, PIL.__version__)") == "0.22.1 6.2.1"
    assert "cannot be had as wheels" in built.warnings[0]


@pytest.mark.external
@pytest.mark.timeout(300)
def test_sources_of_before_todays_setuptools_are_built(tmp_path: Path) -> None:
    packages = ["chainer==7.8.1", "numpy<1.24", "setuptools<66"]
    spec = EnvironmentSpec(name="e", kind="uv", pip_packages=packages, python_version="3.11")
    built = uv_builder(tmp_path / "home").build(spec, say=print)

    code = "import chainer.links as L, numpy; print(L.Linear(3, 2)(numpy.ones((4, 3), 'f')).shape)"
    assert ask(built, code) == "(4, 2)"
