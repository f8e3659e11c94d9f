"""The model registry over MLflow's door: names and versions that are our models, in MLflow's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runyard.client.calls.workspace import ModelCalls
from runyard.core.records import ModelSpec
from runyard.core.statuses import RunStatus
from runyard.testing.runs import a_run
from tests.server.mlflow.asking import ask, call, refused
from tests.server.mlflow.conftest import Door

AT = "/api/2.0/mlflow-artifacts/artifacts"


@pytest.fixture
def logged(door: Door) -> Door:
    """A run `r1` with a model's folder and a single file."""
    a_run(door.served.services.store, "r1")
    door.served.services.store.set_status("r1", RunStatus.RUNNING)
    for name, body in (("model/MLmodel", b"flavors"), ("model/data/w.bin", b"weights"), ("net.pkl", b"pickled")):
        assert door.raw("PUT", f"{AT}/runs/r1/{name}", body)[0] == 200
    return door


def register(door: Door, name: str, source: str = "runs:/r1/model", **fields: Any) -> dict[str, Any]:
    call(door, "POST", "registered-models/create", name=name)
    version: dict[str, Any] = ask(door, "POST", "model-versions/create", name=name, source=source, **fields)[
        "model_version"
    ]
    return version


def models_of(door: Door) -> ModelCalls:
    return ModelCalls(door.served.client.transport)


def test_a_registered_folder_is_one_of_our_models_and_its_content_is_the_runs(logged: Door) -> None:
    made = register(logged, "net", run_id="r1", tags=[{"key": "a", "value": "1"}], description="first")
    model = models_of(logged).get("default", "net")
    run_files = {file.name: file.sha256 for file in logged.served.services.store.list_files("r1")}

    assert (made["version"], made["run_id"], made["source"]) == ("1", "r1", "runs:/r1/model")
    assert (made["status"], made["current_stage"], made["tags"]) == ("READY", "None", [{"key": "a", "value": "1"}])
    assert (model.version, model.spec.path, model.spec.is_folder) == (1, "model", True)
    assert {file.name: file.sha256 for file in model.spec.files} == {
        name: digest for name, digest in run_files.items() if name.startswith("model/")
    }
    assert (model.spec.tags, model.spec.description, model.spec.run_id) == ({"a": "1"}, "first", "r1")
    assert model.spec.experiment == "e"


@pytest.mark.parametrize(
    "source",
    [
        "mlflow-artifacts:/runs/r1/net.pkl",
        "mlflow-artifacts:/runs/r1//net.pkl/",
        "http://x:1/mlflow/default/api/2.0/mlflow-artifacts/artifacts/runs/r1/net.pkl",
        "azureml://x:1/mlflow/v2.0/subscriptions/s/resourceGroups/g/providers/p/workspaces/default/runs/r1/net.pkl",
    ],
)
def test_a_single_file_keeps_its_name(logged: Door, source: str) -> None:
    register(logged, "net", source, run_id="r1")
    model = models_of(logged).get("default", "net")

    assert (model.spec.path, model.spec.is_folder) == ("net.pkl", False)
    assert [file.name for file in model.spec.files] == ["net.pkl"]
    assert logged.raw("GET", f"{AT}/registered/net/1/net.pkl") == (200, b"pickled")


def test_a_version_outlives_its_run_and_what_the_run_writes_later(logged: Door) -> None:
    register(logged, "net")
    logged.raw("PUT", f"{AT}/runs/r1/model/MLmodel", b"other")
    uri = ask(logged, "GET", "model-versions/get-download-uri", name="net", version="1")["artifact_uri"]
    status, listed = logged.raw("GET", "/api/2.0/mlflow-artifacts/artifacts?path=registered/net/1")

    assert uri == "mlflow-artifacts:/registered/net/1"
    assert (status, json.loads(listed)["files"]) == (
        200, [{"path": "MLmodel", "is_dir": False, "file_size": 7}, {"path": "data", "is_dir": True}]
    )  # fmt: skip
    assert logged.raw("GET", f"{AT}/registered/net/1/MLmodel") == (200, b"flavors")
    assert logged.raw("GET", f"{AT}/registered/net/1/data/w.bin") == (200, b"weights")
    for method, body in (("PUT", b"x"), ("DELETE", None)):
        assert logged.raw(method, f"{AT}/registered/net/1/MLmodel", body)[0] == 400
    assert logged.raw("GET", f"{AT}/registered/net/2/MLmodel")[0] == 404


