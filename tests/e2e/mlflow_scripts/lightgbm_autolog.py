"""LightGBM with autologging."""

import lightgbm
import numpy as np

import mlflow

mlflow.lightgbm.autolog()
x = np.random.default_rng(0).normal(size=(80, 3))
rows = lightgbm.Dataset(x, label=(x.sum(1) > 0).astype(int), feature_name=["a", "b", "c"], free_raw_data=False)
settings = {"objective": "binary", "num_leaves": 4, "seed": 1, "num_threads": 1, "deterministic": True, "verbose": -1}
lightgbm.train(settings, rows, num_boost_round=6, valid_sets=[rows], valid_names=["train"])
