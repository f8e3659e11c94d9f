"""What is configured for pip counts for a build, in pip's own order."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.core.errors import SubmitRejected
from runyard.environments.pip import PipSettings, read_pip_settings
from runyard.environments.uv_program import explanation, install_failed, uv_variables


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """A person's variables, whose files lie in `tmp_path`."""
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "wide"), "PATH": os.environ["PATH"]}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_are_read_in_pips_order_and_variables_win(tmp_path: Path, variables: dict[str, str]) -> None:
    write(tmp_path / "wide/pip/pip.conf", "[global]\nindex-url = https://wide/\nextra-index-url = https://more/\n")
    write(tmp_path / "home/.pip/pip.conf", "[global]\nindex_url = https://old/\ntimeout = 7\n")
    assert read_pip_settings(variables).index_url == "https://old/"

    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nindex-url = https://mine/\n[install]\npre = yes\n")
    found = read_pip_settings(variables)
    assert (found.index_url, found.timeout_s, found.pre) == ("https://mine/", "7", True)
    assert found.extra_index_urls[-1:] == ["https://more/"]

    write(tmp_path / "venv/pip.conf", "[global]\nindex-url = https://venv/\n")
    assert read_pip_settings(variables, interpreter=str(tmp_path / "venv/bin/python")).index_url == "https://venv/"

    chosen = write(tmp_path / "chosen.conf", "[global]\nindex-url = https://chosen/\n")
    found = read_pip_settings({**variables, "PIP_CONFIG_FILE": str(chosen)})
    assert (found.index_url, found.timeout_s) == ("https://chosen/", None), "a chosen file takes the person's place"

    variables["PIP_INDEX_URL"] = "https://variable/"
    assert read_pip_settings(variables).index_url == "https://variable/"
    assert read_pip_settings(variables, options=["--index-url https://asked/"]).index_url == "https://asked/"


def test_no_file_is_read_when_pip_is_told_so(tmp_path: Path, variables: dict[str, str]) -> None:
    write(tmp_path / "home/.pip/pip.conf", "[global]\nindex-url = https://mine/\n")

    assert read_pip_settings({**variables, "PIP_CONFIG_FILE": os.devnull}) == PipSettings()


def test_lists_may_have_several_lines_and_options_add_to_them(tmp_path: Path, variables: dict[str, str]) -> None:
    write(
        tmp_path / "home/.pip/pip.conf",
        "[global]\nextra-index-url =\n    https://a/\n    https://b/\nfind-links = ~/wheels /opt/x\ntrusted-host = h\n",
    )
    options = [
        "--extra-index-url https://c/",
        "-f /more",
        "--find-links=/again",
        "--pre",
        "--no-binary a,b",
        "-i https://d/",
    ]
    found = read_pip_settings(variables, options=options)

    assert found.extra_index_urls == ["https://a/", "https://b/", "https://c/"]
    assert found.find_links == [str(tmp_path / "home/wheels"), "/opt/x", "/more", "/again"]
    assert (found.pre, found.no_binary, found.index_url) == (True, ["a", "b"], "https://d/")
    assert found.trusted_hosts == ["h"]


def test_uv_gets_addresses_by_variables_and_never_by_arguments() -> None:
    settings = PipSettings(
        index_url="https://me:pw@index/simple",
        extra_index_urls=["https://a/", "https://b/"],
        find_links=["/w", "https://c/"],
        no_index=True,
        pre=True,
        only_binary=["numpy"],
        trusted_hosts=["h1", "h2"],
        cert="/ca.pem",
        client_cert="/me.pem",
        proxy="http://proxy:3128",
        timeout_s="30",
        retries="9",
    )

    assert settings.as_variables() == {
        "UV_DEFAULT_INDEX": "https://me:pw@index/simple",
        "UV_INDEX": "https://a/ https://b/",
        "UV_INDEX_STRATEGY": "unsafe-first-match",
        "UV_FIND_LINKS": "/w,https://c/",
        "UV_PRERELEASE": "allow",
        "UV_INSECURE_HOST": "h1 h2",
        "SSL_CERT_FILE": "/ca.pem",
        "SSL_CLIENT_CERT": "/me.pem",
        "ALL_PROXY": "http://proxy:3128",
        "HTTP_PROXY": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3128",
        "UV_HTTP_TIMEOUT": "30",
        "UV_HTTP_RETRIES": "9",
    }
    assert settings.as_arguments() == ["--no-index", "--only-binary", "numpy"]
    assert "UV_INDEX_STRATEGY" not in PipSettings(index_url="https://i/").as_variables()


def test_limits_and_certificates_that_pip_takes_by_itself_count(tmp_path: Path, variables: dict[str, str]) -> None:
    limits = write(tmp_path / "limits.txt", "numpy<2\n")
    variables.update({"PIP_CONFIG_FILE": os.devnull, "PIP_CONSTRAINT": str(limits), "REQUESTS_CA_BUNDLE": "/ca.pem"})
    found = read_pip_settings(variables)

    assert found.as_variables() == {"UV_CONSTRAINT": str(limits), "SSL_CERT_FILE": "/ca.pem"}
    before = found.what_counts()
    os.utime(limits, (1, 1))
    assert found.what_counts() != before
    assert read_pip_settings({**variables, "SSL_CERT_FILE": "/own.pem"}).cert is None
    assert read_pip_settings({**variables, "PIP_CERT": "/pip.pem"}).cert == "/pip.pem"


