from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.plugins import load_plugin
from runyard.core.settings import read_settings


def test_the_home_is_in_the_users_data_folder_unless_told_otherwise() -> None:
    assert read_settings({"XDG_DATA_HOME": "/data"}).home == Path("/data/runyard")
    assert read_settings({"RUNYARD_HOME": "/r/../h"}).home == Path("/h")


def test_numbers_are_read_from_variables() -> None:
    settings = read_settings(
        {"RUNYARD_HOME": "/h", "RUNYARD_GRACE": "2.5", "RUNYARD_PORT": "8123", "RUNYARD_KEEP_RUN_FOLDERS": "1"}
    )

    assert (settings.grace_s, settings.port, settings.keep_run_folders) == (2.5, 8123, True)


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_bad_number_names_the_variable_and_what_to_type(text: str) -> None:
    with pytest.raises(InvalidArgument, match="RUNYARD_GRACE") as caught:
        read_settings({"RUNYARD_HOME": "/h", "RUNYARD_GRACE": text})

    assert caught.value.hint == "export RUNYARD_GRACE=30"


def test_an_unknown_plugin_names_the_known_ones() -> None:
    with pytest.raises(NotFound) as caught:
        load_plugin("store", "oracle", {"memory": "x:Y", "sqlite": "x:Z"})

    assert "memory, sqlite" in caught.value.hint


def test_a_plugin_is_loaded_by_name() -> None:
    assert load_plugin("store", "plain", {"plain": "runyard.core.plain:to_plain"})([1]) == [1]
