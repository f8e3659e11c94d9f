"""Real engines behind a gateway: onnxruntime, TensorFlow, scikit-learn, MLflow's pyfunc and Azure's inference-schema.

One environment holds them all; what a service answers is compared with the model called directly.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.frameworks import interpreter_with
from tests.serving.deployments import Deployed, RunningGateway
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]

ENGINES = (
    "tensorflow-cpu==2.21.0",
    "onnxruntime==1.31.1",
    "onnx==1.23.2",
    "scikit-learn==1.9.1",
    "pandas==3.1.1",
    "mlflow-skinny==3.17.2",
    "inference-schema[numpy-support,pandas-support]==1.8",
    "openapi-spec-validator==0.9.0",
)
ROWS = [[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]]
# Makes a model of each kind below sys.argv[1] and prints what each answers to ROWS.
MAKE = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import joblib, mlflow.sklearn, numpy as np, onnx, onnxruntime, tensorflow as tf
from onnx import TensorProto, helper
from sklearn.linear_model import LogisticRegression, Ridge
folder, rows = sys.argv[1], np.array(json.loads(sys.argv[2]), dtype=np.float32)
random = np.random.default_rng(3)
data = random.normal(size=(200, 3))
weights, bias = random.normal(size=(3, 2)).astype(np.float32), np.array([0.5, -0.25], dtype=np.float32)
place = lambda name: os.path.join(folder, name)
for name in ("onnx", "sklearn"):
    os.makedirs(place(name))
graph = helper.make_graph(
    [helper.make_node("MatMul", ["features", "weights"], ["product"]),
     helper.make_node("Add", ["product", "bias"], ["scores"])],
    "linear",
    [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 3])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 2])],
    [onnx.numpy_helper.from_array(weights, "weights"), onnx.numpy_helper.from_array(bias, "bias")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(model, place("onnx/model.onnx"))
session = onnxruntime.InferenceSession(place("onnx/model.onnx"), providers=["CPUExecutionProvider"])
class Linear(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="features")])
    def score(self, features):
        return {"scores": tf.matmul(features, weights) + bias}
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image")])
    def sizes(self, image):
        return {"sizes": tf.strings.length(image)}
linear = Linear()
tf.saved_model.save(linear, place("tensorflow"), signatures={"serving_default": linear.score, "sizes": linear.sizes})
classes = LogisticRegression().fit(data, (data[:, 0] > 0).astype(int))
joblib.dump(classes, place("sklearn/model.pkl"))
ridge = Ridge().fit(data, data @ np.array([1.0, 2.0, 3.0]))
mlflow.sklearn.save_model(ridge, place("mlflow"), serialization_format="cloudpickle")
print(json.dumps({
    "onnx": session.run(None, {"features": rows})[0].tolist(),
    "tensorflow": linear.score(tf.constant(rows))["scores"].numpy().tolist(),
    "predict": classes.predict(rows).tolist(),
    "predict_proba": classes.predict_proba(rows).tolist(),
    "mlflow": ridge.predict(rows).tolist(),
}))
"""
DECORATED = """
    import numpy as np
    import pandas as pd
    from inference_schema.parameter_types.numpy_parameter_type import NumpyParameterType
    from inference_schema.parameter_types.pandas_parameter_type import PandasParameterType
    from inference_schema.parameter_types.standard_py_parameter_type import StandardPythonParameterType
    from inference_schema.schema_decorators import input_schema, output_schema

    def init(): pass

    @input_schema("data", NumpyParameterType(np.array([[1.0, 2.0, 3.0]])))
    @input_schema("frame", PandasParameterType(pd.DataFrame({"a": [1], "b": ["x"]})))
    @input_schema("options", StandardPythonParameterType({"scale": 1.5, "names": ["x"]}), optional=True)
    @output_schema(StandardPythonParameterType([1]))
    def run(data, frame, options=None):
        kinds = [type(data).__name__, type(frame).__name__, type(options).__name__]
        return [kinds, data.sum(axis=1), frame["a"].tolist(), options]
"""
SUMS = """
    import numpy as np
    from inference_schema.parameter_types.numpy_parameter_type import NumpyParameterType
    from inference_schema.schema_decorators import input_schema

    def init(): pass

    @input_schema("data", NumpyParameterType(np.array([[1.0, 2.0, 3.0]])))
    def run(data):
        return {returns}
"""


