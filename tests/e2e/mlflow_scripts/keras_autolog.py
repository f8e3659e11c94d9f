"""Keras with autologging."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

import mlflow

mlflow.keras.autolog()
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
model.fit(x, x.sum(1), epochs=4, batch_size=16, validation_split=0.25, verbose=0)
