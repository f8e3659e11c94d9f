"""Assets over HTTP: environments and datastores in versions."""

from __future__ import annotations

import pytest

from runyard.core.errors import InvalidArgument, NotAllowed, NotFound
from tests.server.conftest import Served


def test_an_asset_comes_back_in_versions(served: Served) -> None:
    assets = served.client.assets
    first = assets.put("default", "environment", "train-env", {"python": "3.11"}, key="a")
    again = assets.put("default", "environment", "train-env", {"python": "3.11"}, key="a")
    second = assets.put("default", "environment", "train-env", {"python": "3.12"}, key="b")

    assert first == again and (first.version, second.version) == (1, 2)
    assert assets.get("default", "environment", "train-env") == second
    assert assets.get("default", "environment", "train-env", version=1).document == {"python": "3.11"}
    assert assets.list("default", "environment") == [second]
    assert assets.list("default", "environment", name="train-env") == [first, second]


def test_an_asset_is_changed_and_deleted_by_the_user(served: Served) -> None:
    assets = served.client.assets
    assets.put("default", "datastore", "blobs", {"path": "/a"})
    changed = assets.update("default", "datastore", "blobs", version=1, document={"path": "/b"})

    assert assets.get("default", "datastore", "blobs") == changed and changed.document == {"path": "/b"}
    for _ in range(2):
        assets.delete("default", "datastore", "blobs")
    with pytest.raises(NotFound, match="datastore `blobs`"):
        assets.get("default", "datastore", "blobs")


def test_a_runs_code_reads_and_registers_but_changes_nothing(served: Served) -> None:
    served.submit("exp_1")
    served.client.assets.put("default", "environment", "e", {"a": 1})
    code = served.as_run("exp_1").assets

    assert code.get("default", "environment", "e").document == {"a": 1}
    assert code.put("default", "environment", "e", {"a": 2}).version == 2
    with pytest.raises(NotAllowed, match="change asset"):
        code.update("default", "environment", "e", version=1, document={})
    with pytest.raises(NotAllowed, match="change asset"):
        code.delete("default", "environment", "e")


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        ("compute", "x", ""),
        ("secret", "x", ""),
        ("environment", "a\nb", ""),
        ("datastore", "a b", ""),
        ("environment", "x", "k" * 257),
    ],
)
def test_odd_kinds_names_and_keys_are_refused(served: Served, kind: str, name: str, key: str) -> None:
    with pytest.raises(InvalidArgument):
        served.client.assets.put("default", kind, name, {}, key=key)
