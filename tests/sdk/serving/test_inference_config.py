"""`InferenceConfig` finds mistakes when it is made; models without a script say what they need."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from runyard.sdk.environments.environment import Environment
from runyard.sdk.exceptions import UserErrorException, WebserviceException
from runyard.sdk.serving.inference_config import InferenceConfig
from runyard.sdk.serving.no_code import choose_scorer, find_scorer, make_environment, nearest_tensorflow
from runyard.sdk.serving.sources import script_source

SCRIPT = "def init(): pass\ndef run(raw): return raw\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `src` with a script and a conda file, below the current folder."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/score.py").write_text(SCRIPT)
    (tmp_path / "src/conda.yml").write_text("dependencies:\n- pip:\n  - six==1.17.0\n  - azureml-defaults\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_script_and_the_conda_file_are_found_below_the_source_directory(project: Path) -> None:
    config = InferenceConfig("score.py", "python", "conda.yml", source_directory="./src", description="digits")

    assert config.path_of(config.entry_script) == str(project / "src/score.py")
    assert config.source_directory == str(project / "src")
    assert "six==1.17.0" in list(config.make_environment().python.conda_dependencies.pip_packages)
    (project / "src/score.py").write_text("def run(:")
    for check in (config.validate_configuration, config.validation_script_content):
        with pytest.raises(UserErrorException, match="no valid Python"):
            check()
    (project / "src/score.py").write_text(SCRIPT)
    alone = InferenceConfig(entry_script="src/score.py", environment=Environment("mine"))
    assert alone.source_directory is None and alone.make_environment().name == "mine"
    source = script_source("score.py", "src")
    assert (source.entry, source.folder_name) == ("score.py", "src")
    assert script_source("src/score.py").entry == "score.py"
    assert script_source(str(project / "src/score.py"), "src").entry == "score.py"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing", None, "does not exist"),
        ("score.txt", SCRIPT, r"must end with \.py"),
        ("my-score.py", SCRIPT, "no name of a Python module"),
        ("class.py", SCRIPT, "no name of a Python module"),
    ],
)
def test_what_is_no_module_is_refused(project: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (project / name).write_text(text)

    with pytest.raises(WebserviceException, match=message):
        InferenceConfig(entry_script=name)


def test_a_script_that_cannot_be_parsed_is_a_user_error_with_its_line(project: Path) -> None:
    (project / "score.py").write_text("def init():\n    pass\ndef run(:\n")

    with pytest.raises(UserErrorException, match="no valid Python, line 3") as caught:
        InferenceConfig(entry_script="score.py")
    assert not isinstance(caught.value, WebserviceException)


@pytest.mark.parametrize(
    "beside",
    [
        {"runtime": "python"},
        {"conda_file": "conda.yml"},
        {"enable_gpu": True},
        {"base_image": "ubuntu"},
        {"cuda_version": "11.0"},
        {"extra_docker_file_steps": "conda.yml"},
    ],
)
def test_an_environment_excludes_its_older_forms(project: Path, beside: dict[str, object]) -> None:
    with pytest.raises(WebserviceException, match=f"{next(iter(beside))} cannot be given beside environment"):
        InferenceConfig("score.py", source_directory="src", environment=Environment("mine"), **beside)


def test_arguments_that_cannot_be_are_named(project: Path) -> None:
    with pytest.raises(WebserviceException, match="no runtime 'java'"):
        InferenceConfig("src/score.py", runtime="java")
    with pytest.raises(WebserviceException, match=r"conda_file `none\.yml` does not exist"):
        InferenceConfig("src/score.py", "python", "none.yml")
    with pytest.raises(WebserviceException, match="source directory `nowhere` does not exist"):
        InferenceConfig("score.py", source_directory="nowhere")
    with pytest.raises(WebserviceException, match="outside of the source directory"):
        script_source("../score.py", "src")


def test_an_environment_without_azureml_defaults_is_a_warning(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment = Environment("bare-of-defaults")
    environment.python.conda_dependencies.add_pip_package("six")
    environment.python.conda_dependencies.remove_pip_package("azureml-defaults")

    with caplog.at_level(logging.WARNING, "runyard.sdk"):
        InferenceConfig("src/score.py", environment=environment)
    assert "does not name azureml-defaults" in caplog.text


@pytest.mark.parametrize(
    ("framework", "files", "scorer"),
    [
        ("ScikitLearn", ["model.pkl"], "sklearn"),
        ("Onnx", ["model.onnx"], "onnx"),
        ("TensorFlow", ["m/saved_model.pb"], "tensorflow"),
        ("Multi", ["a/x.joblib", "a/readme.md"], "sklearn"),
        ("Multi", ["a.pkl", "b.onnx"], None),
        ("Custom", ["model/MLmodel", "model/model.pkl"], "mlflow"),
        ("Custom", ["model.pkl"], None),
        ("PyTorch", ["model.pt"], None),
    ],
)
def test_a_scorer_is_chosen_by_framework_and_files(framework: str, files: list[str], scorer: str | None) -> None:
    assert find_scorer(framework, files) == scorer
    if scorer is None:
        with pytest.raises(WebserviceException, match="without an entry script"):
            choose_scorer("m", framework, files)


@pytest.mark.parametrize(
    ("wanted", "python", "chosen"),
    [
        ("1.13.1.1", (3, 11), "2.12.0"),
        ("2.20.0.1", (3, 8), "2.13.1"),  # said once per process: no other test asks for this one
        ("2.15.0", (3, 11), "2.15.0"),
        ("2.15.0", (3, 99), "2.15.0"),
    ],
)
def test_tensorflow_is_that_of_the_training_or_the_nearest(
    wanted: str, python: tuple[int, int], chosen: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "runyard.sdk"):
        assert nearest_tensorflow(wanted, python) == chosen
    assert ("the nearest that can" in caplog.text) == (wanted != chosen)


def test_the_environment_of_a_model_of_mlflow_is_what_it_says() -> None:
    made = make_environment("mlflow", requirements=["numpy==1.26.0", "# a comment"], python="3.9.7")
    dependencies = made.python.conda_dependencies

    assert sorted(dependencies.pip_packages) == ["mlflow", "numpy==1.26.0"]
    assert dependencies._wanted_python == "3.9" and not made.python.user_managed_dependencies
    other = make_environment("sklearn", "1.2.345")  # which nobody has installed
    assert sorted(other.python.conda_dependencies.pip_packages) == ["pandas", "scikit-learn"]  # to be limited
    onnx = make_environment("onnx", "1.2.345").python.conda_dependencies
    assert list(onnx.pip_packages) == ["onnxruntime==1.2.345"]
