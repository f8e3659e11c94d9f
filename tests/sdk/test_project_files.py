"""Environments from the files that projects have: uv's, Poetry's and pixi's, and the headers of scripts."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, NotFound, SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.pythons import find_python
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.lock_graph import Chosen
from runyard.sdk.environments.plan import plan_environment
from runyard.sdk.environments.projects import environment_of_file, environment_of_script
from tests.environments.wheels import make_wheel, uv_builder

OPEN = "https://pypi." + "org/simple"
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64

UV_LOCK = f"""
version = 1
requires-python = ">=3.8, <4"
[[package]]
name = "demo"
version = "0.1.0"
source = {{ editable = "." }}
dependencies = [
    {{ name = "old", version = "1.0", marker = "python_full_version < '3.10'" }},
    {{ name = "old", version = "2.0", marker = "python_full_version >= '3.10'" }},
    {{ name = "rich", extra = ["all"] }},
]
[package.dev-dependencies]
dev = [{{ name = "checker" }}]
docs = [{{ name = "unused" }}]
[[package]]
name = "old"
version = "1.0"
source = {{ registry = "{OPEN}" }}
wheels = [{{ url = "https://x/old-1.0-py3-none-any.whl", hash = "{A}" }}]
dependencies = [{{ name = "both" }}]
[[package]]
name = "old"
version = "2.0"
source = {{ registry = "{OPEN}" }}
wheels = [
    {{ url = "https://x/old-2.0-cp310-cp310-win_amd64.whl", hash = "{A}" }},
    {{ url = "https://x/old-2.0-cp310-cp310-manylinux_2_17_x86_64.whl", hash = "{B}" }},
]
dependencies = [{{ name = "both", marker = "sys_platform == 'win32'" }}]
[[package]]
name = "both"
version = "3"
source = {{ registry = "https://private.example/simple" }}
sdist = {{ url = "https://x/both-3.tar.gz", hash = "{A}" }}
[[package]]
name = "rich"
version = "4"
source = {{ git = "https://example.org/rich?rev=main#0123abc" }}
[package.optional-dependencies]
all = [{{ name = "inner" }}]
[[package]]
name = "inner"
version = "5"
source = {{ path = "wheels/inner-5-py3-none-any.whl" }}
wheels = [{{ filename = "inner-5-py3-none-any.whl", hash = "{A}" }}]
[[package]]
name = "checker"
version = "6"
source = {{ registry = "{OPEN}" }}
wheels = [{{ url = "https://x/checker-6-py3-none-any.whl", hash = "{A}" }}]
[[package]]
name = "unused"
version = "7"
source = {{ registry = "{OPEN}" }}
"""
PYPROJECT = '[project]\nname = "demo"\nrequires-python = ">=3.8"\ndependencies = ["numpy>=1"]\n[build-system]\n'


def plan_of(path: Path, **chosen: Any) -> EnvironmentSpec:
    environment = environment_of_file(str(path), Chosen(**chosen))
    assert environment is not None
    return plan_environment(environment)


@pytest.fixture
def uv_project(tmp_path: Path) -> Path:
    (tmp_path / "uv.lock").write_text(UV_LOCK)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    return tmp_path


def test_uv_lock_is_what_uv_sync_installs(uv_project: Path) -> None:
    spec = plan_of(uv_project / "uv.lock")

    assert (spec.kind, spec.name, spec.python_version) == ("uv", "demo", ">=3.8,<4")
    assert spec.pip_packages == [
        f"old==1.0 ; python_full_version < '3.10' --hash={A}",
        f"old==2.0 ; python_full_version >= '3.10' --hash={B}",
        "both==3 ; (python_full_version < '3.10') or (python_full_version >= '3.10' and sys_platform == 'win32')"
        f" --hash={A}",
        "rich @ git+https://example.org/rich@0123abc",
        f"inner @ file://{uv_project}/wheels/inner-5-py3-none-any.whl --hash={A}",
        f"checker==6 --hash={A}",
    ]
    assert spec.pip_options == [
        f"--editable {uv_project}",
        "--no-deps",
        "--extra-index-url https://private.example/simple",
    ]
    assert plan_of(uv_project / "pyproject.toml").pip_packages == spec.pip_packages


def test_a_folder_means_its_lock(uv_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(uv_project)
    assert plan_of(Path(".")).name == "demo"


def test_a_member_of_a_workspace_finds_the_lock_above(uv_project: Path) -> None:
    member = uv_project / "packages" / "part"
    member.mkdir(parents=True)
    (member / "pyproject.toml").write_text('[project]\nname = "part"\n')
    with pytest.raises(SubmitRejected, match="does not know the project"):
        plan_of(member / "pyproject.toml")
    lock = (
        UV_LOCK
        + '[[package]]\nname = "part"\nsource = { virtual = "packages/part" }\ndependencies = [{ name = "checker" }]\n'
    )
    (uv_project / "uv.lock").write_text(lock)

    spec = plan_of(member / "pyproject.toml")

    assert (spec.name, spec.pip_packages, spec.pip_options) == ("part", [f"checker==6 --hash={A}"], ["--no-deps"])


def test_a_project_without_a_lock_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    spec = plan_of(tmp_path / "pyproject.toml")

    assert (spec.pip_packages, spec.pip_options) == (["numpy>=1"], [f"--editable {tmp_path}"])
    assert "uv lock" in caplog.text


def test_poetry_lock_of_poetry_2(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.poetry]\nname = "pt"\n[tool.poetry.group.docs]\noptional = true\n[build-system]\n'
    )
    (tmp_path / "poetry.lock").write_text(
        f"""
