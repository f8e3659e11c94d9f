"""Searches: the grammar of filters, orders of several keys, pages and views, of runs and experiments."""

from __future__ import annotations

import math

from asked import client, label, note, page, rest
from mlflow.entities import ViewType

RUN_FILTERS = """
metrics.loss < 2
metrics.loss <= 1.0
metric.loss > -1e3
metrics.loss >= 1
metrics.loss = 1
metrics.loss != 1
metrics.`loss` < 2
metrics."loss" < 2
metrics.`val/acc x` = 0.5
metrics."val/acc x" = 0.5
metrics.nan > 0
metrics.nan != 0
metrics.nan = 0
metrics.inf > 1e300
metrics.minus < 0
metrics.nothing < 1
metrics.nothing != 1
metrics.loss = '1'
metrics.loss LIKE '1'
metrics.loss IS NULL
metrics.loss IN (1)
metrics.loss
metrics.loss =
= 1
metrics.loss == 1
metrics.loss <> 1
metrics.loss < 2 AND params.lr = '0.1'
metrics.loss < 2 and tags.team = 'vision'
metrics.loss < 2 OR params.lr = '0.1'
(metrics.loss < 2)
NOT metrics.loss < 2
metrics.loss < 2 AND
AND metrics.loss < 2
metrics.loss < 2 AND AND params.lr = '0.1'
metrics.loss < 2 params.lr = '0.1'
metrics.loss < 2, params.lr = '0.1'
metrics.loss < 2; params.lr = '0.1'
params.lr = '0.1'
param.lr = "0.1"
parameter.lr = '0.1'
parameters.lr = '0.1'
params.lr != '0.1'
params.lr = 0.1
params.lr > '0.1'
params.lr LIKE '0.%'
params.lr LIKE '0._'
params.lr ILIKE '0.%'
params.lr IS NULL
params.lr IS NOT NULL
params.lr is not null
params.lr IN ('0.1')
params.`a key` = 'v'
params."a key" = 'v'
params.a key = 'v'
params.empty = ''
params.quote = "it's"
params.quote = 'it''s'
params.unicode = '☃ü'
params.unicode ILIKE '%Ü'
tags.team = 'Vision'
tags.team = 'vision'
tag.team != 'vision'
tags.team LIKE 'V%'
tags.team LIKE 'v%'
tags.team ILIKE 'v%'
tags.team LIKE '%sio%'
tags.team LIKE 'Vision'
tags.team LIKE '_ision'
tags.odd LIKE '%*%'
tags.odd LIKE '%[x]%'
tags.odd LIKE '%\\%'
tags.odd = 'a*[x]?\\b%_'
tags.team IS NULL
tags.team IS NOT NULL
tags.team IS NOT NULL AND params.lr IS NULL
tags.mlflow.runName = 'a'
tags.`mlflow.runName` = 'a'
tags."mlflow.runName" LIKE 'A'
tags.mlflow.runName ILIKE 'A'
tags.mlflow.note.content = 'noted'
tags.mlflow.note.content LIKE 'no%'
tags.mlflow.parentRunId = 'x'
tags.team = Vision
tags.team = `Vision`
tags.team
tags. = 'x'
tags = 'x'
status = 'RUNNING'
status = 'running'
status != 'RUNNING'
status LIKE 'F%'
status ILIKE 'f%'
status IN ('RUNNING')
attributes.status = 'FINISHED'
attribute.status = "FAILED"
attr.status = 'KILLED'
run.status = 'KILLED'
attributes.status = FINISHED
run_name = 'a'
attributes.run_name = 'b'
`run name` = 'a'
`Run name` = 'a'
"run name" = 'a'
attributes.`run name` = 'a'
run_name LIKE '%'
run_name ILIKE 'A'
run_name IN ('a', 'b')
run_name != 'a'
run_id = 'nothing'
run_id != 'nothing'
run_id IN ('nothing', 'x')
run_id NOT IN ('nothing', 'x')
run_id IN ()
run_id IN ('a',)
run_id IN (1)
run_id IN 'a'
run_id LIKE '%'
user_id = 'nobody'
user_id LIKE '%'
artifact_uri LIKE '%zzz'
artifact_uri != 'x'
start_time > 1000
start_time >= 1000
start_time = 2000
start_time != 2000
start_time < 2000
start_time <= 2000
attributes.start_time > 1500
attributes.created > 1500
attributes.Created > 1500
created > 1500
start_time > '1500'
start_time > 1500.5
start_time LIKE '1'
start_time > 1000 AND start_time < 3000
end_time > 5000
end_time = 6000
end_time < 6000
end_time != 6000
attributes.end_time >= 6000
lifecycle_stage = 'active'
colour = 'red'
attributes.colour = 'red'
colours.red = 'x'
metrics.loss < 1e400
metrics.loss < +2
metrics.loss < -2
metrics.loss < .5
metrics.loss < 5.
metrics.loss < 0x10
metrics.loss < 1_000
metrics.loss < '
metrics.loss < 2 --comment
tags.team = 'a' 'b'
'a' = tags.team
1 = metrics.loss
tags.team = 'Vision' AND metrics.loss < 10 AND params.lr = '0.1' AND status = 'RUNNING'
"""
ORDERS = (
    ["metrics.loss"],
    ["metrics.loss DESC"],
    ["metrics.loss asc"],
    ["metrics.loss sideways"],
    ["metrics.loss DESC DESC"],
    ["metrics.nan"],
    ["metrics.nan DESC"],
    ["metrics.nothing"],
    ["params.lr"],
    ["params.lr DESC"],
    ["tags.team"],
    ["tags.team DESC", "metrics.loss"],
    ["params.lr", "metrics.loss DESC"],
    ["metrics.loss", "metrics.loss DESC"],
    ["start_time"],
    ["attributes.start_time DESC"],
    ["end_time"],
    ["end_time DESC"],
    ["status", "start_time"],
    ["run_name"],
    ["run_name DESC"],
    ["attributes.run_name DESC"],
    ["`Run name`"],
    ["created DESC"],
    ["metrics.`val/acc x` DESC"],
    ['metrics."val/acc x"'],
    ["colour"],
    ["colours.red"],
    [""],
    ["metrics."],
    ["datasets.name"],
    ["metrics.loss < 2"],
    ["tags.mlflow.runName"],
)
RUNS = (
    ("a", 1000, {"loss": 1.0, "val/acc x": 0.5}, {"lr": "0.1", "a key": "v", "empty": ""}, {"team": "Vision"}, None),
    ("b", 2000, {"loss": 2.0, "nan": math.nan}, {"lr": "0.2", "quote": "it's"}, {"team": "vision"}, ("FINISHED", 6000)),
    ("c", 3000, {"loss": -1.0, "inf": math.inf, "val/acc x": 0.7}, {"unicode": "☃ü"}, {}, ("FAILED", 5500)),
    ("d", 4000, {"loss": math.nan, "minus": -math.inf}, {"lr": "0.10"}, {"odd": "a*[x]?\\b%_"}, ("KILLED", 7000)),
    ("e", 5000, {}, {}, {"team": "speech", "mlflow.note.content": "noted"}, None),
    ("f", 5500, {"loss": 1.0, "nan": 3.0}, {"lr": "0.1"}, {"team": "VISION"}, None),
)
EXPERIMENT_FILTERS = """
name = 's one'
name != 's one'
name LIKE 's %'
name LIKE 'S %'
name ILIKE 'S %'
name IN ('s one')
attribute.name = 's one'
attributes.name = 's one'
name = s
creation_time > 0
creation_time < 0
last_update_time > 0
creation_time > 'x'
creation_time LIKE 'x'
experiment_id = 'x'
tags.kind = 'x'
tag.kind = 'x'
tags.kind != 'x'
tags.kind LIKE 'X'
tags.kind ILIKE 'X'
tags.kind IS NULL AND name LIKE 's %'
tags.kind IS NOT NULL
tags.`a key` = 'v'
tags."a key" = 'v'
tags.kind = 'x' AND name LIKE '%one'
name LIKE 's %' OR name = 'x'
colour = 'x'
metrics.a = 1
params.a = 'x'
name
name =
"""


