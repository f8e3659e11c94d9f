"""Datasets of tables: read lazily, narrowed step by step, given to runs as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from azureml.core import Dataset, Datastore
from azureml.data.dataset_factory import DataType
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior
from runyard.data.tables import read_batches
from runyard.sdk.data.kinds import TabularDataset
from runyard.sdk.exceptions import DatasetTimestampMissingError, UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

FRAME = pd.DataFrame(
    {
        "n": range(10),
        "name": [f"row {n}" for n in range(10)],
        "when": pd.date_range("2026-01-01", periods=10, freq="D").astype("datetime64[us]"),
    }
)


@pytest.fixture
def datastore(workspace: Workspace, tmp_path: Path) -> Datastore:
    source = tmp_path / "source"
    source.mkdir()
    FRAME.iloc[:6].to_csv(source / "a.csv", index=False)
    FRAME.iloc[6:].to_csv(source / "b.csv", index=False)
    FRAME.to_csv(source / "bare.tsv", sep="\t", header=False, index=False)
    FRAME.to_parquet(source / "all.parquet")
    FRAME.drop(columns="when").to_json(source / "all.jsonl", orient="records", lines=True)
    datastore = workspace.get_default_datastore()
    datastore.upload(str(source), tmp_path.name, show_progress=False)
    return datastore


@pytest.fixture
def table(datastore: Datastore, tmp_path: Path) -> TabularDataset:
    return Dataset.Tabular.from_delimited_files((datastore, f"{tmp_path.name}/*.csv"))


def test_every_kind_of_file_gives_the_same_rows(datastore: Datastore, table: TabularDataset, tmp_path: Path) -> None:
    name = tmp_path.name
    parquet = Dataset.Tabular.from_parquet_files((datastore, f"{name}/all.parquet")).to_pandas_dataframe()
    lines = Dataset.Tabular.from_json_lines_files((datastore, f"{name}/all.jsonl")).to_pandas_dataframe()
    bare = Dataset.Tabular.from_delimited_files((datastore, f"{name}/bare.tsv"), separator="\t", header=False)
    csv = table.to_pandas_dataframe()

    assert csv["n"].tolist() == parquet["n"].tolist() == lines["n"].tolist() == list(range(10))
    assert csv["name"].tolist() == parquet["name"].tolist() == FRAME["name"].tolist()
    assert list(csv["when"]) == list(parquet["when"]) == list(FRAME["when"])
    assert list(bare.to_pandas_dataframe().columns) == ["Column1", "Column2", "Column3"]


def test_rows_and_columns_are_narrowed_step_by_step(table: TabularDataset) -> None:
    part = table.skip(2).take(5).keep_columns(["n", "name"]).drop_columns("name").to_pandas_dataframe()
    first, second = table.random_split(0.5, seed=7)
    rows = [set(one.to_pandas_dataframe()["n"]) for one in (first, second)]

    assert part.to_dict("list") == {"n": [2, 3, 4, 5, 6]}
    assert rows[0] | rows[1] == set(range(10)) and not rows[0] & rows[1] and rows[0] and rows[1]
    assert set(table.take_sample(0.5, seed=7).to_pandas_dataframe()["n"]) == rows[0]
    with pytest.raises(UserErrorException, match="no column 'x'"):
        table.keep_columns("x").to_pandas_dataframe()


def test_time_filters_need_to_know_the_column(table: TabularDataset) -> None:
    timed = table.with_timestamp_columns("when")
    day = datetime(2026, 1, 4)

    assert timed.time_before(day).to_pandas_dataframe()["n"].tolist() == [0, 1, 2, 3]
    assert timed.time_after(day, include_boundary=False).to_pandas_dataframe()["n"].tolist() == [4, 5, 6, 7, 8, 9]
    assert timed.time_between(day, day + timedelta(days=1)).to_pandas_dataframe()["n"].tolist() == [3, 4]
    assert timed.time_recent(timedelta(days=1)).to_pandas_dataframe()["n"].tolist() == []
    with pytest.raises(DatasetTimestampMissingError, match="with_timestamp_columns"):
        table.time_before(day)


def test_a_table_without_its_time_column_is_none_of_times(
    table: TabularDataset, caplog: pytest.LogCaptureFixture
) -> None:
    """An official notebook drops the column, and one that is not there, and expects this class of error."""
    timed = table.with_timestamp_columns("when")
    early = timed.time_before(datetime(2026, 1, 4))

    for part in (timed.drop_columns(["when"]), timed.keep_columns(["n"])):
        assert part.timestamp_columns == (None, None)
        with pytest.raises(DatasetTimestampMissingError):
            part.time_before(datetime(2026, 1, 4))
    assert early.drop_columns("when").to_pandas_dataframe()["n"].tolist() == [0, 1, 2, 3]
    assert list(timed.drop_columns(["name", "typo"]).take(1).to_pandas_dataframe().columns) == ["n", "when"]
    assert "no column 'typo'" in caplog.text


def test_the_columns_that_hold_the_time_are_told(table: TabularDataset) -> None:
    assert table.timestamp_columns == (None, None)
    assert table.with_timestamp_columns("when").timestamp_columns == ("when", None)


def test_the_calls_of_early_2019_find_and_read_tables(
    workspace: Workspace, datastore: Datastore, tmp_path: Path
) -> None:
    names = ("a.csv", "all.parquet", "all.jsonl")
    read = {name: Dataset.auto_read_files((datastore, f"{tmp_path.name}/{name}")) for name in names}
    kept = read["a.csv"].register(workspace, "early")

    assert [len(table.to_pandas_dataframe()) for table in read.values()] == [6, 10, 10]
    assert Dataset.get(workspace, "early").id == Dataset.get(workspace, id=kept.id).id == kept.id
    assert "early" in [dataset.name for dataset in Dataset.list(workspace)]
    with pytest.raises(UserErrorException, match="needs the name or the id"):
        Dataset.get(workspace)


def test_types_and_paths_are_as_asked_for(datastore: Datastore, tmp_path: Path) -> None:
    place = (datastore, f"{tmp_path.name}/a.csv")
    texts = Dataset.Tabular.from_delimited_files(place, infer_column_types=False, include_path=True)
    typed = Dataset.Tabular.from_delimited_files(place, set_column_types={"n": DataType.to_float()})
    frame = texts.to_pandas_dataframe()

    bare = Dataset.Tabular.from_delimited_files(place, header=PromoteHeadersBehavior.NO_HEADERS)

    assert bare.to_pandas_dataframe()["Column1"].tolist() == ["n", "0", "1", "2", "3", "4", "5"]
    assert frame["n"].tolist() == ["0", "1", "2", "3", "4", "5"]
    assert set(frame["Path"]) == {"/a.csv"}
    assert typed.to_pandas_dataframe()["n"].dtype == "float64"
    with pytest.raises(UserErrorException, match="must be made by DataType"):
        Dataset.Tabular.from_delimited_files(place, set_column_types={"n": "int"})  # type: ignore[dict-item]


def test_a_registered_table_is_a_table_again_and_can_be_written(
    workspace: Workspace, table: TabularDataset, tmp_path: Path
) -> None:
    table.take(3).register(workspace, tmp_path.name)
    again = Dataset.get_by_name(workspace, tmp_path.name)
    frame = Dataset.Tabular.register_pandas_dataframe(
        FRAME, (workspace.get_default_datastore(), "frames"), f"{tmp_path.name}-frame", show_progress=False
    )

    assert isinstance(again, TabularDataset)
    assert again.to_pandas_dataframe()["n"].tolist() == [0, 1, 2]
    assert frame.to_pandas_dataframe()["name"].tolist() == FRAME["name"].tolist()
    [csv] = again.to_csv_files().download(str(tmp_path / "csv"))
    [parquet] = again.to_parquet_files().download(str(tmp_path / "parquet"))
    assert pd.read_csv(csv)["n"].tolist() == pd.read_parquet(parquet)["n"].tolist() == [0, 1, 2]


def test_a_script_gets_the_table_itself(table: TabularDataset, submit: Callable[..., Run]) -> None:
    run = submit(
        """
        import sys
        from azureml.core import Dataset, Run
        run = Run.get_context()
        table = run.input_datasets["rows"]
        assert sys.argv[1] == table.id
        run.log("sum", int(table.to_pandas_dataframe()["n"].sum()))
        found = Dataset.get_by_id(run.experiment.workspace, id=sys.argv[1])
        run.log("rows by id", len(found.to_pandas_dataframe()))
        """,
        table.take(5).as_named_input("rows"),
    )
    run.wait_for_completion()

    assert run.get_metrics() == {"sum": 10, "rows by id": 5}
    with pytest.raises(UserErrorException, match="not as files"):
        table.as_named_input("rows").as_mount()


def test_reading_stops_when_enough_was_taken(table: TabularDataset, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("n\n1\n")
    rows = read_batches([str(tmp_path / "one.csv"), str(tmp_path / "never-there.csv")], {"format": "delimited"})

    assert next(iter(rows)).to_pydict() == {"n": [1]}
