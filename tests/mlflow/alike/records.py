"""Calls on experiments, runs, metrics, parameters, tags and inputs."""

from __future__ import annotations

import math
from typing import Any

from asked import client, label, note, page, rest
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType

NOBODY = "0123456789abcdef0123456789abcdef"
NO_EXPERIMENT = "987654321987"
NAMES = {
    "plain": "plain",
    "slash": "with / slash: colon",
    "unicode": "ünï ☃ 😀",
    "spaces": " around ",
    "quotes": 'it\'s "quoted"',
    "lines": "tab\tand\nline",
    "long": "x" * 500,
    "too long": "x" * 501,
    "empty": "",
    "default": "Default",
}
KEYS = {
    "plain": "key",
    "spaces": "a key",
    "path": "a/b/c",
    "dots": "a.b.c",
    "colon": "a:b",
    "dash": "-a_b-",
    "unicode": "ключ",
    "percent": "a%b",
    "up": "../a",
    "here": "./a",
    "absolute": "/a",
    "twice": "a//b",
    "trailing": "a/",
    "dot": ".",
    "long": "k" * 250,
    "too long": "k" * 251,
    "empty": "",
    "quote": "a'b",
    "comma": "a,b",
}
VALUES = {
    "number": 1.5,
    "zero": 0.0,
    "minus zero": -0.0,
    "nan": math.nan,
    "infinite": math.inf,
    "minus infinite": -math.inf,
    "huge": 1.7976931348623157e308,
    "tiny": 5e-324,
    "third": 1 / 3,
}


def experiments() -> None:
    for case, name in NAMES.items():
        named = f"e:{case}"
        made = note(
            f"experiments/create {case}",
            lambda name=name, named=named: label(client.create_experiment(name), named),
        )
        if made is not None:
            note(f"experiments/get {case}", lambda made=made: client.get_experiment(made))
            note(f"experiments/again {case}", lambda name=name: client.create_experiment(name))
        if name:
            note(f"experiments/by name {case}", lambda name=name: client.get_experiment_by_name(name))
    note("experiments/unknown", lambda: client.get_experiment(NO_EXPERIMENT))
    note("experiments/unknown name", lambda: client.get_experiment_by_name("nothing of the kind"))
    one = label(client.create_experiment("one", tags={"a": "1", "long": "x" * 4000}), "e:one")
    two = label(client.create_experiment("two", tags={"a": "2"}), "e:two")
    for case, key in KEYS.items():
        note(f"experiments/tag {case}", lambda key=key: client.set_experiment_tag(one, key, "v"))
    for case, value in (("empty", ""), ("unicode", "ü☃"), ("number", 7)):
        note(f"experiments/tag value {case}", lambda value=value: client.set_experiment_tag(two, "v", value))
        note(f"experiments/tagged {case}", lambda: client.get_experiment(two))
    note("experiments/tag unknown", lambda: client.set_experiment_tag(NO_EXPERIMENT, "a", "b"))
    note("experiments/rename taken", lambda: client.rename_experiment(one, "two"))
    note("experiments/rename same", lambda: client.rename_experiment(one, "one"))
    note("experiments/rename", lambda: client.rename_experiment(one, "uno"))
    note("experiments/renamed", lambda: client.get_experiment_by_name("uno"))
    note("experiments/old name", lambda: client.get_experiment_by_name("one"))
    note("experiments/rename long", lambda: client.rename_experiment(one, "n" * 501))
    client.rename_experiment(one, "uno")
    note("experiments/rename empty", lambda: client.rename_experiment(one, ""))
    note("experiments/rename unknown", lambda: client.rename_experiment(NO_EXPERIMENT, "n"))
    run = label(client.create_run(two, run_name="in two").info.run_id, "r:in two")
    note("experiments/restore active", lambda: client.restore_experiment(two))
    note("experiments/delete", lambda: client.delete_experiment(two))
    note("experiments/delete again", lambda: client.delete_experiment(two))
    note("experiments/deleted", lambda: client.get_experiment(two))
    note("experiments/deleted by name", lambda: client.get_experiment_by_name("two"))
    note("experiments/deleted name again", lambda: client.create_experiment("two"))
    note("experiments/deleted rename", lambda: client.rename_experiment(two, "dos"))
    note("experiments/deleted tag", lambda: client.set_experiment_tag(two, "a", "b"))
    note("experiments/deleted create run", lambda: client.create_run(two))
    note("experiments/deleted run", lambda: client.get_run(run))
    for view in (ViewType.ACTIVE_ONLY, ViewType.DELETED_ONLY, ViewType.ALL):
        note(f"experiments/deleted search {view}", lambda view=view: client.search_runs([two], "", view))
    note("experiments/restore", lambda: client.restore_experiment(two))
    note("experiments/restored run", lambda: client.get_run(run))
    note("experiments/delete unknown", lambda: client.delete_experiment(NO_EXPERIMENT))
    note("experiments/restore unknown", lambda: client.restore_experiment(NO_EXPERIMENT))
    locations = (
        "s3://bucket/path",
        "s3://bucket/a?b=..",
        "s3://bucket/a#b",
        "runs:/x",
        "gs://b/ü",
        "s3://" + "b" * 3000,
    )
    for number, location in enumerate(locations):
        made = note(
            f"experiments/location {location[:20]} {number}",
            lambda location=location, number=number: label(
                client.create_experiment(f"located {number}", artifact_location=location), f"e:located {number}"
            ),
        )
        if made:
            note(f"experiments/located {number}", lambda made=made: client.get_experiment(made).artifact_location)


