"""LightGBM with autologging, which trains on while the server is away; the argument is a folder to meet the test in."""

import json
import sys
import time
from pathlib import Path

import lightgbm
import numpy as np

import mlflow

mlflow.lightgbm.autolog(log_models=False)
meeting, values = Path(sys.argv[1]), []


def step(env: lightgbm.callback.CallbackEnv) -> None:
    values.append(env.evaluation_result_list[0][2])
    if len(values) == 20:
        (meeting / "trains").touch()
        while not (meeting / "away").exists():
            time.sleep(0.01)


x = np.random.default_rng(0).normal(size=(200, 3))
rows = lightgbm.Dataset(x, label=(x.sum(1) > 0).astype(int), free_raw_data=False)
settings = {"objective": "binary", "num_threads": 1, "verbose": -1}
lightgbm.train(settings, rows, num_boost_round=120, valid_sets=[rows], valid_names=["train"], callbacks=[step])
(meeting / "values.json").write_text(json.dumps(values))
(meeting / "trained").touch()
