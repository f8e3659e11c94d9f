"""Many children, rows, files and tags read back as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureml.core import Run
from tests.e2e.conftest import Submit, finish

SCRIPT = """
import os
from azureml.core import Run

run = Run.get_context()
children = run.create_children(count=100)
for index, child in enumerate(children):
    child.log("index", index)
for row in range(3000):
    run.log_row("table", **{f"c{column}": row * column for column in range(15)})
os.makedirs("files")
for index in range(500):
    with open(f"files/{index}.txt", "w") as file:
        file.write(f"content {index}")
run.upload_folder("files", "files")
for index in range(50):
    run.tag(f"tag{index}", str(index))
for child in children:
    child.complete()
"""


@pytest.mark.long  # for its length alone
@pytest.mark.timeout(300)
def test_a_hundred_children_3000_rows_500_files_and_50_tags_read_back_identical(submit: Submit, tmp_path: Path) -> None:
    run: Run = submit(SCRIPT)
    details = finish(run)
    children = list(run.get_children())
    run.download_files("files/", str(tmp_path / "back"))

    assert details["status"] == "Completed", details
    assert details.get("warnings", []) == []
    assert run.get_metrics() == {"table": {f"c{c}": [row * c for row in range(3000)] for c in range(15)}}
    assert run.get_metrics(recursive=True)[run.id] == run.get_metrics()
    assert {one.tags["azureml.batch_child_number"] for one in children} == {str(number) for number in range(100)}
    for child in children:
        assert {"azureml.batch_child_number": str(child.get_metrics()["index"])} == child.tags
    assert {one.status for one in children} == {"Completed"}
    assert run.tags == {f"tag{index}": str(index) for index in range(50)}
    back = {path.name: path.read_text() for path in (tmp_path / "back" / "files").iterdir()}
    assert back == {f"{index}.txt": f"content {index}" for index in range(500)}
