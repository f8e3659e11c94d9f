from __future__ import annotations

import pytest

from runyard.core.secret_values import hide_in_text
from runyard.core.specs import ContainerSpec, EnvironmentSpec, RunSpec
from runyard.engine.sanitize import (
    HIDDEN,
    redact,
    redact_arguments,
    redact_command,
    redact_variables,
)
from tests.engine import secrets_corpus as corpus


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
    assert shown.environment.pip_packages[1] == "b" and shown.environment.conda_channels == [
        "https://********@c/channel"
    ]
    assert shown.environment.container == ContainerSpec(image="i", username="me", password=HIDDEN)


def shapes(name: str, value: str) -> list[object]:
    """Return an option and a variable of that name, redacted in each way that they can be written."""
    quoted = f"'{value}'" if " " in value or '"' in value else value
    variable = name.replace("-", "_").upper() if name.isidentifier() or "-" in name else name
    return [
        redact_arguments([f"--{name}", value, "--lr", "0.1"]),
        redact_arguments([f"--{name}={value}", "--lr", "0.1"]),
        redact_command(f"python t.py --{name} {quoted} --lr 0.1"),
        redact_command(f"{variable}={quoted} python t.py --lr 0.1"),
        redact_variables({variable: value}),
    ]


def unchanged(name: str, value: str) -> list[object]:
    quoted = f"'{value}'" if " " in value or '"' in value else value
    variable = name.replace("-", "_").upper() if name.isidentifier() or "-" in name else name
    return [
        [f"--{name}", value, "--lr", "0.1"],
        [f"--{name}={value}", "--lr", "0.1"],
        f"python t.py --{name} {quoted} --lr 0.1",
        f"{variable}={quoted} python t.py --lr 0.1",
        {variable: value},
    ]


@pytest.mark.parametrize("name", corpus.SECRET_NAMES)
def test_a_name_that_announces_a_secret_hides_it_in_every_shape(name: str) -> None:
    for shown in shapes(name, corpus.SECRET):
        assert corpus.SECRET not in str(shown) and HIDDEN in str(shown)
        assert name.casefold().replace("-", "_") in str(shown).casefold().replace("-", "_")


@pytest.mark.parametrize("kind", corpus.SECRET_VALUES)
def test_a_secret_known_by_its_form_is_hidden_wherever_it_stands(kind: str) -> None:
    value = corpus.SECRET_VALUES[kind]
    middle = value.split("\n")[1] if "\n" in value else value
    shown = [
        redact_arguments(["--name", value, f"--other={value}", value]),
        redact_variables({"HARMLESS": value, "TEXT": f"a {value} b"}),
        redact_command(f"python t.py --name '{value}' && echo \"{value}\""),
        hide_in_text(f"loaded with {value} at 12:00"),
    ]

    assert [text for text in shown if middle in str(text)] == []


@pytest.mark.parametrize(("arguments", "secret"), corpus.SECRET_ARGUMENTS, ids=lambda value: str(value)[:40])
def test_secrets_inside_arguments_are_hidden(arguments: list[str], secret: str) -> None:
    shown = redact_arguments(arguments)

    assert secret not in str(shown) and HIDDEN in str(shown) and len(shown) == len(arguments)
    assert secret not in redact_command(" ".join(f"'{word}'" for word in arguments))


@pytest.mark.parametrize(("command", "secret"), corpus.SECRET_COMMANDS, ids=lambda value: str(value)[:40])
def test_secrets_of_a_command_are_hidden(command: str, secret: str) -> None:
    assert secret not in redact_command(command) and HIDDEN in redact_command(command)


@pytest.mark.parametrize(("name", "value", "shown"), corpus.SECRET_VARIABLES)
def test_of_an_address_only_the_password_is_hidden(name: str, value: str, shown: str | None) -> None:
    found = redact_variables({name: value})[name]

    assert corpus.SECRET not in found and HIDDEN in found
    assert shown is None or found == shown


@pytest.mark.parametrize(("name", "value"), corpus.INNOCENT)
def test_what_is_no_secret_stays_as_it_is_in_every_shape(name: str, value: str) -> None:
    assert shapes(name, value) == unchanged(name, value)
    assert hide_in_text(f"{name}={value}") == f"{name}={value}"


@pytest.mark.parametrize("command", corpus.INNOCENT_COMMANDS)
def test_a_command_without_secrets_stays_to_the_letter(command: str) -> None:
    assert redact_command(command) == command


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    secrets = [corpus.SECRET_NAMES, corpus.SECRET_VALUES, corpus.SECRET_ARGUMENTS, corpus.SECRET_COMMANDS]

    assert sum(map(len, secrets)) >= 100 and len(corpus.INNOCENT) + len(corpus.INNOCENT_COMMANDS) >= 60


HOSTILE = [
    "a" * 20_000 + "://",
    "://a:" * 4_000,
    "x://a:" * 4_000,
    "-eyJ" * 4_000,
    ".SG." * 4_000,
    "a-" * 10_000 + ":",
    "password " * 2_000,
    "'\"" * 6_000,
    "\\" * 2_000,
    "--" * 6_000,
    "A_" * 6_000 + "=x",
    '{"' * 6_000,
    "bearer " * 2_000,
    "-----BEGIN PRIVATE KEY-----" * 1_000,
    "$(" * 6_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_no_text_keeps_the_server_busy(text: str) -> None:
    """A pattern that looks at every part again and again would take minutes."""
    spec = RunSpec(command=text, arguments=[text, f"--{text}", f"--a={text}"], variables={"A": text, text[:1000]: "x"})

    assert redact(spec).script == spec.script and hide_in_text(text) is not None
