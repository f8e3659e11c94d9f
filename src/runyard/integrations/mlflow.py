"""MLflow's entry points. MLflow loads them with itself; the plug-in loads with the first `azureml://` address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runyard.mlflow.artifacts import AzuremlArtifactRepository
    from runyard.mlflow.projects import AzuremlBackend
    from runyard.mlflow.stores import AzuremlStore, RegistryStore


def tracking_store(*arguments: Any, **options: Any) -> AzuremlStore:
    from runyard.mlflow import stores

    return stores.tracking_store(*arguments, **options)


def registry_store(*arguments: Any, **options: Any) -> RegistryStore:
    from runyard.mlflow import stores

    return stores.registry_store(*arguments, **options)


def artifact_repository(*arguments: Any, **options: Any) -> AzuremlArtifactRepository:
    from runyard.mlflow.artifacts import AzuremlArtifactRepository

    return AzuremlArtifactRepository(*arguments, **options)


def project_backend() -> AzuremlBackend:
    from runyard.mlflow.projects import AzuremlBackend

    return AzuremlBackend()
