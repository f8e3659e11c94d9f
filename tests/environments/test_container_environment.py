"""The environment `container`: engines, images, and the Python in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.specs import ContainerSpec, EnvironmentSpec
from runyard.environments import get_builder
from runyard.environments.base import BuiltEnvironment, EnvironmentBuilder, Inside, SupportsLock
from runyard.environments.container.images import DOCKER, PODMAN, find_runtime
from tests.environments.engine import FakeEngine
from tests.environments.test_conda import offline_variables
from tests.environments.wheels import make_wheel


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def a_spec(**container: object) -> EnvironmentSpec:
    fields = {"image": "mine:1", "shm_size": "2g", **container}
    return EnvironmentSpec(name="boxed", kind="container", container=ContainerSpec(**fields))  # type: ignore[arg-type]


def a_builder(home: Path) -> EnvironmentBuilder:
    return get_builder("container", settings=Settings(home=home, container_engine="podman"))


def build(home: Path, engine: FakeEngine, spec: EnvironmentSpec) -> tuple[BuiltEnvironment, list[str]]:
    said: list[str] = []
    return a_builder(home).build(spec, say=said.append, variables=engine.variables), said


def test_an_image_on_the_machine_is_used_and_its_python_is_asked_once(home: Path, engine: FakeEngine) -> None:
    engine.have("mine:1")
    built, said = build(home, engine, a_spec())
    again, _ = build(home, engine, a_spec())

    assert built.interpreter == again.interpreter
    assert os.path.exists(built.interpreter)
    assert built.variables["PATH"].startswith(str(engine.program.parent))
    commands = [call.replace("--log-level fatal ", "").split()[0] for call in engine.calls()]
    assert commands == ["info", "image", "run", "info", "image"]
    assert any("The image is mine:1 (sha256:local)." in line for line in said)


def test_a_process_is_wrapped_with_the_folders_of_its_run(home: Path, engine: FakeEngine) -> None:
    engine.have("mine:1")
    built, _ = build(home, engine, a_spec(arguments=["--memory", "1g"]))
    assert built.wrapper is not None
    inside = Inside("n", ["python", "a.py"], {"A": "b"}, "/r/work", writable=["/r"], readable=["/i"])
    outside = built.wrapper.wrap(inside)

    assert outside.argv[:4] == [str(engine.program), "--log-level", "fatal", "run"]
    assert outside.argv[-7:] == ["--memory", "1g", "--entrypoint", "", "sha256:local", "python", "a.py"]
    assert "type=bind,source=/r,target=/r" in outside.argv
    assert "type=bind,source=/i,target=/i,readonly" in outside.argv
    assert outside.variables["A"] == "b"
    assert outside.remove == [str(engine.program), "rm", "--force", "--ignore", "--time", "0", "n"]


def test_the_description_tells_of_the_image_and_its_packages(home: Path, engine: FakeEngine) -> None:
    engine.have("mine:1")
    builder = a_builder(home)
    built = builder.build(a_spec(), say=print, variables=engine.variables)
    found = builder.describe(built)
    assert isinstance(builder, SupportsLock)
    lock = builder.lock(a_spec(), built)

    assert found["image"] == {"name": "mine:1", "id": "sha256:local"}
    assert isinstance(found["packages"], dict)
    assert "mine:1 sha256:local" in lock.splitlines()[0]


def test_an_image_that_is_not_there_is_fetched_with_the_registrys_password_on_stdin(
    home: Path, engine: FakeEngine
) -> None:
    spec = a_spec(image="team/mine:1", registry="registry.example.org", username="me", password="hush-hush")
    _, said = build(home, engine, spec)
    calls = engine.calls()

    login = next(call for call in calls if call.startswith("login"))
    pull = next(call for call in calls if call.startswith("pull"))
    assert login.endswith("--username me --password-stdin registry.example.org")
    assert pull.endswith("registry.example.org/team/mine:1")
    assert login.split()[2] == pull.split()[2]
    assert not os.path.exists(os.path.dirname(login.split()[2]))
    assert (engine.folder / "password").read_text() == "hush-hush"
    assert "hush-hush" not in "".join([*calls, *said])


def test_a_refused_password_is_an_error_that_does_not_show_it(home: Path, engine: FakeEngine) -> None:
    engine.mark("refuse")
    spec = a_spec(registry="registry.example.org", username="me", password="hush-hush")
    with pytest.raises(SubmitRejected, match="refuses the user `me`") as failed:
        build(home, engine, spec)

    assert "base_image_registry" in failed.value.hint
    assert "hush-hush" not in str(failed.value)


def test_an_image_that_cannot_be_fetched_tells_the_engines_reason(home: Path, engine: FakeEngine) -> None:
    engine.mark("offline")
    with pytest.raises(SubmitRejected, match="could not be fetched") as failed:
        build(home, engine, a_spec())

    assert "no route to registry" in failed.value.why
    assert "podman pull docker.io/library/mine:1" in failed.value.hint


def test_a_dockerfile_is_built_once_for_its_content(home: Path, engine: FakeEngine) -> None:
    spec = a_spec(image="", dockerfile="FROM scratch\n")
    build(home, engine, spec)
    build(home, engine, spec)
    build(home, engine, a_spec(image="", dockerfile="FROM scratch\n# other\n"))

    builds = [call for call in engine.calls() if call.startswith("build")]
    assert len(builds) == 2
    assert (engine.folder / "dockerfile").read_text() == "FROM scratch\n# other\n"


def test_a_dockerfile_that_fails_shows_the_builds_words(home: Path, engine: FakeEngine) -> None:
    with pytest.raises(SubmitRejected, match="could not be built") as failed:
        build(home, engine, a_spec(image="", dockerfile="FAIL\n"))

    assert "step 1 failed" in failed.value.why


def test_packages_are_added_to_the_images_python(home: Path, engine: FakeEngine, tmp_path: Path) -> None:
    engine.have("mine:1")
    make_wheel(tmp_path, "tabulate", "1.4")
    spec = EnvironmentSpec(
        name="boxed", kind="container", conda_packages=["tabulate=1"], container=ContainerSpec(image="mine:1")
    )
    builder = a_builder(home)
    built = builder.build(spec, say=print, variables={**offline_variables(tmp_path), **engine.variables})
    described = builder.describe(built)
    packages = described["packages"]
    assert isinstance(packages, dict) and built.wrapper is not None
    outside = built.wrapper.wrap(Inside("n", ["x"], {}, "/"))

    assert packages["tabulate"] == "1.4"
    assert described["added"] == {"tabulate": "1.4"}
    assert built.interpreter.startswith(str(home / "environments"))
    prefix = os.path.dirname(os.path.dirname(built.interpreter))
    assert f"type=bind,source={prefix},target={prefix},readonly" in outside.argv
    assert f"runyard-build-{built.key}" in "".join(engine.calls())


def test_a_conda_package_that_pip_does_not_know_belongs_into_the_image(home: Path, engine: FakeEngine) -> None:
    engine.have("mine:1")
    spec = EnvironmentSpec(kind="container", conda_packages=["gxx"], container=ContainerSpec(image="mine:1"))
    with pytest.raises(SubmitRejected, match="`gxx` no counterpart on PyPI"):
        build(home, engine, spec)


def test_another_python_than_the_images_is_said_or_refused(home: Path, engine: FakeEngine) -> None:
    engine.have("mine:1")
    spec = EnvironmentSpec(name="e", kind="container", python_version="3.5", container=ContainerSpec(image="mine:1"))
    built, _ = build(home, engine, spec)

    assert [
        text for text in built.warnings if text.startswith("Python 3.5 is asked for, and the image `mine:1` has 3.")
    ]
    with pytest.raises(SubmitRejected, match=r"asks for Python 3\.5"):
        settings = Settings(home=home, container_engine="podman", python_fallback="never")
        get_builder("container", settings=settings).build(spec, say=print, variables=engine.variables)


def test_an_image_without_a_python_is_refused(home: Path, engine: FakeEngine) -> None:
    engine.have("mine:1")
    spec = EnvironmentSpec(kind="container", interpreter="/no/python", container=ContainerSpec(image="mine:1"))
    with pytest.raises(SubmitRejected, match="cannot run the script"):
        build(home, engine, spec)


def test_an_environment_without_an_image_is_refused(home: Path, engine: FakeEngine) -> None:
    with pytest.raises(SubmitRejected, match="names no image"):
        build(home, engine, a_spec(image=""))


def test_the_first_engine_that_works_is_taken(tmp_path: Path) -> None:
    podman = FakeEngine(tmp_path)
    podman.mark("broken")
    (tmp_path / "second").mkdir()
    docker = FakeEngine(tmp_path / "second", name="docker", info="28.0 [name=rootless]")
    path = f"{podman.program.parent}:{docker.program.parent}"

    engine = find_runtime(None, {"PATH": path})

    assert (engine.kind, engine.program, engine.is_rootless) == (DOCKER, str(docker.program), True)


def test_a_named_engine_may_be_a_path(tmp_path: Path) -> None:
    podman = FakeEngine(tmp_path, info="true")
    settings = Settings(home=tmp_path, container_engine=str(podman.program), container_arguments="-- --x")

    engine = find_runtime(settings, {"PATH": "/nowhere"})

    assert (engine.kind, engine.is_rootless, engine.behind) == (PODMAN, True, ["--x"])


def test_without_an_engine_the_error_tells_what_each_answered(tmp_path: Path) -> None:
    podman = FakeEngine(tmp_path)
    podman.mark("broken")
    with pytest.raises(SubmitRejected, match="no container engine works here") as failed:
        find_runtime(None, {"PATH": str(podman.program.parent)})

    assert "podman does not work (cannot connect); docker is not on this machine" in failed.value.why
    assert "use_docker=False" in failed.value.hint


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("python:3.8", "docker.io/library/python:3.8"),
        ("pytorch/pytorch", "docker.io/pytorch/pytorch"),
        ("azureml/openmpi4.1.0-ubuntu22.04", "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"),
        ("quay.example.org/a/b:1", "quay.example.org/a/b:1"),
        ("localhost/a", "localhost/a"),
        ("host:5000/a", "host:5000/a"),
    ],
)
def test_podman_takes_the_registry_that_docker_takes(
    home: Path, tmp_path: Path, engine: FakeEngine, name: str, expected: str
) -> None:
    build(home, engine, a_spec(image=name))

    assert f"pull {expected}" in engine.calls()


def test_base_images_of_a_dockerfile_get_their_registry_unless_they_are_here(home: Path, engine: FakeEngine) -> None:
    engine.have("mine:1")
    text = "FROM python:3.8 AS first\nRUN true\nFROM first\nFROM mine:1\nFROM --platform=x a/b\nFROM scratch\n"
    build(home, engine, a_spec(image="", dockerfile=text))

    assert (engine.folder / "dockerfile").read_text() == (
        "FROM docker.io/library/python:3.8 AS first\nRUN true\nFROM first\nFROM mine:1\n"
        "FROM --platform=x docker.io/a/b\nFROM scratch\n"
    )
