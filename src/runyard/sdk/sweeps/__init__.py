"""`HyperDriveConfig`, samplings, policies and `HyperDriveRun`.

May enter: submit, cli, azureml.
Loads: with the first sweep.
"""
