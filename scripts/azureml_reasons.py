"""Why names of Azure's SDK are not in Runyard, and what to use instead. `azureml_names.py` makes the table from it.

A reason is what the name was, whether a later release brings it, why it is not here, and what to type now.
"""

from __future__ import annotations

LATER = "Runyard {version} does not have it; a later release brings it."
SERVICE = "Runyard has nothing in its place: there is no Azure service behind it."
NEVER = "Runyard does not rebuild it."

REASONS: dict[str, tuple[str, bool, str, str]] = {
    "serving": (
        "part of Azure's serving of models",
        True,
        LATER,
        "`Model.deploy(...)` serves models; `runyard services logs NAME --requests` shows what they are asked.",
    ),
    "pipelines": (
        "part of Azure's pipelines of steps",
        True,
        LATER,
        "Until then, submit each step with `experiment.submit(...)`, wait for it, and pass its outputs to the next.",
    ),
    "mlflow": (
        "an inner part of Azure's bridge to MLflow",
        True,
        LATER,
        "MLflow's client works in runs, and elsewhere after `mlflow.set_tracking_uri(ws.get_mlflow_tracking_uri())`.",
    ),
    "notebook": (
        "an addition to Azure's runs of notebooks",
        False,
        NEVER,
        "Submit the notebook itself: `NotebookRunConfig(source_directory, notebook)`.",
    ),
    "kubernetes": (
        "a Kubernetes cluster as a compute target",
        True,
        LATER,
        "Until then, attach machines with SlurmCompute, RayCompute or RemoteCompute.",
    ),
    "automl": (
        "part of Azure's automated machine learning",
        False,
        NEVER,
        "FLAML (`pip install 'flaml[automl]'`) or AutoGluon does this: call it in a script and submit that.",
    ),
    "explain": (
        "part of Azure's explanations of models",
        False,
        NEVER,
        "interpret-community or SHAP does this (`pip install interpret-community`); keep the result with "
        "`run.upload_file(...)`.",
    ),
    "fairness": (
        "Azure's upload of Fairlearn dashboards",
        False,
        NEVER,
        "Fairlearn computes the same numbers (`pip install fairlearn`): log them with `run.log(...)`.",
    ),
    "responsibleai": (
        "part of Azure's Responsible AI dashboard",
        False,
        NEVER,
        "The open Responsible AI Toolbox does this: `pip install responsibleai raiwidgets`.",
    ),
    "drift": (
        "Azure's monitoring of data drift",
        False,
        NEVER,
        "Evidently does this (`pip install evidently`): call it in a script and submit that.",
    ),
    "dataprep": (
        "part of Azure's data preparation library",
        False,
        NEVER,
        "pandas or pyarrow does this; `Dataset.Tabular` and `Dataset.File` read data of the workspace.",
    ),
    "fsspec": (
        "a file system over Azure's datastores",
        False,
        NEVER,
        "`Dataset.File.from_files(...)` with `as_mount()` or `download()` gives the same files.",
    ),
    "metrics": (
        "Azure's collection of metrics for automated machine learning",
        False,
        NEVER,
        "scikit-learn, torchmetrics or Hugging Face's evaluate computes them: log them with `run.log(...)`.",
    ),
    "featurestore": ("Azure's feature store", False, NEVER, "Feast does this: `pip install feast`."),
    "reinforcement": (
        "Azure's estimator for reinforcement learning",
        False,
        NEVER,
        "Submit a script that uses Ray RLlib to a RayCompute target (`pip install 'ray[rllib]'`).",
    ),
    "gbdt": ("Azure's distributed LightGBM", False, NEVER, "Submit a script that uses `lightgbm` itself."),
    "fpga": (
        "Azure's models for FPGA hardware, which Azure has withdrawn",
        False,
        NEVER,
        "ONNX Runtime runs the same networks on CPUs and GPUs: `pip install onnxruntime`.",
    ),
    "designer": (
        "part of the modules behind Azure's Designer",
        False,
        NEVER,
        "Read and write the data with pandas in a script.",
    ),
    "spark": (
        "part of Azure's Spark support",
        False,
        NEVER,
        "Submit a script that uses pyspark on its own, or use Ray or Dask.",
    ),
    "workbench": (
        "part of an Azure product that came before this SDK",
        False,
        "It was withdrawn, and Runyard follows azureml-core.",
        "`from azureml.core import Run`, then `Run.get_context()`.",
    ),
    "maintenance": (
        "a tool with which Microsoft publishes its own assets",
        False,
        NEVER,
        "Register your own with `Model.register`, `Environment.register` and `dataset.register`.",
    ),
    "preview": (
        "part of a preview of Azure's",
        False,
        NEVER,
        "The page `Names of azureml` in Runyard's documentation lists what there is.",
    ),
    "private": (
        "a private part of Microsoft's client",
        False,
        "It talks to Azure's services, which are not behind Runyard.",
        "Use the public classes of `azureml.core`; they reach the same runs, files and models.",
    ),
    "compute": (
        "a kind of compute that only Azure's services have",
        False,
        SERVICE,
        "Train on an AmlCompute pool, or attach machines with SlurmCompute, RayCompute or RemoteCompute.",
    ),
    "storage": (
        "a kind of storage that Runyard does not read",
        False,
        NEVER,
        "Copy the data to a folder (`Datastore.register_folder`) or to blob or S3 storage and register that.",
    ),
    "sql": (
        "a database as a datastore",
        False,
        NEVER,
        "Query it with pandas (`pandas.read_sql`) and keep the result as a dataset: "
        "`Dataset.Tabular.register_pandas_dataframe`.",
    ),
    "olddata": (
        "part of the dataset API of early 2019, which Azure has withdrawn",
        False,
        NEVER,
        "`Dataset.Tabular.from_delimited_files(...)` and `Dataset.File.from_files(...)` make datasets.",
    ),
    "profile": (
        "Azure's profile of a dataset",
        False,
        NEVER,
        "`dataset.to_pandas_dataframe().describe(include='all')` shows the same.",
    ),
    "datacache": (
        "Azure's cache of datasets on clusters",
        False,
        SERVICE,
        "Data here is read where it lies; leave it out.",
    ),
    "opendatasets": (
        "one of Azure's open datasets, or a part of reading them",
        False,
        "Runyard does not fetch it.",
        "Download the files from the dataset's page (search for `Azure Open Datasets`) and register them as a dataset.",
    ),
    "telemetry": (
        "part of Microsoft's telemetry",
        False,
        "Runyard collects none.",
        "Leave it out; use Python's `logging` for your own messages.",
    ),
    "network": ("a setting of Azure's networks", False, SERVICE, "Leave it out."),
    "accounts": (
        "part of the accounts and resources of an Azure subscription",
        False,
        SERVICE,
        "Leave it out; the token of your Runyard server decides who may do what.",
    ),
    "legacy": (
        "kept by Azure's SDK for configurations of 2018",
        False,
        NEVER,
        "Name the compute target in `ScriptRunConfig(compute_target=...)`.",
    ),
    "internal": (
        "an inner part of Azure's client that its modules happen to show",
        False,
        NEVER,
        "Leave it out, or keep the value in your own code.",
    ),
    "azure": (
        "part of Azure's SDK",
        False,
        SERVICE,
        "The page `Names of azureml` in Runyard's documentation lists what there is.",
    ),
}

