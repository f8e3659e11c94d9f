"""Plain requests to every endpoint: without fields, with fields of the wrong kind, with ids that nobody has."""

from __future__ import annotations

from asked import client, label, rest

NOBODY = "0123456789abcdef0123456789abcdef"
ENDPOINTS = """
POST mlflow/experiments/create name=1
POST mlflow/experiments/create name=x tags=y
GET mlflow/experiments/get
GET mlflow/experiments/get-by-name
GET mlflow/experiments/list
POST mlflow/experiments/search max_results=x
POST mlflow/experiments/search view_type=x
POST mlflow/experiments/search order_by=name
GET mlflow/experiments/search
POST mlflow/experiments/update
POST mlflow/experiments/update experiment_id=987654321987
POST mlflow/experiments/delete
POST mlflow/experiments/restore
POST mlflow/experiments/set-experiment-tag
POST mlflow/experiments/set-experiment-tag experiment_id=0
POST mlflow/experiments/set-experiment-tag experiment_id=0 key=k
POST mlflow/runs/create experiment_id=1.5
POST mlflow/runs/create start_time=x experiment_id=0
GET mlflow/runs/get
GET mlflow/runs/get run_id=NOBODY
GET mlflow/runs/get run_uuid=NOBODY
POST mlflow/runs/update
POST mlflow/runs/update run_id=NOBODY
POST mlflow/runs/update run_id=RUN status=X
POST mlflow/runs/update run_id=RUN end_time=x
POST mlflow/runs/update run_id=RUN
POST mlflow/runs/delete
POST mlflow/runs/restore
POST mlflow/runs/log-metric
POST mlflow/runs/log-metric run_id=RUN
POST mlflow/runs/log-metric run_id=RUN key=m
POST mlflow/runs/log-metric run_id=RUN key=m value=1
POST mlflow/runs/log-metric run_id=RUN key=m value=1 timestamp=1
POST mlflow/runs/log-metric run_id=RUN key=m value=1 timestamp=1 step=x
POST mlflow/runs/log-metric run_id=RUN key=m value=x timestamp=1
POST mlflow/runs/log-metric run_id=RUN key=m value=NaN timestamp=1
POST mlflow/runs/log-metric run_id=RUN key=m value=1 timestamp=1.5
POST mlflow/runs/log-metric run_id=NOBODY key=m value=1 timestamp=1
POST mlflow/runs/log-parameter
POST mlflow/runs/log-parameter run_id=RUN
POST mlflow/runs/log-parameter run_id=RUN key=p
POST mlflow/runs/set-tag
POST mlflow/runs/set-tag run_id=RUN
POST mlflow/runs/set-tag run_id=RUN key=t
POST mlflow/runs/delete-tag
POST mlflow/runs/delete-tag run_id=RUN
POST mlflow/runs/delete-tag run_id=RUN key=nothing
POST mlflow/runs/log-batch
POST mlflow/runs/log-batch run_id=RUN
POST mlflow/runs/log-model
POST mlflow/runs/log-model run_id=RUN
POST mlflow/runs/log-model run_id=RUN model_json=x
POST mlflow/runs/log-model run_id=RUN model_json={}
POST mlflow/runs/log-inputs
POST mlflow/runs/log-inputs run_id=RUN
POST mlflow/runs/search
POST mlflow/runs/search max_results=x
POST mlflow/runs/search experiment_ids=0
POST mlflow/runs/search filter=1
GET mlflow/metrics/get-history
GET mlflow/metrics/get-history run_id=RUN
GET mlflow/metrics/get-history run_id=RUN metric_key=nothing
GET mlflow/metrics/get-history run_id=NOBODY metric_key=m
GET mlflow/metrics/get-history run_id=RUN metric_key=m max_results=x
GET mlflow/artifacts/list
GET mlflow/artifacts/list run_id=NOBODY
POST mlflow/registered-models/create
POST mlflow/registered-models/create name=x tags=y
POST mlflow/registered-models/rename
POST mlflow/registered-models/rename name=nothing
PATCH mlflow/registered-models/update
DELETE mlflow/registered-models/delete
GET mlflow/registered-models/get
GET mlflow/registered-models/search max_results=x
GET mlflow/registered-models/search max_results=0
POST mlflow/registered-models/get-latest-versions
POST mlflow/registered-models/set-tag
POST mlflow/registered-models/set-tag name=nothing
DELETE mlflow/registered-models/delete-tag
POST mlflow/registered-models/alias
POST mlflow/registered-models/alias name=nothing
DELETE mlflow/registered-models/alias
GET mlflow/registered-models/alias
GET mlflow/registered-models/alias name=nothing
POST mlflow/model-versions/create
POST mlflow/model-versions/create name=nothing
PATCH mlflow/model-versions/update
POST mlflow/model-versions/transition-stage
POST mlflow/model-versions/transition-stage name=nothing version=1
DELETE mlflow/model-versions/delete
GET mlflow/model-versions/get
GET mlflow/model-versions/get name=nothing
GET mlflow/model-versions/get name=nothing version=1
GET mlflow/model-versions/get-download-uri
GET mlflow/model-versions/search max_results=x
POST mlflow/model-versions/set-tag
DELETE mlflow/model-versions/delete-tag
GET mlflow/nothing
PUT mlflow/runs/create
"""


def endpoints() -> None:
    run = label(client.create_run("0", run_name="plain").info.run_id, "r:plain")
    for line in ENDPOINTS.strip().splitlines():
        method, path, *given = line.split()
        fields: dict[str, object] = dict(pair.split("=", 1) for pair in given)
        fields = {key: {"NOBODY": NOBODY, "RUN": run}.get(str(value), value) for key, value in fields.items()}
        if method == "GET":
            rest(line, method, path, **fields)
            continue
        if "1" in fields.values() and "create" in path:
            fields = {key: 1 if value == "1" else value for key, value in fields.items()}
        rest(line, method, path, fields)
    rest("experiments/create blank", "POST", "mlflow/experiments/create", {"name": "   "})
    for case, body in (("text", "text"), ("list", "[]"), ("number", "1"), ("cut off", '{"run_id": '), ("null", "null")):
        rest(f"body {case}", "POST", "mlflow/runs/set-tag", body)
    for kind in (31, 1.5, True, None, [], {}, "x"):
        rest(f"kinds {kind!r}", "POST", "mlflow/runs/set-tag", {"run_id": run, "key": kind, "value": kind})
        rest(f"kinds id {kind!r}", "POST", "mlflow/runs/set-tag", {"run_id": kind, "key": "k", "value": "v"})
