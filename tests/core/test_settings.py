from pathlib import Path

import pytest

from runyard.core.config.settings import read_settings, settings_of_run
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.plugins import load_plugin


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


@pytest.mark.parametrize(("text", "read"), [("0, 2", "0, 2"), (" None ", "none"), ("", "")])
def test_the_gpus_that_runs_may_have_are_numbers_or_none(text: str, read: str) -> None:
    assert read_settings({"RUNYARD_HOME": "/h", "RUNYARD_GPU_DEVICES": text}).gpu_devices == read


def test_other_words_for_gpus_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="RUNYARD_GPU_DEVICES holds 'first'") as caught:
        read_settings({"RUNYARD_HOME": "/h", "RUNYARD_GPU_DEVICES": "first"})

    assert "RUNYARD_GPU_DEVICES=none" in caught.value.hint


def test_an_unknown_plugin_names_the_known_ones() -> None:
    with pytest.raises(NotFound) as caught:
        load_plugin("store", "oracle", {"memory": "x:Y", "sqlite": "x:Z"})

    assert "memory, sqlite" in caught.value.hint


def test_a_plugin_is_loaded_by_name() -> None:
    assert load_plugin("store", "plain", {"plain": "runyard.core.formats.plain:to_plain"})([1]) == [1]


def test_a_word_that_is_none_of_the_known_ones_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="auto, never"):
        read_settings({"RUNYARD_HOME": "/h", "RUNYARD_CONDA_FALLBACK": "perhaps"})


def test_a_runs_own_variables_decide_on_its_environment() -> None:
    servers = read_settings(
        {"RUNYARD_HOME": "/h", "RUNYARD_CONDA_FALLBACK": "never", "RUNYARD_CONTAINER_ENGINE": "docker"}
    )
    same = settings_of_run(servers, {})
    other = settings_of_run(
        servers,
        {
            "RUNYARD_CONDA_FALLBACK": "auto",
            "RUNYARD_CONTAINER_ENGINE": "podman",
            "RUNYARD_CONTAINER_ARGUMENTS": "--memory 1g",
        },
    )

    assert (same.conda_fallback, same.container_engine, same.container_arguments) == ("never", "docker", "")
    assert (other.conda_fallback, other.container_engine, other.container_arguments) == (
        "auto",
        "podman",
        "--memory 1g",
    )


def test_a_runs_own_variables_say_how_it_is_watched() -> None:
    settings = read_settings({"RUNYARD_HOME": "/h", "RUNYARD_HANG_AFTER": "7", "RUNYARD_HANG_FAILS": "1"})
    own = {"RUNYARD_SAMPLE_EVERY": "0.5", "RUNYARD_HANG_FAILS": "0", "RUNYARD_GRACE": "99"}

    found = settings_of_run(settings, own)

    assert (found.hang_after_s, found.hang_fails, found.sample_every_s, found.grace_s) == (7.0, False, 0.5, 30.0)


def test_a_runs_own_variable_that_is_no_number_is_named() -> None:
    with pytest.raises(InvalidArgument, match="RUNYARD_HANG_AFTER holds 'soon'"):
        settings_of_run(read_settings({"RUNYARD_HOME": "/h"}), {"RUNYARD_HANG_AFTER": "soon"})
