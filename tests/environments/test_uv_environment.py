"""The environment `uv`: a venv per content key, built once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import uv

from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.specs import EnvironmentSpec
from runyard.environments.base import BuiltEnvironment
from runyard.environments.uv import UvBuilder
from runyard.environments.uv_program import find_uv
from tests.environments.wheels import make_wheel, offline, uv_builder
from tests.interpreters import pythons


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    make_wheel(folder, "alpha", "1.0")
    make_wheel(folder, "alpha", "2.0", requires=("beta>=1",))
    make_wheel(folder, "beta", "1.5")
    return folder


def ask(built: BuiltEnvironment, code: str) -> str:
    return subprocess.run([built.interpreter, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_packages_and_what_they_need_are_installed(tmp_path: Path, wheels: Path) -> None:
    builder, said = uv_builder(tmp_path / "home"), []
    built = builder.build(offline(wheels, "alpha"), say=said.append)

    assert ask(built, "import alpha, beta; print(alpha.version, beta.version)") == "2.0 1.5"
    assert built.interpreter == str(tmp_path / "home/environments" / built.key / "prefix/bin/python")
    assert built.variables == {"VIRTUAL_ENV": str(tmp_path / "home/environments" / built.key / "prefix")}
    assert " + alpha==2.0" in said
    assert said[0].startswith("Building environment `e` on Python 3.")
    assert said[-1].startswith("Environment `e` is ready:")
    described = builder.describe(built)
    assert described["packages"] == {"alpha": "2.0", "beta": "1.5"}
    assert described["python"] == ".".join(map(str, sys.version_info[:3]))


def test_the_same_request_is_answered_without_starting_a_process(tmp_path: Path, wheels: Path) -> None:
    first = uv_builder(tmp_path / "home").build(offline(wheels, "alpha", "beta"), say=print)
    script = f"""
