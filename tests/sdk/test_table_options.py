"""Options of tables: each one changes what is read or written, or is refused with words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from azureml.core import Dataset, Datastore
from azureml.data.dataset_factory import DataType
from azureml.data.dataset_type_definitions import PromoteHeadersBehavior
from runyard.data import tables
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.workspace import Workspace

Store = Callable[..., "tuple[Datastore, str]"]


@pytest.fixture
def store(workspace: Workspace, tmp_path: Path) -> Store:
    """Put files with these texts on the datastore and return their place."""

    def put(pattern: str, encoding: str = "utf-8", **files: str) -> tuple[Datastore, str]:
        source = tmp_path / "source"
        for name, text in files.items():
            path = source / name.replace("__", "/").replace("_csv", ".csv").replace("_jsonl", ".jsonl")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding=encoding)
        datastore = workspace.get_default_datastore()
        datastore.upload(str(source), tmp_path.name, show_progress=False)
        return datastore, f"{tmp_path.name}/{pattern}"

    return put


def rows(dataset: Any, **options: str) -> dict[str, list[Any]]:
    frame = dataset.to_pandas_dataframe(**options)
    return {name: [None if pd.isna(one) else one for one in frame[name]] for name in frame.columns}


def test_a_value_that_does_not_fit_is_null_or_an_error(store: Store) -> None:
    types = {
        "n": DataType.to_long(),
        "day": DataType.to_datetime("%d/%m/%Y"),
        "x": DataType.to_float(decimal_mark=","),
        "yes": DataType.to_bool(),
    }
    place = store("a.csv", a_csv="n,day,x,yes\n1,31/12/2019,1;5,true\nbad,12/31/2019,2,\n".replace(";", "."))
    place = store("b.csv", b_csv='n,day,x,yes\n1,31/12/2019,"1,5",true\nbad,12/31/2019,2,\n')
    table = Dataset.Tabular.from_delimited_files(place, set_column_types=types)

    assert rows(table) == {
        "n": [1, None],
        "day": [datetime(2019, 12, 31), None],
        "x": [1.5, 2.0],
        "yes": [True, None],
    }
    with pytest.raises(UserErrorException, match="'n' holds a value that is no int64: 'bad'") as caught:
        table.to_pandas_dataframe(on_error="fail")
    assert "on_error='null'" in str(caught.value)
    with pytest.raises(UserErrorException, match="on_error is 'null' or 'fail'"):
        table.to_pandas_dataframe(on_error="ignore")


def test_a_late_value_of_another_kind_is_null_and_the_rest_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_BLOCK", 64)
    lines = [f"{n},{n}" for n in range(40)]
    table = Dataset.Tabular.from_delimited_files(store("a.csv", a_csv="\n".join(["n,m", *lines, "x,40", "41,41"])))

    assert rows(table) == {"n": [*range(40), None, 41], "m": list(range(42))}
    with pytest.raises(UserErrorException, match=r"a.csv` could not be read as delimited text"):
        table.to_pandas_dataframe(on_error="fail")


def test_times_that_pandas_cannot_hold_are_null_or_an_error(store: Store) -> None:
    table = Dataset.Tabular.from_delimited_files(store("a.csv", a_csv="t\n2020-01-01\n9999-12-31\n"))

    assert rows(table) == {"t": [datetime(2020, 1, 1), None]}
    with pytest.raises(UserErrorException, match="9999-12-31"):
        table.to_pandas_dataframe(out_of_range_datetime="fail")


@pytest.mark.parametrize(
    ("encoding", "codec"), [("iso88591", "latin-1"), ("utf16", "utf-16"), ("utf8bom", "utf-8-sig")]
)
def test_files_are_read_in_their_encoding(store: Store, encoding: str, codec: str) -> None:
    csv = store("a.csv", codec, a_csv="ä;b\nü;2\n", b_jsonl='{"ä": "ü"}\n')
    table = Dataset.Tabular.from_delimited_files(csv, separator=";", encoding=encoding)
    lines = Dataset.Tabular.from_json_lines_files((csv[0], csv[1].replace("a.csv", "b.jsonl")), encoding=encoding)

    assert rows(table) == {"ä": ["ü"], "b": [2]}
    assert rows(lines) == {"ä": ["ü"]}
    with pytest.raises(UserErrorException, match="no encoding 'klingon'"):
        Dataset.Tabular.from_delimited_files(csv, encoding="klingon")


def test_invalid_lines_are_dropped_or_an_error(store: Store) -> None:
    place = store("a.jsonl", a_jsonl='{"a": 1, "t": "01/31/2019"}\nnope\n{"a": 2, "t": "2019-02-01T00:00:00Z"}\n')
    types = {"a": DataType.to_string(), "t": DataType.to_datetime()}
    kept = Dataset.Tabular.from_json_lines_files(place, invalid_lines="drop", set_column_types=types)

    assert rows(kept) == {"a": ["1", "2"], "t": [datetime(2019, 1, 31), datetime(2019, 2, 1)]}
    with pytest.raises(UserErrorException, match="invalid_lines='drop'"):
        Dataset.Tabular.from_json_lines_files(place).to_pandas_dataframe()
    with pytest.raises(UserErrorException, match="'error' or 'drop'"):
        Dataset.Tabular.from_json_lines_files(place, invalid_lines="skip")


def test_types_of_parquet_columns_are_set_and_csv_is_written_with_its_separator(
    workspace: Workspace, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"n": [1, 2], "s": ["1.5", "x"]})
    table = Dataset.Tabular.register_pandas_dataframe(
        frame, (workspace.get_default_datastore(), tmp_path.name), tmp_path.name, show_progress=False
    )
    source = table._spec.sources[0]
    typed = Dataset.Tabular.from_parquet_files(
        (workspace.get_default_datastore(), source.path),
        set_column_types={"n": DataType.to_string(), "s": DataType.to_float()},
    )
    [csv] = typed.to_csv_files(separator=";").download(str(tmp_path / "out"))

    assert rows(typed) == {"n": ["1", "2"], "s": [1.5, None]}
    assert Path(csv).read_text().splitlines() == ['"n";"s"', '"1";1.5', '"2";']


def test_headers_of_the_first_file_or_of_all(store: Store) -> None:
    first = store("*.csv", a_csv="a,b\n1,2\n", b_csv="3,4\n")
    table = Dataset.Tabular.from_delimited_files(first, header=PromoteHeadersBehavior.ONLY_FIRST_FILE_HAS_HEADERS)
    every = store("all/*.csv", all__a_csv="a,b\n1,2\n", all__b_csv="c,a\n5,6\n")
    combined = Dataset.Tabular.from_delimited_files(every, header=PromoteHeadersBehavior.COMBINE_ALL_FILES_HEADERS)

    assert rows(table) == {"a": [1, 3], "b": [2, 4]}
    assert rows(combined) == {"a": [1, 6], "b": [2, None], "c": [None, "5"]}


def test_validate_looks_at_the_columns_at_once(store: Store) -> None:
    table = Dataset.Tabular.from_delimited_files(store("a.csv", a_csv="n,when,day\n1,2020-01-01,2020-01-01\n"))
    timed = table.with_timestamp_columns(fine_grain_timestamp="when", coarse_grain_timestamp="day", validate=True)

    assert timed.timestamp_columns == ("when", "day")
    assert table.keep_columns("typo").id
    with pytest.raises(UserErrorException, match="no column 'typo'"):
        table.keep_columns(["typo"], validate=True)
    with pytest.raises(UserErrorException, match="no column 'typo'"):
        table.with_timestamp_columns("typo", validate=True)
    with pytest.raises(UserErrorException, match="no column 'typo'"):
        table.with_timestamp_columns("typo").time_before(datetime(2020, 1, 2))
    with pytest.raises(UserErrorException, match="needs a timestamp"):
        table.with_timestamp_columns(partition_timestamp="day")


def test_paths_become_columns_and_partition_keys(store: Store) -> None:
    texts = {"de__2019__01__31__data_csv": "n\n1\n", "fr__2019__02__01__data_csv": "n\n2\n"}
    place = store("**/data.csv", **texts)
    form = "/{country}/{day:yyyy/MM/dd}/data.csv"
    table = Dataset.Tabular.from_delimited_files(place, partition_format=form)
    files = Dataset.File.from_files(place, partition_format=form)

    assert rows(table) == {"country": ["de", "fr"], "day": [datetime(2019, 1, 31), datetime(2019, 2, 1)], "n": [1, 2]}
    assert table.partition_keys == files.partition_keys == ["country", "day"]
    assert files.get_partition_key_values(["country"]) == [{"country": "de"}, {"country": "fr"}]
    assert rows(table.filter((table["country"] == "fr") & ~(table["n"] > 5))) == rows(table.skip(1))
    assert len(files.filter(files["country"] == "de").to_path()) == 1
    assert files.filter(files.file_metadata("Size") > 100).to_path() == []
    timed = table.with_timestamp_columns("day").time_after(datetime(2019, 2, 1))
    assert rows(timed)["n"] == [2]
    with pytest.raises(UserErrorException, match="does not fit the partition format"):
        Dataset.Tabular.from_delimited_files(place, partition_format="/{x}/other.csv")
    with pytest.raises(UserErrorException, match="no partition keys"):
        files.get_partition_key_values(["town"])


def test_a_table_is_partitioned_by_its_columns(store: Store, workspace: Workspace, tmp_path: Path) -> None:
    table = Dataset.Tabular.from_delimited_files(
        store("a.csv", a_csv="country,year,n\nde,2019,1\nfr/x,2020,2\nde,2020,3\n,2019,4\nde,2019,5\n")
    )
    target = (workspace.get_default_datastore(), f"{tmp_path.name}-parts")
    made = table.partition_by(["country", "year"], target, name=f"{tmp_path.name} parts", show_progress=False)
    again = Dataset.get_by_name(workspace, f"{tmp_path.name} parts")

    assert again.partition_keys == ["country", "year"] and made.name == again.name
    frame = again.to_pandas_dataframe().sort_values("n")
    assert frame["n"].tolist() == [1, 2, 3, 4, 5] and frame["year"].tolist() == [2019, 2020, 2020, 2019, 2019]
    assert [None if pd.isna(one) else one for one in frame["country"]] == ["de", "fr/x", "de", None, "de"]
    assert {"country": "fr/x", "year": "2020"} in made.get_partition_key_values()
    with pytest.raises(UserErrorException, match="something at"):
        table.partition_by(["country"], target)


def test_a_profile_counts_and_a_column_of_streams_is_fetched(store: Store, tmp_path: Path) -> None:
    place = store("a.csv", a_csv="n,s\n1,b\n3,\n2,a\n", pic_csv="picture")
    profile = Dataset.Tabular.from_delimited_files(place).get_profile()
    n, s = profile.columns["n"], profile.columns["s"]

    assert (profile.row_count, n.type, n.min, n.max, n.mean, n.std, n.missing_count) == (3, "long", 1, 3, 2.0, 1.0, 0)
    assert (s.type, s.min, s.max, s.not_missing_count) == ("string", "a", "b", 2)
    datastore, _ = place
    text = f"AmlDatastore://{datastore.name}/{tmp_path.name}/pic.csv"
    streams = store("s.csv", s_csv=f"file\n{text}\n{text}x\n")
    table = Dataset.Tabular.from_delimited_files(
        streams, set_column_types={"file": DataType.to_stream(datastore.workspace)}
    )
    [path] = table.download("file", str(tmp_path / "got"))
    assert Path(path).read_text() == "picture"
    with table.take(1).mount("file") as mounted:
        assert (Path(mounted.mount_point) / "pic.csv").read_text() == "picture"


def test_the_words_of_early_2019_still_read(store: Store, workspace: Workspace, tmp_path: Path) -> None:
    place = store("a.csv", a_csv="n\n1\n2\n")
    table = Dataset.auto_read_files(place).register(workspace, tmp_path.name, exist_ok=True)
    same = Dataset.from_delimited_files(place, separator=";").register(workspace, tmp_path.name, exist_ok=True)

    assert Dataset.get(workspace, tmp_path.name).head(1)["n"].tolist() == [1]
    assert same.id == table.id == Dataset.get(workspace, id=table.id).id
    assert tmp_path.name in [one.name for one in Dataset.list(workspace)]
    assert Dataset.Scenario.TRAINING == "training"