def test_what_a_run_sends_after_its_registration_belongs_to_the_version(door: Door) -> None:
    store = door.served.services.store
    a_run(store, "r1")
    store.set_status("r1", RunStatus.RUNNING)
    register(door, "net")
    before = models_of(door).get("default", "net").spec.files
    door.raw("PUT", f"{AT}/runs/r1/model/MLmodel", b"late")
    door.raw("PUT", f"{AT}/runs/r1/model/w.bin", b"later")
    store.set_status("r1", RunStatus.FINALIZING)
    store.set_status("r1", RunStatus.COMPLETED)
    bound = [file.name for file in models_of(door).get("default", "net").spec.files]
    store.delete_files("r1", ["model/MLmodel", "model/w.bin"])

    assert (before, bound) == ([], ["model/MLmodel", "model/w.bin"])
    assert [file.name for file in models_of(door).get("default", "net").spec.files] == bound


def test_a_model_of_our_sdk_is_there_for_mlflows_clients(logged: Door) -> None:
    models = models_of(logged)
    for _ in range(2):
        models.register("default", "a/b: c", ModelSpec(run_id="r1", tags={"t": "1"}), run_path="model")
    found = ask(logged, "GET", "registered-models/get", name="a/b: c")["registered_model"]
    version = ask(logged, "GET", "model-versions/get", name="a/b: c", version="1")["model_version"]
    uri = ask(logged, "GET", "model-versions/get-download-uri", name="a/b: c", version="2")["artifact_uri"]
    ask(logged, "POST", "registered-models/alias", name="a/b: c", alias="best", version="1")
    by_alias = ask(logged, "GET", "registered-models/alias", name="a/b: c", alias="best")["model_version"]

    assert [one["version"] for one in found["latest_versions"]] == ["2"]
    assert (version["source"], version["tags"]) == ("runs:/r1/model", [{"key": "t", "value": "1"}])
    assert logged.raw("GET", f"{AT}/{uri.partition(':/')[2].replace(' ', '%20')}/MLmodel") == (200, b"flavors")
    assert (by_alias["version"], by_alias["aliases"]) == ("1", ["best"])
    assert [model.aliases for model in models.list("default")] == [["best"], []]


def test_names_are_made_described_renamed_and_deleted(logged: Door) -> None:
    ask(logged, "POST", "registered-models/create", name="net", description="d", tags=[{"key": "k", "value": "v"}])
    register(logged, "net")
    assert refused(logged, "POST", "registered-models/create", name="net") == (
        "RESOURCE_ALREADY_EXISTS", "Registered Model (name=net) already exists."
    )  # fmt: skip
    ask(logged, "PATCH", "registered-models/update", name="net", description="better")
    ask(logged, "POST", "registered-models/set-tag", name="net", key="k2", value="v2")
    ask(logged, "DELETE", "registered-models/delete-tag", name="net", key="k")
    ask(logged, "POST", "registered-models/alias", name="net", alias="best", version="1")
    ask(logged, "POST", "registered-models/create", name="taken")
    assert refused(logged, "POST", "registered-models/rename", name="net", new_name="taken")[0] == (
        "RESOURCE_ALREADY_EXISTS"
    )
    renamed = ask(logged, "POST", "registered-models/rename", name="net", new_name="other")["registered_model"]

    assert (renamed["name"], renamed["description"]) == ("other", "better")
    assert (renamed["tags"], renamed["aliases"]) == (
        [{"key": "k2", "value": "v2"}], [{"alias": "best", "version": "1"}]
    )  # fmt: skip
    assert models_of(logged).get("default", "other").about.description == "better"
    assert refused(logged, "GET", "registered-models/get", name="net")[0] == "RESOURCE_DOES_NOT_EXIST"
    ask(logged, "DELETE", "registered-models/delete", name="other")
    assert [model.name for model in models_of(logged).list("default")] == []
    assert refused(logged, "DELETE", "registered-models/delete", name="other") == (
        "RESOURCE_DOES_NOT_EXIST", "Registered Model with name=other not found"
    )  # fmt: skip