@dataclass(frozen=True)
class Models:
    python: str
    folder: Path
    answers: dict[str, Any]

    def serve(self, gateway: RunningGateway, folder: Path, kind: str) -> Deployed:
        """Serve a model without a script."""
        files = {path.relative_to(self.folder / kind).as_posix(): path for path in (self.folder / kind).rglob("*")}
        content: dict[str, str | bytes] = {
            f"model/{name}": path.read_bytes() for name, path in files.items() if path.is_file()
        }
        variables = {"AZUREML_MODEL_DIR": "model", "TF_CPP_MIN_LOG_LEVEL": "3"}
        return gateway.deploy(folder, "", "--no-code", kind, files=content, variables=variables, python=self.python)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    python, folder = interpreter_with(ENGINES), tmp_path_factory.mktemp("models")
    words = [python, "-c", MAKE, str(folder), json.dumps(ROWS)]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    yield Models(python, folder, json.loads(made.stdout.splitlines()[-1]))


def test_onnx_takes_the_bodies_of_azures_examples(models: Models, gateway: RunningGateway, tmp_path: Path) -> None:
    service = models.serve(gateway, tmp_path, "onnx")
    raw = base64.b64encode(struct.pack("<6f", *ROWS[0], *ROWS[1])).decode()
    body = {"inputs": {"features": {"dims": ["2", "3"], "dataType": 1, "rawData": raw}}, "outputFilter": ["scores"]}

    answer = service.post(json.dumps(body))

    assert answer.status == 200, service.log()
    found = answer.json["outputs"]["scores"]
    assert found["dims"] == ["2", "2"] and found["dataType"] in (1, "FLOAT")
    values = struct.unpack("<4f", base64.b64decode(found["rawData"]))
    assert [values[:2], values[2:]] == [pytest.approx(row, rel=1e-5) for row in models.answers["onnx"]]
    flat = [value for row in ROWS for value in row]
    plain = {"inputs": [{"name": "features", "shape": [2, 3], "datatype": "FP32", "data": flat}]}
    name = service.config.name
    again = service.post(json.dumps(plain), inner=f"/v2/models/{name}/infer")
    assert again.json["outputs"][0]["data"] == pytest.approx(
        [v for row in models.answers["onnx"] for v in row], rel=1e-5
    )
    wrong = service.post(json.dumps({"inputs": {"other": body["inputs"]["features"]}}))  # type: ignore[index]
    assert wrong.status == 400 and "features" in wrong.json["message"]


def test_tensorflow_takes_instances_and_bytes(models: Models, gateway: RunningGateway, tmp_path: Path) -> None:
    service = models.serve(gateway, tmp_path, "tensorflow")
    name = service.config.name

    answer = service.post(json.dumps({"instances": ROWS}), inner=f"/v1/models/{name}:predict")

    assert answer.status == 200, service.log()
    expected = [pytest.approx(row, rel=1e-5) for row in models.answers["tensorflow"]]
    found = answer.json["predictions"]
    assert [one["scores"] if isinstance(one, dict) else one for one in found] == expected
    picture = {"signature_name": "sizes", "instances": [{"b64": base64.b64encode(b"12345").decode()}]}
    sizes = service.post(json.dumps(picture)).json["predictions"]
    assert [one["sizes"] if isinstance(one, dict) else one for one in sizes] == [5]
    assert service.post(json.dumps({"instances": []})).status == 400


def test_scikit_learn_predicts_and_gives_probabilities(models: Models, gateway: RunningGateway, tmp_path: Path) -> None:
    service = models.serve(gateway, tmp_path, "sklearn")

    predicted = service.post(json.dumps({"data": ROWS}))
    shares = service.post(json.dumps({"data": ROWS, "method": "predict_proba"}))

    assert predicted.json == models.answers["predict"], service.log()
    assert shares.json == [pytest.approx(row, rel=1e-6) for row in models.answers["predict_proba"]]