def runs() -> None:
    where = label(client.create_experiment("runs"), "e:runs")
    starts: list[int] = []

    def make(name: str, **more: Any) -> str:
        starts.append(1000 + len(starts))
        made = client.create_run(where, start_time=starts[-1], run_name=name, **more)
        return str(label(made.info.run_id, f"r:{name}"))

    run = make("first")
    note("runs/get", lambda: client.get_run(run))
    note("runs/unknown", lambda: client.get_run(NOBODY))
    note("runs/no id", lambda: client.get_run("not/an/id"))
    note("runs/create unknown", lambda: client.create_run(NO_EXPERIMENT))
    note("runs/two names", lambda: client.create_run(where, run_name="a", tags={"mlflow.runName": "b"}))
    note(
        "runs/tag name", lambda: label_run(client.create_run(where, start_time=5, tags={"mlflow.runName": "b"}), "r:b")
    )
    note("runs/nested", lambda: client.get_run(make("nested", tags={"mlflow.parentRunId": run})))
    note("runs/of nobody", lambda: client.get_run(make("orphan", tags={"mlflow.parentRunId": NOBODY})))
    note("runs/note", lambda: client.get_run(make("noted", tags={"mlflow.note.content": "text"})))
    for case, key in KEYS.items():
        note(f"runs/metric {case}", lambda key=key: client.log_metric(run, key, 1.0, timestamp=7, step=1))
        note(f"runs/param {case}", lambda key=key: client.log_param(run, key, "v"))
        note(f"runs/tag {case}", lambda key=key: client.set_tag(run, key, "v"))
        note(f"runs/history {case}", lambda key=key: client.get_metric_history(run, key))
    note("runs/with keys", lambda: client.get_run(run))
    for case, key in KEYS.items():
        note(f"runs/delete tag {case}", lambda key=key: client.delete_tag(run, key))
    note("runs/delete tag again", lambda: client.delete_tag(run, "key"))
    note("runs/without tags", lambda: client.get_run(run))
    values = make("values")
    for case, value in VALUES.items():
        note(f"runs/value {case}", lambda case=case, value=value: client.log_metric(values, case, value, timestamp=1))
    for case in VALUES:
        note(f"runs/value history {case}", lambda case=case: client.get_metric_history(values, case))
    note("runs/values", lambda: client.get_run(values))
    for case, text in (("empty", ""), ("unicode", "☃ü"), ("long", "v" * 6000), ("lines", "a\nb\tc"), ("number", 3)):
        note(f"runs/param value {case}", lambda case=case, text=text: client.log_param(values, case, text))
        note(f"runs/param again {case}", lambda case=case, text=text: client.log_param(values, case, text))
        note(f"runs/param changed {case}", lambda case=case: client.log_param(values, case, "other"))
        note(f"runs/tag value {case}", lambda case=case, text=text: client.set_tag(values, case, text))
    note("runs/with values", lambda: client.get_run(values))
    steps = make("steps")
    for number, (step, at, value) in enumerate(
        ((0, 100, 1.0), (3, 40, 2.0), (3, 50, 3.0), (3, 50, 4.0), (-3, 900, 5.0))
    ):
        note(f"runs/step {number}", lambda s=step, t=at, v=value: client.log_metric(steps, "m", v, timestamp=t, step=s))
    note("runs/step again", lambda: client.log_metric(steps, "m", 5.0, timestamp=900, step=-3))
    note("runs/step nan", lambda: client.log_metric(steps, "n", math.nan, timestamp=9, step=9))
    note("runs/step below nan", lambda: client.log_metric(steps, "n", 1.0, timestamp=9, step=9))
    note("runs/negative time", lambda: client.log_metric(steps, "m", 5.0, timestamp=-1, step=0))
    note("runs/history", lambda: sorted_points(client.get_metric_history(steps, "m")))
    note("runs/history of nothing", lambda: client.get_metric_history(steps, "nothing"))
    note("runs/history of nobody", lambda: client.get_metric_history(NOBODY, "m"))
    note("runs/latest", lambda: client.get_run(steps))
    batches(make)
    endings(make)
    inputs(make)


