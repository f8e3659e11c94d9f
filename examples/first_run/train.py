"""Fit a ridge regression on the diabetes data set that scikit-learn brings along."""

import argparse
import os

import joblib
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import train_test_split

from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=0.5, help="strength of the regularisation")
alpha = parser.parse_args().alpha

run = Run.get_context()
x, y = load_diabetes(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)
print(f"{len(x_train)} patients to learn from, {len(x_test)} to test on")

# A path of models from strong to weak regularisation, so that there is a curve to look at.
for step in range(20, -1, -1):
    strength = alpha * 1.5**step
    model = Ridge(alpha=strength).fit(x_train, y_train)
    error = mean_squared_error(y_test, model.predict(x_test))
    run.log("mse", error)
    if step % 5 == 0:
        print(f"alpha {strength:9.2f}  mse {error:8.1f}", flush=True)

run.log("alpha", alpha)
run.log("r2", r2_score(y_test, model.predict(x_test)))

os.makedirs("outputs", exist_ok=True)
joblib.dump(model, "outputs/model.pkl")
print("wrote outputs/model.pkl")
