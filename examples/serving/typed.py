"""The same service as a class: requests are checked, described in OpenAPI, and answered in batches."""

import os
from typing import List

import joblib

from runyard import serving

NAMES = ("setosa", "versicolor", "virginica")


class Iris(serving.Scorer):
    def setup(self) -> None:
        self.model = joblib.load(os.path.join(self.model_folder, "iris.joblib"))

    @serving.batched(max_batch=64)
    def predict(self, flowers: List[List[float]]) -> List[str]:
        """One item for each request; the model is called once for all of them."""
        return [NAMES[kind] for kind in self.model.predict(flowers)]