def label_run(run: Any, name: str) -> Any:
    label(run.info.run_id, name)
    return run


def sorted_points(points: Any) -> list[list[Any]]:
    return sorted([point.step, point.timestamp, point.value] for point in points)


def batches(make: Any) -> None:
    run = make("batch")
    metrics = [Metric("m", float(step), 10 + step, step) for step in range(5)]
    params, tags = [Param("p", "1"), Param("q", "2")], [RunTag("t", "1"), RunTag("t", "2")]
    note("batch/log", lambda: client.log_batch(run, metrics, params, tags))
    note("batch/again", lambda: client.log_batch(run, metrics, params, tags))
    note("batch/logged", lambda: client.get_run(run))
    note("batch/history", lambda: sorted_points(client.get_metric_history(run, "m")))
    note("batch/nothing", lambda: client.log_batch(run))
    note("batch/changed", lambda: client.log_batch(run, [], [Param("p", "9"), Param("new", "1")], [RunTag("u", "1")]))
    note("batch/bad key", lambda: client.log_batch(run, [Metric("ok", 1.0, 1, 1)], [Param("a%b", "1")], []))
    note("batch/after refusals", lambda: client.get_run(run))
    many = [{"key": f"k{number}", "value": 1, "timestamp": 1, "step": 1} for number in range(1001)]
    texts = [{"key": f"k{number}", "value": "1"} for number in range(101)]
    for case, fields in (
        ("1001 metrics", {"metrics": many}),
        ("101 params", {"params": texts}),
        ("101 tags", {"tags": texts}),
        ("1001 together", {"metrics": many[:950], "params": texts[:51]}),
        ("1000 metrics", {"metrics": many[:1000]}),
        ("param twice", {"params": [{"key": "twice", "value": "1"}, {"key": "twice", "value": "1"}]}),
        ("metric without value", {"metrics": [{"key": "m", "timestamp": 1, "step": 1}]}),
        ("metric without time", {"metrics": [{"key": "m", "value": 1, "step": 1}]}),
        ("metric without step", {"metrics": [{"key": "stepless", "value": 1, "timestamp": 1}]}),
        ("metric without key", {"metrics": [{"value": 1, "timestamp": 1}]}),
        ("text as value", {"metrics": [{"key": "m", "value": "x", "timestamp": 1}]}),
        ("number as text", {"metrics": [{"key": "textual", "value": "1.5", "timestamp": "1", "step": "2"}]}),
        ("nan as text", {"metrics": [{"key": "nan", "value": "NaN", "timestamp": 1}]}),
        ("infinity as text", {"metrics": [{"key": "inf", "value": "Infinity", "timestamp": 1}]}),
        ("param without key", {"params": [{"value": "1"}]}),
        ("param without value", {"params": [{"key": "valueless"}]}),
        ("tag without value", {"tags": [{"key": "valueless"}]}),
        ("text for list", {"metrics": "m"}),
        ("unknown fields", {"colour": "red", "tags": [{"key": "c", "value": "1", "colour": "red"}]}),
    ):
        rest(f"batch/{case}", "POST", "mlflow/runs/log-batch", {"run_id": run, **fields})
    note("batch/of nobody", lambda: client.log_batch(NOBODY, metrics))


