"""Conda's package specifications in pip's words."""

from __future__ import annotations

import pytest

from runyard.environments.conda.prefix import (
    CondaSpec,
    all_pairs,
    find_pair,
    hide_secrets,
    parse_spec,
    pip_version,
    plan_channels,
    translate,
)


@pytest.mark.parametrize(
    ("spec", "requirement"),
    [
        ("scikit-learn", "scikit-learn"),
        ("numpy=1.5", "numpy==1.5.*"),
        ("numpy=1.5.*", "numpy==1.5.*"),
        ("numpy=1.5*", "numpy==1.5.*"),
        ("numpy==1.5", "numpy==1.5"),
        ("numpy==1.5.*", "numpy==1.5.*"),
        ("numpy=1.5=py36_0", "numpy==1.5"),
        ("numpy==1.5=py36_0", "numpy==1.5"),
        ("numpy 1.5", "numpy==1.5"),
        ("numpy 1.5.*", "numpy==1.5.*"),
        ("numpy 1.5 py36_0", "numpy==1.5"),
        ("numpy>=1.5", "numpy>=1.5"),
        ("numpy >= 1.5, < 2", "numpy>=1.5,<2"),
        ("numpy>=1.5,<2.0a0", "numpy>=1.5,<2.0a0"),
        ("numpy>=1.5.*", "numpy>=1.5"),
        ("numpy~=1.5", "numpy~=1.5"),
        ("numpy!=1.5", "numpy!=1.5"),
        ("numpy=*", "numpy"),
        ("numpy *", "numpy"),
        ("numpy = 1.5", "numpy==1.5.*"),
        ("conda-forge::numpy=1.5", "numpy==1.5.*"),
        ("conda-forge/linux-64::numpy", "numpy"),
        ("numpy[version='>=1.5,<2', build=py*]", "numpy>=1.5,<2"),
        ("pytorch=1.9", "torch==1.9.*"),
        ("PyYAML", "pyyaml"),
        ("py-xgboost<=0.90", "xgboost<=0.90"),
        ("matplotlib-base", "matplotlib"),
        ("ruamel.yaml>0.15", "ruamel.yaml>0.15"),
        ("huggingface_hub", "huggingface-hub"),
    ],
)
def test_a_specification_becomes_the_requirement_that_means_the_same(spec: str, requirement: str) -> None:
    assert translate([spec]).requirements == [requirement]


@pytest.mark.parametrize("spec", ["gxx_linux-64", "numpy=1.5|1.7", "numpy>>1", "git", "::"])
def test_what_pip_cannot_say_is_named_as_it_was_written(spec: str) -> None:
    found = translate([spec, "pandas"])

    assert (found.unknown, found.requirements) == ([spec], ["pandas"])


def test_what_wheels_bring_along_is_left_out() -> None:
    found = translate(["pytorch", "cudatoolkit=11.3", "cpuonly"])

    assert (found.requirements, found.left_out, found.unknown) == (["torch"], ["cudatoolkit", "cpuonly"], [])


def test_a_build_makes_the_version_exact() -> None:
    assert parse_spec("c::numpy=1.5=py36_0") == CondaSpec("numpy", "==1.5")
    assert pip_version("") == ""


def test_the_pairs_are_many_and_lower_case() -> None:
    pairs = all_pairs()

    assert len(pairs) > 150
    assert all(name == name.lower() for name in pairs)
    assert (find_pair("opencv"), find_pair("tensorflow-gpu"), find_pair("keras"), find_pair("no-such")) == (
        "opencv-python-headless",
        "tensorflow",
        "keras",
        None,
    )


@pytest.mark.parametrize(
    ("given", "planned"),
    [
        ([], ["conda-forge"]),
        (["nodefaults"], ["conda-forge"]),
        (["defaults", "conda-forge", "defaults"], ["main", "r", "conda-forge"]),
        (["anaconda", "conda-forge"], ["anaconda", "conda-forge"]),
        (["https://example.org/c", "/srv/channel"], ["https://example.org/c", "file:///srv/channel"]),
    ],
)
def test_channels_are_planned_in_their_order(given: list[str], planned: list[str]) -> None:
    assert plan_channels(given) == planned


def test_secrets_in_channel_urls_are_not_shown() -> None:
    text = "https://example.org/t/ab-123/c and https://me:word@example.org/c and file:///t"

    assert hide_secrets(text) == "https://example.org/t/********/c and https://me:********@example.org/c and file:///t"
