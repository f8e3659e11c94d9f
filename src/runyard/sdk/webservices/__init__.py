"""Web services as objects: `Webservice` and its kinds, their configurations, states, keys, logs and requests.

May enter: `azureml.core.webservice`, `azureml.core.model`, `azureml.core.image`, the shell. Loads: when a script
deploys or calls a service.
"""
