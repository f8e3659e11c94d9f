"""A study of Optuna with its callback for MLflow: a run for each trial."""

import optuna
from optuna_integration.mlflow import MLflowCallback

study = optuna.create_study(study_name="a study", sampler=optuna.samplers.TPESampler(seed=4))
to_mlflow = MLflowCallback(metric_name="loss", mlflow_kwargs={"nested": True})


@to_mlflow.track_in_mlflow()
def objective(trial: optuna.Trial) -> float:
    import mlflow

    x = trial.suggest_float("x", -3, 3)
    mlflow.log_metric("square", x * x, step=trial.number)
    return x * x + trial.suggest_categorical("offset", [0, 1])


study.optimize(objective, n_trials=4, callbacks=[to_mlflow])
