"""`LocalWebservice`: a port of this machine, reload of changed files, states, and the way to another kind."""

from __future__ import annotations

import json
import logging
import urllib.request
from pathlib import Path

import pytest

from azureml.core import Model, Webservice, Workspace
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice, LocalWebservice
from azureml.exceptions import WebserviceException

pytestmark = pytest.mark.long
BODY = json.dumps({"data": [1, 2.5]})
WHERE = """
import os
from azureml.core.model import Model
def init():
    global where
    root = os.getcwd()
    where = [os.path.relpath(os.environ["AZUREML_MODEL_DIR"], root)]
    for name in NAMES:
        where.append(os.path.relpath(Model.get_model_path(name), root))
    where.append(open("./code/inner/extra.json").read())
def run(raw):
    return where
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the test's own, which is the current folder: a script in `code`, and a model beside it."""
    (tmp_path / "code/inner").mkdir(parents=True)
    (tmp_path / "code/inner/extra.json").write_text('{"extra": 1}')
    (tmp_path / "factor.txt").write_text("2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_script(folder: Path, factor: str) -> None:
    (folder / "code/score.py").write_text(
        "import json, os\n"
        "def init():\n"
        "    global factor\n"
        "    factor = float(open(os.path.join(os.environ['AZUREML_MODEL_DIR'], 'factor.txt')).read())\n"
        f"def run(raw):\n    return [{factor} * one for one in json.loads(raw)['data']]\n"
    )


def test_a_changed_script_and_model_serve_after_a_reload(
    place: Workspace, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_script(own, "factor")
    config = InferenceConfig(entry_script="score.py", source_directory="./code")
    service = Model.deploy(place, "reloaded", ["./factor.txt"], config, LocalWebservice.deploy_configuration())
    assert isinstance(service, LocalWebservice) and service.state == LocalWebservice.STATE_DEPLOYING
    service.wait_for_deployment(show_output=True)

    assert service.state == LocalWebservice.STATE_RUNNING == "running" and service.run(BODY) == [2.0, 5.0]
    assert f"Local webservice is running at http://localhost:{service.port}" in capsys.readouterr().out
    assert service.scoring_uri == f"http://localhost:{service.port}/score"
    with urllib.request.urlopen(service.scoring_uri, BODY.encode(), timeout=60) as answer:
        assert json.loads(answer.read()) == [2.0, 5.0]
    write_script(own, "10 * factor")
    (own / "factor.txt").write_text("3")
    service.reload()
    assert service.run(BODY) == [30.0, 75.0]  # which waits for it
    again = LocalWebservice(place, "reloaded")
    (own / "factor.txt").write_text("4")
    again.reload(wait=True)
    assert again.run(BODY) == [40.0, 100.0]
    (own / "code/score.py").write_text("def init():\n    1 / 0\ndef run(raw): pass\n")
    again.reload()
    with pytest.raises(WebserviceException, match="ZeroDivisionError"):
        again.wait_for_deployment()
    assert again.run(BODY) == [40.0, 100.0]


def test_an_update_takes_other_models_another_script_or_another_port(place: Workspace, own: Path) -> None:
    write_script(own, "factor")
    config = InferenceConfig(entry_script="score.py", source_directory="./code")
    service = Model.deploy(place, "local-update", ["./factor.txt"], config, LocalWebservice.deploy_configuration())
    service.wait_for_deployment()
    before = service.port
    (own / "more").mkdir()
    (own / "more/factor.txt").write_text("7")
    registered = Model.register(place, "more/factor.txt", "seven")

    service.update(models=["./more/factor.txt"], wait=True)
    assert service.run(BODY) == [7.0, 17.5] and service.port == before
    (own / "other.py").write_text("def init(): pass\ndef run(raw): return 'other'\n")
    service.update(models=[registered], inference_config=InferenceConfig("other.py"))
    assert service.run(BODY) == "other" and [one.id for one in service.models] == [registered.id]
    with pytest.raises(WebserviceException, match="Nothing to update"):
        service.update()
    (own / "other.py").unlink()
    with pytest.raises(WebserviceException, match=r"other\.py is not there any more"):
        service.reload()


@pytest.mark.parametrize(
    ("models", "names", "folders"),
    [
        (["one"], ["one"], ["azureml-models/one/1", "azureml-models/one/1/one.txt"]),
        (["folder"], ["folder"], ["azureml-models/folder/1", "azureml-models/folder/1/tree"]),
        (
            ["one", "folder"],
            ["one", "folder"],
            ["azureml-models", "azureml-models/one/1/one.txt", "azureml-models/folder/1/tree"],
        ),
        (["./one.txt"], ["one.txt"], ["azureml-models/one.txt/0", "azureml-models/one.txt/0/one.txt"]),
    ],
    ids=["a file", "a folder", "two models", "a local path"],
)
def test_models_lie_where_scripts_look(
    place: Workspace, own: Path, models: list[str], names: list[str], folders: list[str]
) -> None:
    (own / "one.txt").write_text("1")
    (own / "tree/inner").mkdir(parents=True)
    (own / "tree/inner/w.txt").write_text("2")
    known = {model.name for model in Model.list(place)}
    for name, path in (("one", "one.txt"), ("folder", "tree")):
        if name not in known:
            Model.register(place, path, name)
    (own / "code/where.py").write_text(f"NAMES = {names}\n{WHERE}")
    config = InferenceConfig(entry_script="where.py", source_directory="code")
    service = Model.deploy(place, "where", models, config, LocalWebservice.deploy_configuration())
    service.wait_for_deployment()

    assert service.run("{}") == [*folders, '{"extra": 1}']


def test_a_local_service_becomes_another_kind(place: Workspace, own: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_script(own, "factor")
    config = InferenceConfig(entry_script="score.py", source_directory="./code")
    local = Model.deploy(place, "to-cloud", ["./factor.txt"], config, LocalWebservice.deploy_configuration())
    local.wait_for_deployment()
    with caplog.at_level(logging.WARNING, "runyard.sdk"):
        cloud = local.deploy_to_cloud(deployment_config=AciWebservice.deploy_configuration(tags={"from": "local"}))
    cloud.wait_for_deployment()

    assert isinstance(cloud, AciWebservice) and cloud.run(BODY) == [2.0, 5.0] and cloud.tags == {"from": "local"}
    assert [one.name for one in cloud.models] == ["factor.txt"] and "becomes one of type ACI" in caplog.text
    local.update_deployment_state()
    assert local.state == LocalWebservice.STATE_DELETED
    local.delete()  # which the other one outlives
    assert Webservice(place, "to-cloud").run(BODY) == [2.0, 5.0]
    second = Model.deploy(place, "to-cloud", ["./factor.txt"], config, LocalWebservice.deploy_configuration())
    second.wait_for_deployment()
    assert second.name == "to-cloud-local" and LocalWebservice(place, "to-cloud").name == "to-cloud-local"
    third = second.deploy_to_cloud("another-name")
    third.wait_for_deployment()
    assert (second.run(BODY), third.run(BODY)) == ([2.0, 5.0], [2.0, 5.0])


def test_calls_in_the_wrong_state_are_refused(place: Workspace, own: Path) -> None:
    write_script(own, "factor")
    missing = LocalWebservice(place, "nowhere", must_exist=False)
    assert (missing.state, missing.name, missing.port) == (LocalWebservice.STATE_UNKNOWN, "nowhere", None)
    for call in (lambda: missing.run(BODY), missing.reload, missing.get_logs, missing.wait_for_deployment):
        with pytest.raises(WebserviceException, match=r"Cannot call \w+\(\) when service is (unknown|deleted)"):
            call()
    with pytest.raises(WebserviceException, match="WebserviceNotFound"):
        LocalWebservice(place, "nowhere")

    config = InferenceConfig(entry_script="score.py", source_directory="./code")
    service = Model.deploy(place, "states", ["./factor.txt"], config, LocalWebservice.deploy_configuration())
    service.wait_for_deployment()
    assert "states" in [one.name for one in LocalWebservice.list(place, model_id="factor.txt:0")]
    assert "states" not in place.webservices and "states" not in [one.name for one in Webservice.list(place)]
    assert "states" in [one.name for one in Webservice.list(place, compute_type="Local")]
    for call in (service.get_keys, lambda: service.regen_key("Primary"), service.get_token):
        with pytest.raises(NotImplementedError, match="neither keys nor tokens"):
            call()
    shown = service.serialize()
    assert (shown["computeType"], shown["port"], shown["state"]) == ("Local", service.port, "running")
    service.delete(delete_cache=False, delete_image=True)
    service.delete()
    assert service.state == LocalWebservice.STATE_DELETED
    with pytest.raises(WebserviceException, match=r"Cannot call run\(\) when service is deleted"):
        service.run(BODY)


def test_a_script_that_does_not_load_is_failed(place: Workspace, own: Path) -> None:
    (own / "broken.py").write_text("import no_such_module\ndef init(): pass\ndef run(raw): pass\n")
    service = Webservice.deploy_local_from_model(
        place, "local-broken", ["./factor.txt"], InferenceConfig("broken.py"), LocalWebservice.deploy_configuration()
    )

    with pytest.raises(WebserviceException, match="No module named 'no_such_module'"):
        service.wait_for_deployment()
    assert service.state == LocalWebservice.STATE_FAILED and "no_such_module" in service.get_logs(
        num_lines=50, raw=True
    )
    assert "local-broken" not in [one.name for one in LocalWebservice.list(place)]
    with pytest.raises(WebserviceException, match=r"Cannot call run\(\) when service is failed"):
        service.run(BODY)
    (own / "broken.py").write_text("def init(): pass\ndef run(raw): return 'mended'\n")
    service.reload()
    assert service.run(BODY) == "mended"
