"""Azure's notebooks about services, as one script in a Python with scikit-learn: answers equal the model's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from azureml.core import Workspace
from tests.e2e.frameworks import interpreter_with
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]
SKLEARN = ("scikit-learn==1.6.1", "pandas")
SOURCE = Path(__file__).parent.parent.parent / "src"
NOTEBOOK = '''
import json, os
import joblib, numpy, sklearn
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from azureml.core import Environment, Model, Webservice, Workspace
from azureml.core.image import ContainerImage
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice, LocalWebservice

x, y = load_diabetes(return_X_y=True)
first, second = Ridge(alpha=0.03).fit(x, y), Ridge(alpha=5).fit(x, y)
flowers, kinds = load_iris(return_X_y=True)
classes = LogisticRegression(max_iter=1000).fit(flowers, kinds)
for name, one in (("first", first), ("second", second), ("classes", classes)):
    joblib.dump(one, f"{name}.pkl")
os.makedirs("source/extra", exist_ok=True)
with open("source/extra/offset.json", "w") as file:
    json.dump({"offset": 0.5}, file)
SCORE = """
import json, joblib, numpy, os
from sklearn.externals import joblib as old_joblib
from azureml.core.model import Model
def init():
    global models, offset
    models = [joblib.load(Model.get_model_path(name)) for name in NAMES]
    offset = json.load(open("./source/extra/offset.json"))["offset"] if os.path.exists("./source") else 0
def run(raw_data):
    try:
        data = numpy.array(json.loads(raw_data)["data"])
        return [(one.predict(data) + offset).tolist() for one in models]
    except Exception as e:
        return str(e)
"""
for name, names in (("score.py", ["first"]), ("two.py", ["first", "second"])):
    with open(f"source/{name}", "w") as file:
        file.write(f"NAMES = {names}\\n{SCORE}")
with open("old_score.py", "w") as file:
    file.write(f"NAMES = ['first', 'second']\\n{SCORE}")

ws = Workspace.from_config()
registered = [Model.register(ws, model_path=f"{name}.pkl", model_name=name) for name in ("first", "second")]
rows = x[:3].tolist()
body = json.dumps({"data": rows})
one_answer, two_answers = [first.predict(x[:3]).tolist()], [m.predict(x[:3]).tolist() for m in (first, second)]
moved = [[value + 0.5 for value in answer] for answer in two_answers]

environment = Environment("serving")
config = InferenceConfig(entry_script="score.py", source_directory="./source", environment=environment)
local = Model.deploy(ws, "local-ridge", [registered[0]], config, LocalWebservice.deploy_configuration())
local.wait_for_deployment(show_output=True)
assert local.run(input_data=body) == moved[:1], local.run(body)
both = InferenceConfig("two.py", source_directory="source", environment=environment)
local.update(models=registered, inference_config=both)
assert local.run(bytes(body, encoding="utf8")) == moved
cloud = local.deploy_to_cloud("cloud-ridge", AciWebservice.deploy_configuration(cpu_cores=1, memory_gb=1))
cloud.wait_for_deployment(show_output=True)
assert cloud.state == "Healthy" and cloud.run(body) == moved
local.delete()

no_code = Model.register(
    ws, "classes.pkl", "classes", model_framework=Model.Framework.SCIKITLEARN,
    model_framework_version=sklearn.__version__,
)
service = Model.deploy(ws, "no-code", [no_code])
service.wait_for_deployment(show_output=True)
asked = flowers[::40]
for method in ("predict", "predict_proba"):
    answer = service.run(json.dumps({"data": asked.tolist(), "method": method}))
    found = answer["predict"] if isinstance(answer, dict) else answer
    assert numpy.array_equal(numpy.array(found), getattr(classes, method)(asked)), (method, answer)
service.delete()

image_config = ContainerImage.image_configuration(execution_script="old_score.py", runtime="python")
image = ContainerImage.create(name="ridge-image", models=registered, image_config=image_config, workspace=ws)
image.wait_for_creation(show_output=True)
assert image.creation_state == "Succeeded"
for name, made in (
    ("from-image", lambda name: Webservice.deploy_from_image(ws, name, image, AciWebservice.deploy_configuration())),
    ("from-model", lambda name: Webservice.deploy_from_model(ws, name, registered, image_config)),
):
    service = made(name)
    service.wait_for_deployment(show_output=True)
    assert service.state == "Healthy" and service.run(body) == two_answers, service.run(body)
    service.delete()
cloud.delete()
print("the notebooks are done")
'''


def test_answers_of_the_notebooks_equal_the_models_own(tmp_path: Path) -> None:
    workspace = Workspace.create("service-notebooks")
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    workspace.write_config(str(tmp_path))
    done = subprocess.run(
        [interpreter_with(SKLEARN), "notebook.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.endswith("the notebooks are done\n")
    calls = workspace._client.runs
    wait_for(
        lambda: all(run.status.is_terminal for run in calls.iter(workspace.name, view="all", include_children="true")),
        timeout_s=120,
    )
