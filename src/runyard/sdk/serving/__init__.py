"""What a service serves: models, entry scripts, environments, images, packages; and how a replica starts.

May enter: `azureml.core.webservice`, `azureml.core.image`, `azureml.core.model`, the shell. Loads: when a script
deploys.
"""