def test_uv_does_not_see_what_would_lead_it_elsewhere() -> None:
    found = uv_variables(
        {
            "HOME": "/h",
            "UV_INDEX_URL": "https://own/",
            "UV_PROJECT": "/p",
            "UV_TARGET": "/t",
            "UV_SYSTEM_PYTHON": "1",
            "VIRTUAL_ENV": "/v",
            "PYTHONPATH": "/x",
        },
        {"UV_INDEX": "https://a/"},
    )

    assert {name: value for name, value in found.items() if name not in ("NO_COLOR", "UV_NO_PROGRESS")} == {
        "HOME": "/h",
        "UV_INDEX_URL": "https://own/",
        "UV_INDEX": "https://a/",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    assert uv_variables({}, {}, allows_downloads=True)["UV_PYTHON_DOWNLOADS"] == "automatic"


@pytest.mark.parametrize("line", ["--user", "--target /x", "-r more.txt", "--extra-index-url"])
def test_options_that_cannot_be_followed_are_refused_with_the_known_ones(line: str, variables: dict[str, str]) -> None:
    with pytest.raises(SubmitRejected, match="cannot be followed") as caught:
        read_pip_settings(variables, options=[line])
    assert "--extra-index-url" in caught.value.hint


def test_a_damaged_file_is_named(tmp_path: Path, variables: dict[str, str]) -> None:
    path = write(tmp_path / "home/.pip/pip.conf", "index-url = https://nowhere/\n")

    with pytest.raises(SubmitRejected) as caught:
        read_pip_settings(variables)
    assert str(path) in caught.value.what
    assert "pip config debug" in caught.value.hint


def test_a_password_decides_nothing_and_an_address_does() -> None:
    old, new = (PipSettings(index_url=f"https://me:{word}@index/simple") for word in ("old", "new"))

    assert old.what_counts() == new.what_counts()
    assert old.what_counts() != PipSettings(index_url="https://other/simple").what_counts()
    assert old.what_counts() != PipSettings(extra_index_urls=["https://me:old@index/simple"]).what_counts()


def test_an_explanation_begins_at_the_error_and_hides_passwords() -> None:
    lines = ["Using Python 3.11", "", "error: Failed to fetch", "  cause: https://me:pw@index/simple/ answered 401"]

    assert explanation(lines) == ["error: Failed to fetch", "  cause: https://********@index/simple/ answered 401"]
    assert explanation(["a", "b"]) == ["a", "b"]
    assert "user name or password" in install_failed("e", 1, lines).hint


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("error: invalid peer certificate: UnknownIssuer", "global.cert"),
        ("error: dns error", "cannot be reached"),
        ("error: No space left on device (os error 28)", "environments prune"),
        ("error: Failed to build `x==1`", "wheel"),
        ("error: Because a==1 depends on b==2 and you require b==3, unsatisfiable.", "installed together"),
        ("error: who knows", "20_image_build_log.txt"),
    ],
)
def test_what_may_help_is_told(line: str, hint: str) -> None:
    assert hint in install_failed("e", 2, [line]).hint


PYPI = "https://" + ".".join(["pypi", "org"]) + "/simple"
TORCH, OWN = "https://download.pytorch.org/whl/cu118", "https://u:p@own.example/simple"
LIKE_TORCH = "https://download.pytorch.org.evil.example/whl"
BEST, FIRST, NEXT = "unsafe-best-match", "first-index", "unsafe-first-match"


@pytest.mark.parametrize(
    ("index", "extra", "asked", "default", "strategy"),
    [
        (None, [TORCH], [TORCH], None, BEST),  # nobody but PyTorch publishes there
        (PYPI, [TORCH], [TORCH], PYPI, BEST),
        ("https://mirror.example/simple", [TORCH], [TORCH], "https://mirror.example/simple", BEST),
        (None, [OWN], [OWN], None, FIRST),
        (OWN, [PYPI], [OWN], PYPI, FIRST),  # everybody can publish on PyPI: it comes last
        (None, [OWN, TORCH], [OWN, TORCH], None, FIRST),
        (OWN, [PYPI, TORCH], [TORCH, OWN], PYPI, FIRST),
        (None, [PYPI, OWN], [OWN, PYPI], None, FIRST),
        (
            None,
            ["https://download.pytorch.org.evil.example/whl"],
            ["https://download.pytorch.org.evil.example/whl"],
            None,
            FIRST,
        ),
    ],
)
def test_a_private_packages_name_is_not_looked_for_where_everybody_can_publish(
    index: str | None, extra: list[str], asked: list[str], default: str | None, strategy: str
) -> None:
    named = PipSettings(index_url=index, extra_index_urls=extra, names_indexes=True)
    found, machines = named.as_variables(), replace(named, names_indexes=False).as_variables()

    assert found["UV_INDEX"].split() == asked
    assert (found.get("UV_DEFAULT_INDEX"), found["UV_INDEX_STRATEGY"]) == (default, strategy)
    assert machines == {**found, "UV_INDEX_STRATEGY": NEXT if strategy == FIRST else BEST}


def test_whoever_trusts_all_indexes_alike_can_say_so(tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": OWN}
    safe = read_pip_settings(variables)
    named = read_pip_settings({**variables, "PIP_EXTRA_INDEX_URL": ""}, options=[f"--extra-index-url {OWN}"])
    chosen = read_pip_settings({**variables, "UV_INDEX_STRATEGY": BEST})

    assert [one.as_variables()["UV_INDEX_STRATEGY"] for one in (chosen, safe, named)] == [BEST, NEXT, FIRST]
    assert safe.what_counts() != chosen.what_counts(), "the environments are not the same"
