"""Train twice with other settings, compare, and load the better model."""

import joblib

import runyard

runs = [runyard.run("train.py", alpha=alpha, experiment="digits", name=f"alpha {alpha}") for alpha in (0.001, 1.0)]
for run in runyard.wait(runs):
    print(run.name, "accuracy", round(run.metrics["accuracy"], 2))

best = max(runs, key=lambda run: run.metrics["accuracy"])
[path] = best.download("outputs/model.joblib", to="best")
print("best:", best.name, "with", len(joblib.load(path).classes_), "classes")
