"""Answer with the names of flowers: `{"data": [[5.1, 3.5, 1.4, 0.2]]}` gives `["setosa"]`."""

import json
import os

import joblib

NAMES = ("setosa", "versicolor", "virginica")


def init():
    global model
    model = joblib.load(os.path.join(os.environ["AZUREML_MODEL_DIR"], "iris.joblib"))
    print(f"loaded a tree of depth {model.get_depth()}")


def run(data):
    rows = json.loads(data)["data"]
    return [NAMES[kind] for kind in model.predict(rows)]