import sys
from pathlib import Path
from tests.environments.wheels import offline, uv_builder
builder = uv_builder(Path({str(tmp_path / "home")!r}))
started = []
sys.addaudithook(lambda event, arguments: started.append(event) if event in ("subprocess.Popen", "os.fork") else None)
said = []
built = builder.build(offline(Path({str(wheels)!r}), "beta", "alpha", "beta"), say=said.append)
print(built.key, started, len(said))
"""
    root = Path(__file__).parent.parent.parent
    again = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True, env={**os.environ}
    )

    assert again.stdout.split("\n")[0] == f"{first.key} [] 1"


def test_another_version_or_index_is_another_environment_and_a_password_is_not(tmp_path: Path, wheels: Path) -> None:
    builder = uv_builder(tmp_path / "home")

    def key(*packages: str, options: tuple[str, ...] = ()) -> str:
        pip_options = ["--no-index", f"-f {wheels}", *options]
        spec = EnvironmentSpec(kind="uv", pip_packages=list(packages), pip_options=pip_options)
        return builder.build(spec, say=print).key

    plain = key("beta")
    keys = [plain, key("beta==1.5"), key("alpha"), key("beta", options=("--pre",))]
    assert len(set(keys)) == 4
    first = key("beta", options=("--extra-index-url https://me:old@index.example/simple", "--no-index"))
    second = key("beta", options=("--extra-index-url https://me:new@index.example/simple", "--no-index"))
    assert first == second
    assert first not in keys


def test_packages_that_runyard_provides_are_left_out_and_named_once(tmp_path: Path, wheels: Path) -> None:
    said: list[str] = []
    spec = offline(wheels, "azureml-defaults", "Azureml_Train.Core==1.2", "beta", "azureml-sdk[notebooks]")
    built = uv_builder(tmp_path / "home").build(spec, say=said.append)

    assert said[0] == ("Provided by Runyard: azureml-defaults, Azureml_Train.Core==1.2, azureml-sdk[notebooks].")
    assert uv_builder(tmp_path / "home").describe(built)["packages"] == {"beta": "1.5"}
    assert [line for line in said if line.startswith("Left out, because they cannot be had beside the others: app")]
    assert built.warnings == []


def test_what_microsofts_packages_bring_along_is_installed_and_changes_nothing(tmp_path: Path, wheels: Path) -> None:
    for name in ("requests", "pytz", "python_dateutil", "mlflow_skinny"):
        make_wheel(wheels, name, "1.0", requires=("alpha",) if name == "requests" else ())
    spec = offline(wheels, "alpha==1.0", "azureml-core", "azureml-mlflow", "azureml-automl-core")
    builder, said = uv_builder(tmp_path / "home"), []
    built = builder.build(spec, say=said.append)
    packages = {"alpha", "requests", "pytz", "python_dateutil", "mlflow_skinny"}

    assert set(builder.describe(built)["packages"]) == packages  # type: ignore[call-overload]
    assert ask(built, "import alpha; print(alpha.version)") == "1.0"
    assert said[1] == "azureml-mlflow is replaced by mlflow-skinny."
    assert len(built.warnings) == 1 and built.warnings[0].startswith("azureml-automl-core is not available here: ")


def test_files_are_hard_links_into_uvs_cache(tmp_path: Path, wheels: Path) -> None:
    variables = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache")}
    built = uv_builder(tmp_path / "home").build(offline(wheels, "beta"), say=print, variables=variables)

    installed = os.stat(ask(built, "import beta; print(beta.__file__)"))
    cached = {os.stat(path).st_ino for path in (tmp_path / "cache").rglob("beta.py")}
    assert installed.st_ino in cached


def test_a_version_of_python_is_taken_from_those_of_this_machine(tmp_path: Path, wheels: Path) -> None:
    others = [version for version in pythons() if version != "{}.{}".format(*sys.version_info[:2])]
    if not others:
        pytest.skip("there is one version of Python on this machine")
    wanted = others[0]
    built = uv_builder(tmp_path / "home").build(offline(wheels, "beta", python_version=wanted), say=print)

    assert ask(built, "import sys, beta; print('%d.%d' % sys.version_info[:2], beta.version)") == f"{wanted} 1.5"


def test_a_python_that_may_be_fetched_is_left_to_uv(tmp_path: Path, wheels: Path) -> None:
    (tmp_path / "home").mkdir()
    settings = Settings(home=tmp_path / "home", python_downloads=True)
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "UV_OFFLINE": "1", "PIP_CONFIG_FILE": os.devnull}
    builder = UvBuilder(settings=settings)

    with pytest.raises(SubmitRejected, match=r"[Nn]o interpreter found for Python 3\.98"):
        builder.build(offline(wheels, "beta", python_version="3.98"), say=print, variables=variables)


def test_uv_comes_with_runyard_else_from_path_else_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_uv({"PATH": str(tmp_path)}) == os.fspath(uv.find_uv_bin())
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(SubmitRejected) as caught:
        find_uv({"PATH": str(tmp_path)})
    assert "pip install uv" in caught.value.hint
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    assert find_uv({"PATH": str(tmp_path)}) == str(tmp_path / "uv")


def test_a_failed_solve_is_told_in_the_resolvers_own_words(tmp_path: Path, wheels: Path) -> None:
    said: list[str] = []
    with pytest.raises(SubmitRejected) as caught:
        uv_builder(tmp_path / "home").build(offline(wheels, "alpha==2.0", "beta<1"), say=said.append)

    assert caught.value.what == "The packages of environment `e` could not be installed."
    assert "beta" in caught.value.why and "unsatisfiable" in caught.value.why
    assert "Traceback" not in str(caught.value)
    assert caught.value.hint
    assert any("unsatisfiable" in line for line in said)


@pytest.mark.parametrize(
    ("line", "why"),
    [("./mine", "does not begin with /"), ("../mine.whl", "does not begin with /"), ("--user", "option of pip")],
)
def test_lines_that_no_node_can_install_are_refused(tmp_path: Path, wheels: Path, line: str, why: str) -> None:
    with pytest.raises(SubmitRejected, match=why) as caught:
        uv_builder(tmp_path / "home").build(offline(wheels, line), say=print)
    assert caught.value.hint


def test_pip_in_a_script_cannot_reach_somebody_elses_environment(tmp_path: Path, wheels: Path) -> None:
    built = uv_builder(tmp_path / "home").build(offline(wheels, "beta"), say=print)
    for name in ("pip", "pip3"):
        command = [Path(built.interpreter).with_name(name), "install", "x"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "add_pip_package" in done.stderr

    make_wheel(wheels, "pip", "99.0", scripts={"pip": "pip:version.upper"})
    own = uv_builder(tmp_path / "home").build(offline(wheels, "beta", "pip"), say=print)
    assert "from pip import version" in Path(own.interpreter).with_name("pip").read_text()


def test_limits_hold_without_installing_anything(tmp_path: Path, wheels: Path) -> None:
    spec = offline(wheels, "alpha", pip_constraints=["alpha<2", "gamma==3"])
    built = uv_builder(tmp_path / "home").build(spec, say=print)

    assert uv_builder(tmp_path / "home").describe(built)["packages"] == {"alpha": "1.0"}


def test_a_wheel_that_changed_under_its_name_is_another_environment(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "mine")
    builder = uv_builder(tmp_path / "home")
    spec = EnvironmentSpec(kind="uv", pip_packages=[str(wheel)], pip_options=["--no-index"])
    first = builder.build(spec, say=print)
    os.utime(wheel, (1, 1))

    assert builder.build(spec, say=print).key != first.key


def test_an_environment_whose_python_has_gone_is_built_again(tmp_path: Path, wheels: Path) -> None:
    builder = uv_builder(tmp_path / "home")
    built = builder.build(offline(wheels, "beta"), say=print)
    os.unlink(built.interpreter)

    again = builder.build(offline(wheels, "beta"), say=print)
    assert again.key == built.key
    assert ask(again, "import beta; print(beta.version)") == "1.5"


def test_the_lock_file_names_exact_versions_with_hashes_and_installs(tmp_path: Path, wheels: Path) -> None:
    builder, spec = uv_builder(tmp_path / "home"), offline(wheels, "alpha")
    built = builder.build(spec, say=print)
    text = builder.lock(spec, built)

    assert [line.split(" ")[0] for line in text.splitlines() if line[0] not in "# "] == ["alpha==2.0", "beta==1.5"]
    assert text.count("--hash=sha256:") == 2
    assert builder.lock(spec, built) == text
    copy = EnvironmentSpec(
        kind="uv",
        pip_packages=[line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")],
        pip_options=["--no-index", f"-f {wheels}", "--require-hashes"],
    )
    assert builder.describe(builder.build(copy, say=print))["packages"] == {"alpha": "2.0", "beta": "1.5"}


def test_a_lock_without_an_index_that_answers_has_versions_and_says_why(tmp_path: Path, wheels: Path) -> None:
    builder, spec = uv_builder(tmp_path / "home"), offline(wheels, "beta")
    built = builder.build(spec, say=print)
    (wheels / "beta-1.5-py3-none-any.whl").unlink()
    text = builder.lock(spec, built)

    assert "# Without hashes: " in text
    assert text.splitlines()[-1] == "beta==1.5"
    make_wheel(wheels, "beta", "1.5")
    assert "--hash=sha256:" in builder.lock(spec, built), "made again once it can be"


def an_index(folder: Path, *wheels: Path) -> str:
    """Make a package index of these wheels in a folder; return its address."""
    for wheel in wheels:
        project = folder / wheel.name.partition("-")[0]
        project.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, project)
        links = "".join(f'<a href="{found.name}">{found.name}</a>' for found in sorted(project.glob("*.whl")))
        (project / "index.html").write_text(f"<!doctype html>{links}")
    return folder.as_uri()


def build_from(home: Path, index: str, extra: str, *packages: str, **variables: str) -> Path:
    spec = EnvironmentSpec(
        name="e",
        kind="uv",
        pip_packages=list(packages),
        pip_options=[f"--index-url {index}", f"--extra-index-url {extra}"],
    )
    environ = {**os.environ, "PIP_CONFIG_FILE": os.devnull, **variables}
    built = uv_builder(home).build(spec, say=lambda _: None, variables=environ)
    return Path(built.interpreter)


def version_of(python: Path, name: str) -> str:
    command = [str(python), "-c", f"import {name}; print({name}.version)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_another_package_of_a_private_ones_name_is_not_installed(tmp_path: Path) -> None:
    """Dependency confusion: a stranger's higher version on the public index. What is only there still comes from it."""
    made = tmp_path / "wheels"
    private = an_index(tmp_path / "private", make_wheel(made, "acme", "1.0", requires=("public",)))
    public = an_index(tmp_path / "public", make_wheel(made, "acme", "99.0"), make_wheel(made, "public", "2.0"))
    python = build_from(tmp_path / "home", public, private, "acme")
    best = build_from(tmp_path / "home", public, private, "acme", UV_INDEX_STRATEGY="unsafe-best-match")

    assert (version_of(python, "acme"), version_of(python, "public")) == ("1.0", "2.0")
    assert version_of(best, "acme") == "99.0", "the control, and for who wants it"


