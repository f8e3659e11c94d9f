"""MLflow's plug-in for the scheme `azureml`: a run's logging goes to its journal, everything else to the server.

May enter: MLflow's client, by the entry points in pyproject.toml and in the injected folder; `azureml.mlflow`.
Loads: when MLflow's client meets an `azureml://` address. Uses MLflow and the standard library.
"""
