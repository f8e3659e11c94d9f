"""Calls on files of runs, the model registry and, from MLflow 3 on, logged models."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from asked import client, label, note, page, rest
from mlflow.artifacts import download_artifacts

NOBODY = "0123456789abcdef0123456789abcdef"
MODEL_FILTERS = """
name = 'net'
name != 'net'
name LIKE 'n%'
name LIKE 'N%'
name ILIKE 'N%'
name IN ('net', 'x')
name = net
tags.kind = 'x'
tags.kind != 'x'
tags.kind LIKE 'X'
tags.kind ILIKE 'X'
tags.kind IS NULL
tag.kind = 'x'
tags.`a key` = 'v'
name LIKE 'n%' AND tags.kind = 'x'
name LIKE 'n%' OR tags.kind = 'x'
description = 'x'
creation_timestamp > 0
colour = 'x'
run_id = 'x'
name
"""
VERSION_FILTERS = """
name = 'net'
name != 'net'
name LIKE 'n%'
name ILIKE 'N%'
name IN ('net', 'nut')
version_number = 1
version_number >= 2
version_number < 2
version_number != 2
version_number = '1'
version_number LIKE '1'
name = 'net' AND version_number > 1
source_path LIKE '%model'
source_path = 'x'
run_id = 'x'
run_id IN ('x', 'y')
run_id LIKE '%'
tags.kind = 'x'
tags.kind LIKE 'X%'
tags.kind IS NULL
tag.kind = 'x'
current_stage = 'Production'
status = 'READY'
colour = 'x'
name = 'net' OR name = 'nut'
"""
LOGGED_FILTERS = """
name = 'alpha'
name != 'alpha'
name LIKE 'a%'
name ILIKE 'A%'
name IN ('alpha', 'x')
attributes.name = 'alpha'
model_type = 'agent'
status = 'READY'
status = 'PENDING'
creation_timestamp > 0
params.lr = '0.1'
params.lr LIKE '0.%'
tags.kind = 'x'
tags.kind != 'x'
tags.kind IS NULL
metrics.acc > 0.5
metrics.acc <= 0.5
metrics.acc = 'x'
metrics.nothing > 1
colour = 'x'
name = 'alpha' AND metrics.acc > 0.5
name = 'alpha' OR name = 'beta'
"""


def files() -> None:
    where = label(client.create_experiment("files"), "e:files")
    run = label(client.create_run(where, run_name="files").info.run_id, "r:files")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        (source / "inner/deep").mkdir(parents=True)
        for name, content in (("one.txt", "1"), ("ünï ☃.txt", "ü"), ("inner/two.bin", "\0"), ("inner/deep/three", "")):
            (source / name).write_text(content, encoding="utf-8")
        note("files/none", lambda: client.list_artifacts(run))
        note("files/log", lambda: client.log_artifact(run, str(source / "one.txt")))
        note("files/log below", lambda: client.log_artifact(run, str(source / "one.txt"), "a folder/below"))
        note("files/log folder", lambda: client.log_artifacts(run, str(source), "all"))
        note("files/log text", lambda: client.log_text(run, "text ☃", "texts/note.txt"))
        note("files/log dict", lambda: client.log_dict(run, {"a": 1}, "d.json"))
        for path in (
            None,
            "",
            "all",
            "all/inner",
            "all/inner/deep",
            "a folder",
            "one.txt",
            "nothing",
            "all/",
            "nothing/x",
        ):
            note(f"files/list {path}", lambda path=path: client.list_artifacts(run, path))
        for path in ("../x", "/etc", "a/../../b", "%2e%2e/x", "a//b", "."):
            rest(f"files/rest list {path}", "GET", "mlflow/artifacts/list", run_id=run, path=path)
        note("files/of nobody", lambda: client.list_artifacts(NOBODY))
        for number, path in enumerate(("one.txt", "all/ünï ☃.txt", "texts/note.txt", "all")):
            target = Path(folder) / f"target{number}"
            target.mkdir()
            note(f"files/download {path}", lambda path=path, target=target: read(client, run, path, target))
        for path in ("nothing.txt", "all/nothing"):
            note(f"files/no {path}", lambda path=path: bool(client.download_artifacts(run, path, folder)))
        note("files/write again", lambda: client.log_text(run, "other", "texts/note.txt"))
        note("files/by uri", lambda: Path(download_artifacts(f"runs:/{run}/texts/note.txt")).read_text())


def read(client: Any, run: str, path: str, target: Path) -> Any:
    found = Path(client.download_artifacts(run, path, str(target)))
    if found.is_dir():
        return sorted(str(one.relative_to(found)) for one in found.rglob("*") if one.is_file())
    return found.read_text(encoding="utf-8")


def registry() -> None:
    where = label(client.create_experiment("registry"), "e:registry")
    run = label(client.create_run(where, run_name="registered").info.run_id, "r:registered")
    client.log_text(run, "m", "model/MLmodel")
    client.log_text(run, "m", "other/MLmodel")
    for case, name in (
        ("plain", "net"),
        ("spaces", "a net"),
        ("unicode", "nétz ☃"),
        ("empty", ""),
        ("percent", "a%b"),
        ("again", "net"),
    ):
        note(f"registry/create {case}", lambda name=name: client.create_registered_model(name))
    tagged = {"kind": "x", "a key": "v"}
    note("registry/create tagged", lambda: client.create_registered_model("nut", tagged, "described"))
    note("registry/unknown", lambda: client.get_registered_model("nothing"))
    note("registry/get", lambda: client.get_registered_model("nut"))
    note("registry/describe", lambda: client.update_registered_model("net", "text"))
    note("registry/describe unknown", lambda: client.update_registered_model("nothing", "text"))
    versions(run)
    aliases()
    for text in MODEL_FILTERS.strip().splitlines():
        note(f"registry/search {text}", lambda text=text: named(client.search_registered_models(text)))
    for order in (
        ["name"],
        ["name DESC"],
        ["timestamp"],
        ["last_updated_timestamp DESC"],
        ["colour"],
        ["name", "name"],
    ):
        note(f"registry/order {order}", lambda order=order: named(client.search_registered_models(order_by=order)))
    for size in (0, 1, 2, 1000, 1001):
        note(f"registry/pages {size}", lambda size=size: named(client.search_registered_models(max_results=size)))
    for text in VERSION_FILTERS.strip().splitlines():
        note(f"versions/search {text}", lambda text=text: numbered(client.search_model_versions(text)))
    note("versions/search run", lambda: numbered(client.search_model_versions(f"run_id = '{run}'")))
    for order in (["name"], ["version_number DESC"], ["name", "version_number"], ["creation_timestamp"], ["colour"]):
        note(f"versions/order {order}", lambda order=order: numbered(client.search_model_versions(order_by=order)))
    for size in (0, 1, 2, 200_001):
        note(f"versions/pages {size}", lambda size=size: numbered(client.search_model_versions(max_results=size)))
    endings()


def versions(run: str) -> None:
    source = f"runs:/{run}/model"
    make = client.create_model_version
    note("versions/create", lambda: make("net", source, run))
    note("versions/create more", lambda: make("net", f"runs:/{run}/other", run, {"kind": "x"}, description="second"))
    note("versions/create third", lambda: make("nut", source, run, {"kind": "xy"}))
    note("versions/of nothing", lambda: make("nothing", source, run))
    note("versions/no source", lambda: make("net", "", run))
    for case, place in (
        ("file", "file:///etc"),
        ("path", "/etc/passwd"),
        ("relative", "some/path"),
        ("up", f"runs:/{run}/../../x"),
        ("encoded", f"mlflow-artifacts:/runs/{run}/%2e%2e/x"),
    ):
        note(f"versions/source {case}", lambda place=place: make("net", place, run))
    note("versions/get", lambda: client.get_model_version("net", "1"))
    note("versions/get second", lambda: client.get_model_version("net", "2"))
    note("versions/get number", lambda: client.get_model_version("net", 1))
    note("versions/get unknown", lambda: client.get_model_version("net", "99"))
    note("versions/get text", lambda: client.get_model_version("net", "one"))
    note("versions/describe", lambda: client.update_model_version("net", "1", "text"))
    note("versions/describe unknown", lambda: client.update_model_version("net", "99", "text"))
    for key, value in (("kind", "x"), ("a/b", "v"), ("a%b", "v"), ("", "v"), ("long", "v" * 5000), ("k" * 251, "v")):
        case = f"{key[:10]} {len(value)}"
        note(f"versions/tag {case}", lambda key=key, value=value: client.set_model_version_tag("net", "1", key, value))
        note(f"registry/tag {case}", lambda key=key, value=value: client.set_registered_model_tag("net", key, value))
    note("versions/tagged", lambda: client.get_model_version("net", "1"))
    note("registry/tagged", lambda: client.get_registered_model("net"))
    note("versions/untag", lambda: client.delete_model_version_tag("net", "1", "kind"))
    note("versions/untag again", lambda: client.delete_model_version_tag("net", "1", "kind"))
    note("registry/untag", lambda: client.delete_registered_model_tag("net", "kind"))
    note("registry/untag again", lambda: client.delete_registered_model_tag("net", "kind"))
    note("versions/tag unknown", lambda: client.set_model_version_tag("net", "99", "k", "v"))
    note("registry/tag unknown", lambda: client.set_registered_model_tag("nothing", "k", "v"))
    for stage in ("Staging", "production", "Archived", "None", "Elsewhere"):
        note(f"versions/stage {stage}", lambda stage=stage: client.transition_model_version_stage("net", "1", stage))
        note(f"versions/latest {stage}", lambda: numbered(client.get_latest_versions("net")))
    note("versions/stage 1", lambda: client.transition_model_version_stage("net", "1", "Production"))
    note("versions/stage 2", lambda: client.transition_model_version_stage("net", "2", "Production", True))
    note("versions/stage archive", lambda: client.transition_model_version_stage("net", "2", "Archived", True))
    note("versions/after stages", lambda: [client.get_model_version("net", one).current_stage for one in ("1", "2")])
    note("versions/latest of", lambda: numbered(client.get_latest_versions("net", ["Production", "None"])))
    note("versions/latest of bad", lambda: numbered(client.get_latest_versions("net", ["Elsewhere"])))
    note("versions/latest unknown", lambda: numbered(client.get_latest_versions("nothing")))


def aliases() -> None:
    note("alias/set", lambda: client.set_registered_model_alias("net", "best", "1"))
    note("alias/set other", lambda: client.set_registered_model_alias("net", "good_one-1", "1"))
    note("alias/get", lambda: client.get_model_version_by_alias("net", "best"))
    note("alias/move", lambda: client.set_registered_model_alias("net", "best", "2"))
    note("alias/moved", lambda: client.get_model_version_by_alias("net", "best").version)
    for alias in ("latest", "LATEST", "v1", "V22", "a b", "a/b", "", "ü", "x" * 255, "x" * 256):
        case = f"{alias[:6]} {len(alias)}"
        note(f"alias/{case}", lambda alias=alias: client.set_registered_model_alias("net", alias, "1"))
    note("alias/latest", lambda: client.get_model_version_by_alias("net", "latest"))
    note("alias/unknown", lambda: client.get_model_version_by_alias("net", "nothing"))
    note("alias/unknown model", lambda: client.get_model_version_by_alias("nothing", "best"))
    note("alias/unknown version", lambda: client.set_registered_model_alias("net", "x", "99"))
    note("alias/shown", lambda: sorted(client.get_registered_model("net").aliases.items()))
    note("alias/delete", lambda: client.delete_registered_model_alias("net", "best"))
    note("alias/delete again", lambda: client.delete_registered_model_alias("net", "best"))
    note("alias/deleted", lambda: client.get_model_version_by_alias("net", "best"))


def endings() -> None:
    note("registry/rename", lambda: client.rename_registered_model("nut", "nüt 2"))
    note("registry/renamed", lambda: client.get_registered_model("nüt 2"))
    note("registry/old name", lambda: client.get_registered_model("nut"))
    note("registry/rename taken", lambda: client.rename_registered_model("nüt 2", "net"))
    note("registry/rename unknown", lambda: client.rename_registered_model("nothing", "x"))
    note("versions/delete", lambda: client.delete_model_version("net", "2"))
    note("versions/delete again", lambda: client.delete_model_version("net", "2"))
    note("versions/deleted", lambda: client.get_model_version("net", "2"))
    note("registry/delete", lambda: client.delete_registered_model("net"))
    note("registry/deleted", lambda: client.get_registered_model("net"))
    note("registry/delete again", lambda: client.delete_registered_model("net"))
    for case, name in (("slash", "a/b"), ("colon", "a:b"), ("blank", " "), ("dots", "..")):
        note(f"registry/create {case}", lambda name=name: bool(client.create_registered_model(name)))
        note(f"registry/rename to {case}", lambda name=name: bool(client.rename_registered_model("a net", name)))
    note("versions/of deleted", lambda: numbered(client.search_model_versions("name = 'net'")))


def logged_models() -> None:
    where = label(client.create_experiment("logged models"), "e:logged")
    run = label(client.create_run(where, run_name="logs models").info.run_id, "r:logs models")

    def make(name: str, **fields: Any) -> Any:
        made = client.create_logged_model(where, name=name, **fields)
        label(made.model_id, f"m:{name}")
        return made

    alpha = make("alpha", source_run_id=run, params={"lr": "0.1"}, tags={"kind": "x"}, model_type="agent")
    beta = make("beta", params={"lr": "0.2"})
    note("logged/alpha", lambda: client.get_logged_model(alpha.model_id))
    note("logged/beta", lambda: client.get_logged_model(beta.model_id))
    for name in ("a/b", "a:b", "a.b", "a%b", 'a"b', "a'b", "ü"):
        note(f"logged/name {name}", lambda name=name: client.create_logged_model(where, name=name).name)
    note("logged/unknown", lambda: client.get_logged_model("m-" + NOBODY))
    note("logged/in unknown", lambda: client.create_logged_model("987654321987", name="x"))
    note("logged/finalize", lambda: client.finalize_logged_model(alpha.model_id, "READY"))
    note("logged/ready", lambda: client.get_logged_model(alpha.model_id).status)
    note("logged/tags", lambda: client.set_logged_model_tags(alpha.model_id, {"more": "1", "kind": "x"}))
    note("logged/untag", lambda: client.delete_logged_model_tag(alpha.model_id, "more"))
    note("logged/untag again", lambda: client.delete_logged_model_tag(alpha.model_id, "more"))
    for model, value in ((alpha, 0.9), (beta, 0.4)):
        client.log_metric(run, "acc", value, timestamp=5, step=1, model_id=model.model_id)
    note("logged/measured", lambda: client.get_logged_model(alpha.model_id))
    for text in LOGGED_FILTERS.strip().splitlines():
        note(
            f"logged/search {text}",
            lambda text=text: named(client.search_logged_models([where], text, order_by=[{"field_name": "name"}])),
        )
    filtered = "name IN ('alpha', 'beta')"
    for field in (
        "name",
        "creation_time",
        "creation_timestamp",
        "metrics.acc",
        "params.lr",
        "colour",
        "metrics.nothing",
    ):
        for ascending in (True, False):
            order = [{"field_name": field, "ascending": ascending}]
            note(
                f"logged/order {field} {ascending}",
                lambda order=order: named(client.search_logged_models([where], filtered, order_by=order)),
            )
    note("logged/delete", lambda: client.delete_logged_model(beta.model_id))
    note("logged/deleted", lambda: client.get_logged_model(beta.model_id))


def named(found: Any) -> dict[str, Any]:
    rows = [one.name for one in found]
    return {**page(found), "rows": rows}


def numbered(found: Any) -> Any:
    rows = [[one.name, one.version, one.current_stage] for one in found]
    return {**page(found), "rows": rows} if hasattr(found, "token") else sorted(rows)