def searches() -> None:
    where = label(client.create_experiment("searched"), "e:searched")
    for name, start, metrics, params, tags, end in RUNS:
        run = label(client.create_run(where, start_time=start, run_name=name, tags=tags).info.run_id, f"r:{name}")
        for key, value in metrics.items():
            client.log_metric(run, key, value, timestamp=start)
        for key, text in params.items():
            client.log_param(run, key, text)
        if end:
            client.set_terminated(run, *end)
    for text in RUN_FILTERS.strip().splitlines():
        note(f"search/{text}", lambda text=text: names(client.search_runs([where], text, order_by=["run_name"])))
    for order in ORDERS:
        note(f"order/{order}", lambda order=order: names(client.search_runs([where], order_by=order)))
    for size in (1, 2, 5, 6, 7):
        token, found = None, []
        while token != "":
            got = client.search_runs([where], order_by=["metrics.loss DESC"], max_results=size, page_token=token)
            found += [[run.info.run_name for run in got]] if got else []  # MLflow's last page may be empty
            token = got.token or ""
        note(f"pages/{size}", lambda found=found: found)
    for size in (0, -1, 50000, 50001):
        note(f"pages/max {size}", lambda size=size: names(client.search_runs([where], max_results=size)))
    for token in ("garbage", "e30=", "eyJvZmZzZXQiOiAtMX0=", "☃"):
        note(f"pages/token {token}", lambda token=token: names(client.search_runs([where], page_token=token)))
    note("search/no experiment", lambda: names(client.search_runs([])))
    note("search/unknown experiment", lambda: names(client.search_runs(["987654321987"])))
    note("search/both", lambda: names(client.search_runs([where, "987654321987"], order_by=["run_name"])))
    client.delete_run(client.search_runs([where], "run_name = 'b'")[0].info.run_id)
    for view in (ViewType.ACTIVE_ONLY, ViewType.DELETED_ONLY, ViewType.ALL):
        note(f"view/{view}", lambda view=view: names(client.search_runs([where], "", view, order_by=["run_name"])))
    for value in ("ALL", "all", "SOME", 3, ""):
        body = {"experiment_ids": [where], "run_view_type": value, "order_by": ["run_name"]}
        rest(f"view/rest {value!r}", "POST", "mlflow/runs/search", body)
    search_experiments()