def test_stages_aliases_and_deleted_versions(logged: Door) -> None:
    for _ in range(3):
        register(logged, "net")
    for version in ("1", "2"):
        moved = ask(
            logged, "POST", "model-versions/transition-stage", name="net", version=version, stage="production",
            archive_existing_versions=True,
        )  # fmt: skip
    latest = ask(logged, "GET", "registered-models/get-latest-versions", name="net")["model_versions"]
    ask(logged, "POST", "registered-models/alias", name="net", alias="best", version="3")
    ask(logged, "DELETE", "model-versions/delete", name="net", version="3")

    assert moved["model_version"]["current_stage"] == "Production"
    assert {one["current_stage"]: one["version"] for one in latest} == {"Archived": "1", "Production": "2", "None": "3"}
    assert "aliases" not in ask(logged, "GET", "registered-models/get", name="net")["registered_model"]
    assert refused(logged, "GET", "registered-models/alias", name="net", alias="best") == (
        "INVALID_PARAMETER_VALUE", "Registered model alias best not found."
    )  # fmt: skip
    assert ask(logged, "GET", "registered-models/alias", name="net", alias="Latest")["model_version"]["version"] == "2"
    assert register(logged, "net", "models:/net/Production")["version"] == "4"
    assert [file.name for file in models_of(logged).get("default", "net", version=4).spec.files] == [
        "model/MLmodel", "model/data/w.bin"
    ]  # fmt: skip
    for version in ("1", "2", "4"):
        ask(logged, "DELETE", "model-versions/delete", name="net", version=version)
    assert "latest_versions" not in ask(logged, "GET", "registered-models/get", name="net")["registered_model"]


