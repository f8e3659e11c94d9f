"""An output of a run is the input of a later one, as files or as a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from azureml.data import OutputFileDatasetConfig
from azureml.data.output_dataset_config import OutputDatasetConfig, OutputTabularDatasetConfig
from runyard.sdk.data.dataset import Dataset
from runyard.sdk.data.kinds import TabularDataset
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

WRITE = """
    import os, sys
    os.makedirs(os.path.join(sys.argv[1], "deep"))
    open(os.path.join(sys.argv[1], "deep", "a.csv"), "w").write("x;y\\n1;2\\n3;4\\n")
    open(os.path.join(sys.argv[1], "note.txt"), "w").write("no table")
"""
READ = """
    import json, os, sys
    from azureml.core import Run
    run = Run.get_context()
    frame = run.input_datasets["rows"].to_pandas_dataframe()
    run.log("rows", len(frame))
    run.tag("columns", ",".join(frame.columns))
    run.tag("files", json.dumps(sorted(os.listdir(run.input_datasets["files"]))))
    run.tag("said", json.dumps(sys.argv[1:]))
"""


def test_an_output_is_the_input_of_a_later_run(
    workspace: Workspace, submit: Callable[..., Run], tmp_path: Path
) -> None:
    output = OutputFileDatasetConfig("made")
    table = output.read_delimited_files(separator=";", path_glob="**/*.csv").drop_columns("y")
    files = output.as_input("files")
    registered = table.register_on_complete(f"{tmp_path.name}-rows", tags={"kind": "table"})
    with pytest.raises(UserErrorException, match="No run has written the output 'made' yet"):
        submit(READ, files)

    writer = submit(WRITE, registered)
    with pytest.raises(UserErrorException, match=f"written by the run '{writer.id}', which is (?!Completed)"):
        submit(READ, files)
    writer.wait_for_completion()
    reader = submit(READ, files, table.as_input("rows"))
    reader.wait_for_completion()

    assert reader.get_metrics() == {"rows": 2}
    assert reader.get_tags()["columns"] == "x"
    assert json.loads(str(reader.get_tags()["files"])) == ["deep", "note.txt"]
    kept = Dataset.get_by_name(workspace, f"{tmp_path.name}-rows")
    assert isinstance(kept, TabularDataset) and kept.tags == {"kind": "table"}
    assert kept.to_pandas_dataframe().to_dict("list") == {"x": [1, 3]}


def test_a_destination_without_a_run_is_a_place_of_its_own(workspace: Workspace, tmp_path: Path) -> None:
    datastore = workspace.get_default_datastore()
    (tmp_path / "data.csv").write_text("a\n5\n")
    datastore.upload_files([str(tmp_path / "data.csv")], target_path=tmp_path.name, show_progress=False)
    output = OutputFileDatasetConfig("there", (datastore, tmp_path.name))
    first, rest = output.read_delimited_files().random_split(1.0, seed=3)

    assert output.as_input()._given().to_path() == ["/data.csv"]  # type: ignore[attr-defined]  # of files
    assert output.as_input().name == "input_there"
    assert len(first.as_input("a")._given().to_pandas_dataframe()) == 1  # type: ignore[attr-defined]  # a table
    assert len(rest.as_input("a")._given().to_pandas_dataframe()) == 0  # type: ignore[attr-defined]  # a table


@pytest.mark.parametrize("columns", [[], None, 3, [3]])
def test_columns_are_names(columns: object) -> None:
    table = OutputFileDatasetConfig("made").read_parquet_files()

    assert table.keep_columns("a")._dataset_form()["steps"] == [{"do": "keep", "columns": ["a"]}]
    with pytest.raises((UserErrorException, TypeError)):
        table.keep_columns(columns)


def test_what_cannot_be_an_output_is_told() -> None:
    with pytest.raises(UserErrorException, match="mount or upload, found 'fast'"):
        OutputDatasetConfig("fast")
    with pytest.raises(UserErrorException, match=r"read_delimited_files\(\) makes an output"):
        OutputTabularDatasetConfig()
    with pytest.raises(UserErrorException, match="separator is one character"):
        OutputFileDatasetConfig("made").read_delimited_files(separator="::")


def test_run_config_names_inputs_and_outputs_too(
    workspace: Workspace, submit: Callable[..., Run], tmp_path: Path
) -> None:
    from azureml.core import RunConfiguration

    datastore = workspace.get_default_datastore()
    (tmp_path / "data.csv").write_text("a\n5\n")
    datastore.upload_files([str(tmp_path / "data.csv")], target_path=tmp_path.name, show_progress=False)
    config = RunConfiguration()
    config.data = {"given": Dataset.File.from_files((datastore, tmp_path.name))}
    config.output_data = {"made": OutputFileDatasetConfig("made")}
    run = submit(
        """
        import os
        from azureml.core import Run
        run = Run.get_context()
        given = os.path.basename(run.input_datasets["given"])
        open(os.path.join(run.output_datasets["made"], "b.txt"), "w").write("hello")
        run.tag("files", given)
        """,
        run_config=config,
    )
    run.wait_for_completion()

    assert run.get_tags()["files"] == "data.csv"
    assert config.output_data["made"].as_input()._given().to_path() == ["/b.txt"]
    definition = run.get_details()["runDefinition"]
    assert definition["data"]["given"]["mechanism"] == "mount" and "made" in definition["outputData"]


def test_other_things_are_no_inputs_of_run_config(submit: Callable[..., Run]) -> None:
    from azureml.core import RunConfiguration

    config = RunConfiguration()
    config.data = {"given": "path"}
    with pytest.raises(UserErrorException, match=r"run_config.data\['given'\] is a str"):
        submit("pass", run_config=config)
    config.data, config.output_data = {}, ["made"]  # type: ignore[assignment]  # what is refused
    with pytest.raises(UserErrorException, match=r"run_config\.output_data must be a dict"):
        submit("pass", run_config=config)
