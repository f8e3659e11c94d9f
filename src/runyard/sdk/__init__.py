"""What users type: workspaces, experiments, runs, configurations. `runyard` and `azureml.core` give its names."""
