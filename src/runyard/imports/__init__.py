"""Ways in and out: an existing history of another tracker becomes runs of ours, and runs of ours become theirs.

One reader per source (`mlflow_files`, `mlflow_sql`, `mlflow_rest`, `tensorboard`, `wandb`, `azureml`) yields the plain
records of `records.py`; readers touch no network but their own source and import neither the client nor the server.
`writer.py` sends what a reader yields to the server. Entered by the command line, and readers by the supervisor.
"""
