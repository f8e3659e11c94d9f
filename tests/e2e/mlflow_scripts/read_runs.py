"""Print what MLflow's client reads of runs as JSON: `read_runs.py FOLDER RUN URI`.

First the run and those below it in our workspace, then all runs at the address. Facts of a machine, of a moment or of
an id are left out.
"""

import hashlib
import io
import json
import re
import sys
import zipfile
from pathlib import Path

import yaml
from mlflow.entities import Run

import mlflow
from azureml.core import Workspace

OF_A_MOMENT = {"run_id", "model_uuid", "model_id", "utc_time_created", "artifact_path", "model_size_bytes"}
ADDRESS = re.compile(rb"\d{12,}")  # in memory
LOGS = {"user_logs", "system_logs", "azureml-logs"}
PARENT = "mlflow.parentRunId"


def main(folder: Path, root: str, uri: str) -> None:
    ours = read_all(Workspace.from_config().get_mlflow_tracking_uri(), folder / "ours", root)
    plain = read_all(uri, folder / "plain")
    print("READ " + json.dumps([ours, plain]))


def read_all(uri: str, folder: Path, root: str = "") -> list:
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    client = mlflow.MlflowClient()
    if root:
        experiments = [client.get_run(root).info.experiment_id]
    else:
        experiments = [found.experiment_id for found in client.search_experiments()]
    runs = client.search_runs(experiments, max_results=1000)
    return [
        read_run(client, run, folder / run.info.run_id)
        for run in runs
        if not root or root in (run.info.run_id, run.data.tags.get(PARENT))
    ]


def read_run(client: mlflow.MlflowClient, run: Run, folder: Path) -> dict:
    run_id, models = run.info.run_id, {}
    for output in run.outputs.model_outputs:
        model = client.get_logged_model(output.model_id)
        files = read_files(f"models:/{model.model_id}", folder / model.model_id)
        # A file store takes no type as None, a server as an empty text.
        models[model.name] = {
            "status": str(model.status),
            "type": model.model_type or "",
            "params": model.params,
            "step": output.step,
            "files": files,
        }
    has_files = client.list_artifacts(run_id)  # MLflow takes a folder without files for a file
    files = read_files(run.info.artifact_uri, folder / "files") if has_files else {}
    return {
        "id": run_id,
        "parent": run.data.tags.get(PARENT),
        "status": run.info.status,
        "params": run.data.params,
        "metrics": {
            # A server keeps a point once that was logged twice in a millisecond, a file store twice.
            name: sorted({(point.step, str(point.value)) for point in client.get_metric_history(run_id, name)})
            for name in run.data.metrics
        },
        "last": {name: str(value) for name, value in run.data.metrics.items()},
        "tags": {key: value for key, value in run.data.tags.items() if not key.startswith("mlflow.")},
        "datasets": sorted(f"{one.dataset.name} {one.dataset.digest}" for one in run.inputs.dataset_inputs),
        "models": models,
        # Here a run's models are files of the run, too.
        "files": {name: found for name, found in files.items() if name.partition("/")[0] not in LOGS | set(models)},
    }


def read_files(uri: str, folder: Path) -> dict:
    folder.mkdir(parents=True)
    place = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(folder)))
    return {str(path.relative_to(place)): content(path) for path in place.rglob("*") if path.is_file()}


def content(path: Path) -> object:
    """Return what must be equal of a file."""
    if path.name == "MLmodel":
        return {key: value for key, value in yaml.safe_load(path.read_text()).items() if key not in OF_A_MOMENT}
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as packed:
            config = ADDRESS.sub(b"", packed.read("config.json"))
            return {"config": digest(config), "weights": digest(packed.read("model.weights.h5"))}
    if path.suffix == ".skops":  # it names its parts by their addresses in memory
        with zipfile.ZipFile(path) as packed:
            schema = ADDRESS.sub(b"", packed.read("schema.json")).decode()
            return [schema, *sorted(digest(packed.read(name)) for name in packed.namelist() if name.endswith(".npy"))]
    if path.suffix == ".ckpt":  # it names the folder in which it was written
        import torch

        weights = torch.load(io.BytesIO(path.read_bytes()), weights_only=False)["state_dict"]
        return {name: value.tolist() for name, value in weights.items()}
    return digest(path.read_bytes())


def digest(data: bytes) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