def test_the_machines_own_indexes_are_asked_one_after_another(tmp_path: Path) -> None:
    made = tmp_path / "wheels"
    private = an_index(tmp_path / "private", make_wheel(made, "acme", "1.0"), make_wheel(made, "part", "1.0"))
    public = an_index(tmp_path / "public", make_wheel(made, "acme", "99.0"), make_wheel(made, "part", "2.0"))
    spec = EnvironmentSpec(name="e", kind="uv", pip_packages=["acme", "part==2.0"])
    environ = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": public, "PIP_EXTRA_INDEX_URL": private}
    built = uv_builder(tmp_path / "home").build(spec, say=lambda _: None, variables=environ)
    python = Path(built.interpreter)

    assert (version_of(python, "acme"), version_of(python, "part")) == ("1.0", "2.0")


def test_a_package_whose_first_index_has_it_for_other_pythons_only_comes_from_the_next(tmp_path: Path) -> None:
    made = tmp_path / "wheels"
    wheel = make_wheel(made, "acme", "2.0")
    private = an_index(tmp_path / "private", wheel.rename(made / "acme-2.0-cp27-cp27m-any.whl"))
    public = an_index(tmp_path / "public", make_wheel(made, "acme", "1.0"))
    python = build_from(tmp_path / "home", public, private, "acme")

    assert version_of(python, "acme") == "1.0"


def test_a_version_that_only_a_later_index_has_fails_with_the_way_out(tmp_path: Path) -> None:
    made = tmp_path / "wheels"
    private = an_index(tmp_path / "private", make_wheel(made, "acme", "1.0"))
    public = an_index(tmp_path / "public", make_wheel(made, "acme", "2.0"))

    with pytest.raises(SubmitRejected) as caught:
        build_from(tmp_path / "home", public, private, "acme==2.0")
    assert "UV_INDEX_STRATEGY" in caught.value.hint
    python = build_from(tmp_path / "home", public, private, "acme==2.0", UV_INDEX_STRATEGY="unsafe-best-match")
    assert version_of(python, "acme") == "2.0"
