"""The way out: runs of a workspace are written as another tracker has them.

`history` chooses and reads the runs and gives them to a target: `mlflow_folder` or `mlflow_server`. Nothing of MLflow's
is imported.
"""
