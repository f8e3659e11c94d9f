"""What `azureml.mlflow` gives out: links and models of runs, whether MLflow's client or the SDK returned them."""

from __future__ import annotations

from typing import Any, Dict, Optional

from runyard.mlflow.address import SCHEME, split_uri
from runyard.mlflow.servers import client_of_run, find_client, find_own_job
from runyard.runtime.context import find_context
from runyard.sdk.models.model import Model
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace


def get_portal_url(run: Any) -> str:
    """Return the address of the page of a run of either kind."""
    return sdk_run(run).get_portal_url()


def register_model(run: Any, name: str, path: str, tags: Optional[Dict[str, str]] = None, **kwargs: Any) -> Model:
    """Register files of a run of either kind as a model.

    Args:
        path: of the model among the run's files, such as `outputs/model.pkl`.
        kwargs: of `Run.register_model`.
    """
    return sdk_run(run).register_model(model_name=name, model_path=path, tags=tags, **kwargs)


def get_mlflow_tracking_uri(workspace: Workspace) -> str:
    """Return the address of the workspace for MLflow, as `workspace.get_mlflow_tracking_uri()`."""
    return workspace.get_mlflow_tracking_uri()


def get_mlflow_tracking_uri_v2(workspace: Any, v2_service_context_arg: Any = None) -> str:
    """Return the address of a workspace of Azure's SDK v2, or of ours.

    Args:
        v2_service_context_arg: accepted; the address alone names the workspace here.
    """
    if isinstance(workspace, Workspace):
        return workspace.get_mlflow_tracking_uri()
    return str(workspace.ml_flow_tracking_uri).replace("/mlflow/v1.0", "/mlflow/v2.0")


def sdk_run(run: Any) -> Run:
    """Return the SDK's run of a run that MLflow's client returned; one of the SDK's is itself."""
    if isinstance(run, Run):
        return run
    address = str(run.info.artifact_uri or "")
    if not address.startswith(f"{SCHEME}:"):
        import mlflow  # only with runs that MLflow returned

        address = mlflow.get_tracking_uri()
    workspace = workspace_at(address) if address.startswith(f"{SCHEME}:") else Workspace.from_config()
    return workspace.get_run(run.info.run_id)


def workspace_at(uri: str) -> Workspace:
    """Return the workspace that an `azureml://` address names, on the server that it names."""
    host, name = split_uri(uri)
    job = find_own_job(find_context(), host, name)
    if job is not None:
        return Workspace._inside_run(client_of_run(job), name)
    return Workspace(workspace_name=name, _client=find_client(host))
