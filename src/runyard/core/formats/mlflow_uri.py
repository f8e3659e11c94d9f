"""The `azureml://` address of a workspace for MLflow, in Azure's form. Our plug-in reads it (`runyard.mlflow`)."""

from __future__ import annotations

NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
NO_RESOURCE_GROUP = "runyard"


def workspace_scope(workspace: str, subscription_id: str, resource_group: str) -> str:
    """Return the path by which Azure names a workspace."""
    return (
        f"/subscriptions/{subscription_id or NO_SUBSCRIPTION}/resourceGroups/{resource_group or NO_RESOURCE_GROUP}"
        f"/providers/Microsoft.MachineLearningServices/workspaces/{workspace}"
    )


def tracking_uri(host: str, scope: str, *, version: str = "v2.0") -> str:
    """Return the address: `host` with its port, `scope` of `workspace_scope`; "v1.0" is for MLflow 1."""
    return f"azureml://{host}/mlflow/{version}{scope}?"
