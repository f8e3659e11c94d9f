"""The way in: an existing history of another tracker is read as plain runs, and written into a workspace.

One reader per source (`mlflow_files`, `mlflow_sql`, `mlflow_server`) yields the records of `records.py`. Readers touch
no network but their own source, and import neither the client nor the server. `writer` sends what they yield.
"""