def test_mlflow_takes_what_its_own_server_takes(models: Models, gateway: RunningGateway, tmp_path: Path) -> None:
    service = models.serve(gateway, tmp_path, "mlflow")
    expected = pytest.approx(models.answers["mlflow"], rel=1e-6)
    split = {"columns": ["a", "b", "c"], "data": ROWS}

    for body in ({"inputs": ROWS}, {"instances": ROWS}):
        assert service.post(json.dumps(body), inner="/invocations").json["predictions"] == expected, service.log()
    assert service.post(json.dumps({"dataframe_split": split})).status == 200


def test_rows_of_several_clients_are_joined(models: Models, gateway: RunningGateway, tmp_path: Path) -> None:
    service = models.serve(gateway, tmp_path, "sklearn")
    bodies = [json.dumps({"data": [[float(number), 0.0, 1.0]], "method": "decision_function"}) for number in range(200)]
    alone = [service.post(body).json for body in bodies]

    with ThreadPoolExecutor(32) as pool:
        together = list(pool.map(lambda body: service.post(body).json, bodies))

    assert together == [pytest.approx(one, rel=1e-9) for one in alone]


def test_decorated_parameters_are_decoded(models: Models, gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, DECORATED, python=models.python)
    whole = {"data": ROWS, "frame": [{"a": 7, "b": "y"}], "options": {"scale": 2.0, "names": ["z"]}}

    answer = service.post(json.dumps(whole), content_type="application/json")

    assert answer.status == 200, service.log()
    kinds, sums, column, options = answer.json
    assert kinds == ["ndarray", "DataFrame", "dict"]
    assert sums == pytest.approx([sum(row) for row in ROWS]) and column == [7] and options == whole["options"]
    broken: list[tuple[str, dict[str, Any]]] = [
        ("data", {key: value for key, value in whole.items() if key != "data"}),
        ("data", {**whole, "data": [[1.0]]}),
        ("frame", {**whole, "frame": [{"a": "text", "b": "y"}]}),
        ("frame", {**whole, "frame": 3}),
        ("options", {**whole, "options": ["no dictionary"]}),
    ]
    for name, body in broken:
        refused = service.post(json.dumps(body), content_type="application/json")
        assert refused.status == 400 and f"{name!r}" in refused.json["message"], (body, refused)
    assert service.post("[1, 2]", content_type="application/json").status == 400
    assert service.post(json.dumps(whole), content_type="text/plain").status == 415
    assert service.get("/swagger.json").json["definitions"]["ServiceInput"]["properties"].keys() >= {"data", "frame"}


@pytest.mark.parametrize("script", [DECORATED, "def init(): pass\ndef run(d): return d"], ids=["decorated", "plain"])
def test_documents_of_services_are_openapi(
    models: Models, gateway: RunningGateway, tmp_path: Path, script: str
) -> None:
    service = gateway.deploy(tmp_path, script, python=models.python)
    documents = [service.get(f"/swagger.json?version={version}").body for version in ("2", "3", "3.1")]
    broken = {**json.loads(documents[0]), "paths": 3}
    code = "import json, sys\nfrom openapi_spec_validator import validate\nvalidate(json.load(sys.stdin))"

    for document, is_valid in [*((one, True) for one in documents), (json.dumps(broken).encode(), False)]:
        judged = subprocess.run([models.python, "-c", code], input=document, capture_output=True, check=False)
        assert (judged.returncode == 0) is is_valid, judged.stderr.decode()


@pytest.mark.parametrize(("returns", "is_on"), [("data.sum(axis=1)", True), ("data - data.mean(axis=0)", False)])
def test_batching_is_found_out(
    models: Models, gateway: RunningGateway, tmp_path: Path, returns: str, is_on: bool
) -> None:
    """A script that mixes the rows of a call stays as it is, and the log says so."""
    script = SUMS.replace("{returns}", returns)
    service = gateway.deploy(tmp_path, script, "--batching", "auto", python=models.python)

    def ask(number: int) -> Any:
        answer = service.post(json.dumps({"data": [[float(number), 1.0, 2.0]]}), content_type="application/json")
        assert answer.status == 200, service.log()
        return answer.json

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(ask, range(300)))

    assert answers == [[number + 3.0] if is_on else [[0.0, 0.0, 0.0]] for number in range(300)]
    said = "batching=auto is on" if is_on else "batching=auto stays off: rows give other answers together than alone"
    wait_for(lambda: said in service.log(), what=service.log)
