"""A search over parameters of scikit-learn with autologging, which makes a nested run for each candidate."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import mlflow

mlflow.sklearn.autolog()
x = np.random.default_rng(0).normal(size=(60, 3))
search = GridSearchCV(LogisticRegression(random_state=0), {"C": [0.1, 1.0, 10.0]}, cv=3)
search.fit(x, (x.sum(1) > 0).astype(int))
print("score", search.score(x, (x.sum(1) > 0).astype(int)))