# Packages that users of Azure install beside azureml-core: importing one is refused.
PACKAGES = {
    "azureml.pipeline": "pipelines",
    "azureml.contrib.pipeline": "pipelines",
    "azureml.train.automl": "automl",
    "azureml.automl": "automl",
    "azureml.contrib.automl": "automl",
    "azureml.training": "automl",
    "azureml.metrics": "metrics",
    "azureml.interpret": "explain",
    "azureml.explain": "explain",
    "azureml.contrib.explain": "explain",
    "azureml.contrib.interpret": "explain",
    "azureml.contrib.fairness": "fairness",
    "azureml.responsibleai": "responsibleai",
    "azureml.datadrift": "drift",
    "azureml.contrib.datadrift": "drift",
    "azureml.dataprep": "dataprep",
    "azureml.fsspec": "fsspec",
    "azureml.featurestore": "featurestore",
    "azureml.contrib.mlflow": "mlflow",
    "azureml.mlflow": "mlflow",
    "azureml.evaluate": "mlflow",
    "azureml.monitoring": "serving",
    "azureml.contrib.server": "serving",
    "azureml.contrib.functions": "serving",
    "azureml.contrib.mir": "serving",
    "azureml.contrib.iot": "serving",
    "azureml.contrib.train": "reinforcement",
    "azureml.contrib.gbdt": "gbdt",
    "azureml.accel": "fpga",
    "azureml.contrib.brainwave": "fpga",
    "azureml.studio": "designer",
    "azureml.synapse": "spark",
    "azureml.contrib.dataset": "olddata",
    "azureml.contrib.opendatasets": "opendatasets",
    "azureml.contrib.aisc": "preview",
    "azureml.contrib.compute": "preview",
    "azureml.contrib.core": "preview",
    "azureml.contrib.run": "preview",
    "azureml.assets": "maintenance",
    "azureml.train.restclients": "private",
    "azureml.api": "workbench",
    "azureml.authentication": "workbench",
    "azureml.common": "workbench",
    "azureml.deploy": "workbench",
    "azureml.logging": "workbench",
    "azureml.history": "internal",
}

