"""Every operation is called, and answers what the OpenAPI document says: every field, no other, each of its kind."""

from __future__ import annotations

import copy
import json
import platform
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from runyard.core.errors import RunyardError
from runyard.core.formats.frames import join_frames
from runyard.core.formats.plain import to_plain
from runyard.core.formats.tree import FileEntry, encode_tree, tree_id
from runyard.core.specs import DistributionSpec, RunSpec, SweepSpec
from runyard.core.webservices import NewService, RevisionSpec, ServiceSettings
from runyard.runtime.bundle import Bundle
from runyard.server.access.route_rights import API
from tests.engine.bench import header, journal_frame, log_frame, name, number
from tests.rights.conftest import CLUSTER, Team
from tests.rights.test_walk import add_service
from tests.server.conftest import serve

Document = dict[str, Any]
WORKSPACE = "/workspaces/default"
CONTENT = b"print(1)\n"
JOURNAL = journal_frame(header() + name(1, "loss") + number(1, 0.5, time=10, step=1))
LOG = log_frame(b"begun\nValueError: no\n")
NODE = {"attempt": 1, "incarnation": "a" * 32}
# What these need is not there in a test of answers. Other tests call them.
NOT_HERE = {
    "make_ticket": "needs a browser's session: test_browser_sessions.py",
    "sign_out": "needs a browser's session: test_browser_sessions.py",
    "stream_events": "does not end: test_routes_events.py",
    "get_service_openapi": "needs a service that runs: tests/serving/deployed",
    "try_service": "needs a service that runs: tests/serving/deployed",
    "roll_back_service": "needs a service with two revisions: tests/serving/deployed",
    "remove_environment": "needs one that is built: test_routes_environments.py",
    "stop_server": "ends it: test_lifecycle.py",
}


@dataclass
class Answers:
    """Calls operations by their ids, and notes what is not as the document says."""

    team: Team
    document: Document
    operations: Mapping[str, tuple[str, str, Document]]  # method, path, and what is said of it
    called: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    snapshot: str = ""

    def call(self, operation: str, path: str, body: Any = None, *, by: str = "") -> Any:
        method, template, said = self.operations[operation]
        assert path.partition("?")[0].count("/") >= template.removeprefix(API).count("/"), (operation, path)
        sent = {"body": body} if isinstance(body, bytes) else {"json": body}
        client = self.team.served.as_run(by) if by else self.team.owner
        answer = client.transport.request(method, path, **sent)
        self.called.append(operation)
        described = said["responses"].get(str(answer.status))
        if described is None:
            self.faults.append(f"{operation}: status {answer.status} is not in the document")
            return None
        [(media_type, content)] = described["content"].items()
        found = answer.headers["content-type"].partition(";")[0]
        if found != media_type:
            self.faults.append(f"{operation}: {found}, not {media_type}")
        if media_type != "application/json":
            return answer.read()
        self.faults += [f"{operation}: {fault}" for fault in faults(answer.json(), content["schema"], self.document)]
        return answer.json()


def faults(value: Any, schema: Document, document: Document) -> list[str]:
    """Return where a value is not what its schema says."""
    whole = {**schema, "components": document["components"]}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(value)]