[[package]]
name = "click"
version = "8.1.7"
optional = false
groups = ["main", "dev"]
markers = "python_version < '3.12'"
files = [{{file = "click-8.1.7-py3-none-any.whl", hash = "{A}"}}]
[[package]]
name = "six"
version = "1.16"
optional = true
groups = ["main"]
[[package]]
name = "sphinx"
version = "7"
optional = false
groups = ["docs"]
[[package]]
name = "mine"
version = "1"
optional = false
groups = ["main"]
markers = {{main = "sys_platform == 'linux'"}}
[package.source]
type = "git"
url = "https://example.org/mine.git"
resolved_reference = "0123abc"
[metadata]
lock-version = "2.1"
python-versions = "^3.9"
"""
    )
    spec = plan_of(tmp_path / "poetry.lock")

    assert (spec.name, spec.python_version) == ("pt", ">=3.9,<4")
    assert spec.pip_packages == [
        f"click==8.1.7 ; python_version < '3.12' --hash={A}",
        "mine @ git+https://example.org/mine.git@0123abc ; sys_platform == 'linux'",
    ]
    assert spec.pip_options == [f"--editable {tmp_path}", "--no-deps"]


def test_poetry_lock_of_poetry_1_is_walked(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.poetry]\nname = "pt"\npackage-mode = false\n[tool.poetry.dependencies]\npython = "^3.9"\n'
        'click = "^8"\nsix = {version = "*", optional = true}\n[build-system]\n'
    )
    lock = f"""
[[package]]
name = "click"
version = "8.1.7"
optional = false
files = [{{file = "click-8.1.7-py3-none-any.whl", hash = "{A}"}}]
[package.dependencies]
colorama = {{version = "*", markers = "platform_system == \\"Windows\\""}}
[[package]]
name = "colorama"
version = "0.4"
optional = false
files = [{{file = "colorama-0.4-py3-none-any.whl", hash = "{B}"}}]
[[package]]
name = "six"
version = "1.16"
optional = true
[metadata]
lock-version = "2.0"
python-versions = "^3.9"
"""
    (tmp_path / "poetry.lock").write_text(lock)
    spec = plan_of(tmp_path / "poetry.lock")
    assert spec.pip_packages == [
        f"click==8.1.7 --hash={A}",
        f'colorama==0.4 ; platform_system == "Windows" --hash={B}',
    ]
    assert spec.pip_options == ["--no-deps"]

    (tmp_path / "poetry.lock").write_text(lock.replace('name = "six"', 'name = "click"'))
    with pytest.raises(SubmitRejected, match="two versions of `click`"):
        plan_of(tmp_path / "poetry.lock")


def test_pixi_lock_goes_to_the_conda_builder(tmp_path: Path) -> None:
    here = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}[platform.machine()]
    lock = f"""
