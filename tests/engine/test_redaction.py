from __future__ import annotations

import pytest

from runyard.core.specs import ContainerSpec, EnvironmentSpec, RunSpec
from runyard.engine.redaction import HIDDEN, redact, redact_arguments, redact_command, redact_variables


@pytest.mark.parametrize(
    "flag",
    [
        "--password",
        "--db-password",
        "--api_key",
        "--secret",
        "--token",
        "--hf_token",
        "--aws-secret-access-key",
        "-pwd",
    ],
)
def test_the_value_of_a_secret_flag_is_hidden(flag: str) -> None:
    assert redact_arguments([flag, "s3cret", "--alpha", "0.5"]) == [flag, HIDDEN, "--alpha", "0.5"]
    assert redact_arguments([f"{flag}=s3cret"]) == [f"{flag}={HIDDEN}"]


@pytest.mark.parametrize(
    "flag", ["--max_tokens", "--pad-token", "--tokenizer", "--key", "--alpha", "--monkey", "--author"]
)
def test_a_hyper_parameter_stays(flag: str) -> None:
    assert redact_arguments([flag, "128", f"{flag}=128"]) == [flag, "128", f"{flag}=128"]


@pytest.mark.parametrize("value", ["ghp_" + "a" * 36, "hf_" + "B" * 30, "AKIA" + "X" * 16, "eyJhbGciOi.eyJzdWIiOi.sig"])
def test_what_looks_like_a_token_is_hidden_wherever_it_stands(value: str) -> None:
    assert redact_arguments(["--name", value, f"--other={value}"]) == ["--name", HIDDEN, f"--other={HIDDEN}"]
    assert redact_variables({"HARMLESS": value}) == {"HARMLESS": HIDDEN}


def test_a_flag_after_a_secret_flag_is_no_value() -> None:
    assert redact_arguments(["--password", "--verbose", "x"]) == ["--password", "--verbose", "x"]


def test_variables_are_hidden_by_name() -> None:
    given = {"WANDB_API_KEY": "k", "DB_PASSWORD": "p", "MESSAGE": "hello", "KEYBOARD": "de"}

    assert redact_variables(given) == {
        "WANDB_API_KEY": HIDDEN,
        "DB_PASSWORD": HIDDEN,
        "MESSAGE": "hello",
        "KEYBOARD": "de",
    }


def test_a_command_keeps_all_but_its_secrets() -> None:
    command = "python train.py --alpha 0.5 --password 'a b' --token=xyz && echo done"

    assert redact_command(command) == f"python train.py --alpha 0.5 --password {HIDDEN} --token={HIDDEN} && echo done"


def test_the_whole_spec_is_covered_and_an_innocent_one_is_untouched() -> None:
    innocent = RunSpec(script="t.py", arguments=["--alpha", "1"], definition={"arguments": ["--alpha", 1]})
    guilty = RunSpec(
        script="t.py",
        arguments=["--password", "SECRET"],
        variables={"API_KEY": "SECRET"},
        environment=EnvironmentSpec(variables={"DB_TOKEN": "SECRET"}),
        definition={
            "arguments": ["--password", "SECRET"],
            "environment": {"environmentVariables": {"DB_TOKEN": "SECRET"}},
        },
    )

    assert redact(innocent) is innocent
    assert "SECRET" not in repr(redact(guilty))


def test_passwords_of_registries_and_indexes_are_hidden() -> None:
    index, channel = "--index-url https://me:SECRET@i/simple", "https://t:SECRET@c/channel"
    dependencies = {"dependencies": ["python=3.9", {"pip": [index, "a"]}], "channels": [channel, "defaults"]}
    environment = EnvironmentSpec(
        pip_packages=["a @ https://me:SECRET@x/a.whl", "b"],
        pip_options=[index],
        conda_channels=[channel],
        container=ContainerSpec(image="i", username="me", password="SECRET"),
        definition={"python": {"condaDependencies": dependencies}},
    )
    shown = redact(RunSpec(environment=environment, definition={"environment": environment.definition}))

    assert "SECRET" not in repr(shown)
    assert shown.environment.pip_packages[1] == "b" and shown.environment.conda_channels == ["https://****@c/channel"]
    assert shown.environment.container == ContainerSpec(image="i", username="me", password=HIDDEN)