def strict(document: Document) -> Document:
    """Return the document with records that have no other fields than those it names."""
    closed = copy.deepcopy(document)
    for schema in closed["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return closed


@pytest.fixture(scope="module")
def answers(session_folder: Path) -> Iterator[Answers]:
    with tempfile.TemporaryDirectory(prefix="a", dir=session_folder) as folder:
        with serve(Path(folder), cluster=CLUSTER) as served:
            served.services.engine.context.addresses.bundles._made = Bundle("b" * 64, b"")
            document = served.client.transport.request("GET", "/openapi.json").json()
            operations = {
                said["operationId"]: (method.upper(), path, said)
                for path, methods in document["paths"].items()
                for method, said in methods.items()
            }
            yield Answers(Team(served), strict(document), operations)


@pytest.mark.long
def test_every_operation_answers_what_the_document_says(answers: Answers) -> None:
    validate(answers.document)
    for calls in (
        server,
        users,
        content,
        runs,
        logs_and_metrics,
        nodes,
        assets,
        services,
        workspaces,
        imports,
        deletes,
    ):
        calls(answers)

    assert answers.faults == []
    assert sorted({*answers.called, *NOT_HERE}) == sorted(answers.operations)


def server(on: Answers) -> None:
    on.call("get_health", "/health")
    on.call("get_server", "/server")
    on.call("collect_free_space", "/server/collect")
    on.call("make_signin_path", "/signin-codes", {"next": "/"})
    on.call("get_node_bundle", "/nodes/bundle")
    on.call("get_node_uv", f"/nodes/uv?system={platform.system()}&machine={platform.machine()}")
    on.call("list_environments", "/environments")
    on.call("prune_environments", "/environments/prune", {"dry_run": True})


def users(on: Answers) -> None:
    on.call("get_me", "/users/me")
    on.call("add_user", "/users", {"name": "bob"})
    on.call("list_users", "/users")
    on.call("change_role", "/users/bob", {"role": "reader"})
    on.call("add_user_token", "/users/bob/tokens", {"label": "laptop"})
    on.call("remove_user_token", "/users/bob/tokens/laptop")
    on.call("rotate_user_tokens", "/users/bob/rotate", {})
    on.call("remove_user", "/users/bob")


def content(on: Answers) -> None:
    [chunk] = upload(on)["chunks"]
    tree = encode_tree([FileEntry("train.py", 0o644, len(CONTENT), [chunk])])
    root = tree_id(tree)
    on.call("find_missing_chunks", "/chunks/missing", {"ids": [chunk, "0" * 64]})
    on.call("put_chunks", "/chunks", join_frames([({"id": chunk}, CONTENT)]))
    on.call("release_chunks", "/chunks/release", {"ids": []})
    on.call("fetch_chunks", "/chunks/fetch", {"ids": [chunk]})
    on.call("put_trees", "/trees", join_frames([({"id": root}, tree)]))
    on.call("get_tree", f"/trees/{root}")
    on.snapshot = snapshot = on.call("put_snapshot", "/snapshots", {"root": root, "files": 1})["id"]
    on.call("get_snapshot", f"/snapshots/{snapshot}")
    assert on.call("list_snapshot_files", f"/snapshots/{snapshot}/files")["files"]
    on.call("get_snapshot_file", f"/snapshots/{snapshot}/files/train.py")
    on.call("get_snapshot_zip", f"/snapshots/{snapshot}/zip")
    on.call("get_snapshot_diff", f"/snapshots/{snapshot}/diff?with={snapshot}")


def upload(on: Answers) -> Document:
    with tempfile.NamedTemporaryFile() as file:
        file.write(CONTENT)
        file.flush()
        uploaded = on.team.owner.content.upload_file(file.name, name="a.py")
    return {"name": "a.py", "size": uploaded.size, "chunks": uploaded.chunks}


def runs(on: Answers) -> None:
    team = on.team
    team.submit(team.owner, "exp_1", spec=RunSpec(script="train.py", target=CLUSTER, arguments=["--lr", "0.1"]))
    sweep = SweepSpec(sampling="GRID", space={"x": ["choice", [[1, 2]]]}, primary_metric="loss")
    team.served.submit("HD_1", type="hyperdrive", spec=RunSpec(script="train.py", target=CLUSTER, sweep=sweep))
    new = {"key": "k", "id": "note_1", "workspace": "default", "experiment": "notes", "type": None}
    assert on.call("create_run", "/runs", {"run": new, "launch": False})["token"]
    again = {"run": {"key": "s", "id": "exp_2", "workspace": "default", "experiment": "exp"}}
    again["run"]["spec"] = {"script": "train.py", "target": CLUSTER}
    on.call("plan_run", "/runs/plan", again)
    on.call("create_run", "/runs", again)
    on.call("create_run", "/runs", again)  # 200: it is there
    team.served.job_of("exp_2")
    on.call("add_writer", "/runs/note_1/writers", {"pid": 1, "start_ticks": 1, "host": "x"})
    on.call("get_run", "/runs/exp_1")
    on.call("get_run", "/runs/HD_1")
    on.call("find_named_run", f"{WORKSPACE}/runs/named?name=exp_1")
    assert on.call("list_runs", f"{WORKSPACE}/runs?limit=1")["next"]
    assert on.call("read_runs", "/runs?id=exp_1&id=nowhere")["missing"] == ["nowhere"]
    on.call("update_run", "/runs/exp_1", {"tags_set": {"a": None}, "description": "x"})
    on.call("change_runs", "/runs/bulk", {"ids": ["exp_1", "nowhere"], "action": "tag", "tags_set": {"b": "1"}})
    on.call("get_run_plan", "/runs/exp_1/plan")
    on.call("show_sweep", "/runs/HD_1/sweep")
    resubmitted = on.call("resubmit_run", "/runs/exp_1/resubmit", {})["run"]["id"]
    team.served.job_of(resubmitted)
    on.call("cancel_run", f"/runs/{resubmitted}/cancel")
    file = {"name": "outputs/x", "size": 0, "chunks": []}
    on.call("put_run_file", "/runs/exp_1/files", {"file": file})
    odd = {"name": "outputs/odd", "size": 1, "chunks": []}
    assert on.call("put_run_files", "/runs/exp_1/files/batch", {"files": [file, odd]})["refused"]
    assert on.call("list_run_files", "/runs/exp_1/files")
    on.call("get_run_file", "/runs/exp_1/files/outputs/x")
    on.call("fetch_run_files", "/runs/exp_1/files/fetch", {"names": ["outputs/x"]})
    on.call("get_run_zip", "/runs/exp_1/zip")


def logs_and_metrics(on: Answers) -> None:
    on.call("ship_records", "/runs/exp_1/ship", join_frames([JOURNAL, LOG]), by="exp_1")
    on.call("send_heartbeat", "/runs/exp_1/heartbeat", {"attempt": 1}, by="exp_1")
    on.call("report_state", "/runs/exp_1/state", {"attempt": 1, "status": "Running"}, by="exp_1")
    assert on.call("get_log_lines", "/runs/exp_1/log/lines")["lines"] == ["begun", "ValueError: no"]
    assert on.call("search_log", "/runs/exp_1/log/search?text=no")["lines"] == [2]
    assert on.call("get_first_error", "/runs/exp_1/log/first-error")["line"] == 2
    assert on.call("list_metrics", "/runs/exp_1/metrics")
    on.call("get_metric_values", "/runs/exp_1/metrics/values")
    on.call("get_metric_series", "/runs/exp_1/metrics/series?name=loss")
    on.call("get_metric_chart", "/runs/exp_1/metrics/chart?name=loss")
    on.call("draw_charts", "/charts", {"series": [{"run": "exp_1", "metric": "loss"}]})
    assert on.call("summarize_metrics", "/metrics/summary", {"runs": ["exp_1"]})["metrics"]
    on.call("fail_run", "/runs/exp_2/fail", {"error": {"code": "UserError", "message": "no"}})
    assert on.call("read_table", f"{WORKSPACE}/table?column=metrics.loss&column=params.lr")["rows"]
    assert on.call("list_columns", f"{WORKSPACE}/columns")["columns"]
    assert on.call("group_runs", f"{WORKSPACE}/groups?by=status")["groups"]
    assert on.call("count_by_experiment", f"{WORKSPACE}/tally")


def nodes(on: Answers) -> None:
    two = RunSpec(target=CLUSTER, script="a.py", distribution=DistributionSpec("pytorch", node_count=2))
    on.team.submit(on.team.owner, "gang_1", spec=two)
    joined = {**NODE, "host": "h", "address": "10.0.0.1"}
    on.call("join_node", "/runs/gang_1/nodes/1/join", joined, by="gang_1")
    assert on.call("tell_nodes", "/runs/gang_1/nodes/1", {**NODE, "facts": {"host": "h"}}, by="gang_1")["nodes"]
    assert on.call("list_run_nodes", "/runs/gang_1/nodes")


def assets(on: Answers) -> None:
    place = f"{WORKSPACE}/assets/dataset"
    on.call("put_asset", f"{place}/digits", {"document": {"a": 1}, "key": "k"})
    on.call("put_asset", f"{place}/digits", {"document": {"a": 1}, "key": "k"})  # 200: it is there
    on.call("update_asset", f"{place}/digits/1", {"document": {"a": 2}})
    assert on.call("list_assets", place)
    on.call("get_asset", f"{place}/digits")
    files = f"{WORKSPACE}/datastores/workspaceblobstore/files"
    file = upload(on)
    on.call("put_data_file", files, {"file": file})
    assert on.call("list_data_files", files)
    on.call("get_data_file", f"{files}/a.py")
    spec = {"path": "a.py", "files": [file]}
    on.call("register_model", f"{WORKSPACE}/models/net", {"spec": spec})
    assert on.call("list_models", f"{WORKSPACE}/models")
    on.call("get_model", f"{WORKSPACE}/models/net")
    on.call("change_model", f"{WORKSPACE}/models/net/1", {"description": "x"})
    on.call("get_model_file", f"{WORKSPACE}/models/net/1/files/a.py")
    on.call("put_secret", f"{WORKSPACE}/secrets/key", {"value": "v"})
    assert on.call("list_secrets", f"{WORKSPACE}/secrets") == ["key"]
    on.call("get_secret", f"{WORKSPACE}/secrets/key")
    on.call("create_target", f"{WORKSPACE}/compute/pool", {"max_nodes": 2})
    on.call("update_target", f"{WORKSPACE}/compute/pool", {"max_nodes": 3})
    assert on.call("list_targets", f"{WORKSPACE}/compute")
    on.call("get_target", f"{WORKSPACE}/compute/pool")


def services(on: Answers) -> None:
    place = f"{WORKSPACE}/services"
    add_service(on.team, "default", "kept", run_id="exp_1", owner="")
    new = NewService(
        ServiceSettings(compute_type="Local", token_auth=True),
        RevisionSpec(entry="train.py", snapshot_id=on.snapshot),
    )
    on.call("deploy_service", f"{place}/scorer", to_plain(new))
    assert on.call("list_services", place)
    on.call("get_service", f"{place}/scorer")
    on.call("change_service", f"{place}/kept", {"description": "x"})
    on.call("get_service_keys", f"{place}/kept/keys")
    on.call("set_service_key", f"{place}/kept/keys", {"key": "Primary", "value": "v" * 32})
    on.call("make_service_token", f"{place}/scorer/token")
    on.call("get_service_log", f"{place}/kept/log")
    on.call("delete_service", f"{place}/kept")


def workspaces(on: Answers) -> None:
    on.call("put_workspace", "/workspaces/other", {"tags": {"a": "b"}})
    assert on.call("list_workspaces", "/workspaces")
    on.call("get_workspace", "/workspaces/other")
    on.call("put_experiment", f"{WORKSPACE}/experiments/made")
    on.call("get_experiment", f"{WORKSPACE}/experiments/made")
    on.call("update_experiment", f"{WORKSPACE}/experiments/made", {"tags_set": {"a": "b"}})
    assert on.call("list_experiments", f"{WORKSPACE}/experiments")


def imports(on: Answers) -> None:
    place = "/workspaces/other/imports"
    record = {"id": "old_1", "experiment": "old", "status": "Completed", "origin": {"source": "x", "id": "1"}}
    refused = {**record, "id": "exp_1"}  # it is in another workspace
    frames = [({"kind": "run"}, json.dumps(one).encode()) for one in (record, refused)]
    results = on.call("import_runs", f"{place}/runs", join_frames(frames))["results"]
    assert ["error" in one for one in results] == [False, True]
    assert on.call("find_imported", f"{place}/known", {"ids": ["old_1"]})["known"]
    version = {"kind": "dataset", "name": "d", "version": 3, "document": {}}
    on.call("import_asset", f"{place}/assets", version)


def deletes(on: Answers) -> None:
    on.call("delete_run", "/runs/exp_2")
    on.call("restore_run", "/runs/exp_2/restore")
    on.call("delete_experiment", f"{WORKSPACE}/experiments/made")
    on.call("restore_experiment", f"{WORKSPACE}/experiments/made/restore")
    on.call("delete_asset", f"{WORKSPACE}/assets/dataset/digits")
    on.call("delete_model", f"{WORKSPACE}/models/net/1")
    on.call("delete_secret", f"{WORKSPACE}/secrets/key")
    on.call("delete_target", f"{WORKSPACE}/compute/pool")
    on.call("delete_workspace", "/workspaces/other")


def test_errors_have_one_shape_and_only_health_is_open(answers: Answers) -> None:
    error = answers.document["components"]["responses"]["Error"]["content"]["application/json"]["schema"]
    for method, path in (
        ("GET", "/runs/nowhere"),
        ("POST", "/runs"),
        ("GET", "/nothing"),
        ("GET", f"{WORKSPACE}/runs?x=1"),
    ):
        with pytest.raises(RunyardError) as raised:
            answers.team.owner.transport.request(method, path, json={} if method == "POST" else None)
        assert faults({"error": raised.value.to_plain()}, error, answers.document) == []
    assert {said["responses"]["default"]["$ref"] for _, _, said in answers.operations.values()} == {
        "#/components/responses/Error"
    }
    assert answers.document["security"] == [{"token": []}]
    assert [name for name, (_, _, said) in answers.operations.items() if said.get("security") == []] == ["get_health"]


def test_control_a_field_too_many_or_of_another_kind_is_found(answers: Answers) -> None:
    schema = {"$ref": "#/components/schemas/DataFileAnswer"}

    assert faults({"name": "x", "size": 1}, schema, answers.document) == []
    assert faults({"name": "x", "size": "1"}, schema, answers.document) == ["$.size: '1' is not of type 'integer'"]
    assert faults({"name": "x"}, schema, answers.document) == ["$: 'size' is a required property"]
    assert len(faults({"name": "x", "size": 1, "more": 1}, schema, answers.document)) == 1