version: 6
environments:
  default:
    channels:
    - url: https://conda.anaconda.org/conda-forge/
    packages:
      {here}:
      - conda: https://conda.anaconda.org/conda-forge/{here}/python-3.12.1-hab00c5b_1_cpython.conda
      - conda: https://conda.anaconda.org/conda-forge/noarch/my-pkg-1.2-pyhd8ed1ab_0.conda
      - pypi: https://files.example/click-8.1.7-py3-none-any.whl
      - pypi: ./
packages:
- pypi: https://files.example/click-8.1.7-py3-none-any.whl
  name: click
  version: 8.1.7
  sha256: {"a" * 64}
"""
    (tmp_path / "pixi.lock").write_text(lock)
    (tmp_path / "pixi.toml").write_text('[workspace]\nname = "w"\n')
    spec = plan_of(tmp_path / "pixi.toml")

    assert (spec.kind, spec.python_version) == ("conda", "3.12.1")
    assert spec.conda_packages == ["my-pkg=1.2=pyhd8ed1ab_0"]
    assert spec.conda_channels == ["https://conda.anaconda.org/conda-forge/"]
    assert spec.pip_packages == [f"click==8.1.7 --hash={A}"]
    assert spec.pip_options == [f"--editable {tmp_path}", "--no-deps"]

    (tmp_path / "pixi.lock").write_text(lock.replace(f"      {here}:", "      osx-arm64:"))
    with pytest.raises(SubmitRejected, match="osx-arm64"):
        plan_of(tmp_path / "pixi.lock")


def test_pixi_toml_without_a_lock(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text(
        '[project]\nname = "w"\nchannels = ["conda-forge"]\n[dependencies]\npython = "3.11.*"\nnumpy = ">=1.26,<3"\n'
        'scipy = "*"\nblas = { version = "2.*", channel = "pkgs" }\n'
        '[pypi-dependencies]\nrich = { version = ">=13", extras = ["x"] }\n'
    )
    spec = plan_of(tmp_path / "pixi.toml")

    assert (spec.name, spec.kind, spec.python_version, spec.conda_channels) == ("w", "conda", "3.11", ["conda-forge"])
    assert spec.conda_packages == ["numpy>=1.26,<3", "scipy", "pkgs::blas=2.*"]
    assert spec.pip_packages == ["rich[x]>=13"]


def test_the_header_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    assert environment_of_script(str(script)) is None
    script.write_text(
        "#!/usr/bin/env python\n# /// script\n# requires-python = '>=3.8'\n# dependencies = [\n#   'alpha<3',\n# ]\n"
        "#\n# [[tool.uv.index]]\n# url = 'https://private.example/simple'\n# ///\nimport alpha\n"
    )
    spec = plan_of(script)

    assert (spec.name, spec.kind, spec.python_version) == ("train", "uv", ">=3.8")
    assert spec.pip_packages == ["alpha<3"]
    assert spec.pip_options == ["--extra-index-url https://private.example/simple"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# /// script\n# dependencies = 'a'\n# ///\n", "list of texts"),
        ("# /// script\n# dependencies = [\n# ///\n", "begins at line 1"),
        ("# /// script\n# dependencies = []\nprint()\n", "last line"),
        ("# /// script\n# requires-python = 'new'\n# ///\n", "'new'"),
    ],
)
def test_a_header_with_a_mistake_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "t.py").write_text(text)
    with pytest.raises(InvalidArgument) as error:
        environment_of_file(str(tmp_path / "t.py"))
    assert why in str(error.value)


def test_a_dockerfile_means_a_container(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.12-slim\n")
    spec = plan_of(tmp_path / "Dockerfile")
    assert spec.kind == "container" and spec.container is not None
    assert spec.container.dockerfile == "FROM python:3.12-slim\n"


def test_other_files_are_refused_with_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text("")
    with pytest.raises(InvalidArgument, match=r"uv\.lock, poetry\.lock, pixi\.toml"):
        environment_of_file(str(tmp_path / "Cargo.toml"))
    with pytest.raises(NotFound, match=r"no file `.*uv\.lock`"):
        environment_of_file(str(tmp_path / "uv.lock"))
    with pytest.raises(NotFound, match=r"no file `other\.lock`"):
        environment_of_file("other.lock")
    (tmp_path / "uv.lock").write_text("a = 1\nb\n")
    with pytest.raises(InvalidArgument, match="Line 2"):
        environment_of_file(str(tmp_path / "uv.lock"))
    assert environment_of_file("AzureML-Minimal") is None


def test_locked_files_are_installed_by_their_hashes(tmp_path: Path) -> None:
    """A wheel that is not the locked one is refused, though its name and version are right."""
    import hashlib

    wheels = tmp_path / "wheels"
    make_wheel(wheels, "alpha", "1.0")
    make_wheel(wheels, "alpha", "2.0", requires=("missing>=1",))
    wheel = wheels / "alpha-2.0-py3-none-any.whl"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "uv.lock").write_text(
        'version = 1\nrequires-python = ">=3.8"\n'
        '[[package]]\nname = "demo"\nsource = { virtual = "." }\ndependencies = [{ name = "alpha" }]\n'
        '[[package]]\nname = "alpha"\nversion = "2.0"\nsource = { registry = "wheels" }\n'
        f'wheels = [{{ path = "alpha-2.0-py3-none-any.whl", hash = "sha256:{digest}" }}]\n'
    )
    spec = plan_of(tmp_path / "uv.lock")
    offline = {"PIP_NO_INDEX": "1", "HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache")}
    built = uv_builder(tmp_path / "home").build(spec, say=print, variables=offline)
    code = "import alpha; print(alpha.version)"
    asked = subprocess.run([built.interpreter, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "2.0"

    text = (tmp_path / "uv.lock").read_text()
    (tmp_path / "uv.lock").write_text(text.replace(digest, "0" * 64))
    with pytest.raises(SubmitRejected, match=r"[Hh]ash"):
        uv_builder(tmp_path / "home").build(plan_of(tmp_path / "uv.lock"), say=print, variables=offline)


def test_a_range_of_pythons_is_never_bent(tmp_path: Path) -> None:
    found = find_python(">=3.8,<4", None, variables={}, cache=None)
    assert found.warning == ""
    with pytest.raises(SubmitRejected, match=r"No Python of this machine is >=4\.0") as error:
        find_python(">=4.0", None, variables={}, cache=None)
    assert "uv python install 4.0" in error.value.hint


def test_a_range_in_a_conda_file_means_the_submitting_python_where_it_fits(tmp_path: Path) -> None:
    own = "{}.{}".format(*sys.version_info[:2])
    (tmp_path / "conda.yml").write_text("dependencies:\n- python>=3.8,<4\n- pip:\n  - numpy\n")
    spec = plan_of(tmp_path / "conda.yml")
    assert spec.python_version == own
    assert spec.definition["python"]["condaDependencies"]["dependencies"][0] == "python>=3.8,<4"
    (tmp_path / "conda.yml").write_text("dependencies:\n- python>=3.6,<3.8\n- scipy\n")
    assert plan_of(tmp_path / "conda.yml").python_version == "3.7"
    (tmp_path / "pixi.toml").write_text('[workspace]\n[dependencies]\npython = ">=3.8"\nscipy = "*"\n')
    assert plan_of(tmp_path / "pixi.toml").python_version == own  # a solver would take the newest


CHOICES = """
version = 1
requires-python = ">=3.9"
conflicts = [[{ package = "demo", extra = "cpu" }, { package = "demo", extra = "gpu" }]]
[[package]]
name = "demo"
source = { virtual = "." }
dependencies = [{ name = "base" }]
[package.optional-dependencies]
cpu = [{ name = "engine", version = "1" }]
gpu = [{ name = "engine", version = "2", marker = "extra == 'extra-4-demo-gpu'" }]
web = [{ name = "client", extra = ["socks"] }]
[package.dev-dependencies]
dev = [{ name = "checker" }]
train = [{ name = "trainer" }]
"""
for _name, _version in (("base", 1), ("engine", 1), ("engine", 2), ("socks", 1), ("checker", 1), ("trainer", 1)):
    CHOICES += f'[[package]]\nname = "{_name}"\nversion = "{_version}"\nsource = {{ registry = "{OPEN}" }}\n'
CHOICES += f'[[package]]\nname = "client"\nversion = "1"\nsource = {{ registry = "{OPEN}" }}\n'
CHOICES += '[package.optional-dependencies]\nsocks = [{ name = "socks" }]\n'


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({}, "base==1 checker==1"),
        ({"extras": ["web"]}, "base==1 socks==1 checker==1 client==1"),
        ({"extras": ["cpu"], "groups": ["train"]}, "base==1 engine==1 checker==1 trainer==1"),
        ({"extras": ["gpu"], "without_groups": ["dev"]}, "base==1 engine==2"),
        ({"groups": ["dev", "empty"]}, "base==1 checker==1"),
    ],
)
def test_extras_and_groups_of_uv_lock(tmp_path: Path, chosen: dict[str, list[str]], names: str) -> None:
    (tmp_path / "uv.lock").write_text(CHOICES)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\n[dependency-groups]\nempty = []\n')
    spec = plan_of(tmp_path / "uv.lock", **chosen)

    assert [line.split(" ; ")[0] for line in spec.pip_packages] == names.split()
    assert plan_of(tmp_path / "pyproject.toml", **chosen).pip_packages == spec.pip_packages


POETRY = f"""
[[package]]
name = "base"
version = "1"
optional = false
groups = ["main"]
[[package]]
name = "engine"
version = "2"
optional = true
groups = ["main"]
markers = "extra == \\"gpu\\" or python_version >= \\"3.9\\" and extra == \\"all\\""
files = [{{file = "engine-2-py3-none-any.whl", hash = "{A}"}}]
[[package]]
name = "checker"
version = "1"
optional = false
groups = ["dev"]
[[package]]
name = "trainer"
version = "1"
optional = false
groups = ["train", "dev"]
markers = {{train = "sys_platform == 'linux'", dev = "sys_platform == 'darwin'"}}
[extras]
gpu = ["engine"]
all = ["engine"]
[metadata]
lock-version = "2.1"
python-versions = "^3.9"
"""


@pytest.mark.parametrize(
    ("chosen", "lines"),
    [
        ({}, ["base==1", "checker==1", "trainer==1 ; sys_platform == 'darwin'"]),
        ({"extras": ["gpu"], "without_groups": ["dev"]}, ["base==1", f"engine==2 --hash={A}"]),
        (
            {"extras": ["all"], "without_groups": ["dev"]},
            ["base==1", f'engine==2 ; python_version >= "3.9" --hash={A}'],
        ),
        (
            {"groups": ["train"], "without_groups": ["dev"]},
            ["base==1", "trainer==1 ; sys_platform == 'linux'"],
        ),
        ({"without_groups": ["main"]}, ["checker==1", "trainer==1 ; sys_platform == 'darwin'"]),
    ],
)
def test_extras_and_groups_of_poetry_lock(tmp_path: Path, chosen: dict[str, list[str]], lines: list[str]) -> None:
    (tmp_path / "poetry.lock").write_text(POETRY)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.poetry]\nname = "pt"\n[tool.poetry.group.dev]\n[tool.poetry.group.train]\noptional = true\n'
    )

    assert plan_of(tmp_path / "poetry.lock", **chosen).pip_packages == lines


def test_extras_and_groups_of_an_older_poetry_lock_and_of_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.poetry]\nname = "pt"\n[tool.poetry.dependencies]\nbase = "*"\n'
        'engine = {version = "==2", optional = true}\n'
        '[tool.poetry.extras]\ngpu = ["engine"]\n[tool.poetry.group.train]\noptional = true\n'
        '[tool.poetry.group.train.dependencies]\ntrainer = "1.*"\n'
    )
    declared = plan_of(tmp_path / "pyproject.toml", extras=["gpu"], groups=["train"]).pip_packages
    old = '[extras]\ngpu = ["engine"]\n[metadata]\npython-versions = "*"\n'
    for name in ("base", "engine", "trainer"):
        old += f'[[package]]\nname = "{name}"\nversion = "1"\noptional = {str(name == "engine").lower()}\n'
    (tmp_path / "poetry.lock").write_text(old)

    assert declared == ["base", "engine==2", "trainer==1.*"]
    assert plan_of(tmp_path / "poetry.lock").pip_packages == ["base==1"]
    assert plan_of(tmp_path / "poetry.lock", extras=["gpu"]).pip_packages == ["base==1", "engine==1"]
    assert plan_of(tmp_path / "poetry.lock", groups=["train"]).pip_packages == ["base==1", "trainer==1"]


def test_extras_and_groups_of_a_project_without_a_lock(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "demo"\ndependencies = ["base"]\n[project.optional-dependencies]\ngpu = ["engine>2"]\n'
        '[dependency-groups]\ncommon = ["tool"]\ntrain = ["trainer", {include-group = "common"}]\n'
        'round = [{include-group = "round"}]\n'
    )
    spec = plan_of(tmp_path / "pyproject.toml", extras=["gpu"], groups=["train", "round"])

    assert spec.pip_packages == ["base", "engine>2", "trainer", "tool"]


def test_an_environment_of_pixi_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "pixi.toml").write_text(
        '[workspace]\nname = "w"\nchannels = ["conda-forge"]\n[dependencies]\npython = "3.11.*"\nnumpy = "1.*"\n'
        '[feature.cuda]\nchannels = ["nvidia"]\n[feature.cuda.dependencies]\ncuda = "12.*"\n'
        '[feature.lint.pypi-dependencies]\nruff = "*"\n'
        '[environments]\ngpu = ["cuda"]\nlint = {features = ["lint"], no-default-feature = true}\n'
    )
    gpu, lint = (plan_of(tmp_path / "pixi.toml", pixi_environment=name) for name in ("gpu", "lint"))
    assert (gpu.conda_packages, gpu.conda_channels) == (["numpy=1.*", "cuda=12.*"], ["nvidia", "conda-forge"])
    assert (lint.conda_packages, lint.pip_packages) == ([], ["ruff"])

    here = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}[platform.machine()]
    lock = "version: 6\nenvironments:\n"
    for name, version in (("default", "1"), ("gpu", "2")):
        lock += f"  {name}:\n    packages:\n      {here}:\n      - conda: https://x/noarch/engine-{version}-h_0.conda\n"
    (tmp_path / "pixi.lock").write_text(lock)
    assert plan_of(tmp_path / "pixi.lock").conda_packages == ["engine=1=h_0"]
    assert plan_of(tmp_path / "pixi.toml", pixi_environment="gpu").conda_packages == ["engine=2=h_0"]


@pytest.mark.parametrize(
    ("file", "chosen", "why"),
    [
        ("uv.lock", {"extras": ["gup"]}, r"no extra `gup`.*It has cpu, gpu, web"),
        ("uv.lock", {"groups": ["x"]}, r"no group `x`.*It has dev, train"),
        ("uv.lock", {"without_groups": ["x"]}, r"no group `x`"),
        ("uv.lock", {"extras": ["cpu", "gpu"]}, r"`cpu` and the extra `gpu` of uv.lock exclude each other"),
        ("uv.lock", {"pixi_environment": "gpu"}, r"Only pixi"),
        ("poetry.lock", {"extras": ["x"]}, r"no extra `x`.*It has all, gpu"),
        ("pyproject.toml", {"groups": ["x"]}, r"no group"),
        ("pixi.toml", {"pixi_environment": "x"}, r"no environment `x`.*It has default"),
        ("pixi.toml", {"extras": ["x"]}, r"--pixi-environment"),
        ("requirements.txt", {"extras": ["x"]}, r"no extras, groups or environments"),
        ("AzureML-Minimal", {"groups": ["x"]}, r"no extras, groups or environments"),
    ],
)
def test_what_is_not_there_to_choose_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, chosen: dict[str, Any], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"uv.lock": CHOICES, "poetry.lock": POETRY, "pixi.toml": "[workspace]\n"}.items():
        if name == file:
            Path(name).write_text(text)
    Path("pyproject.toml").write_text('[project]\nname = "demo"\n')
    Path("requirements.txt").write_text("numpy\n")
    with pytest.raises(InvalidArgument, match=f"(?s){why}"):
        environment_of_file(file, Chosen(**chosen))


def test_from_project_is_the_same_by_name(uv_project: Path) -> None:
    made = Environment.from_project("mine", str(uv_project / "uv.lock"))
    assert made.name == "mine"
    assert plan_environment(made).pip_packages == plan_of(uv_project / "uv.lock").pip_packages
    (uv_project / "uv.lock").write_text(CHOICES)
    less = Environment.from_project("less", str(uv_project / "uv.lock"), extras=["cpu"], without_groups=["dev"])
    assert plan_environment(less).pip_packages == ["base==1", "engine==1"]
