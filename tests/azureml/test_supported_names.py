"""Every name that the page calls supported is used by some test; here are those that no subject's own test uses."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import azureml.opendatasets as opendatasets
from azureml.contrib.notebook import NotebookExecutionHandler
from azureml.core import Dataset, Experiment, Model, RunConfiguration, ScriptRunConfig, Workspace
from azureml.core.authentication import AccessToken, MsiAuthentication
from azureml.core.compute import (
    AdlaCompute,
    AmlCompute,
    BatchCompute,
    ComputeInstance,
    ComputeTarget,
    DataFactoryCompute,
    KustoCompute,
)
from azureml.core.compute.amlcompute import AmlComputeProvisioningConfiguration, AmlComputeStatus
from azureml.core.compute.computeinstance import ComputeInstanceProvisioningConfiguration, ComputeInstanceStatus
from azureml.core.compute.dsvm import DsvmProvisioningConfiguration
from azureml.core.compute.remote import RemoteComputeAttachConfiguration
from azureml.core.conda_dependencies import CondaDependencies
from azureml.core.databricks import DatabricksSection
from azureml.core.environment import (
    DockerBuildContext,
    DockerSection,
    ImageBuildDetails,
    RCranPackage,
    RGitHubPackage,
    RSection,
    SparkSection,
)
from azureml.core.runconfig import (
    AmlComputeConfiguration,
    EggLibrary,
    HdiConfiguration,
    HistoryConfiguration,
    JarLibrary,
    KubernetesComputeConfiguration,
    MavenLibrary,
    ParallelTaskConfiguration,
    RCranLibrary,
)
from azureml.core.script_run_config import get_run_config_from_script_run
from azureml.data.abstract_datastore import AbstractDatastore
from azureml.data.datapath import DataPath
from azureml.data.dataset_error_handling import DatasetExecutionError, DatasetValidationError
from azureml.data.dataset_type_definitions import FileEncoding, PromoteHeadersBehavior, SkipLinesBehavior
from azureml.data.output_dataset_config import OutputDatasetConfig
from azureml.exceptions import AzureMLException, ComputeTargetException, UserErrorException
from azureml.train.hyperdrive import PrimaryMetricGoal
from azureml.train.hyperdrive.exceptions import HyperDriveException
from tests.azureml.test_names_page import rows

TESTS = Path(__file__).parent.parent
OPEN_DATASETS = [
    opendatasets.BingCOVID19Data,
    opendatasets.BostonSafety,
    opendatasets.COVIDTrackingProject,
    opendatasets.ChicagoSafety,
    opendatasets.EcdcCOVIDCases,
    opendatasets.NoaaGfsWeather,
    opendatasets.NycSafety,
    opendatasets.NycTlcFhv,
    opendatasets.NycTlcYellow,
    opendatasets.PublicHolidaysOffline,
    opendatasets.SanFranciscoSafety,
    opendatasets.SeattleSafety,
    opendatasets.UsLaborEHENational,
    opendatasets.UsLaborEHEState,
    opendatasets.UsLaborLAUS,
    opendatasets.UsLaborLFS,
    opendatasets.UsLaborPPICommodity,
    opendatasets.UsLaborPPIIndustry,
    opendatasets.UsPopulationCounty,
    opendatasets.UsPopulationZip,
]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace.create("supported-names", exist_ok=True)


def test_a_test_uses_every_name_that_the_page_calls_supported() -> None:
    words = set(re.findall(r"\w+", "".join(path.read_text() for path in TESTS.rglob("*.py"))))
    unused = {row.name for row in rows() if row.state in ("supported", "partly")}

    assert [name for name in sorted(unused) if name.rpartition(".")[2] not in words] == []


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        (AmlComputeConfiguration, {"vm_size": "NC6", "retain_cluster": True, "cluster_max_node_count": 3}),
        (HdiConfiguration, {"yarn_deploy_mode": "client"}),
        (HistoryConfiguration, {"output_collection": False, "directories_to_watch": ["logs", "more"]}),
        (KubernetesComputeConfiguration, {"instance_type": "small"}),
        (
            ParallelTaskConfiguration,
            {"max_retries_per_worker": 2, "worker_count_per_node": 4, "terminal_exit_codes": [3]},
        ),
        (DockerSection, {"shm_size": "4g", "arguments": ["--init"]}),
        (SparkSection, {"precache_packages": False, "repositories": ["r"]}),
        (
            RSection,
            {
                "r_version": "4.1",
                "rscript_path": "/usr/bin/Rscript",
                "snapshot_date": "2021-01-01",
                "cran_packages": [],
                "github_packages": [],
                "custom_url_packages": ["u"],
                "bioconductor_packages": ["b"],
            },
        ),
        (RCranPackage, {"name": "dplyr", "version": "1.0", "repository": "r"}),
        (RGitHubPackage, {"repository": "owner/name", "auth_token": "t"}),
        (
            DatabricksSection,
            {"maven_libraries": [1], "rcran_libraries": [2], "jar_libraries": [3], "egg_libraries": [4]},
        ),
        (MavenLibrary, {"coordinates": "a:b:1", "repo": "r", "exclusions": ["x"]}),
        (EggLibrary, {"library": "a.egg"}),
        (JarLibrary, {"library": "a.jar"}),
        (RCranLibrary, {"package": "p", "repo": "r"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_section_keeps_what_is_set_and_refuses_a_misspelt_name(section: Any, settings: dict[str, Any]) -> None:
    made = section()
    for name, value in settings.items():
        assert getattr(made, name) != value
        setattr(made, name, value)

    assert {name: getattr(made, name) for name in settings} == settings
    with pytest.raises(AttributeError, match="misspelt_name"):
        made.misspelt_name = 1


def test_sections_of_a_run_configuration_are_saved_and_loaded(tmp_path: Path) -> None:
    config = RunConfiguration()
    config.history.output_collection = False
    config.hdi.yarn_deploy_mode = "client"
    config.environment.docker.base_image_registry.registry_identity = None
    config.save(str(tmp_path), "kept")
    found = RunConfiguration.load(str(tmp_path), "kept")

    assert (found.history.output_collection, found.hdi.yarn_deploy_mode) == (False, "client")


def test_the_status_of_a_pool_and_of_an_instance(workspace: Workspace) -> None:
    configuration = AmlCompute.provisioning_configuration(vm_size="NC6", max_nodes=3)
    pool = ComputeTarget.create(workspace, "status-pool", configuration)
    pool.refresh_state()
    status = pool.get_status()
    assert isinstance(configuration, AmlComputeProvisioningConfiguration) and isinstance(status, AmlComputeStatus)
    assert configuration.compute_location is None and configuration.validate_configuration() is None
    assert (status.allocation_state, status.target_node_count, status.current_node_count) == ("Steady", 0, 0)
    assert isinstance(status.creation_time, (datetime, str)) and status.modified_time
    assert status.allocation_state_transition_time and status.provisioning_state_transition_time is None
    assert set(status.node_state_counts.values()) == {0}
    instance = ComputeInstance.provisioning_configuration(vm_size="NC6")
    assert isinstance(instance, ComputeInstanceProvisioningConfiguration)
    assert instance.validate_configuration() is None
    machine = ComputeTarget.create(workspace, "status-machine", instance).get_status()
    assert isinstance(machine, ComputeInstanceStatus) and machine.creation_time and machine.modified_time
    makers = [machine.created_by_user_name, machine.created_by_user_id, machine.created_by_user_org]
    assert makers == [None] * 3  # no accounts of Azure
    pool.delete()


def test_other_configurations_of_compute(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("KEY")
    assert DsvmProvisioningConfiguration(vm_size="D2", ssh_port=22).validate_configuration() is None
    remote = RemoteComputeAttachConfiguration(username="ada", address="node1", private_key_file=str(tmp_path / "key"))
    assert remote.validate_configuration() is None


@pytest.mark.parametrize("kind", [AdlaCompute, BatchCompute, DataFactoryCompute, KustoCompute])
def test_compute_of_azures_services_is_looked_for_and_not_found(workspace: Workspace, kind: Any) -> None:
    with pytest.raises(ComputeTargetException, match="nowhere"):
        kind(workspace, "nowhere")


@pytest.mark.parametrize("error", [DatasetExecutionError, DatasetValidationError, HyperDriveException])
def test_errors_carry_their_words(error: type[AzureMLException], capsys: pytest.CaptureFixture[str]) -> None:
    made: Any = error("it broke")
    made.print_stacktrace()

    assert "it broke" in capsys.readouterr().err
    if error is not HyperDriveException:
        assert made.compliant_message == "it broke"
        assert made.validation_error_code == error.__name__.removesuffix("Error")


def test_words_of_files_and_goals() -> None:
    encodings = [FileEncoding.ISO88591, FileEncoding.LATIN1, FileEncoding.UTF16, FileEncoding.UTF32]
    encodings += [FileEncoding.UTF8BOM, FileEncoding.WINDOWS1252]

    assert [one.value for one in encodings] == [1, 2, 4, 5, 6, 7]
    assert PromoteHeadersBehavior.ALL_FILES_HAVE_SAME_HEADERS.value == 3
    assert [SkipLinesBehavior.NO_ROWS.value, SkipLinesBehavior.FROM_FIRST_FILE_ONLY.value] == [0, 1]
    assert PrimaryMetricGoal.from_str("minimize") is PrimaryMetricGoal.MINIMIZE
    assert (Model.Framework.TFKERAS, DockerBuildContext.LocationType.Directory) == ("TFKeras", "Directory")


@pytest.mark.parametrize("encoding", ["latin1", "windows1252", "utf16"])
def test_a_table_in_another_encoding_is_read(workspace: Workspace, tmp_path: Path, encoding: str) -> None:
    data = {"latin1": "latin-1", "windows1252": "cp1252", "utf16": "utf-16"}[encoding]
    (tmp_path / "towns.csv").write_bytes("town,size\nMünchen,1\n".encode(data))
    store = workspace.get_default_datastore()
    store.upload_files([str(tmp_path / "towns.csv")], target_path=f"towns-{encoding}", show_progress=False)
    found = Dataset.Tabular.from_delimited_files((store, f"towns-{encoding}/towns.csv"), encoding=encoding)

    assert found.to_pandas_dataframe()["town"].tolist() == ["München"]


def test_small_calls(workspace: Workspace, tmp_path: Path) -> None:
    wanted = CondaDependencies()
    wanted.set_pip_requirements(["a==1", "b"])
    assert list(wanted.pip_packages) == ["a==1", "b"]

    vault = workspace.get_default_keyvault()
    vault.set_secret("gone", "x")
    vault.delete_secret("gone")
    with pytest.raises(UserErrorException, match="There is no secret `gone`"):
        vault.get_secret("gone")

    store = workspace.get_default_datastore()
    assert isinstance(store, AbstractDatastore)
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    store.upload_files([str(tmp_path / "a.bin")], target_path="binary", show_progress=False)
    assert Dataset.from_binary_files((store, "binary/a.bin")).to_path() == ["/a.bin"]
    path = DataPath.create_from_data_reference(store.path("binary"))
    assert (path.path_on_datastore, path.datastore_name) == ("binary", store.name)

    (tmp_path / "model.bin").write_bytes(b"m")
    model = Model.register(workspace, model_path=str(tmp_path / "model.bin"), model_name="small")
    assert model.created_by and isinstance(model.created_time, datetime)
    assert model.mime_type == "application/x-python"

    source = ScriptRunConfig(source_directory=str(tmp_path), script="train.py", arguments=["--a", 1])
    assert get_run_config_from_script_run(source).arguments == ["--a", 1]
    assert OutputDatasetConfig(mode="upload", name="made").arg_val == "DatasetOutputConfig:made"
    assert isinstance(MsiAuthentication().get_token(), AccessToken)
    assert Experiment(workspace, "small").name == "small"


def test_what_has_no_parts_of_its_own() -> None:
    assert NotebookExecutionHandler().dependencies == []
    with pytest.raises(UserErrorException, match="build"):
        ImageBuildDetails(None, "somewhere")


@pytest.mark.parametrize("kind", OPEN_DATASETS, ids=lambda kind: kind.__name__)
def test_an_open_dataset_that_cannot_be_fetched_says_from_where(
    workspace: Workspace, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closed_port() as port:
        monkeypatch.setenv("RUNYARD_OPENDATASETS", f"http://127.0.0.1:{port}")
        with pytest.raises(UserErrorException, match=rf"(?s){re.escape(kind._folder)}.*refused"):
            kind().to_pandas_dataframe()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and nobody else can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
