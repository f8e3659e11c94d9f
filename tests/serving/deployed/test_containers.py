"""Replicas in containers of a real podman; and without one, where an image is named but cannot be used."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.specs import ContainerSpec, EnvironmentSpec
from tests.environments.rootfs import write_rootfs
from tests.serving.deployed.live import LiveService, client, close_clients
from tests.supervisor.test_container_runtimes import IMAGE, Engine, start_podman
from tests.waiting import wait_for

IN_AN_IMAGE = EnvironmentSpec(
    name="boxed",
    kind="container",
    container=ContainerSpec(image=IMAGE, shm_size="64m", fallback={"kind": "system", "interpreter": sys.executable}),
)
SCRIPT = """
    import os
    def init(): pass
    def run(d): return [os.path.exists("/bin/ls"), os.getcwd(), d]
"""


@pytest.fixture(scope="module")
def podman(session_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    rootfs = write_rootfs(tmp_path_factory.mktemp("rootfs") / "rootfs.tar")
    yield from start_podman(Path(tempfile.mkdtemp(prefix="e", dir=session_folder)), rootfs)


@pytest.mark.external
@pytest.mark.timeout(300)
def test_a_replica_runs_in_the_image(home: Path, podman: Engine, tmp_path: Path) -> None:
    variables = {name: value for name, value in podman.variables.items() if name not in ("PATH", "HOME")}
    service = LiveService("boxed", tmp_path / "source")
    service.deploy(service.spec(SCRIPT, environment=IN_AN_IMAGE, workers=2, variables=variables))
    wait_for(lambda: len(service.workers()) == 2, what=service.live)

    has_tools, folder, body = service.post("x").json

    assert (has_tools, body) == (False, "x") and folder.endswith("/app")
    assert len(podman.containers()) == 1
    service.end()
    wait_for(lambda: podman.containers() == [], what=podman.containers)
    close_clients()


@pytest.mark.long
def test_without_a_container_runtime_the_packages_of_the_machine_serve(home: Path, tmp_path: Path) -> None:
    service = LiveService("unboxed", tmp_path / "source")
    service.deploy(
        service.spec(SCRIPT, environment=IN_AN_IMAGE, variables={"RUNYARD_CONTAINER_ENGINE": "no-such-engine"})
    )

    assert service.post("x").json[0] is True
    run = client().runs.get(service.record.revisions[0].replicas[0].run_id)
    assert [
        one
        for one in map(str, run.warnings)
        if f"image {IMAGE} is not used" in one and "no-such-engine is not on" in one
    ]
    service.end()
    close_clients()