@pytest.mark.parametrize(
    ("method", "path", "fields", "message"),
    [
        ("POST", "registered-models/create", {"name": "a/b"}, "Names cannot contain '/' or ':'."),
        ("POST", "registered-models/create", {"name": " "}, "Missing value for required parameter 'name'."),
        ("POST", "registered-models/create", {}, "Missing value for required parameter 'name'."),
        ("POST", "registered-models/alias", {"name": "net", "alias": "v1", "version": "1"}, "'v1' is reserved"),
        ("POST", "registered-models/alias", {"name": "net", "alias": "LATEST", "version": "1"}, "is reserved"),
        ("POST", "registered-models/alias", {"name": "net", "alias": "a b", "version": "1"}, "Invalid alias name"),
        ("POST", "registered-models/alias", {"name": "net", "alias": "a" * 256, "version": "1"}, "maximum length"),
        ("POST", "registered-models/set-tag", {"name": "net", "key": "k", "value": "v" * 100_001}, "maximum length"),
        ("GET", "model-versions/get", {"name": "net", "version": "one"}, "must be an integer, got 'one'"),
        ("POST", "model-versions/transition-stage", {"name": "net", "version": "1", "stage": "X"}, "must be one of"),
        (
            "POST",
            "model-versions/transition-stage",
            {"name": "net", "version": "1", "stage": "Archived", "archive_existing_versions": True},
            "is not an Active stage",
        ),
        ("GET", "registered-models/search", {"filter": "nam = 'x'"}, "Invalid attribute key 'nam'"),
        ("GET", "registered-models/search", {"filter": "name = 'a' OR name = 'b'"}, "Invalid clause(s)"),
        ("GET", "registered-models/search", {"order_by": ["name", "name DESC"]}, "duplicate fields"),
        ("GET", "registered-models/search", {"max_results": "1001"}, "at most 1000"),
        ("GET", "model-versions/search", {"max_results": "200001"}, "at most 200000"),
        ("GET", "model-versions/search", {"filter": "version_number = 1.5"}, "Invalid value for numeric attribute"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_mlflows_words(
    logged: Door, method: str, path: str, fields: dict[str, Any], message: str
) -> None:
    register(logged, "net")
    code, said = refused(logged, method, path, **fields)

    assert code == "INVALID_PARAMETER_VALUE"
    assert message in said


@pytest.mark.parametrize(
    "source",
    [
        "/etc/passwd", "file:///etc", "s3://bucket/model", "dbfs:/model", "http://elsewhere/model", "net",
        "mlflow-artifacts:/runs/r1/../r2/model", "runs:/r1/%2e%2e/r2", "runs:/r1/%252e%252e/r2", "runs:/r1/a%00",
        "mlflow-artifacts://host:1/runs/r1/model", "mlflow-artifacts:/runs/none/model", "mlflow-artifacts:/models/m-1",
        "models:/m-1", "models:/net", "models://x/net/1", "runs://r1/model", "runs:/../model", "runs:/a b/model",
        "http://x/mlflow/other/api/2.0/mlflow-artifacts/artifacts/runs/r1/net.pkl", "azureml://x/workspaces/o/runs/r1/m",
        "mlflow-artifacts:/registered/net/1/MLmodel", "http://[",
    ],
)  # fmt: skip
def test_other_sources_are_refused_and_nothing_is_registered(logged: Door, source: str) -> None:
    register(logged, "net")
    code, message = refused(logged, "POST", "model-versions/create", name="net", source=source, run_id="r1")

    assert (code, message[:29]) == ("INVALID_PARAMETER_VALUE", "Invalid model version source:")
    assert len(models_of(logged).list("default")) == 1


def test_a_source_must_be_in_the_run_that_is_named(logged: Door) -> None:
    store = logged.served.services.store
    a_run(store, "r2")
    code, message = refused_source(logged, "runs:/r1/model", run_id="r2")
    assert (code, message) == (
        "INVALID_PARAMETER_VALUE",
        "Invalid model version source: 'runs:/r1/model'. The run_id request parameter must identify the resource that "
        "contains the source.",
    )
    register(logged, "copied", "runs:/r1/model", run_id="r1")
    assert "must match the referenced model version" in refused_source(logged, "models:/copied/1", run_id="r2")[1]
    # A run that nobody has: its address is kept, as MLflow keeps it, and there is no content.
    kept = register(logged, "net", "runs:/gone/model", run_id="gone")
    assert (kept["source"], kept["run_id"]) == ("runs:/gone/model", "gone")
    assert ask(logged, "GET", "model-versions/get-download-uri", name="net", version="1") == {
        "artifact_uri": "runs:/gone/model"
    }


def refused_source(door: Door, source: str, **fields: Any) -> tuple[str, str]:
    call(door, "POST", "registered-models/create", name="net")
    return refused(door, "POST", "model-versions/create", name="net", source=source, **fields)


def searched(door: Door, what: str, **fields: Any) -> list[str]:
    found = ask(door, "GET", f"{what}/search", **fields)
    rows = found.get("registered_models") or found.get("model_versions") or []
    return [f"{row['name']}:{row['version']}" if "version" in row else row["name"] for row in rows]


def test_models_and_versions_are_found_by_mlflows_filters(logged: Door) -> None:
    register(logged, "alpha", tags=[{"key": "k", "value": "x"}])
    register(logged, "alpha", "runs:/r1/net.pkl", run_id="r1", tags=[{"key": "k", "value": "y"}])
    register(logged, "Beta")
    ask(logged, "POST", "registered-models/set-tag", name="Beta", key="k", value="Z")
    ask(
        logged,
        "POST",
        "registered-models/create",
        name="words",
        tags=[{"key": "mlflow.prompt.is_prompt", "value": "true"}],
    )
    prompt = [{"key": "mlflow.prompt.is_prompt", "value": "true"}, {"key": "mlflow.prompt.text", "value": "hi"}]
    register(logged, "words", "dummy-source", tags=prompt)
    asks = "tags.`mlflow.prompt.is_prompt` = 'true'"

    for filter_text, names in {
        "": ["Beta", "alpha"],
        "name = 'alpha'": ["alpha"],
        "name != 'alpha'": ["Beta"],
        "name LIKE 'a%'": ["alpha"],
        "name ILIKE 'b%'": ["Beta"],
        "name IN ('Beta', 'none')": ["Beta"],
        "tags.k = 'Z'": ["Beta"],
        "tags.k != 'x' AND name LIKE '%a'": ["Beta"],
        "tags.`mlflow.prompt.is_prompt` != 'true'": ["Beta", "alpha"],
        asks: ["words"],
    }.items():
        assert searched(logged, "registered-models", filter=filter_text) == names, filter_text
    for filter_text, versions in {
        "name = 'alpha'": ["alpha:2", "alpha:1"],
        "run_id = 'r1' AND version_number > 1": ["alpha:2"],
        "run_id IN ('r1')": ["Beta:1", "alpha:2", "alpha:1"],
        "source_path LIKE '%net.pkl'": ["alpha:2"],
        "tags.k = 'x'": ["alpha:1"],
        asks: ["words:1"],
    }.items():
        assert searched(logged, "model-versions", filter=filter_text) == versions, filter_text
    assert searched(logged, "model-versions", order_by=["name DESC", "version_number ASC"]) == [
        "alpha:1", "alpha:2", "Beta:1"
    ]  # fmt: skip
    assert [model.name for model in models_of(logged).list("default")] == ["Beta", "alpha", "alpha"]
    assert ask(logged, "GET", "model-versions/get-download-uri", name="words", version="1")["artifact_uri"] == (
        "dummy-source"
    )


def test_pages_follow_each_other(logged: Door) -> None:
    for number in range(5):
        ask(logged, "POST", "registered-models/create", name=f"m{number}")
    names, token = [], ""
    for _ in range(3):
        page = ask(logged, "GET", "registered-models/search", max_results=2, page_token=token)
        names += [row["name"] for row in page["registered_models"]]
        token = page.get("next_page_token", "")

    assert (names, token) == ([f"m{number}" for number in range(5)], "")
