"""What users type: workspaces, experiments, runs, configurations. `runyard` and `azureml.core` give out its names.

May enter: cli, azureml.
Loads: in user processes, each module when its first name is used.
"""
