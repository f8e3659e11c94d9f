"""How each call of the façade is made with its required arguments alone: the baseline that a parameter is compared to.

`CALLS[name](world)` returns what is called, the required arguments, and optionally what to look at afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import azureml.opendatasets as opendatasets
from azureml._restclient import user_agent
from azureml.core import (
    Dataset,
    Datastore,
    Environment,
    Experiment,
    Model,
    Run,
    RunConfiguration,
    ScriptRun,
    ScriptRunConfig,
    Workspace,
    authentication,
)
from azureml.core.compute import AmlCompute, BatchAiCompute, ComputeInstance, ComputeTarget, DsvmCompute, RemoteCompute
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.environment import DockerBuildContext
from azureml.core.resource_configuration import ResourceConfiguration
from azureml.core.run import get_run
from azureml.core.runconfig import (
    DataReferenceConfiguration,
    DockerConfiguration,
    MpiConfiguration,
    PyTorchConfiguration,
    TensorflowConfiguration,
)
from azureml.data import DataType, OutputFileDatasetConfig
from azureml.data.data_reference import DataReference
from azureml.data.datapath import DataPath, DataPathComputeBinding
from azureml.data.dataset_consumption_config import DatasetConsumptionConfig
from azureml.data.output_dataset_config import OutputDatasetConfig
from azureml.exceptions import AzureMLException, WebserviceException
from azureml.telemetry import set_diagnostics_collection
from azureml.tensorboard import Tensorboard
from azureml.tensorboard.export import export_to_tensorboard
from azureml.train import dnn, estimator, hyperdrive
from azureml.train.sklearn import SKLearn
from azureml.widgets import RunDetails
from runyard.sdk.data.datastore import AbstractAzureStorageDatastore, AzureBlobDatastore
from runyard.sdk.submit.submission import plan_submission
from tests.sdk.parameters.world import World

Made = tuple[Callable[..., Any], dict[str, Any]] | tuple[Callable[..., Any], dict[str, Any], Callable[[Any], Any]]
PLACE = ("fuzz/*.csv", "fuzz/a.csv", "fuzz/a.json")


def _place(w: World, path: str = "fuzz/a.csv") -> Any:
    return w.datastore, path


def _frame(made: Any) -> Any:
    return made.to_pandas_dataframe()


def _details(made: Any) -> Any:
    details = {**made.get_details(), "name": made.name}
    return {
        name: details.get(name)
        for name in ("name", "properties", "tags", "displayName", "description", "error", "status")
    }


def _logged(method: str, **arguments: Any) -> Callable[[World], Made]:
    def make(w: World) -> Made:
        name = w.name()
        return getattr(w.live, method), {"name": name, **arguments}, lambda _: w.live.get_metrics(name)

    return make


def _estimator(cls: Any) -> Callable[[World], Made]:
    return lambda w: (
        cls,
        {"compute_target": "local", "source_directory": str(w.project), "entry_script": "train.py"},
        lambda made: [made.run_config.to_plain(), _planned(made)],
    )


def _config(w: World) -> dict[str, Any]:
    return {"hyperparameter_sampling": w.sampling, "primary_metric_name": "loss", "primary_metric_goal": "MINIMIZE"}


def _time(method: str, **times: Any) -> Callable[[World], Made]:
    return lambda w: (getattr(w.table.with_timestamp_columns("day"), method), times, _frame)


DAY = datetime(2020, 2, 1)
ACCURACY: dict[str, Any] = {
    "schema_type": "accuracy_table",
    "schema_version": "v1",
    "data": {
        "probability_tables": [[[1, 0, 1, 0]]],
        "percentile_tables": [[[1, 0, 1, 0]]],
        "class_labels": ["a"],
        "probability_thresholds": [0.5],
        "percentile_thresholds": [0.5],
    },
}
MATRIX = {"schema_type": "confusion_matrix", "schema_version": "v1", "data": {"class_labels": ["a"], "matrix": [[1]]}}
RESIDUALS = {"schema_type": "residuals", "schema_version": "v1",
             "data": {"bin_edges": [0, 1], "bin_counts": [1], "mean_absolute_error": 1}}  # fmt: skip
PREDICTIONS = {"schema_type": "predictions", "schema_version": "v1",
               "data": {"bin_averages": [1], "bin_errors": [0], "bin_counts": [1], "bin_edges": [0, 1]}}  # fmt: skip
BLOB = {"container_name": "c", "account_name": "a", "skip_validation": True}


def _planned(config: Any) -> Any:
    """What a submit would do with it, which finds mistakes."""
    plan = plan_submission(config)
    return plan.source_directory, plan.spec


def _distributed(w: World, config: Any) -> Any:
    return _planned(w.script_run_config(distributed_job_config=config))


def _trained(w: World, training: Any) -> Any:
    made = dnn.TensorFlow(
        str(w.project), entry_script="train.py", compute_target="local", distributed_training=training
    )
    return _planned(made)


def _conda(method: str) -> Made:
    made = CondaDependencies()
    return getattr(made, method), {}, lambda _: made.serialize_to_string()


def _saved(w: World, function: Callable[..., Any], folder: str) -> Made:
    place = w.empty()
    return function, {folder: str(place)}, lambda _: {p.name: p.read_text() for p in place.rglob("*") if p.is_file()}


def _exported(w: World) -> Made:
    place = w.empty()
    return (
        lambda **more: export_to_tensorboard(w.run, str(place), **more),
        {},
        lambda _: sorted(path.name for path in place.iterdir()),
    )


def _loaded(w: World) -> Made:
    place = w.empty()
    RunConfiguration(script="a.py").save(str(place), "one")
    RunConfiguration(script="b.py").save(str(place), "two")
    return RunConfiguration.load, {"path": str(place), "name": "one"}, lambda made: made.to_plain()


def _downloaded(w: World, function: Callable[..., Any], folder: str, **arguments: Any) -> Made:
    place = w.empty()
    return (
        function,
        {**arguments, folder: str(place)},
        lambda _: sorted(str(p.relative_to(place)) for p in place.rglob("*")),
    )


def _canceled(run: Run) -> Run:
    run.cancel()
    return run


def _archived(w: World) -> Experiment:
    made = Experiment(w.workspace, w.name())
    made.start_logging(snapshot_directory=None).complete()
    made.archive()
    return made


def _after(subject: Any, method: str) -> Made:
    return getattr(subject, method), {}, lambda _: subject


def _on_run(w: World, method: str, name: str, **arguments: Any) -> Made:
    """A call on the run that goes on, about a tag or file of its own."""
    fresh = w.name()
    run = w.live
    return getattr(run, method), {name: fresh, **arguments}, lambda _: [
        [file for file in run.get_file_names() if fresh in file], run.get_tags().get(fresh)]  # fmt: skip


def _ended(w: World, method: str) -> Made:
    run = w.live.child_run()
    return getattr(run, method), {}, lambda _: _details(run)


def _image(w: World) -> Made:
    (w.folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    name = w.name()
    return w.live.log_image, {"name": name, "path": str(w.folder / "a.png")}, lambda _: w.live.get_metrics(name)


def _about(workspace: Workspace) -> Any:
    details = workspace.get_details()
    own = [workspace.subscription_id, workspace.resource_group, workspace.sku, workspace.tags]
    return own, {name: details.get(name) for name in details if name not in ("id", "creationTime")}


def _updated(w: World) -> Made:
    made = Workspace.create(w.name())
    return made.update, {}, lambda _: _about(Workspace.get(made.name))


def _written(w: World) -> Made:
    place = w.empty()
    return (
        w.workspace.write_config,
        {"path": str(place)},
        lambda _: sorted(str(p.relative_to(place)) for p in place.rglob("*")),
    )


def _odd(w: World) -> Any:
    types = {"size": DataType.to_long(), "day": DataType.to_datetime()}
    return Dataset.Tabular.from_delimited_files((w.datastore, "fuzz/odd.csv"), set_column_types=types)


CALLS: dict[str, Callable[[World], Made]] = {
    "append": lambda w: (user_agent.append, {"key": "library"}),
    "set_diagnostics_collection": lambda w: (set_diagnostics_collection, {}),
    "get_run": lambda w: (get_run, {"experiment": w.experiment, "run_id": w.run.id}),
    "Tensorboard.__init__": lambda w: (Tensorboard, {"runs": [w.run]}),
    "export_to_tensorboard": _exported,
    "ComputeTarget.wait_for_completion": lambda w: (
        lambda **k: ComputeTarget.wait_for_completion(w.pool, **k),
        {"show_output": True},
    ),
    "ComputeTarget.get_active_runs": lambda w: (w.waiting.get_active_runs, {}, list),
    "CondaDependencies.__init__": lambda w: (CondaDependencies, {}),
    "CondaDependencies.create": lambda w: (CondaDependencies.create, {}, lambda made: made.serialize_to_string()),
    "CondaDependencies.add_tensorflow_pip_package": lambda w: _conda("add_tensorflow_pip_package"),
    "CondaDependencies.add_tensorflow_conda_package": lambda w: _conda("add_tensorflow_conda_package"),
    "CondaDependencies.add_cntk_package": lambda w: _conda("add_cntk_package"),
    "CondaDependencies.save_to_file": lambda w: _saved(w, CondaDependencies().save_to_file, "base_directory"),
    "Dataset.__init__": lambda w: (Dataset, {"definition": "steps"}),
    "Dataset.get_by_name": lambda w: (Dataset.get_by_name, {"workspace": w.workspace, "name": w.registered().name}),
    "Dataset.get": lambda w: (Dataset.get, {"workspace": w.workspace, "name": w.registered().name}),
    "Dataset.auto_read_files": lambda w: (Dataset.auto_read_files, {"path": _place(w)}, _frame),
    "Dataset.from_delimited_files": lambda w: (Dataset.from_delimited_files, {"path": _place(w)}, _frame),
    "Dataset.from_parquet_files": lambda w: (Dataset.from_parquet_files, {"path": w.parquet}, _frame),
    "Dataset.from_json_files": lambda w: (Dataset.from_json_files, {"path": _place(w, PLACE[2])}, _frame),
    "Dataset.from_pandas_dataframe": lambda w: (
        Dataset.from_pandas_dataframe,
        {"dataframe": _frame(w.table), "path": _place(w, w.name())},
    ),
    "AbstractAzureStorageDatastore.__init__": lambda w: (
        AbstractAzureStorageDatastore,
        {"workspace": w.workspace, "name": "a", "datastore_type": "b", "container_name": "c", "account_name": "d"},
    ),
    "AzureBlobDatastore.__init__": lambda w: (
        AzureBlobDatastore,
        {"workspace": w.workspace, "name": "a", "container_name": "c", "account_name": "d"},
        lambda made: [made.account_key, made.sas_token, made.endpoint, made.protocol],
    ),
    "Datastore.__init__": lambda w: (Datastore, {"workspace": w.workspace}),
    "Datastore.register_folder": lambda w: (
        Datastore.register_folder,
        {"workspace": w.workspace, "datastore_name": w.name(), "path": str(w.empty())},
    ),
    "Datastore.register_azure_blob_container": lambda w: (
        Datastore.register_azure_blob_container,
        {"workspace": w.workspace, "datastore_name": w.name(), **BLOB},
    ),
    "Datastore.register_s3_bucket": lambda w: (
        Datastore.register_s3_bucket,
        {"workspace": w.workspace, "datastore_name": w.name(), "bucket": "b", "skip_validation": True},
    ),
    "Datastore.register_gcs_bucket": lambda w: (
        Datastore.register_gcs_bucket,
        {"workspace": w.workspace, "datastore_name": w.name(), "bucket": "b", "skip_validation": True},
    ),
    "Datastore.register_azure_data_lake_gen2": lambda w: (
        Datastore.register_azure_data_lake_gen2,
        {"workspace": w.workspace, "datastore_name": w.name(), "filesystem": "f", "account_name": "a"},
    ),
    "Datastore.upload": lambda w: (w.datastore.upload, {"src_dir": str(w.project), "target_path": w.name()}),
    "Datastore.upload_files": lambda w: (
        w.datastore.upload_files,
        {"files": [str(w.project / "train.py")], "target_path": w.name()},
    ),
    "Datastore.download": lambda w: (w.datastore.download, {"target_path": str(w.empty()), "prefix": "fuzz"}),
    "Datastore.path": lambda w: (w.datastore.path, {}),
    "Datastore.as_download": lambda w: (w.datastore.as_download, {}),
    "Datastore.as_upload": lambda w: (w.datastore.as_upload, {}),
    "Environment.from_pip_requirements": lambda w: (
        Environment.from_pip_requirements,
        {"name": "a", "file_path": str(w.folder / "requirements.txt")},
    ),
    "Environment.from_docker_image": lambda w: (Environment.from_docker_image, {"name": "a", "image": "python:3.11"}),
    "Environment.from_dockerfile": lambda w: (
        Environment.from_dockerfile,
        {"name": "a", "dockerfile": "FROM python:3.11"},
    ),
    "Environment.get": lambda w: (Environment.get, {"workspace": w.workspace, "name": "AzureML-Minimal"}),
    "Environment.save_to_directory": lambda w: (w.environment.save_to_directory, {"path": str(w.folder / w.name())}),
    "Experiment.submit": lambda w: (
        lambda **k: _canceled(w.experiment.submit(w.script_run_config(), **k)),
        {},
        lambda run: run.get_tags(),
    ),
    "Experiment.start_logging": lambda w: (
        w.experiment.start_logging,
        {"snapshot_directory": None},
        lambda run: [run.complete(), _details(run), run._record.snapshot_id],
    ),
    "Experiment.get_runs": lambda w: (w.experiment_of_runs.get_runs, {}, list),
    "Experiment.reactivate": lambda w: (lambda **k: _archived(w).reactivate(**k), {}),
    "Experiment.tag": lambda w: (w.experiment.tag, {"key": w.name()}, lambda _: w.experiment.tags),
    "Experiment.list": lambda w: (Experiment.list, {"workspace": w.workspace}, lambda made: [one.name for one in made]),
    "Keyvault.set_secret": lambda w: (w.workspace.get_default_keyvault().set_secret, {"name": w.name(), "value": "v"}),
    "Model.__init__": lambda w: (Model, {"workspace": w.workspace, "name": w.model.name}),
    "Model.register": lambda w: (
        Model.register,
        {"workspace": w.workspace, "model_path": str(w.folder / "a.csv"), "model_name": w.name()},
    ),
    "Model.list": lambda w: (
        Model.list,
        {"workspace": w.model.workspace},
        lambda made: [(m.name, m.version) for m in made],
    ),
    "Model.get_model_path": lambda w: (Model.get_model_path, {"model_name": w.model.name, "_workspace": w.workspace}),
    "Model.download": lambda w: (w.model.download, {"target_dir": str(w.empty())}),
    "Model.update": lambda w: _after(w.fresh_model(), "update"),
    "Model.update_tags_properties": lambda w: _after(w.fresh_model(), "update_tags_properties"),
    "Run.__init__": lambda w: (Run, {"experiment": w.experiment, "run_id": w.run.id}),
    "ScriptRun.__init__": lambda w: (ScriptRun, {"experiment": w.experiment, "run_id": w.run.id}),
    "Run.get_context": lambda w: (Run.get_context, {}),
    "Run.list": lambda w: (Run.list, {"experiment": w.experiment_of_runs}, list),
    "Run.list_by_compute": lambda w: (Run.list_by_compute, {"compute": w.pool_with_runs}, list),
    "Run.wait_for_completion": lambda w: (w.run.wait_for_completion, {}),
    "Run.log": _logged("log", value=1.5),
    "Run.log_list": _logged("log_list", value=[1.5]),
    "Run.log_row": _logged("log_row", a=1.5),
    "Run.log_table": _logged("log_table", value={"a": [1.5]}),
    "Run.log_image": _image,
    "Run.log_confusion_matrix": _logged("log_confusion_matrix", value=MATRIX),
    "Run.log_accuracy_table": _logged("log_accuracy_table", value=ACCURACY),
    "Run.log_residuals": _logged("log_residuals", value=RESIDUALS),
    "Run.log_predictions": _logged("log_predictions", value=PREDICTIONS),
    "Run.get_metrics": lambda w: (w.run.get_metrics, {}),
    "Run.tag": lambda w: _on_run(w, "tag", "key"),
    "Run.upload_file": lambda w: _on_run(w, "upload_file", "name", path_or_stream=str(w.folder / "a.csv")),
    "Run.upload_files": lambda w: (lambda **k: w.live.upload_files([w.name()], [str(w.folder / "a.csv")], **k), {}),
    "Run.upload_folder": lambda w: _on_run(w, "upload_folder", "name", path=str(w.project)),
    "Run.download_file": lambda w: _downloaded(w, w.run.download_file, "output_file_path", name="outputs/a.csv"),
    "Run.download_files": lambda w: _downloaded(w, w.run.download_files, "output_directory"),
    "Run.get_all_logs": lambda w: _downloaded(w, w.run.get_all_logs, "destination"),
    "Run.restore_snapshot": lambda w: (w.run.restore_snapshot, {"path": str(w.empty())}),
    "Run.register_model": lambda w: (w.run.register_model, {"model_name": w.name(), "model_path": "outputs/a.csv"}),
    "Run.child_run": lambda w: (w.live.child_run, {}, _details),
    "Run.create_children": lambda w: (w.live.create_children, {"count": 1}, lambda runs: list(map(_details, runs))),
    "Run.submit_child": lambda w: (
        lambda **k: _canceled(w.live.submit_child(w.script_run_config(), **k)),
        {},
        lambda run: run.get_tags(),
    ),
    "Run.get_children": lambda w: (w.run.get_children, {}, list),
    "Run.fail": lambda w: _ended(w, "fail"),
    "Run.flush": lambda w: _ended(w, "flush"),
    "RunConfiguration.__init__": lambda w: (
        RunConfiguration,
        {"script": "train.py"},
        lambda made: [made.to_plain(), _planned(w.configured(made))],
    ),
    "RunConfiguration.save": lambda w: _saved(w, RunConfiguration().save, "path"),
    "RunConfiguration.load": _loaded,
    "ScriptRunConfig.__init__": lambda w: (
        ScriptRunConfig,
        {"source_directory": str(w.project), "script": "train.py"},
        lambda made: [made.run_config.to_plain(), _planned(made)],
    ),
    "Workspace.__init__": lambda w: (Workspace, {"workspace_name": w.workspace.name}, _about),
    "Workspace.from_config": lambda w: (Workspace.from_config, {}, _about),
    "Workspace.create": lambda w: (Workspace.create, {"name": w.name()}, _about),
    "Workspace.get": lambda w: (Workspace.get, {"name": w.workspace.name}, _about),
    "Workspace.list": lambda w: (Workspace.list, {}, lambda made: {k: [str(o) for o in v] for k, v in made.items()}),
    "Workspace.delete": lambda w: (lambda **k: Workspace.create(w.name()).delete(**k), {}),
    "Workspace.update": _updated,
    "Workspace.write_config": _written,
    "AbstractAuthentication.__init__": lambda w: (authentication.AbstractAuthentication, {}),
    "AbstractAuthentication.signed_session": lambda w: (
        authentication.AbstractAuthentication().signed_session,
        {"session": "mine"},
    ),
    "AzureCliAuthentication.__init__": lambda w: (authentication.AzureCliAuthentication, {}),
    "InteractiveLoginAuthentication.__init__": lambda w: (authentication.InteractiveLoginAuthentication, {}),
    "MsiAuthentication.__init__": lambda w: (authentication.MsiAuthentication, {}),
    "ServicePrincipalAuthentication.__init__": lambda w: (
        authentication.ServicePrincipalAuthentication,
        {"tenant_id": "t", "service_principal_id": "i", "service_principal_password": "p"},
    ),
    "TokenAuthentication.__init__": lambda w: (authentication.TokenAuthentication, {"get_token_for_audience": str}),
    "TokenAuthentication.get_token": lambda w: (authentication.TokenAuthentication(str).get_token, {}),
    "AmlCompute.provisioning_configuration": lambda w: (
        AmlCompute.provisioning_configuration,
        {"max_nodes": 2},
        lambda made: made._spec(),
    ),
    "AmlCompute.wait_for_completion": lambda w: (w.pool.wait_for_completion, {"show_output": True}),
    "AmlCompute.update": lambda w: _after(w.fresh_pool(), "update"),
    "AmlCompute.supported_vmsizes": lambda w: (AmlCompute.supported_vmsizes, {"workspace": w.workspace}),
    "AmlCompute.list_usages": lambda w: (AmlCompute.list_usages, {"workspace": w.workspace}),
    "AmlCompute.list_quotas": lambda w: (AmlCompute.list_quotas, {"workspace": w.workspace}),
    "AmlCompute.add_identity": lambda w: (w.pool.add_identity, {"identity_type": "SystemAssigned"}),
    "AmlCompute.remove_identity": lambda w: (w.pool.remove_identity, {}),
    "BatchAiCompute.provisioning_configuration": lambda w: (
        BatchAiCompute.provisioning_configuration,
        {},
        lambda made: made._spec(),
    ),
    "ComputeInstance.provisioning_configuration": lambda w: (
        ComputeInstance.provisioning_configuration,
        {},
        lambda made: made._spec(),
    ),
    "ComputeInstance.supported_vmsizes": lambda w: (ComputeInstance.supported_vmsizes, {"workspace": w.workspace}),
    "ComputeInstance.delete": lambda w: (w.instance().delete, {}),
    "ComputeInstance.start": lambda w: _after(w.instance(), "start"),
    "ComputeInstance.stop": lambda w: _after(w.instance(), "stop"),
    "ComputeInstance.restart": lambda w: _after(w.instance(), "restart"),
    "DsvmCompute.provisioning_configuration": lambda w: (
        DsvmCompute.provisioning_configuration,
        {},
        lambda made: made._spec(),
    ),
    "RemoteCompute.attach_configuration": lambda w: (
        RemoteCompute.attach_configuration,
        {"address": "127.0.0.1"},
        lambda made: made._spec(),
    ),
    "RemoteCompute.attach": lambda w: (
        RemoteCompute.attach,
        {"workspace": w.workspace, "name": w.name(), "address": "host.invalid"},
    ),
    "AzureMLException.__init__": lambda w: (AzureMLException, {"exception_message": "m"}, vars),
    "WebserviceException.__init__": lambda w: (WebserviceException, {"exception_message": "m"}, vars),
    "DockerBuildContext.__init__": lambda w: (DockerBuildContext, {}),
    "ResourceConfiguration.__init__": lambda w: (ResourceConfiguration, {}),
    "DataReferenceConfiguration.__init__": lambda w: (
        DataReferenceConfiguration,
        {"datastore_name": "d"},
        lambda made: _planned(w.referring(made)),
    ),
    "DockerConfiguration.__init__": lambda w: (
        DockerConfiguration,
        {},
        lambda made: _planned(w.in_image(made)),
    ),
    "MpiConfiguration.__init__": lambda w: (MpiConfiguration, {}, lambda made: _distributed(w, made)),
    "PyTorchConfiguration.__init__": lambda w: (PyTorchConfiguration, {}, lambda made: _distributed(w, made)),
    "TensorflowConfiguration.__init__": lambda w: (TensorflowConfiguration, {}, lambda made: _distributed(w, made)),
    "DataType.to_float": lambda w: (DataType.to_float, {}),
    "DataType.to_stream": lambda w: (DataType.to_stream, {"workspace": w.workspace}),
    "DataType.to_datetime": lambda w: (DataType.to_datetime, {}),
    "AbstractDataset.get_partition_key_values": lambda w: (
        Dataset.File.from_files(
            (w.datastore, "fuzz/a.*"), partition_format="/fuzz/{name}.{kind}"
        ).get_partition_key_values,
        {},
    ),
    "AbstractDataset.take_sample": lambda w: (w.table.take_sample, {"probability": 0.5}, lambda made: made._spec.steps),
    "AbstractDataset.random_split": lambda w: (
        w.table.random_split,
        {"percentage": 0.5},
        lambda made: [one._spec.steps for one in made],
    ),
    "AbstractDataset.register": lambda w: (
        w.table.take(1).register,
        {"workspace": w.workspace, "name": w.name()},
        lambda made: made._asset.document,
    ),
    "AbstractDataset.add_tags": lambda w: _after(w.registered(), "add_tags"),
    "AbstractDataset.remove_tags": lambda w: (
        lambda **k: w.registered().add_tags({"k": "v"}).remove_tags(**k),
        {},
        lambda made: made.tags,
    ),
    "AbstractDataset.update": lambda w: _after(w.registered(), "update"),
    "FileDataset.download": lambda w: (w.files.download, {"target_path": str(w.empty())}),
    "FileDataset.mount": lambda w: (w.files.mount, {}, lambda made: made.mount_point.rpartition("/")[2][:4]),
    "FileDataset.as_mount": lambda w: (w.files.as_mount, {}),
    "FileDataset.as_download": lambda w: (w.files.as_download, {}),
    "OutputDatasetConfig.__init__": lambda w: (OutputDatasetConfig, {"mode": "mount"}),
    "OutputDatasetConfig.register_on_complete": lambda w: (
        OutputFileDatasetConfig("a").register_on_complete,
        {"name": "b"},
        lambda made: made._spec(),
    ),
    "OutputDatasetConfig.as_input": lambda w: (OutputFileDatasetConfig("a").as_input, {}),
    "OutputFileDatasetConfig.__init__": lambda w: (OutputFileDatasetConfig, {}),
    "OutputFileDatasetConfig.as_mount": lambda w: (OutputFileDatasetConfig("a").as_mount, {}),
    "OutputFileDatasetConfig.as_upload": lambda w: (OutputFileDatasetConfig("a").as_upload, {}),
    "OutputFileDatasetConfig.read_delimited_files": lambda w: (OutputFileDatasetConfig("a").read_delimited_files, {}),
    "OutputFileDatasetConfig.read_parquet_files": lambda w: (OutputFileDatasetConfig("a").read_parquet_files, {}),
    "OutputTabularDatasetConfig.random_split": lambda w: (
        OutputFileDatasetConfig("a").read_parquet_files().random_split,
        {"percentage": 0.5},
    ),
    "OutputTabularDatasetConfig.as_input": lambda w: (OutputFileDatasetConfig("a").read_parquet_files().as_input, {}),
    "TabularDataset.to_pandas_dataframe": lambda w: (_odd(w).to_pandas_dataframe, {}),
    "TabularDataset.head": lambda w: (w.table.head, {}),
    "TabularDataset.keep_columns": lambda w: (w.table.keep_columns, {"columns": ["no"]}),
    "TabularDataset.with_timestamp_columns": lambda w: (w.table.with_timestamp_columns, {}),
    "TabularDataset.time_before": _time("time_before", end_time=DAY),
    "TabularDataset.time_after": _time("time_after", start_time=DAY),
    "TabularDataset.time_between": _time("time_between", start_time=DAY, end_time=DAY),
    "TabularDataset.time_recent": _time("time_recent", time_delta=timedelta(days=90000)),
    "TabularDataset.to_csv_files": lambda w: (
        w.table.to_csv_files,
        {},
        lambda made: [Path(p).read_text() for p in made.download()],
    ),
    "TabularDataset.partition_by": lambda w: (
        w.table.partition_by,
        {"partition_keys": ["city"], "target": _place(w, w.name())},
    ),
    "TabularDataset.get_profile": lambda w: (w.table.get_profile, {}),
    "DataReference.__init__": lambda w: (DataReference, {"datastore": w.datastore}),
    "DataReference.path": lambda w: (DataReference(w.datastore).path, {}),
    "DataReference.as_download": lambda w: (DataReference(w.datastore).as_download, {}),
    "DataReference.as_upload": lambda w: (DataReference(w.datastore).as_upload, {}),
    "DataPath.__init__": lambda w: (DataPath, {}),
    "DataPath.create_data_reference": lambda w: (
        DataPath(w.datastore, "a").create_data_reference,
        {"data_reference_name": "z"},
    ),
    "DataPathComputeBinding.__init__": lambda w: (DataPathComputeBinding, {}),
    "DatasetConsumptionConfig.__init__": lambda w: (DatasetConsumptionConfig, {"name": "a", "dataset": w.files}),
    "DatasetConsumptionConfig.as_mount": lambda w: (DatasetConsumptionConfig("a", w.files).as_mount, {}),
    "DatasetConsumptionConfig.as_download": lambda w: (DatasetConsumptionConfig("a", w.files).as_download, {}),
    "FileDatasetFactory.from_files": lambda w: (Dataset.File.from_files, {"path": _place(w, "fuzz/a.csv")}),
    "FileDatasetFactory.upload_directory": lambda w: (
        Dataset.File.upload_directory,
        {"src_dir": str(w.project), "target": _place(w, w.name())},
        lambda made: made.to_path(),
    ),
    "TabularDatasetFactory.from_delimited_files": lambda w: (
        Dataset.Tabular.from_delimited_files,
        {"path": _place(w)},
        _frame,
    ),
    "TabularDatasetFactory.from_parquet_files": lambda w: (
        Dataset.Tabular.from_parquet_files,
        {"path": w.parquet},
        _frame,
    ),
    "TabularDatasetFactory.from_json_lines_files": lambda w: (
        Dataset.Tabular.from_json_lines_files,
        {"path": _place(w, PLACE[2])},
        _frame,
    ),
    "TabularDatasetFactory.register_pandas_dataframe": lambda w: (
        Dataset.Tabular.register_pandas_dataframe,
        {"dataframe": _frame(w.table), "target": _place(w, w.name()), "name": w.name()},
    ),
    "OpenDataset.__init__": lambda w: (opendatasets.NoaaIsdWeather, {}),
    "PublicHolidays.__init__": lambda w: (opendatasets.PublicHolidays, {}),
    "Estimator.__init__": _estimator(estimator.Estimator),
    "Chainer.__init__": _estimator(dnn.Chainer),
    "PyTorch.__init__": _estimator(dnn.PyTorch),
    "TensorFlow.__init__": _estimator(dnn.TensorFlow),
    "SKLearn.__init__": _estimator(SKLearn),
    "Mpi.__init__": lambda w: (dnn.Mpi, {}, lambda made: _trained(w, made)),
    "ParameterServer.__init__": lambda w: (dnn.ParameterServer, {}, lambda made: _trained(w, made)),
    "EarlyTerminationPolicy.__init__": lambda w: (hyperdrive.EarlyTerminationPolicy, {"name": "MedianStopping"}),
    "IntervalPolicy.__init__": lambda w: (hyperdrive.MedianStoppingPolicy, {}),
    "BanditPolicy.__init__": lambda w: (hyperdrive.BanditPolicy, {"slack_factor": 0.1}),
    "TruncationSelectionPolicy.__init__": lambda w: (
        hyperdrive.TruncationSelectionPolicy,
        {"truncation_percentage": 10},
    ),
    "HyperParameterSampling.__init__": lambda w: (
        hyperdrive.HyperParameterSampling,
        {"sampling_method_name": "RANDOM", "parameter_space": {"a": hyperdrive.uniform(0, 1)}},
    ),
    "NamedSampling.__init__": lambda w: (
        hyperdrive.RandomParameterSampling,
        {"parameter_space": {"a": hyperdrive.uniform(0, 1)}},
    ),
    "HyperDriveConfig.__init__": lambda w: (
        hyperdrive.HyperDriveConfig,
        {**_config(w), "run_config": w.script_run_config()},
    ),
    "HyperDriveRunConfig.__init__": lambda w: (
        hyperdrive.HyperDriveRunConfig,
        {**_config(w), "run_config": w.script_run_config()},
    ),
    "RunDetails.show": lambda w: (RunDetails(w.run).show, {}),
    "RunDetails.get_widget_data": lambda w: (RunDetails(w.run).get_widget_data, {}),
}
