"""What users type: workspaces, experiments, runs, configurations. `runyard` and `azureml.core` give out its names.

May enter: cli, azureml.
Loads: in user processes, each module when its first name is used.
"""

from runyard import PackageFolders

__path__ = PackageFolders(__path__, __name__)  # some rooms are in a wheel's archive
