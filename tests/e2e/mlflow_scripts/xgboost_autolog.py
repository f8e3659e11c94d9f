"""XGBoost with autologging."""

import numpy as np
import xgboost

import mlflow

mlflow.xgboost.autolog()
x = np.random.default_rng(0).normal(size=(80, 3))
rows = xgboost.DMatrix(x, label=(x.sum(1) > 0).astype(int), feature_names=["a", "b", "c"])
settings = {"objective": "binary:logistic", "max_depth": 2, "eta": 0.3, "seed": 1, "nthread": 1}
xgboost.train(settings, rows, num_boost_round=6, evals=[(rows, "train")], verbose_eval=False)
