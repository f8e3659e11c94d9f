"""A model that is logged, registered and loaded again in the same script."""

import numpy as np
from sklearn.linear_model import LinearRegression

import mlflow

x = np.random.default_rng(0).normal(size=(20, 2))
model = LinearRegression().fit(x, x.sum(1))
with mlflow.start_run():
    mlflow.log_metric("score", float(model.score(x, x.sum(1))))
    mlflow.sklearn.log_model(model, name="model", registered_model_name="line", input_example=x[:2])
    mlflow.MlflowClient().set_registered_model_alias("line", "best", "1")
    for address in ("models:/line/1", "models:/line@best"):
        loaded = mlflow.pyfunc.load_model(address)
        mlflow.log_metric("difference", float(np.abs(loaded.predict(x) - model.predict(x)).max()))
