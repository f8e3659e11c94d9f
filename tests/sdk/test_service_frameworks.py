"""Which scikit-learn a service's environment gets: the user's, else the one that its model was trained with."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from runyard.core.formats.documents import EnvironmentFacts
from runyard.core.records import ModelSpec, ModelVersion
from runyard.core.specs import EnvironmentSpec
from runyard.sdk import estimators
from runyard.sdk.serving.frameworks import nearest_version, pin_frameworks
from runyard.sdk.serving.no_code import nearest_tensorflow

TRAINED: EnvironmentFacts = {"packages": {"scikit_learn": "1.5.2", "numpy": "2.1.0", "torch": "2.4"}}


def model(
    framework: str = "Custom", version: str = "", run_id: str | None = None, name: str = "digits"
) -> ModelVersion:
    spec = ModelSpec(framework=framework, framework_version=version, run_id=run_id)
    made = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return ModelVersion("default", name, 3, made, made, spec)


def facts(run_id: str) -> EnvironmentFacts:
    return TRAINED if run_id == "trained" else EnvironmentFacts()


def environment(*pip: str, conda: tuple[str, ...] = (), kind: str = "uv", python: str = "3.11") -> EnvironmentSpec:
    return EnvironmentSpec(kind=kind, pip_packages=list(pip), conda_packages=list(conda), python_version=python)


def test_an_unpinned_environment_gets_the_version_of_the_registration() -> None:
    found, notes = pin_frameworks(facts, environment("scikit-learn", "pandas"), [model("ScikitLearn", "1.3.0")])

    assert found.pip_constraints == ["scikit-learn==1.3.0", "numpy<2"]
    assert found.pip_packages == ["scikit-learn", "pandas"]
    assert "scikit-learn 1.3.0" in notes[0] and "`digits:3`" in notes[0] and "model_framework_version" in notes[0]


def test_else_the_version_of_the_run_that_made_the_model() -> None:
    found, notes = pin_frameworks(facts, environment("azureml-defaults"), [model(run_id="trained")])

    assert found.pip_constraints == ["scikit-learn==1.5.2", "numpy<3"]
    assert "run trained had it" in notes[0]


@pytest.mark.parametrize(
    "pinned",
    [
        environment("scikit-learn==1.2"),
        environment("Scikit_Learn >=1.2 ; python_version>'3'"),
        environment(conda=("conda-forge::scikit-learn=1.2",)),
        environment("scikit-learn @ https://x.org/scikit_learn-1-py3-none-any.whl"),
        environment(kind="system"),
    ],
    ids=["exact", "range", "conda", "address", "system"],
)
def test_what_a_user_pinned_stays(pinned: EnvironmentSpec) -> None:
    assert pin_frameworks(facts, pinned, [model("ScikitLearn", "1.3.0")]) == (pinned, [])


def test_a_conda_package_is_pinned_where_it_is_named() -> None:
    unpinned = environment(conda=("scikit-learn", "pip", "numpy=1.26"))

    found, _ = pin_frameworks(facts, unpinned, [model("ScikitLearn", "1.3.0")])

    assert found.conda_packages == ["scikit-learn=1.3.0", "pip", "numpy=1.26"]
    assert found.pip_constraints == ["scikit-learn==1.3.0"]  # NumPy is pinned already


def test_models_that_disagree_pin_nothing_and_say_so() -> None:
    models = [model("ScikitLearn", "1.3.0"), model(run_id="trained", name="other")]

    found, notes = pin_frameworks(facts, environment("scikit-learn"), models)

    assert found.pip_constraints == []
    assert "digits:3 1.3.0, other:3 1.5.2" in notes[0]


def test_a_version_that_python_has_no_more_is_the_nearest() -> None:
    found, notes = pin_frameworks(facts, environment("scikit-learn"), [model("ScikitLearn", "0.22.1")])

    assert found.pip_constraints == ["scikit-learn==1.1.3", "numpy<2"]
    assert "0.22.1" in notes[0] and "the nearest, 1.1.3" in notes[0]
    assert nearest_version("1.8.0", "3.9") == "1.6.1"
    assert nearest_version("1.8.0", "3.12.1") == "1.8.0"


def test_a_model_of_which_nothing_is_known_changes_nothing() -> None:
    unpinned = environment("scikit-learn")

    assert pin_frameworks(facts, unpinned, [model(run_id="gone"), model("ScikitLearn")]) == (unpinned, [])


def test_what_services_and_estimators_say_of_releases_agrees() -> None:
    """A release that estimators install on some Pythons is within the range of just those for services."""
    releases = json.loads((Path(str(estimators.__file__)).parent / "frameworks.json").read_text())
    pythons = [(3, minor) for minor in range(8, 14)]

    def nearest(name: str, version: str, python: tuple[int, int]) -> str:
        if name == "TensorFlow":
            return nearest_tensorflow(version, python)
        return nearest_version(version, "{}.{}".format(*python))

    for name in ("SKLearn", "TensorFlow"):
        for release in releases[name]["releases"].values():
            if not release:
                continue
            version = release["cpu"][0].partition("==")[2]
            first, last = (tuple(map(int, one.split("."))) for one in release["pythons"])
            served = [python for python in pythons if nearest(name, version, python) == version]
            assert served == [python for python in pythons if first <= python <= last], (name, version)
