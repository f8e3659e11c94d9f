"""Train a classifier of iris flowers and register it: `runyard submit train.py -- --depth 2`."""

import argparse
import os

import joblib
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--depth", type=int, default=2, help="how deep the tree may be")
depth = parser.parse_args().depth

run = Run.get_context()
x, y = load_iris(return_X_y=True)
model = DecisionTreeClassifier(max_depth=depth, random_state=0)
run.log("accuracy", cross_val_score(model, x, y).mean())

os.makedirs("outputs", exist_ok=True)
joblib.dump(model.fit(x, y), "outputs/iris.joblib")
registered = run.register_model("iris", "outputs/iris.joblib", tags={"depth": depth})
print(f"registered {registered.id}")
