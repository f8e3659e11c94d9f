"""The variables that every process of a run starts from. Pure: nothing is read from this process."""

from __future__ import annotations

import os
from typing import Dict, Mapping, Optional, Sequence

from runyard.core.formats.mlflow_uri import NO_RESOURCE_GROUP, NO_SUBSCRIPTION, tracking_uri, workspace_scope
from runyard.core.specs import JobSpec

MLFLOW_SWITCH = "RUNYARD_MLFLOW"
_MLFLOW = ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME")
TOKEN_EXPIRY = "253402300799"  # the last second of 9999: a run's token is good for as long as its run

# What a scheduler or launcher told the submitting process about itself; it would be wrong about ours. Settings that a
# user gives to the same programs (`OMPI_MCA_…`, `SLURM_CONF`, `HYDRA_FULL_ERROR`) stay. RUNYARD_ and AZUREML_ are set
# anew below.
_FOREIGN_PREFIXES = (
    "SLURM_", "SLURMD_", "SBATCH_CPU_BIND", "SBATCH_MEM_BIND",
    "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_APP_CTX_", "PMI_", "PMIX_SERVER_", "PMIX_BFROP_", "PMIX_GDS_",
    "PMIX_SECURITY_", "PMIX_PTL_", "PRTE_LAUNCHED", "ORTE_", "MV2_COMM_WORLD_", "HYDRA_PROXY_", "HYDI_",
    "PALS_", "ALPS_", "PBS_", "LSB_", "FLUX_", "TORCHELASTIC_", "AZ_BATCH_", "AZ_BATCHAI_",
    "RUNYARD_", "AZUREML_",
)  # fmt: skip
_FOREIGN = frozenset(
    {
        "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK", "ROLE_NAME", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG",
        "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SRUN_DEBUG", "HYDRA_CONTROL_FD",
        "OMPI_ARGV", "OMPI_COMMAND", "OMPI_FILE_LOCATION", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX",
        "PMIX_RANK", "PMIX_NAMESPACE", "PMIX_ID", "PMIX_HOSTNAME", "PMIX_VERSION", "PMIX_SYSTEM_TMPDIR",
        "PMIX_DSTORE_ESH_BASE_PATH", "PMIX_DSTORE_21_BASE_PATH",
        "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "INVOCATION_ID",
        "PYTHONDONTWRITEBYTECODE", "PWD", "OLDPWD", "_",
    }
)  # fmt: skip
_USERS_OWN = frozenset({"SLURM_CONF", "PBS_CONF_FILE", "PBS_DEFAULT", "LSB_DEFAULTQUEUE", "LSB_DEFAULTPROJECT"})
# mpirun of Open MPI 4 tells a rank more as parameters; a process that it did not start has none of these.
_MPIRUN_RANK = "OMPI_COMM_WORLD_RANK"
_OF_MPIRUN = frozenset(
    f"OMPI_MCA_{name}"
    for name in (
        "ess", "ess_base_jobid", "ess_base_vpid", "pmix", "initial_wdir", "shmem_RUNTIME_QUERY_hint",
        "orte_app_num", "orte_bound_at_launch", "orte_cpu_type", "orte_ess_jobid", "orte_ess_node_rank",
        "orte_ess_num_procs", "orte_ess_vpid", "orte_hnp_uri", "orte_jobfam_session_dir", "orte_launch",
        "orte_local_daemon_uri", "orte_num_nodes", "orte_num_restarts", "orte_precondition_transports",
        "orte_tmpdir_base", "orte_top_session_dir",
    )
)  # fmt: skip


