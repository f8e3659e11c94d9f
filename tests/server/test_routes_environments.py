"""Built environments over HTTP: the list, what goes when it is pruned, and who may."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.core.config.paths import environments_folder
from runyard.core.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from tests.environments.wheels import make_wheel, offline, uv_builder
from tests.server.conftest import Served


@pytest.fixture
def key(served: Served, tmp_path: Path) -> str:
    """An environment that is built, and used by the run folder `runs/exp_1/1` below `tmp_path`."""
    make_wheel(tmp_path / "wheels", "alpha")
    user = tmp_path / "runs" / "exp_1" / "1"
    user.mkdir(parents=True)
    home = served.services.settings.home
    return uv_builder(home).build(offline(tmp_path / "wheels", "alpha"), say=print, user=str(user)).key


def test_what_is_built_is_listed_and_goes_when_no_run_uses_it(served: Served, key: str, tmp_path: Path) -> None:
    calls = served.client.environments
    found = calls.list()

    assert [(one["key"], one["name"], one["requirements"], one["runs"]) for one in found] == [
        (key, "e", ["alpha"], ["exp_1"])
    ]
    with pytest.raises(Conflict, match="cannot be removed now"):
        calls.remove(key[:8])
    assert calls.prune(keep_bytes=0) == []
    (tmp_path / "runs" / "exp_1" / "1" / "done").touch()
    assert [one["key"] for one in calls.prune(keep_bytes=0, dry_run=True)] == [key]
    assert calls.prune(unused_s=3600) == []
    assert calls.remove(key[:8])["key"] == key
    assert calls.list() == [] and not (environments_folder(served.services.settings.home) / key).exists()
    with pytest.raises(NotFound, match="There is no environment"):
        calls.remove(key)


def test_pruning_by_size_removes_until_enough_is_free(served: Served, key: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "exp_1" / "1" / "done").touch()

    assert [one["key"] for one in served.client.environments.prune(keep_bytes=10)] == [key]
    with pytest.raises(InvalidArgument, match="zero or more"):
        served.client.environments.prune(keep_bytes=-1)


def test_a_runs_code_may_not_look_or_prune(served: Served) -> None:
    served.submit("exp_1")
    calls = served.as_run("exp_1").environments

    for act in (calls.list, calls.prune, lambda: calls.remove("x")):
        with pytest.raises(NotAllowed, match=r"(list|manage) environments"):
            act()