def search_experiments() -> None:
    for name, tags in (("s one", {"kind": "x"}), ("s two", {"kind": "X"}), ("s three", {"a key": "v"}), ("s four", {})):
        label(client.create_experiment(name, tags=tags), f"e:{name}")
    for text in EXPERIMENT_FILTERS.strip().splitlines():
        note(
            f"experiments/search {text}",
            lambda text=text: titles(client.search_experiments(filter_string=text, order_by=["name"])),
        )
    mine = "name LIKE 's %'"
    for order in (
        ["name"],
        ["name DESC"],
        ["experiment_id"],
        ["experiment_id DESC"],
        ["creation_time"],
        ["creation_time DESC", "name"],
        ["last_update_time DESC"],
        ["tags.kind"],
        ["colour"],
        ["name sideways"],
        [""],
    ):
        note(
            f"experiments/order {order}",
            lambda order=order: titles(client.search_experiments(filter_string=mine, order_by=order)),
        )
    for size in (0, 1, 3, 4, 50001):
        note(
            f"experiments/pages {size}",
            lambda size=size: titles(
                client.search_experiments(filter_string=mine, order_by=["name"], max_results=size)
            ),
        )
    note("experiments/token", lambda: titles(client.search_experiments(page_token="garbage")))


def names(found: object) -> dict[str, object]:
    rows = [run.info.run_name for run in found]  # type: ignore[attr-defined]
    return {**page(found), "rows": rows}


def titles(found: object) -> dict[str, object]:
    rows = [one.name for one in found]  # type: ignore[attr-defined]
    return {**page(found), "rows": rows}