# A notebook's kernel asks for colours, which its cells show and a log file does not.
_KERNELS_OWN = frozenset({"FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "JPY_PARENT_PID"})


def base_variables(
    job: JobSpec,
    *,
    run_folder: str,
    injection: str,
    interpreter: str,
    built: Optional[Mapping[str, str]] = None,
    import_path: Sequence[str] = (),
) -> Dict[str, str]:
    """Return the submitter's variables (on `local`), the environment's, run_config's and ours, merged in that order.

    Args:
        injection: the folder of `runtime.injection.injection_folder`.
        interpreter: its folder comes first in PATH, so that `python` in a command is this one.
        built: variables of the BuiltEnvironment.
        import_path: folders of the snapshot that come before installed packages.
    """
    named = {**(built or {}), **job.spec.environment.variables, **job.spec.variables}
    variables = {**inherited(job.submitter), **named}
    for name, value in mlflow_variables(job, named).items():
        variables[name] = value
    variables.setdefault("PYTHONUNBUFFERED", "1")  # the log is read while the script runs
    variables["PATH"] = _first(os.path.dirname(interpreter), variables.get("PATH", os.defpath))
    variables["PYTHONPATH"] = _python_path(injection, variables.get("PYTHONPATH", ""))
    variables.update(run_variables(job, run_folder=run_folder))
    if import_path:
        variables["RUNYARD_IMPORT_PATH"] = os.pathsep.join(import_path)
    return variables


def inherited(submitter: Mapping[str, str]) -> Dict[str, str]:
    """Return what a process of the run takes over from the submitting process."""
    dropped = _KERNELS_OWN if "JPY_PARENT_PID" in submitter else frozenset()
    if _MPIRUN_RANK in submitter:
        dropped |= _OF_MPIRUN
    return {name: value for name, value in submitter.items() if name not in dropped and not _is_foreign(name, value)}


def run_variables(job: JobSpec, *, run_folder: str) -> Dict[str, str]:
    """Return ours (docs/internals/run-folder.md) and Azure's that name the run."""
    ours = {
        "RUNYARD_RUN_FOLDER": run_folder,
        "RUNYARD_RUN_ID": job.run_id,
        "RUNYARD_ATTEMPT": str(job.attempt),
        "RUNYARD_COOKIE": job.cookie,
        "RUNYARD_HOME": job.home,
    }
    return {**ours, **_azure_variables(job, run_folder)}


def mlflow_variables(job: JobSpec, named: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that lead MLflow's client into this run, less those that `named` holds.

    None where `named` leads it elsewhere, or where RUNYARD_MLFLOW is `off`. There is no token among them: a script
    that sets another tracking URI would send it there.
    """
    switch = named.get(MLFLOW_SWITCH, job.submitter.get(MLFLOW_SWITCH, ""))
    if switch.strip().lower() in ("off", "0", "false", "no") or "MLFLOW_TRACKING_URI" in named:
        return {}
    ours = {
        "MLFLOW_TRACKING_URI": mlflow_uri(job),
        "MLFLOW_RUN_ID": job.run_id,
        "MLFLOW_EXPERIMENT_ID": job.experiment_id,
        "MLFLOW_EXPERIMENT_NAME": job.experiment,
    }
    return {name: value for name, value in ours.items() if value and name not in named}


def replaced_mlflow_variables(job: JobSpec, variables: Mapping[str, str]) -> Dict[str, str]:
    """Return the submitting process's variables of MLflow that `variables` replace: name → its value.

    `mlflow.set_tracking_uri` writes such a variable: an address of this very workspace is not replaced by another.
    """
    before = {name: job.submitter[name] for name in _MLFLOW if name in job.submitter}
    if before.get(_MLFLOW[0], "").partition("?")[0] == variables.get(_MLFLOW[0], "").partition("?")[0]:
        before.pop(_MLFLOW[0], None)
    return {name: value for name, value in before.items() if variables.get(name, value) != value}


def mlflow_uri(job: JobSpec) -> str:
    """Return the address of the run's workspace for MLflow, in Azure's form. Our plug-in reads it."""
    host = _endpoint(job.server).partition("://")[2].rstrip("/")
    return f"{tracking_uri(host, _workspace_scope(job))}&is-remote=True"


def _workspace_scope(job: JobSpec) -> str:
    return workspace_scope(job.workspace, job.subscription_id, job.resource_group)


def _azure_variables(job: JobSpec, run_folder: str) -> Dict[str, str]:
    subscription = job.subscription_id or NO_SUBSCRIPTION
    group = job.resource_group or NO_RESOURCE_GROUP
    scope = _workspace_scope(job)
    return {
        "AZUREML_RUN_ID": job.run_id,
        "AZUREML_ARM_SUBSCRIPTION": subscription,
        "AZUREML_ARM_RESOURCEGROUP": group,
        "AZUREML_ARM_WORKSPACE_NAME": job.workspace,
        "AZUREML_ARM_PROJECT_NAME": job.experiment,
        "AZUREML_SERVICE_ENDPOINT": _endpoint(job.server),
        "AZUREML_DISCOVERY_SERVICE_ENDPOINT": _endpoint(job.server),
        "AZUREML_RUN_TOKEN": job.token,
        "AZUREML_RUN_TOKEN_EXPIRY": TOKEN_EXPIRY,
        "AZUREML_EXPERIMENT_ID": job.experiment_id,
        "AZUREML_WORKSPACE_ID": job.workspace_id,
        "AZUREML_OUTPUT_DIRECTORY": "./outputs",
        "AZUREML_FRAMEWORK": job.spec.framework,
        "AZUREML_COMMUNICATOR": job.spec.communicator,
        "AZUREML_TARGET_TYPE": job.spec.target,
        "AZUREML_LOGDIRECTORY_PATH": "azureml-logs",
        "AZUREML_WORKSPACE_SCOPE": scope,
        "AZUREML_EXPERIMENT_SCOPE": f"{scope}/experiments/{job.experiment}",
        "AZUREML_SCRIPT_DIRECTORY_NAME": f"{run_folder}/work",
    }


def _endpoint(server: Mapping[str, object]) -> str:
    if server.get("web_url"):
        return str(server["web_url"])
    if server.get("host"):
        return f"http://{server['host']}:{server.get('port')}"
    return "http://127.0.0.1"


def _is_foreign(name: str, value: str) -> bool:
    if not name or "=" in name or "\0" in name + value:
        return True
    if name in _FOREIGN or (name.startswith(_FOREIGN_PREFIXES) and name not in _USERS_OWN):
        return True
    # A notebook's own drawing back end, which only notebooks can load.
    return name == "MPLBACKEND" and value.startswith("module://")


def _first(folder: str, path: str) -> str:
    folders = path.split(os.pathsep) if path else []
    return path if not folder or folders[:1] == [folder] else os.pathsep.join([folder, *folders])


def _python_path(injection: str, path: str) -> str:
    """Put our folder first; one of another run, which a run's own submit inherits, goes."""
    siblings = os.path.dirname(injection)
    kept = [entry for entry in path.split(os.pathsep) if os.path.dirname(entry) != siblings] if path else []
    return os.pathsep.join([injection, *kept])
