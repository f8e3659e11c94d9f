"""Where each variable of a run's processes comes from, and which never arrive."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.core.specs import EnvironmentSpec, JobSpec, RunSpec
from runyard.launchers.variables import base_variables, inherited, replaced_mlflow_variables

MLFLOW_URI = (
    "azureml://127.0.0.1:5000/mlflow/v2.0/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/runyard"
    "/providers/Microsoft.MachineLearningServices/workspaces/ws?&is-remote=True"
)


def a_job(*, submitter: dict[str, str] | None = None, **fields: Any) -> JobSpec:
    values: dict[str, Any] = {
        "run_id": "exp_1_ab",
        "attempt": 2,
        "experiment": "exp",
        "workspace": "ws",
        "spec": RunSpec(script="train.py"),
        "snapshot_root": None,
        "server": {"kind": "unix", "path": "/s", "web_url": "http://127.0.0.1:5000"},
        "token": "secret",
        "cookie": "c00kie",
        "home": "/home/me/.local/share/runyard",
        "experiment_id": "e-id",
        "workspace_id": "w-id",
        "submitter": submitter or {},
    }
    return JobSpec(**{**values, **fields})


def variables_of(job: JobSpec, **built: str) -> dict[str, str]:
    return base_variables(
        job, run_folder="/runs/exp/2", injection="/cache/injection/1-x", interpreter="/env/bin/python", built=built
    )


def test_a_run_has_all_of_azures_variables_and_ours() -> None:
    assert variables_of(a_job(submitter={"PATH": "/usr/bin", "LD_PRELOAD": "theirs.so"})) == {
        "PATH": "/env/bin:/usr/bin",
        "LD_PRELOAD": "theirs.so",
        "PYTHONPATH": "/cache/injection/1-x",
        "PYTHONUNBUFFERED": "1",
        "RUNYARD_RUN_FOLDER": "/runs/exp/2",
        "RUNYARD_RUN_ID": "exp_1_ab",
        "RUNYARD_ATTEMPT": "2",
        "RUNYARD_COOKIE": "c00kie",
        "RUNYARD_HOME": "/home/me/.local/share/runyard",
        "AZUREML_RUN_ID": "exp_1_ab",
        "AZUREML_ARM_SUBSCRIPTION": "00000000-0000-0000-0000-000000000000",
        "AZUREML_ARM_RESOURCEGROUP": "runyard",
        "AZUREML_ARM_WORKSPACE_NAME": "ws",
        "AZUREML_ARM_PROJECT_NAME": "exp",
        "AZUREML_SERVICE_ENDPOINT": "http://127.0.0.1:5000",
        "AZUREML_DISCOVERY_SERVICE_ENDPOINT": "http://127.0.0.1:5000",
        "AZUREML_RUN_TOKEN": "secret",
        "AZUREML_RUN_TOKEN_EXPIRY": "253402300799",
        "AZUREML_EXPERIMENT_ID": "e-id",
        "AZUREML_WORKSPACE_ID": "w-id",
        "AZUREML_OUTPUT_DIRECTORY": "./outputs",
        "AZUREML_FRAMEWORK": "Python",
        "AZUREML_COMMUNICATOR": "None",
        "AZUREML_TARGET_TYPE": "local",
        "AZUREML_LOGDIRECTORY_PATH": "azureml-logs",
        "AZUREML_WORKSPACE_SCOPE": "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/runyard"
        "/providers/Microsoft.MachineLearningServices/workspaces/ws",
        "AZUREML_EXPERIMENT_SCOPE": "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/runyard"
        "/providers/Microsoft.MachineLearningServices/workspaces/ws/experiments/exp",
        "AZUREML_SCRIPT_DIRECTORY_NAME": "/runs/exp/2/work",
        "MLFLOW_TRACKING_URI": MLFLOW_URI,
        "MLFLOW_RUN_ID": "exp_1_ab",
        "MLFLOW_EXPERIMENT_ID": "e-id",
        "MLFLOW_EXPERIMENT_NAME": "exp",
    }


def mlflow_of(job: JobSpec) -> dict[str, str]:
    return {name: value for name, value in variables_of(job).items() if "MLFLOW" in name}


def test_mlflow_logs_into_the_run_whatever_the_submitting_shell_had() -> None:
    job = a_job(submitter={"MLFLOW_TRACKING_URI": "http://mine", "MLFLOW_RUN_ID": "r"})

    assert mlflow_of(job)["MLFLOW_TRACKING_URI"] == MLFLOW_URI
    assert mlflow_of(job)["MLFLOW_RUN_ID"] == "exp_1_ab"
    assert replaced_mlflow_variables(job, variables_of(job)) == {
        "MLFLOW_TRACKING_URI": "http://mine",
        "MLFLOW_RUN_ID": "r",
    }


def test_the_workspaces_own_address_is_not_called_replaced() -> None:
    job = a_job(submitter={"MLFLOW_TRACKING_URI": MLFLOW_URI.replace("&is-remote=True", "")})

    assert replaced_mlflow_variables(job, variables_of(job)) == {}


def test_a_tracking_uri_of_the_run_configuration_stays_and_nothing_is_added_to_it() -> None:
    spec = RunSpec(script="train.py", variables={"MLFLOW_TRACKING_URI": "http://theirs"})

    assert mlflow_of(a_job(spec=spec)) == {"MLFLOW_TRACKING_URI": "http://theirs"}


@pytest.mark.parametrize("word", ["off", "OFF", "0", "false"])
def test_mlflow_can_be_left_alone(word: str) -> None:
    spec = RunSpec(script="train.py", environment=EnvironmentSpec(variables={"RUNYARD_MLFLOW": word}))
    job = a_job(spec=spec, submitter={"MLFLOW_TRACKING_URI": "http://mine"})

    assert mlflow_of(job) == {"MLFLOW_TRACKING_URI": "http://mine", "RUNYARD_MLFLOW": word}
    assert replaced_mlflow_variables(job, variables_of(job)) == {}


def test_the_workspaces_own_ids_are_used_where_it_has_them() -> None:
    found = variables_of(a_job(subscription_id="sub", resource_group="group"))

    assert found["AZUREML_ARM_SUBSCRIPTION"] == "sub"
    assert found["AZUREML_ARM_RESOURCEGROUP"] == "group"
    assert found["AZUREML_WORKSPACE_SCOPE"].startswith("/subscriptions/sub/resourceGroups/group/")


def test_later_sources_win_and_ours_win_over_all() -> None:
    submitter = {"A": "submitter", "B": "submitter", "C": "submitter", "D": "submitter"}
    environment = EnvironmentSpec(variables={"C": "environment", "D": "environment", "PYTHONUNBUFFERED": ""})
    spec = RunSpec(
        environment=environment, variables={"D": "run_config", "AZUREML_RUN_ID": "faked", "RUNYARD_HOME": "x"}
    )
    found = variables_of(a_job(submitter=submitter, spec=spec), B="built", C="built")

    assert [found[name] for name in "ABCD"] == ["submitter", "built", "environment", "run_config"]
    assert found["AZUREML_RUN_ID"] == "exp_1_ab"
    assert found["RUNYARD_HOME"] == "/home/me/.local/share/runyard"
    assert found["PYTHONUNBUFFERED"] == ""


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_JOB_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PRTE_LAUNCHED", "RANK",
        "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TF_CONFIG", "TORCHELASTIC_RUN_ID", "AZ_BATCH_MASTER_NODE",
        "NODE_RANK", "MPI_LOCALRANKID", "AZ_BATCHAI_TASK_INDEX", "OMPI_UNIVERSE_SIZE", "OMPI_COMMAND", "PMIX_NAMESPACE",
        "PMIX_SERVER_URI41", "PMI_FD", "HYDI_CONTROL_FD", "SRUN_DEBUG",
        "RUNYARD_RUN_ID", "RUNYARD_TOKEN", "RUNYARD_URL", "AZUREML_RUN_TOKEN", "AZUREML_DATAREFERENCE_x",
        "PYTHONDONTWRITEBYTECODE", "OLDPWD", "PWD", "_", "NOTIFY_SOCKET", "LISTEN_FDS", "", "A=B",
    ],
)  # fmt: skip
def test_what_others_said_about_the_submitting_process_is_not_inherited(name: str) -> None:
    assert inherited({name: "x", "KEPT": "y"}) == {"KEPT": "y"}


@pytest.mark.parametrize(
    "name",
    [
        "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_btl", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "PRTE_MCA_plm_ssh_agent", "PRTE_ALLOW_RUN_AS_ROOT", "PMIX_MCA_gds", "HYDRA_FULL_ERROR", "HYDRA_LAUNCHER",
        "MPIR_CVAR_CH4_OFI_ENABLE_TAGGED", "SBATCH_ACCOUNT", "SALLOC_PARTITION", "SRUN_CPUS_PER_TASK", "SLURM_CONF",
    ],
)  # fmt: skip
def test_what_a_user_set_for_those_programs_is_inherited(name: str) -> None:
    assert inherited({name: "theirs"}) == {name: "theirs"}


def test_what_mpirun_told_the_submitting_rank_is_not_inherited_but_its_users_settings_are() -> None:
    told = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_MCA_ess": "^singleton", "OMPI_MCA_orte_hnp_uri": "tcp://127.0.0.1:1"}

    assert inherited({**told, "OMPI_MCA_btl": "self,tcp"}) == {"OMPI_MCA_btl": "self,tcp"}


def test_the_colours_that_a_notebooks_kernel_asks_for_stay_in_the_notebook() -> None:
    colours = {"FORCE_COLOR": "1", "CLICOLOR": "1", "CLICOLOR_FORCE": "1"}

    assert inherited({"JPY_PARENT_PID": "7", **colours}) == {}
    assert inherited(colours) == colours


def test_a_notebooks_drawing_back_end_stays_in_the_notebook() -> None:
    assert inherited({"MPLBACKEND": "module://matplotlib_inline.backend_inline"}) == {}
    assert inherited({"MPLBACKEND": "Agg"}) == {"MPLBACKEND": "Agg"}


def test_the_users_python_path_follows_ours_and_another_runs_injection_goes() -> None:
    submitter = {"PYTHONPATH": "/cache/injection/0-old:/my/lib:src"}
    assert variables_of(a_job(submitter=submitter))["PYTHONPATH"] == "/cache/injection/1-x:/my/lib:src"

    given = RunSpec(variables={"PYTHONPATH": "/given"})
    assert variables_of(a_job(submitter=submitter, spec=given))["PYTHONPATH"] == "/cache/injection/1-x:/given"


def test_the_interpreters_folder_comes_first_in_path_once() -> None:
    assert variables_of(a_job(submitter={"PATH": "/env/bin:/usr/bin"}))["PATH"] == "/env/bin:/usr/bin"
    assert variables_of(a_job())["PATH"].startswith("/env/bin:")
