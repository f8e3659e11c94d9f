"""MLflow's REST API over our records, below `/mlflow/<workspace>`. `app.py` is the door, `endpoints.py` its table.

May enter: `app`. Loads: with the server. Each resource's module adds its endpoints to the table with a decorator.
"""
