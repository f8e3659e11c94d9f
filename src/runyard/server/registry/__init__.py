"""MLflow's model registry and logged models over our models. `records.py` loads both and writes them as MLflow's JSON.

May enter: `mlflow`, whose table of endpoints these modules fill. Loads: with the server.
"""
