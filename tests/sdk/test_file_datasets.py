"""Datasets of files against a real private server: made, registered, read by runs, and written by them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from azureml.core import Dataset, Datastore
from azureml.data import OutputFileDatasetConfig
from azureml.data.datapath import DataPath
from runyard.core.specs import DatasetSpec, DataSource
from runyard.data.datasets import whole_place
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

FILES = {"a/1.txt": "one", "a/2.txt": "two", "a/deep/3.csv": "three", "b/1.txt": "other"}
SCRIPT = """
import glob, json, os, sys
from azureml.core import Run
run = Run.get_context()
seen = {}
for path in sys.argv[1:]:
    files = [path] if os.path.isfile(path) else sorted(glob.glob(os.path.join(path, "**"), recursive=True))
    seen[path] = {os.path.relpath(f, path): open(f).read() for f in files if os.path.isfile(f)}
named = {name: value if isinstance(value, str) else value.id for name, value in run.input_datasets.items()}
run.upload_file("seen.json", __import__("io").BytesIO(json.dumps([list(seen.values()), named]).encode()))
"""


@pytest.fixture
def datastore(workspace: Workspace, tmp_path: Path) -> Datastore:
    source = tmp_path / "source"
    for name, text in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    datastore = workspace.get_default_datastore()
    datastore.upload(str(source), tmp_path.name, show_progress=False)
    return datastore


def seen_by(run: Run, folder: Path) -> list[object]:
    run.wait_for_completion()
    run.download_file("seen.json", str(folder / "seen.json"))
    return list(json.loads((folder / "seen.json").read_text()))


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("", ["/a/1.txt", "/a/2.txt", "/a/deep/3.csv", "/b/1.txt"]),
        ("a", ["/1.txt", "/2.txt", "/deep/3.csv"]),
        ("a/1.txt", ["/1.txt"]),
        ("a/*.txt", ["/1.txt", "/2.txt"]),
        ("**/*.csv", ["/a/deep/3.csv"]),
        ("*/1.txt", ["/a/1.txt", "/b/1.txt"]),
        ("a/de?p", ["/deep/3.csv"]),
    ],
)
def test_files_are_found_by_path_and_pattern(datastore: Datastore, tmp_path: Path, path: str, names: list[str]) -> None:
    assert Dataset.File.from_files((datastore, f"{tmp_path.name}/{path}")).to_path() == names
    assert Dataset.File.from_files(DataPath(datastore, f"{tmp_path.name}/{path}")).to_path() == names


def test_files_of_the_same_name_stay_apart_and_nothing_is_an_error(datastore: Datastore, tmp_path: Path) -> None:
    both = Dataset.File.from_files([(datastore, f"{tmp_path.name}/a/1.txt"), (datastore, f"{tmp_path.name}/b")])

    assert both.to_path() == [f"/{tmp_path.name}/a/1.txt", f"/{tmp_path.name}/b/1.txt"]
    with pytest.raises(UserErrorException, match="holds nothing at"):
        Dataset.File.from_files((datastore, "never"))
    with pytest.raises(UserErrorException, match="lies on a datastore"):
        Dataset.File.from_files("./data")


def test_parts_are_the_same_for_the_same_seed_and_share_the_files_out(datastore: Datastore, tmp_path: Path) -> None:
    whole = Dataset.File.from_files((datastore, tmp_path.name))
    first, second = whole.random_split(0.5, seed=3)

    assert sorted(first.to_path() + second.to_path()) == sorted(whole.to_path())
    assert whole.random_split(0.5, seed=3)[0].to_path() == first.to_path()
    assert whole.take(2).to_path() == whole.to_path()[:2]
    assert whole.skip(3).to_path() == whole.to_path()[3:]
    assert whole.take_sample(1.0).to_path() == whole.to_path()


def test_a_name_has_versions_and_the_same_data_is_the_same_version(
    workspace: Workspace, datastore: Datastore, tmp_path: Path
) -> None:
    name = tmp_path.name
    first = Dataset.File.from_files((datastore, f"{name}/a")).register(workspace, name, "first", {"k": 1})
    again = Dataset.File.from_files((datastore, f"{name}/a")).register(workspace, name)
    other = Dataset.File.from_files((datastore, f"{name}/b"))

    assert (first.name, first.version, first.description, first.tags) == (name, 1, "first", {"k": "1"})
    assert (again.version, again.id) == (1, first.id)
    with pytest.raises(UserErrorException, match="create_new_version"):
        other.register(workspace, name)
    assert other.register(workspace, name, create_new_version=True).version == 2
    assert Dataset.get_by_name(workspace, name).to_path() == ["/1.txt"]
    assert Dataset.get_by_name(workspace, name, version=1).id == first.id
    assert Dataset.get_by_id(workspace, first.id).version == 1
    assert first.add_tags({"x": "y"}).remove_tags(["k"]).tags == {"x": "y"}
    assert workspace.datasets[name].version == 2
    first.unregister_all_versions()
    with pytest.raises(UserErrorException, match="Cannot find dataset registered with name"):
        Dataset.get_by_name(workspace, name)


def test_a_script_reads_mounted_and_downloaded_data(
    datastore: Datastore, tmp_path: Path, submit: Callable[..., Run]
) -> None:
    folder = Dataset.File.from_files((datastore, f"{tmp_path.name}/a"))
    chosen = Dataset.File.from_files((datastore, f"{tmp_path.name}/*/1.txt"))
    one = Dataset.File.from_files((datastore, f"{tmp_path.name}/a/2.txt"))
    lone = Dataset.File.from_files((datastore, f"{tmp_path.name}/b/**"))
    direct = one.as_named_input("straight")
    run = submit(
        SCRIPT,
        folder.as_named_input("whole").as_mount(),
        chosen.as_named_input("chosen").as_mount(),
        chosen.as_named_input("copied").as_download(),
        one.as_named_input("single").as_mount(),
        lone.as_named_input("lone").as_mount(),
        direct,
    )
    contents, named = seen_by(run, tmp_path)
    facts = {one["consumptionDetails"]["inputName"]: one["facts"] for one in run.get_details()["inputDatasets"]}

    deep = {"1.txt": "one", "2.txt": "two", "deep/3.csv": "three"}
    assert contents == [
        deep,
        {"a/1.txt": "one", "b/1.txt": "other"},
        {"a/1.txt": "one", "b/1.txt": "other"},
        {".": "two"},
        {".": "other"},
        {},
    ]
    assert isinstance(named, dict) and named["straight"] == one.id
    place = Path(datastore.container_name) / tmp_path.name / "a"
    assert (named["whole"], named["single"]) == (str(place), str(place / "2.txt"))
    assert (facts["whole"]["files"], facts["whole"]["bytes"], facts["whole"]["read"]) == (3, 11, "read in place")
    assert facts["chosen"]["fingerprint"] == facts["copied"]["fingerprint"] != facts["whole"]["fingerprint"]


def test_outputs_end_on_their_datastore_and_become_datasets(
    workspace: Workspace, datastore: Datastore, tmp_path: Path, submit: Callable[..., Run]
) -> None:
    mounted = OutputFileDatasetConfig("mounted", partition_format="/{base}.*").register_on_complete(
        f"{tmp_path.name} out", tags={"by": "run"}
    )
    uploaded = OutputFileDatasetConfig("uploaded", (datastore, f"{tmp_path.name}/up")).as_upload(source_globs=["*.txt"])
    run = submit(
        """
        import os, sys
        for path in sys.argv[1:]:
            assert os.path.isdir(path)
            for name in ("r.txt", "r.bin"):
                open(os.path.join(path, name), "w").write(name)
        """,
        mounted,
        uploaded,
    )
    run.wait_for_completion()
    registered = Dataset.get_by_name(workspace, f"{tmp_path.name} out")

    assert str(mounted) == "DatasetOutputConfig:mounted"
    assert registered.to_path() == ["/r.bin", "/r.txt"]
    assert registered.tags == {"by": "run"} and registered.get_partition_key_values() == [{"base": "r"}]
    assert registered._spec.sources[0].path == f"dataset/{run.id}/mounted"
    assert Dataset.File.from_files((datastore, f"{tmp_path.name}/up")).to_path() == ["/r.txt"]
    assert run.output_datasets["uploaded"].to_path() == ["/r.txt"]


def test_download_and_mount_on_this_machine(datastore: Datastore, tmp_path: Path) -> None:
    dataset = Dataset.File.from_files((datastore, f"{tmp_path.name}/a"))
    paths = dataset.download(str(tmp_path / "got"))
    with dataset.mount() as mounted:
        seen = sorted(str(path.relative_to(mounted.mount_point)) for path in Path(mounted.mount_point).rglob("*.*"))

    stored = Path(datastore.container_name) / tmp_path.name / "a"
    os.utime(stored / "2.txt", (0, 4_000_000_000))

    assert dataset.data_changed_time == datetime.fromtimestamp(4_000_000_000, timezone.utc)
    assert Dataset.File.from_files("https://example.com/a.txt", validate=False).data_changed_time is None
    assert Dataset.File.from_files((datastore, "never"), validate=False).download(ignore_not_found=True) == []
    assert [Path(path).read_text() for path in paths] == ["one", "two", "three"]
    assert seen == ["1.txt", "2.txt", "deep/3.csv"]
    assert not Path(mounted.mount_point).exists()
    with pytest.raises(UserErrorException, match="there already"):
        dataset.download(str(tmp_path / "got"))
    assert len(dataset.download(str(tmp_path / "got"), overwrite=True)) == 3


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("", ""),
        ("a", "a"),
        ("a/b.txt", "a/b.txt"),
        ("a/*", "a"),
        ("a/**", "a"),
        ("a/b/**/*", "a/b"),
        ("*", None),  # of the datastore itself, which holds files on their way too
        ("**", None),
        ("a/*.txt", None),
        ("*/b", None),
        ("a/**/b", None),
        ("a/b?", None),
    ],
)
def test_all_of_a_folder_is_known_by_its_pattern(path: str, whole: str | None) -> None:
    assert whole_place(DatasetSpec("id", sources=[DataSource("store", path)])) == whole


def test_two_inputs_of_one_name_are_refused(datastore: Datastore, tmp_path: Path, submit: Callable[..., Run]) -> None:
    a, b = (Dataset.File.from_files((datastore, f"{tmp_path.name}/{name}")) for name in "ab")

    with pytest.raises(UserErrorException, match="are called 'same'"):
        submit("", a.as_named_input("same").as_mount(), b.as_named_input("same").as_mount())