def endings(make: Any) -> None:
    for status in ("FINISHED", "FAILED", "KILLED"):
        run = make(f"to {status}")
        note(f"end/{status}", lambda run=run, status=status: client.set_terminated(run, status, 5000))
        note(f"end/after {status}", lambda run=run: client.get_run(run))
        note(f"end/log after {status}", lambda run=run: client.log_metric(run, "m", 1.0, timestamp=1))
        note(f"end/open {status}", lambda run=run: client.update_run(run, "RUNNING"))
        note(f"end/opened {status}", lambda run=run: client.get_run(run).info.status)
    run = make("renamed")
    note("end/bad status", lambda: client.update_run(run, "DONE"))
    note("end/rename", lambda: client.update_run(run, name="other name"))
    note("end/renamed", lambda: client.get_run(run))
    note("end/name by tag", lambda: client.set_tag(run, "mlflow.runName", "third name"))
    note("end/named by tag", lambda: client.get_run(run))
    note("end/delete", lambda: client.delete_run(run))
    note("end/deleted", lambda: client.get_run(run))
    note("end/delete again", lambda: client.delete_run(run))
    for case, call in {
        "metric": lambda: client.log_metric(run, "m", 1.0, timestamp=1),
        "param": lambda: client.log_param(run, "p", "1"),
        "tag": lambda: client.set_tag(run, "t", "1"),
        "delete tag": lambda: client.delete_tag(run, "t"),
        "batch": lambda: client.log_batch(run, [Metric("m", 1.0, 1, 1)]),
        "status": lambda: client.set_terminated(run, "FAILED", 6000),
        "rename": lambda: client.update_run(run, name="fourth"),
        "history": lambda: client.get_metric_history(run, "m"),
    }.items():
        note(f"end/deleted {case}", call)
    note("end/restore", lambda: client.restore_run(run))
    note("end/restored", lambda: client.get_run(run))
    note("end/restore again", lambda: client.restore_run(run))
    note("end/delete nobody", lambda: client.delete_run(NOBODY))
    note("end/restore nobody", lambda: client.restore_run(NOBODY))
    note("end/end nobody", lambda: client.set_terminated(NOBODY))


def inputs(make: Any) -> None:
    run, more = make("with inputs"), make("more inputs")

    def read(name: str, digest: str, *tags: tuple[str, str], **fields: Any) -> DatasetInput:
        facts = {"source_type": "local", "source": "s", **fields}
        return DatasetInput(Dataset(name, digest, **facts), [InputTag(*tag) for tag in tags])

    train = read("iris", "d1", ("mlflow.data.context", "train"), schema="{}", profile="p")
    note("inputs/log", lambda: client.log_inputs(run, [train, read("wine", "d2")]))
    note("inputs/again", lambda: client.log_inputs(run, [train]))
    note("inputs/more", lambda: client.log_inputs(more, [read("iris", "d1", ("mlflow.data.context", "test"))]))
    note("inputs/run", lambda: sorted_inputs(client.get_run(run)))
    note("inputs/more run", lambda: sorted_inputs(client.get_run(more)))
    note("inputs/long name", lambda: client.log_inputs(run, [read("n" * 501, "d")]))
    note("inputs/long digest", lambda: client.log_inputs(run, [read("n", "d" * 37)]))
    note("inputs/of nobody", lambda: client.log_inputs(NOBODY, [train]))
    where = client.get_run(run).info.experiment_id
    for text in (
        "datasets.name = 'iris'",
        "dataset.name != 'iris'",
        "datasets.name LIKE 'w%'",
        "datasets.name ILIKE 'IR%'",
        "datasets.digest IN ('d1', 'd9')",
        "datasets.digest NOT IN ('d1')",
        "datasets.context = 'train'",
        "datasets.context = 'test' AND datasets.name = 'iris'",
        "datasets.colour = 'x'",
        "datasets.name > 'x'",
        "datasets.name = 1",
    ):
        note(f"inputs/search {text}", lambda text=text: names_of(client.search_runs([where], text)))
    rest("inputs/datasets", "POST", "mlflow/experiments/search-datasets", {"experiment_ids": [where]})


def sorted_inputs(run: Any) -> Any:
    return sorted(
        ([one.dataset.name, one.dataset.digest, sorted([tag.key, tag.value] for tag in one.tags)])
        for one in run.inputs.dataset_inputs
    )


def names_of(runs: Any) -> dict[str, Any]:
    return page(runs) | {"rows": [run.info.run_name for run in runs]}
