"""Where a workspace's config.json is looked for, and what it may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.connection import WorkspaceConfig, find_config, read_config, write_config
from runyard.sdk.workspaces.workspace import Workspace

MINE = {"subscription_id": "s", "resource_group": "g", "workspace_name": "mine"}


def put(path: Path, content: object = MINE) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_each_folder_is_searched_in_azures_order(tmp_path: Path) -> None:
    order = [
        ".azureml/config.json",
        ".azureml/project.json",
        "aml_config/config.json",
        "aml_config/project.json",
        "config.json",
        "project.json",
    ]
    paths = [put(tmp_path / name) for name in order]

    for path in paths:
        assert find_config(str(tmp_path)) == path
        Path(path).unlink()
    assert find_config(str(tmp_path)) is None


def test_parents_are_searched_after_the_folder_itself(tmp_path: Path) -> None:
    above = put(tmp_path / "config.json")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_config(str(deep)) == above

    near = put(tmp_path / "a" / "aml_config" / "config.json")
    assert find_config(str(deep)) == near


def test_another_file_name_can_be_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "config.json")
    other = put(tmp_path / ".azureml" / "other.json")

    assert find_config(str(tmp_path), "other.json") == other


@pytest.mark.parametrize(
    "content",
    [
        MINE,
        {"Id": "x", "Scope": "/subscriptions/s/resourceGroups/g/providers/P/workspaces/mine"},
        "\ufeff" + json.dumps(MINE),
    ],
    ids=["today", "older", "with a byte order mark"],
)
def test_both_forms_are_read(tmp_path: Path, content: object) -> None:
    assert read_config(put(tmp_path / "config.json", content)) == WorkspaceConfig("mine", "s", "g")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{not json", "cannot be read"),
        ("[1]", "should be a JSON object, found list"),
        ({"workspace": "x"}, "names no workspace. Found the keys: workspace"),
        ({"Scope": "/subscriptions/s"}, "names no workspace"),
    ],
)
def test_a_file_that_names_no_workspace_says_so(tmp_path: Path, content: object, text: str) -> None:
    path = put(tmp_path / "config.json", content)

    with pytest.raises(UserErrorException, match=text) as caught:
        read_config(path)
    assert path in caught.value.message


def test_it_is_written_where_it_is_found_again(tmp_path: Path) -> None:
    config = WorkspaceConfig("mine", "s", "g")

    assert write_config(config, str(tmp_path), "config.json") == str(tmp_path / ".azureml" / "config.json")
    assert read_config(str(find_config(str(tmp_path)))) == config

    (tmp_path / "old" / "aml_config").mkdir(parents=True)
    assert write_config(config, str(tmp_path / "old"), "x.json") == str(tmp_path / "old" / "aml_config" / "x.json")


@pytest.mark.parametrize("path", ["nowhere", "nowhere/config.json", "."])
def test_an_explicit_path_without_a_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UserErrorException, match="could not be found") as caught:
        Workspace.from_config(path)
    assert "without a path to use the default workspace" in caught.value.message