# For absent names of azureml-core and its kin: the first pattern that fits `module:Name` or `module:Class.member`.
RULES = [
    (r"NotebookRunnerStep", "pipelines"),
    (r"contrib\.notebook", "notebook"),
    (r"core\.(webservice|image)\b|compute\.aks\b|:Aks|core\.profile|ModelPackage|InferenceConfig", "serving"),
    (r":Model\.(deploy|package|profile|print_configuration|get_sas_urls)$|:Webservice|:(Container)?Image\b", "serving"),
    (r"Workspace\.(webservices|images|endpoints)|:InferencingStack|ModelServing", "serving"),
    (r"mlflow", "mlflow"),
    (
        r"parallel_run_step|ParallelRun|PipelineOutput|:Output\w*DatasetConfig\.|:Link(File|Tabular|Output)|"
        r":OutputDatasetConfig",
        "pipelines",
    ),
    (r"[Kk]ubernetes", "kubernetes"),
    (r"Databricks|databricks|Library\b|DataFactory|datafactory|Adla|\.adla|Batch|\.batch|Kusto", "compute"),
    (r"kusto|HDInsight|hdinsight|Hdi|ContainerInstance|compute\.synapse|SynapseCompute", "compute"),
    (r"Spark|spark|Synapse|LinkedService|linked_service|[Hh]dfs|HDFS", "spark"),
    (r"sql|Sql|stored_procedure|StoredProcedure", "sql"),
    (r"data_lake|DataLake|dbfs|DBFS|file_share|AzureFile", "storage"),
    (r"datacache|Datacache|DataCache", "datacache"),
    (r"data\.dataset_definition|dataset_snapshot|DatasetSnapshot|DatasetDefinition|dataset_action", "olddata"),
    (r"core\.dataset:Dataset\.|:FileType|:HistogramCompareMethod|:SkipLinesBehavior|FuzzyGrouping", "olddata"),
    (r"profile|Profile", "profile"),
    (r"opendatasets", "opendatasets"),
    (r"telemetry|diagnostic_log|_logging", "telemetry"),
    (r"private_endpoint|PrivateEndPoint|PrivateEndpoint|vnet|subnet", "network"),
    (r"authentication|:Workspace\.|WorkspaceConnection|:Keyvault\.", "accounts"),
    (r"legacy|compute_target:(prepare|is_compute|LocalTarget)|prepare_compute|is_compute_target", "legacy"),
    (r"azureml\._|\._", "private"),
    (r"error_definition|error_strings|constants|_client\b|:[A-Z][A-Z_0-9]+$", "internal"),
]

# Private places from which scripts import what Runyard has under another name: module → `=home` → names.
PRIVATE_HOMES = {
    "azureml._restclient.constants": {"=runyard.core.statuses": "RunStatus"},
    "azureml._base_sdk_common.user_agent": {"=azureml._restclient.user_agent": "append"},
    "azureml.core.runconfig": {
        "=runyard.sdk.environments.sections": "EggLibrary EnvironmentDefinition JarLibrary MavenLibrary PyPiLibrary "
        "RCranLibrary SparkPackage SparkSection"
    },
    "azureml.core.workspace": {"=azureml.exceptions": "WorkspaceException"},
    "azureml.core.authentication": {"=azureml.exceptions": "AuthenticationException"},
}

# Private members that scripts read.
PRIVATE_MEMBERS = {
    "CondaDependencies": "_merge_dependencies",
    "Dataset": "_dataflow",
    "TabularDataset": "_create _dataflow _definition",
    "Workspace": "_get_or_create _initialize_folder",
}

# Classes of Microsoft's that only share their name with one of ours.
ANOTHER_CLASS = {"azureml.core.runconfig": "DataPath Dataset", "azureml.telemetry": "UserErrorException"}
